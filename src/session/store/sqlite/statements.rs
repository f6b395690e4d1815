//! What each call of the store does in the tables.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::super::{
    Artifact, Batch, EpochStart, Epochs, Lease, LogNews, NodeId, StoreError, StoredLog,
    StoredRecord, Version,
};
use super::cause::unavailable;
use super::ended::EndedTurn;
use super::now;
use super::redo_record::{Author, Saved};
use crate::limits::session as limits;

pub(super) type Done<T> = Result<T, StoreError>;

/// A number as `SQLite` stores it. None of ours comes near the bound.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn restored(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
) -> Done<usize> {
    connection.prepare_cached(sql).and_then(|mut it| it.execute(values)).map_err(unavailable)
}

/// The row of a query that has one.
pub(super) fn only<T>(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Done<T> {
    let row = connection.prepare_cached(sql).and_then(|mut it| it.query_row(values, read));
    row.map_err(unavailable)
}

/// The first row of a query.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Done<Option<T>> {
    let row =
        connection.prepare_cached(sql).and_then(|mut it| it.query_row(values, read).optional());
    row.map_err(unavailable)
}

/// The latest version that a record has, or had when the file had a counter for that.
pub(super) fn last_version(connection: &Connection) -> Done<u64> {
    let sql = "SELECT max(value, (SELECT coalesce(max(version), 0) FROM sessions))
        FROM counters WHERE name = 'version'";
    only(connection, sql, [], |row| row.get(0)).map(restored)
}

/// Reads something, to see whether reading works.
pub(super) fn read_something(connection: &Connection) -> Done<()> {
    first(connection, "SELECT count(*) FROM counters", [], |_| Ok(())).map(drop)
}

/// A session as whoever takes its lease finds it.
#[derive(Debug, Default)]
pub(super) struct KnownSession {
    epoch: u64,
    last_node: Option<NodeId>,
    /// `None` if it was never saved.
    pub(super) record: Option<StoredRecord>,
    /// Whether its latest turn has a journal.
    pub(super) is_interrupted: bool,
}

impl KnownSession {
    /// The epoch in which this node writes. It rises whenever the session changes hands.
    pub(super) fn epoch_for(&self, node: NodeId) -> u64 {
        self.epoch + u64::from(self.last_node != Some(node))
    }
}

/// What is known of a session. It counts as used.
pub(super) fn known(connection: &Connection, session_id: &str) -> Done<KnownSession> {
    let sql = "SELECT epoch, node, version, record, used_at, EXISTS (SELECT 1 FROM journals
            WHERE log = (SELECT max(number) FROM logs WHERE session_id = ?1))
        FROM sessions WHERE id = ?1";
    let found = first(connection, sql, [session_id], |row| {
        let record = match row.get::<_, Option<i64>>(2)? {
            Some(version) => Some(read_record(version, row.get(3)?)),
            None => None,
        };
        let (epoch, last_node) =
            (restored(row.get(0)?), Some(NodeId(Uuid::from_bytes(row.get(1)?))));
        let known = KnownSession { epoch, last_node, record, is_interrupted: row.get(5)? };
        Ok((known, row.get::<_, i64>(4)?))
    })?;
    let Some((known, used_at)) = found else { return Ok(KnownSession::default()) };
    if used_at < now() - lately() {
        use_session(connection, session_id)?;
    }
    Ok(known)
}

fn read_record(version: i64, bytes: Vec<u8>) -> StoredRecord {
    StoredRecord { version: Version(restored(version)), bytes: bytes.into() }
}

/// Drops a session that has files but was never saved.
pub(super) fn drop_unsaved(connection: &Connection, session_id: &str) -> Done<()> {
    let sql = "DELETE FROM sessions WHERE id = ? AND record IS NULL";
    execute(connection, sql, [session_id])?;
    Ok(())
}

pub(super) fn load(connection: &Connection, session_id: &str) -> Done<Option<StoredRecord>> {
    use_session(connection, session_id)?;
    let sql = "SELECT version, record FROM sessions WHERE id = ? AND record IS NOT NULL";
    first(connection, sql, [session_id], |row| Ok(read_record(row.get(0)?, row.get(1)?)))
}

