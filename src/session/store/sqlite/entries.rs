//! Entries and claims.

use std::collections::BTreeMap;

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::super::{ClaimTerm, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries};
use super::now;
use super::statements::{Done, all, execute, first, length, restored, stored};
use crate::limits::session as limits;

/// About what a key takes in the tables.
const KEY_BYTES: usize = 120;

pub(super) fn keep(
    connection: &Connection,
    owner: EntryOwner,
    Entry { keys, epoch, bytes }: &Entry,
    confirms: Option<EntryClaim>,
) -> Done<bool> {
    let Some(id) = keys.first() else { return Ok(true) };
    let (owner, id) = (owner.bytes(), id.bytes());
    let sql = "SELECT epoch FROM entries WHERE owner = ? AND id = ?";
    let before: Option<i64> = first(connection, sql, params![owner, id], |row| row.get(0))?;
    if before.is_some_and(|before| restored(before) > *epoch) {
        return Ok(false);
    }
    execute(connection, "DELETE FROM entries WHERE owner = ? AND id = ?", params![owner, id])?;
    let sql = "INSERT INTO entries (owner, id, epoch, size, written_at, bytes)
        VALUES (?, ?, ?, ?, ?, ?) RETURNING number";
    let size = length(bytes.len() + keys.len() * KEY_BYTES);
    let values = params![owner, id, stored(*epoch), size, now(), &bytes[..]];
    let number: Option<i64> = first(connection, sql, values, |row| row.get(0))?;
    let sql = "INSERT INTO entry_keys (owner, key, entry) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    for key in keys {
        execute(connection, sql, params![owner, key.bytes(), number])?;
    }
    make_room(connection, owner)?;
    if let Some(EntryClaim { key, holder, .. }) = confirms {
        let sql = "UPDATE claims SET lapses = 0 WHERE owner = ? AND key = ? AND holder = ?";
        execute(connection, sql, params![owner, key.bytes(), stored(holder)])?;
    }
    Ok(true)
}

/// Drops the oldest entries beyond the bounds: of this owner, and of the one who has the most.
fn make_room(connection: &Connection, owner: &[u8; 32]) -> Done<()> {
    let of_owner = "SELECT bytes, owner FROM shares WHERE owner = ?";
    while let Some((bytes, owner)) = share(connection, of_owner, params![owner])?
        && bytes > length(limits::ENTRY_BYTES_MAX)
    {
        drop_oldest(connection, &owner)?;
    }
    let of_all = "SELECT sum(bytes), max(owner) FROM shares";
    while let Some((bytes, _)) = share(connection, of_all, [])?
        && bytes > length(limits::ALL_ENTRY_BYTES_MAX)
    {
        let most = "SELECT bytes, owner FROM shares ORDER BY bytes DESC LIMIT 1";
        let Some((_, owner)) = share(connection, most, [])? else { break };
        drop_oldest(connection, &owner)?;
    }
    Ok(())
}

