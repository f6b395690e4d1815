//! Entries and claims.
//!
//! All of an owner's are in one slot of a cluster. That is no burden: their bytes are bounded, and a turn
//! writes one of them, against an event for each token.

use redis::Value;

use super::super::{ClaimTerm, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries, StoreError};
use super::RedisStore;
use super::reply::{bytes, list, parts, plain, unreadable};
use super::scripts::Call;
use crate::limits::session as limits;
use crate::telemetry::millis;

/// A number that stands for none.
const NOBODY: u64 = 0;

/// The lease of a claim that does not lapse.
const NO_LEASE: u64 = 0;

impl RedisStore {
    pub(super) async fn keep_entry_now(
        &self,
        owner: EntryOwner,
        Entry { keys, epoch, bytes }: Entry,
        confirms: Option<EntryClaim>,
    ) -> Result<bool, StoreError> {
        let names = self.keys.of_owner(owner);
        let claimed = confirms.as_ref().map_or(&[][..], |claim| &claim.key.bytes()[..]);
        let call = Call::new(&self.scripts.keep_entry, &names.all())
            .number(self.ttl)
            .number(epoch)
            .number(limits::ENTRY_BYTES_MAX as u64)
            .number(limits::SAME_PROMPT_MAX as u64)
            .bytes(claimed)
            .number(confirms.map_or(NOBODY, |claim| claim.holder))
            .bytes(&bytes);
        let call = keys.iter().fold(call, |call, key| call.bytes(key.bytes()));
        self.servers.call(&call).await
    }

    pub(super) async fn entries_now(
        &self,
        owner: EntryOwner,
        keys: Vec<EntryKey>,
    ) -> Result<FoundEntries, StoreError> {
        let names = self.keys.of_owner(owner);
        let call = Call::new(&self.scripts.find_entries, &names.all())
            .number(self.ttl)
            .number(limits::ENTRIES_FOUND_BYTES_MAX as u64);
        let call = keys.iter().fold(call, |call, key| call.bytes(key.bytes()));
        let answer = parts(self.servers.call(&call).await?)?;
        let [entries, claimed] = answer.ok_or_else(|| unreadable("nothing"))?;
        let mut entries: Vec<(u64, Entry)> =
            list(entries)?.into_iter().map(entry).collect::<Result<_, _>>()?;
        entries.sort_unstable_by_key(|(number, _)| *number);
        let claimed: Vec<usize> = plain(claimed)?;
        // Lists begin with 1 there.
        let claimed = claimed.into_iter().filter_map(|at| keys.get(at.checked_sub(1)?).copied());
        Ok(FoundEntries {
            entries: entries.into_iter().map(|(_, entry)| entry).collect(),
            claimed: claimed.collect(),
        })
    }

    pub(super) async fn acquire_claim_now(
        &self,
        owner: EntryOwner,
        EntryClaim { key, holder, term }: EntryClaim,
    ) -> Result<bool, StoreError> {
        let names = self.keys.of_owner(owner);
        let lease = match term {
            ClaimTerm::Lease => millis(self.lease),
            ClaimTerm::Lasting => NO_LEASE,
        };
        let call = Call::new(&self.scripts.acquire_claim, &names.all())
            .bytes(key.bytes())
            .number(holder)
            .number(lease)
            .number(2 * self.ttl_leased())
            .number(limits::CLAIMS_MAX as u64);
        self.servers.call(&call).await
    }

    pub(super) async fn release_claim_now(
        &self,
        owner: EntryOwner,
        EntryClaim { key, holder, .. }: EntryClaim,
    ) -> Result<(), StoreError> {
        let names = self.keys.of_owner(owner);
        let call =
            Call::new(&self.scripts.release_claim, &names.all()).bytes(key.bytes()).number(holder);
        self.servers.call(&call).await.map(|_: bool| ())
    }

    pub(super) async fn forget_entries_now(&self, owner: EntryOwner) -> Result<usize, StoreError> {
        let names = self.keys.of_owner(owner);
        self.servers.call(&Call::new(&self.scripts.forget_entries, &names.all())).await
    }
}

/// An entry and its number.
fn entry(value: Value) -> Result<(u64, Entry), StoreError> {
    let missing = || unreadable("an entry without its parts");
    let [number, epoch, keys, content] = parts(value)?.ok_or_else(missing)?;
    let keys = bytes(keys)?.ok_or_else(missing)?;
    let (keys, rest) = keys.as_chunks();
    if !rest.is_empty() {
        return Err(missing());
    }
    let keys = keys.iter().map(|key| EntryKey::of_hash(*key)).collect();
    let bytes = bytes(content)?.unwrap_or_default();
    Ok((plain(number)?, Entry { keys, epoch: plain(epoch)?, bytes }))
}
