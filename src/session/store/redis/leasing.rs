//! Leases taken, and records loaded: how a turn begins.

use std::sync::atomic::Ordering;

use redis::Value;
use tokio::time::Instant;

use super::super::{Entered, Holder, Lease, NodeId, StoreError, StoredRecord, Version};
use super::reply::{self, Read, bytes, list, parts, plain};
use super::scripts::Call;
use super::{RedisStore, random};
use crate::telemetry::millis;

impl RedisStore {
    pub(super) async fn acquire_now(
        &self,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<Lease>, StoreError> {
        let granted = self.take(session_id, node, Purpose::Holding).await?;
        let Some(Granted { lease, deadline, files, .. }) = granted else { return Ok(None) };
        self.note_running(&lease.session_id, deadline, &files).await;
        Ok(Some(lease))
    }

    pub(super) async fn enter_now(
        &self,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<Entered>, StoreError> {
        let granted = self.take(session_id, node, Purpose::Turn).await?;
        let Some(Granted { lease, before, deadline, files, rest }) = granted else {
            return Ok(None);
        };
        // The turn does not wait for this: nothing has begun yet that others would have to find.
        tokio::spawn(self.note_running(&lease.session_id, deadline, &files));
        let [is_interrupted, version, record]: [Value; 3] =
            rest.try_into().map_err(|_| reply::unreadable("too few values"))?;
        let (is_interrupted, record) = (plain(is_interrupted)?, stored_record(version, record)?);
        Ok(Some(Entered { lease, before, is_interrupted, record }))
    }

    /// Takes the lease. For a turn, also reads what the turn has to know.
    async fn take(
        &self,
        session_id: &str,
        node: NodeId,
        purpose: Purpose,
    ) -> Result<Option<Granted>, StoreError> {
        let keys = self.keys.of_session(session_id);
        let (holder, grant) = (node.0.simple().to_string(), random());
        let begun_at = Instant::now();
        let mut answer = loop {
            let asked_at = Instant::now();
            let call = Call::new(&self.scripts.acquire, &keys.all())
                .text(&holder)
                .number(self.asked.fetch_add(1, Ordering::Relaxed))
                .number(grant)
                .number(millis(self.lease))
                .number(self.ttl)
                .number(u64::from(purpose == Purpose::Turn))
                .number(self.wanted_until());
            let answer: Value = self.servers.call(&call).await?;
            let Value::Int(now) = answer else { break list(answer)? };
            // The server thinks that this comes too late. Perhaps its clock was set, or it is another server now.
            self.clock.note(u64::try_from(now).unwrap_or_default(), asked_at);
            if begun_at.elapsed() >= self.wait {
                let cause = "a request reached it too late".to_owned();
                return Err(StoreError::Unavailable(cause));
            }
        };
        if answer.is_empty() {
            return Ok(None);
        }
        self.servers.note_written();
        let rest = answer.split_off(answer.len().min(5));
        let [epoch, deadline, files, before, lapsed]: [Value; 5] =
            answer.try_into().map_err(|_| reply::unreadable("too few values"))?;
        let (session_id, before) = (session_id.into(), reply::holder(before, lapsed)?);
        let lease = Lease { session_id, node, epoch: plain(epoch)?, grant };
        let (deadline, files) = (plain(deadline)?, plain(files)?);
        Ok(Some(Granted { lease, before, deadline, files, rest }))
    }

    /// Until when, by the server's clock, a lease that is asked for now is wanted; 0 if that is not known. A server that
    /// stood still does all that it was asked meanwhile, and a lease taken that late would keep its last holder from storing
    /// how its turn ended. In a cluster it is not known: each server has a clock of its own.
    fn wanted_until(&self) -> u64 {
        if self.servers.address.cluster().is_some() {
            return 0;
        }
        self.clock.now_at_most().map_or(0, |now| now + millis(self.lease) / 2)
    }

    pub(super) async fn load_now(
        &self,
        session_id: &str,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let keys = self.keys.of_session(session_id);
        let call = Call::new(&self.scripts.load, &keys.all()).number(self.ttl);
        match parts(self.servers.call(&call).await?)? {
            Some([version, record, files]) => {
                self.extend(files)?;
                stored_record(version, record)
            }
            None => Ok(None),
        }
    }
}

/// What a lease is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To hold it, and nothing else.
    Holding,
    /// For a turn, which has to know more about the session.
    Turn,
}

/// A lease, and what was read along with it.
struct Granted {
    lease: Lease,
    /// Who held the lease before, if that was another node.
    before: Option<Holder>,
    /// When the lease lapses.
    deadline: u64,
    files: Vec<String>,
    /// What a turn has to know.
    rest: Vec<Value>,
}

fn stored_record(version: Value, record: Value) -> Read<Option<StoredRecord>> {
    let (version, record): (Option<u64>, _) = (plain(version)?, bytes(record)?);
    let stored = version.zip(record);
    Ok(stored.map(|(version, bytes)| StoredRecord { version: Version(version), bytes }))
}