/// Reads bytes and an owner, if there are any.
fn share(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Done<Option<(i64, Vec<u8>)>> {
    let row = first(connection, sql, values, |row| {
        Ok(row.get::<_, Option<i64>>(0)?.zip(row.get::<_, Option<Vec<u8>>>(1)?))
    })?;
    Ok(row.flatten())
}

fn drop_oldest(connection: &Connection, owner: &[u8]) -> Done<()> {
    let sql = "DELETE FROM entries WHERE number =
        (SELECT number FROM entries WHERE owner = ? ORDER BY number LIMIT 1)";
    execute(connection, sql, params![owner])?;
    Ok(())
}

pub(super) fn find(
    connection: &Connection,
    owner: EntryOwner,
    keys: &[EntryKey],
) -> Done<FoundEntries> {
    let owner = owner.bytes();
    let (mut found, mut bytes) = (BTreeMap::new(), 0);
    let mut claimed = Vec::new();
    for key in keys {
        let sql = "SELECT entry FROM entry_keys WHERE owner = ? AND key = ?
            ORDER BY entry DESC LIMIT ?";
        let values = params![owner, key.bytes(), length(limits::SAME_PROMPT_MAX)];
        let numbers: Vec<i64> = all(connection, sql, values, |row| row.get(0))?;
        for number in numbers {
            if bytes > limits::ENTRIES_FOUND_BYTES_MAX || found.contains_key(&number) {
                continue;
            }
            let entry = read(connection, number)?;
            bytes += entry.as_ref().map_or(0, |entry| entry.bytes.len());
            found.extend(entry.map(|entry| (number, entry)));
        }
        let sql = "SELECT 1 FROM claims WHERE owner = ? AND key = ?";
        if first(connection, sql, params![owner, key.bytes()], |_| Ok(()))?.is_some() {
            claimed.push(*key);
        }
    }
    Ok(FoundEntries { entries: found.into_values().collect(), claimed })
}

fn read(connection: &Connection, number: i64) -> Done<Option<Entry>> {
    let sql = "SELECT id, epoch, bytes FROM entries WHERE number = ?";
    let row = first(connection, sql, [number], |row| {
        let (id, epoch) = (row.get::<_, [u8; 32]>(0)?, restored(row.get(1)?));
        Ok((id, epoch, row.get::<_, Vec<u8>>(2)?))
    })?;
    let Some((id, epoch, bytes)) = row else { return Ok(None) };
    let sql = "SELECT key FROM entry_keys WHERE entry = ?1 AND key <> ?2";
    let others = all(connection, sql, params![number, id], |row| row.get::<_, [u8; 32]>(0))?;
    let keys = [id].into_iter().chain(others).map(EntryKey::of_hash).collect();
    Ok(Some(Entry { keys, epoch, bytes: Bytes::from(bytes) }))
}

pub(super) fn acquire_claim(
    connection: &Connection,
    owner: EntryOwner,
    EntryClaim { key, holder, term }: EntryClaim,
) -> Done<bool> {
    let lapses = term == ClaimTerm::Lease;
    // A claim that lasts is not made to lapse again.
    let sql = "INSERT INTO claims (owner, key, holder, lapses, claimed_at) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (owner, key) DO UPDATE
        SET lapses = min(lapses, excluded.lapses), claimed_at = excluded.claimed_at
        WHERE holder = excluded.holder";
    let values = params![owner.bytes(), key.bytes(), stored(holder), lapses, now()];
    Ok(execute(connection, sql, values)? > 0)
}

pub(super) fn release_claim(
    connection: &Connection,
    owner: EntryOwner,
    EntryClaim { key, holder, .. }: EntryClaim,
) -> Done<()> {
    let sql = "DELETE FROM claims WHERE owner = ? AND key = ? AND holder = ?";
    execute(connection, sql, params![owner.bytes(), key.bytes(), stored(holder)])?;
    Ok(())
}

pub(super) fn forget(connection: &Connection, owner: EntryOwner) -> Done<usize> {
    execute(connection, "DELETE FROM entries WHERE owner = ?", params![owner.bytes()])
}

/// Drops what was not written for the time `ttl`, claims that are twice as old, and the oldest claims
/// beyond their bound.
pub(super) fn sweep(connection: &Connection, now: i64, ttl: i64) -> Done<()> {
    execute(connection, "DELETE FROM entries WHERE written_at <= ?", [now.saturating_sub(ttl)])?;
    let claimed_at = now.saturating_sub(ttl.saturating_mul(2));
    execute(connection, "DELETE FROM claims WHERE claimed_at <= ?", [claimed_at])?;
    let sql = "DELETE FROM claims WHERE number <= (SELECT max(number) FROM claims) - ?";
    execute(connection, sql, [length(limits::CLAIMS_MAX)])?;
    Ok(())
}