/// Notes that a session is in use, unless that was noted lately.
pub(super) fn use_session(connection: &Connection, session_id: &str) -> Done<()> {
    let sql = "UPDATE sessions SET used_at = ?1 WHERE id = ?2 AND used_at < ?1 - ?3";
    execute(connection, sql, params![now(), session_id, lately()])?;
    Ok(())
}

/// Use within so many milliseconds is noted once.
fn lately() -> i64 {
    i64::try_from(limits::USE_NOTED_INTERVAL.as_millis()).unwrap_or(i64::MAX)
}

/// Writes the record of a session in this version.
pub(super) fn save(
    connection: &Connection,
    lease: &Lease,
    version: Version,
    record: &[u8],
) -> Done<()> {
    let sql = "INSERT INTO sessions (id, version, record, epoch, node, used_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE SET version = ?2, record = ?3, epoch = ?4, node = ?5, used_at = ?6";
    let (id, epoch, node) = (&lease.session_id, stored(lease.epoch), lease.node.0.as_bytes());
    execute(connection, sql, params![id, stored(version.0), record, epoch, node, now()])?;
    Ok(())
}

/// Writes the record of a session that was written beside the database. False, and nothing is done, if there is one
/// that is not older.
pub(super) fn put_record(
    connection: &Connection,
    session_id: &str,
    Saved { by: Author { node, epoch }, version, at, bytes }: Saved<'_>,
) -> Done<bool> {
    let sql = "INSERT INTO sessions (id, version, record, epoch, node, used_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (id) DO UPDATE
        SET version = ?2, record = ?3, epoch = max(epoch, ?4), node = ?5, used_at = ?6
        WHERE version IS NULL OR version < ?2";
    let [version, epoch, used_at] = [version.0, epoch, at].map(stored);
    let values = params![session_id, version, bytes, epoch, node.0.as_bytes(), used_at];
    Ok(execute(connection, sql, values)? > 0)
}

/// Writes what a turn has left beside the database.
pub(super) fn put_ended(connection: &Connection, turn: &EndedTurn) -> Done<()> {
    let EndedTurn { lease, turn_id, version, at, record, batches } = turn;
    let Lease { session_id, epoch, .. } = lease;
    let saved = Saved { by: Author::of(lease), version: *version, at: *at, bytes: record };
    if put_record(connection, session_id, saved)? {
        put_whole_log(connection, (session_id, *epoch), turn_id, batches)?;
    }
    Ok(())
}

