//! Whole sessions: listed, copied out and written back.

use rusqlite::{Connection, params};

use super::super::{Artifact, ListedSession, NodeId, SessionCopy, StoredLog, Version};
use super::cause::unavailable;
use super::statements::{
    Done, all, batches, epochs, execute, first, length, only, put_batches, put_epochs, put_journal,
    read_artifact, read_log, restored, stored,
};
use crate::limits::session::LIST_RECORD_BYTES_MAX;

pub(super) fn list(connection: &Connection, after: &str, count: usize) -> Done<Vec<ListedSession>> {
    let sql = "SELECT id, used_at, length(record)
            + (SELECT coalesce(sum(bytes), 0) FROM logs WHERE session_id = sessions.id)
            + (SELECT coalesce(sum(length(bytes)), 0) FROM artifacts WHERE session_id = sessions.id),
            record
        FROM sessions WHERE id > ? AND record IS NOT NULL ORDER BY id LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(unavailable)?;
    let mut rows = statement.query(params![after, length(count)]).map_err(unavailable)?;
    let (mut listed, mut record_bytes) = (Vec::new(), 0);
    while record_bytes <= LIST_RECORD_BYTES_MAX
        && let Some(row) = rows.next().map_err(unavailable)?
    {
        let session = read_listed(row).map_err(unavailable)?;
        record_bytes += session.record.len();
        listed.push(session);
    }
    Ok(listed)
}

fn read_listed(row: &rusqlite::Row<'_>) -> rusqlite::Result<ListedSession> {
    let (used_at_ms, bytes) = (restored(row.get(1)?), restored(row.get(2)?));
    let record = row.get::<_, Vec<u8>>(3)?.into();
    Ok(ListedSession { id: row.get(0)?, used_at_ms, bytes, record })
}

pub(super) fn copy(connection: &Connection, session_id: &str) -> Done<Option<SessionCopy>> {
    let sql = "SELECT epoch, used_at, record FROM sessions WHERE id = ? AND record IS NOT NULL";
    let found = first(connection, sql, [session_id], |row| {
        Ok((restored(row.get(0)?), restored(row.get(1)?), row.get::<_, Vec<u8>>(2)?))
    })?;
    let Some((epoch, used_at_ms, record)) = found else { return Ok(None) };
    let sql = "SELECT number, turn_id, epoch, last, json
        FROM logs LEFT JOIN journals ON log = number WHERE session_id = ? ORDER BY number";
    let found = all(connection, sql, [session_id], read_log)?;
    let mut logs = Vec::with_capacity(found.len());
    for (number, log) in found {
        let epochs = epochs(connection, number, log.epochs.last())?;
        logs.push(StoredLog { epochs, batches: batches(connection, number, 0)?, ..log });
    }
    let sql = "SELECT owner, id, name, mime_type, bytes FROM artifacts
        WHERE session_id = ? ORDER BY number";
    let artifacts = all(connection, sql, [session_id], read_artifact)?;
    let (id, record) = (session_id.to_owned(), record.into());
    Ok(Some(SessionCopy { id, epoch, used_at_ms, record, logs, artifacts }))
}

/// Writes a copy, whose record gets this version.
pub(super) fn restore(
    connection: &Connection,
    copy: &SessionCopy,
    version: Version,
    replace: bool,
) -> Done<bool> {
    let SessionCopy { id, epoch, used_at_ms, record, logs, artifacts } = copy;
    let sql = "SELECT epoch FROM sessions WHERE id = ?";
    let known = first(connection, sql, [id], |row| Ok(restored(row.get(0)?)))?;
    let epoch = match known {
        None => *epoch,
        Some(known) if replace => known.max(*epoch),
        Some(_) => return Ok(false),
    };
    execute(connection, "DELETE FROM sessions WHERE id = ?", [id])?;
    let sql = "INSERT INTO sessions (id, version, record, epoch, node, used_at)
        VALUES (?, ?, ?, ?, ?, ?)";
    // No node had it last, so the next one begins another epoch.
    let nobody = NodeId::random();
    let (node, used_at) = (nobody.0.as_bytes(), stored(*used_at_ms));
    execute(
        connection,
        sql,
        params![id, stored(version.0), &record[..], stored(epoch), node, used_at],
    )?;
    logs.iter().try_for_each(|log| put_log(connection, id, log))?;
    artifacts.iter().try_for_each(|artifact| put_artifact(connection, id, artifact))?;
    Ok(true)
}

fn put_log(connection: &Connection, session_id: &str, log: &StoredLog) -> Done<()> {
    let StoredLog { turn_id, epochs, last, batches, journal } = log;
    let bytes = batches.iter().map(|batch| batch.bytes.len()).sum();
    let sql = "INSERT INTO logs (session_id, turn_id, epoch, last, bytes) VALUES (?, ?, ?, ?, ?)
        RETURNING number";
    let epoch = stored(epochs.last());
    let values = params![session_id, turn_id, epoch, stored(*last), length(bytes)];
    let number = only(connection, sql, values, |row| row.get(0))?;
    put_epochs(connection, number, epochs)?;
    put_batches(connection, number, batches)?;
    put_journal(connection, number, journal.as_deref())
}

/// An id is 128 random bits. If another session has it, it is the same file, from a copy of this
/// session.
fn put_artifact(connection: &Connection, session_id: &str, artifact: &Artifact) -> Done<()> {
    let Artifact { owner, id, name, mime_type, bytes } = artifact;
    let sql = "INSERT INTO artifacts (id, session_id, owner, name, mime_type, bytes)
        VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING";
    execute(connection, sql, params![id, session_id, owner, name, mime_type, &bytes[..]])?;
    Ok(())
}
