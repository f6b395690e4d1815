//! What a file of sessions is like, for an operator who asks.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::time::Instant;

use super::{OpenError, SyncMode, now, schema};
use crate::session::store::NodeId;

/// What an examination of a file of sessions has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// The format of its tables.
    pub version: i32,
    /// Its bytes, with those of its write-ahead log.
    pub bytes: u64,
    /// How many sessions it has.
    pub sessions: u64,
    /// How long a small commit takes: the median of some.
    pub commit: Duration,
    /// The first fault in its structure, if there is one.
    pub damage: Option<String>,
}

/// Opens a file as a gateway does, looks at it, and measures commits on a throw-away session.
pub(super) fn examine(path: &Path, sync: SyncMode) -> Result<FileReport, OpenError> {
    let connection = schema::open(path, sync)?;
    let fault = |error| OpenError::of(path, error);
    let sessions = u64::try_from(schema::count(&connection).map_err(fault)?).unwrap_or_default();
    let bytes = schema::bytes(path);
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fault)?;
    let damage = (found != "ok").then_some(found);
    let version =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fault)?;
    let commit = measure(&connection).map_err(fault)?;
    Ok(FileReport { version, bytes, sessions, commit, damage })
}

/// The session has no record. So if this process is killed, the next one that opens the file drops
/// what is left of it.
fn measure(connection: &Connection) -> rusqlite::Result<Duration> {
    /// Enough for a median.
    const COMMITS: usize = 15;
    let id = format!("tether-check-{}", uuid::Uuid::new_v4());
    let nobody = NodeId::random();
    let mut took = Vec::with_capacity(COMMITS);
    let result = (0..COMMITS).try_for_each(|at| {
        let begun_at = Instant::now();
        let sql = "INSERT INTO sessions (id, epoch, node, used_at) VALUES (?1, 1, ?2, ?3)
            ON CONFLICT (id) DO UPDATE SET epoch = ?4";
        let node = nobody.0.as_bytes();
        connection.execute(sql, params![id, node, now(), i64::try_from(at).unwrap_or_default()])?;
        took.push(begun_at.elapsed());
        Ok(())
    });
    let removed = connection.execute("DELETE FROM sessions WHERE id = ?", [&id]);
    result.and(removed)?;
    took.sort_unstable();
    Ok(took.get(COMMITS / 2).copied().unwrap_or_default())
}