/// Appends to the log of a turn, and starts the log if there is none. Returns its number.
pub(super) fn append(
    connection: &Connection,
    (session_id, epoch): (&str, u64),
    turn_id: &str,
    LogNews { batches, journal }: &LogNews,
) -> Done<i64> {
    let last = batches.last().map_or(0, |batch| batch.last);
    let sql = "INSERT INTO logs (session_id, turn_id, epoch, last, bytes) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (session_id, turn_id) DO UPDATE
        SET last = max(last, excluded.last), bytes = bytes + excluded.bytes
        RETURNING number, epoch, last";
    let values = params![session_id, turn_id, stored(epoch), stored(last), bytes_of(batches)];
    let (log, before, last): (i64, i64, i64) =
        only(connection, sql, values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (before, last) = (restored(before), restored(last));
    if before != epoch {
        let first = batches.first().map_or(last + 1, |batch| batch.first);
        let epochs = epochs(connection, log, before)?.then(first, epoch);
        put_epochs(connection, log, &epochs)?;
    }
    put_batches(connection, log, batches)?;
    put_journal(connection, log, journal.as_deref())?;
    // Those of a running turn come often, and only the first of them adds a log.
    if batches.first().is_some_and(|batch| batch.first == 1) {
        trim_logs(connection, session_id)?;
    }
    Ok(log)
}

/// Writes the whole log of a turn that is over, in place of what there is of it.
pub(super) fn put_whole_log(
    connection: &Connection,
    (session_id, epoch): (&str, u64),
    turn_id: &str,
    batches: &[Batch],
) -> Done<()> {
    let sql = "SELECT number, epoch, last FROM logs WHERE session_id = ? AND turn_id = ?";
    let known = first(connection, sql, [session_id, turn_id], |row| {
        Ok((row.get::<_, i64>(0)?, restored(row.get(1)?), restored(row.get(2)?)))
    })?;
    let news = LogNews::from(in_pieces(batches));
    let Some((log, before, last)) = known else {
        append(connection, (session_id, epoch), turn_id, &news)?;
        return Ok(());
    };
    end_journal(connection, log)?;
    if before != epoch {
        let epochs = epochs(connection, log, before)?.then(last + 1, epoch);
        put_epochs(connection, log, &epochs)?;
    }
    execute(connection, "DELETE FROM batches WHERE log = ?", [log])?;
    let last = batches.last().map_or(0, |batch| batch.last);
    let sql = "UPDATE logs SET last = ?, bytes = ? WHERE number = ?";
    execute(connection, sql, params![stored(last), bytes_of(batches), log])?;
    put_batches(connection, log, &news.batches)?;
    trim_logs(connection, session_id)
}

/// The same batches, joined to a few long ones: each takes a row.
fn in_pieces(batches: &[Batch]) -> Vec<Batch> {
    let mut pieces: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    for Batch { first, last, bytes } in batches {
        match pieces.last_mut() {
            Some((_, end, piece)) if piece.len() + bytes.len() <= limits::LOG_PIECE_BYTES_MAX => {
                piece.extend_from_slice(bytes);
                *end = *last;
            }
            _ => pieces.push((*first, *last, bytes.to_vec())),
        }
    }
    pieces
        .into_iter()
        .map(|(first, last, bytes)| Batch { first, last, bytes: bytes.into() })
        .collect()
}

fn bytes_of(batches: &[Batch]) -> i64 {
    length(batches.iter().map(|batch| batch.bytes.len()).sum())
}

/// The epochs of a log, the latest of which is this.
pub(super) fn epochs(connection: &Connection, log: i64, latest: u64) -> Done<Epochs> {
    let sql = "SELECT first, epoch FROM epochs WHERE log = ? ORDER BY first";
    let starts = all(connection, sql, [log], |row| {
        Ok(EpochStart { first: restored(row.get(0)?), epoch: restored(row.get(1)?) })
    })?;
    Ok(Epochs::of(&starts).unwrap_or_else(|| Epochs::begun_in(latest)))
}

/// Sets the epochs of a log.
pub(super) fn put_epochs(connection: &Connection, log: i64, epochs: &Epochs) -> Done<()> {
    let sql = "UPDATE logs SET epoch = ? WHERE number = ?";
    execute(connection, sql, params![stored(epochs.last()), log])?;
    execute(connection, "DELETE FROM epochs WHERE log = ?", [log])?;
    let sql = "INSERT INTO epochs (log, first, epoch) VALUES (?, ?, ?)";
    let is_needed = epochs.starts().count() > 1;
    for EpochStart { first, epoch } in epochs.starts().filter(|_| is_needed) {
        execute(connection, sql, params![log, stored(first), stored(epoch)])?;
    }
    Ok(())
}

/// Ends the log of a turn: with all of it, or with what follows what the tables have.
pub(super) fn end_log(
    connection: &Connection,
    lease: &Lease,
    turn_id: &str,
    batches: Vec<Batch>,
) -> Done<()> {
    if batches.first().is_some_and(|batch| batch.first == 1) {
        let session = (&*lease.session_id, lease.epoch);
        return put_whole_log(connection, session, turn_id, &batches);
    }
    let log = append(connection, (&lease.session_id, lease.epoch), turn_id, &batches.into())?;
    end_journal(connection, log)?;
    trim_logs(connection, &lease.session_id)
}

fn end_journal(connection: &Connection, log: i64) -> Done<()> {
    execute(connection, "DELETE FROM journals WHERE log = ?", [log])?;
    Ok(())
}

pub(super) fn put_journal(connection: &Connection, log: i64, journal: Option<&[u8]>) -> Done<()> {
    let Some(journal) = journal else { return Ok(()) };
    let sql = "INSERT INTO journals (log, json) VALUES (?, ?)
        ON CONFLICT (log) DO UPDATE SET json = excluded.json";
    execute(connection, sql, params![log, journal])?;
    Ok(())
}

pub(super) fn put_batches(connection: &Connection, log: i64, batches: &[Batch]) -> Done<()> {
    let sql = "INSERT INTO batches (log, first, last, bytes) VALUES (?, ?, ?, ?)";
    for Batch { first, last, bytes } in batches {
        execute(connection, sql, params![log, stored(*first), stored(*last), &bytes[..]])?;
    }
    Ok(())
}

/// Drops the oldest logs of a session beyond what one session may keep.
fn trim_logs(connection: &Connection, session_id: &str) -> Done<()> {
    let sql = "SELECT number, bytes FROM logs WHERE session_id = ? ORDER BY number DESC";
    let logs = all(connection, sql, [session_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut kept = 0;
    for (at, (log, bytes)) in logs.into_iter().enumerate() {
        let (log, bytes): (i64, i64) = (log, bytes);
        kept += bytes;
        let is_over = at >= limits::TURN_LOGS_MAX || kept > length(limits::TURN_LOG_BYTES_MAX);
        if is_over && at > 0 {
            execute(connection, "DELETE FROM logs WHERE number = ?", [log])?;
        }
    }
    Ok(())
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Done<Vec<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(unavailable)?;
    let rows = statement.query_map(values, read).map_err(unavailable)?;
    rows.collect::<Result<_, _>>().map_err(unavailable)
}

pub(super) fn read(
    connection: &Connection,
    session_id: &str,
    turn_id: Option<&str>,
    seen: u64,
) -> Done<Option<StoredLog>> {
    use_session(connection, session_id)?;
    let sql =
        "SELECT number, turn_id, epoch, last, CASE WHEN ?3 OR json IS NULL THEN json ELSE x'' END
        FROM logs LEFT JOIN journals ON log = number
        WHERE session_id = ?1 AND (?2 IS NULL OR turn_id = ?2) ORDER BY number DESC LIMIT 1";
    let log = first(connection, sql, params![session_id, turn_id, seen == 0], read_log)?;
    let Some((number, mut log)) = log else { return Ok(None) };
    log.epochs = epochs(connection, number, log.epochs.last())?;
    log.batches = batches(connection, number, seen)?;
    Ok(Some(log))
}

/// Reads the columns `number`, `turn_id`, `epoch`, `last` and `json`, without the batches and the epochs before
/// the latest.
pub(super) fn read_log(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, StoredLog)> {
    let epochs = Epochs::begun_in(restored(row.get(2)?));
    let (turn_id, last) = (row.get(1)?, restored(row.get(3)?));
    let journal = row.get::<_, Option<Vec<u8>>>(4)?.map(Bytes::from);
    Ok((row.get(0)?, StoredLog { turn_id, epochs, last, batches: Vec::new(), journal }))
}

/// The batches of a log without those that end at or before event `seen`.
pub(super) fn batches(connection: &Connection, log: i64, seen: u64) -> Done<Vec<Batch>> {
    let sql = "SELECT first, last, bytes FROM batches WHERE log = ? AND last > ? ORDER BY first";
    all(connection, sql, params![log, stored(seen)], |row| {
        let (first, last) = (restored(row.get(0)?), restored(row.get(1)?));
        Ok(Batch { first, last, bytes: row.get::<_, Vec<u8>>(2)?.into() })
    })
}

/// Keeps a file. A session that is leased exists, although it may not have been saved yet.
pub(super) fn keep_artifact(
    connection: &Connection,
    session_id: &str,
    holder: Option<(NodeId, u64)>,
    artifact: &Artifact,
) -> Done<()> {
    if let Some((node, epoch)) = holder {
        let sql = "INSERT INTO sessions (id, epoch, node, used_at) VALUES (?, ?, ?, ?)
            ON CONFLICT DO NOTHING";
        execute(connection, sql, params![session_id, stored(epoch), node.0.as_bytes(), now()])?;
    }
    let is_known = "SELECT 1 FROM sessions WHERE id = ?";
    if first(connection, is_known, [session_id], |_| Ok(()))?.is_none() {
        return Err(StoreError::NoSession);
    }
    let Artifact { owner, id, name, mime_type, bytes } = artifact;
    let sql = "INSERT INTO artifacts (id, session_id, owner, name, mime_type, bytes)
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
    let values = params![id, session_id, owner, name, mime_type, &bytes[..]];
    execute(connection, sql, values)?;
    let sql =
        "SELECT number, length(bytes) FROM artifacts WHERE session_id = ? ORDER BY number DESC";
    let kept = all(connection, sql, [session_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut sum = 0;
    for (artifact, bytes) in kept {
        let (artifact, bytes): (i64, i64) = (artifact, bytes);
        sum += bytes;
        if sum > length(limits::ARTIFACT_BYTES_MAX) {
            execute(connection, "DELETE FROM artifacts WHERE number = ?", [artifact])?;
        }
    }
    Ok(())
}

/// The session whose tool has returned this file.
pub(super) fn session_of_artifact(connection: &Connection, id: &str) -> Done<Option<String>> {
    first(connection, "SELECT session_id FROM artifacts WHERE id = ?", [id], |row| row.get(0))
}

pub(super) fn artifact(connection: &Connection, id: &str) -> Done<Option<Artifact>> {
    let sql = "SELECT owner, id, name, mime_type, bytes FROM artifacts WHERE id = ?";
    first(connection, sql, [id], read_artifact)
}

/// Reads the columns `owner`, `id`, `name`, `mime_type` and `bytes`.
pub(super) fn read_artifact(row: &rusqlite::Row<'_>) -> rusqlite::Result<Artifact> {
    let (owner, id, name, mime_type) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(Artifact { owner, id, name, mime_type, bytes: row.get::<_, Vec<u8>>(4)?.into() })
}

/// Forgets a session, unless a later version of it was written. False if it has no record.
pub(super) fn forget(connection: &Connection, session_id: &str, latest: Version) -> Done<bool> {
    let sql = "DELETE FROM sessions WHERE id = ? AND (version IS NULL OR version <= ?)
        RETURNING record IS NOT NULL";
    let values = params![session_id, stored(latest.0)];
    Ok(first(connection, sql, values, |row| row.get(0))?.unwrap_or(false))
}

/// Follows a deletion of a session, unless a later version of it was written. One that was not saved yet has begun
/// since.
pub(super) fn delete(connection: &Connection, session_id: &str, latest: Version) -> Done<()> {
    let sql = "DELETE FROM sessions WHERE id = ? AND version <= ?";
    execute(connection, sql, params![session_id, stored(latest.0)])?;
    Ok(())
}

/// The sessions whose latest turn has a journal.
pub(super) fn unfinished(connection: &Connection) -> Done<Vec<String>> {
    let sql = "SELECT DISTINCT session_id FROM journals JOIN logs ON logs.number = journals.log";
    all(connection, sql, [], |row| row.get(0))
}

/// Which sessions were last used then or before: of all, or of this one.
pub(super) fn unused_since(
    connection: &Connection,
    latest: i64,
    session_id: Option<&str>,
) -> Done<Vec<String>> {
    let Some(session_id) = session_id else {
        let sql = "SELECT id FROM sessions WHERE used_at <= ?";
        return all(connection, sql, [latest], |row| row.get(0));
    };
    let sql = "SELECT id FROM sessions WHERE id = ? AND used_at <= ?";
    all(connection, sql, params![session_id, latest], |row| row.get(0))
}

/// Notes that the sessions are in use whose latest turn was interrupted: it may have run for long.
pub(super) fn use_interrupted(connection: &Connection) -> Done<()> {
    let sql = "UPDATE sessions SET used_at = ? WHERE id IN
        (SELECT session_id FROM logs JOIN journals ON journals.log = logs.number)";
    execute(connection, sql, [now()])?;
    Ok(())
}
