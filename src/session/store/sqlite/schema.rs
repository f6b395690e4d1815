//! The file: how it is opened, and its tables.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::beside::{file_bytes, log_of, private_options};
use super::open_error::OpenError;
use super::{SyncMode, redo};

/// The format of the tables, in `user_version`: how many of the changes below it has.
const VERSION: i32 = 5;

/// "Teth", in `application_id`.
const APPLICATION: i32 = 0x5465_7468;

/// What has made the tables what they are. A file of an older format gets those that it lacks.
pub(super) const CHANGES: [&str; VERSION as usize] = [TABLES, JOURNALS, EPOCHS, REDO, ENTRIES];

/// The journals of running turns: not beside the logs, whose rows each append writes again.
const JOURNALS: &str = "
CREATE TABLE journals (
    log INTEGER PRIMARY KEY REFERENCES logs ON DELETE CASCADE,
    json BLOB NOT NULL
) STRICT;
";

/// The epochs of logs that another gateway has gone on with. Of the others, `logs.epoch` says all.
const EPOCHS: &str = "
CREATE TABLE epochs (
    log INTEGER NOT NULL REFERENCES logs ON DELETE CASCADE,
    first INTEGER NOT NULL,      -- the sequence of its first event
    epoch INTEGER NOT NULL,
    PRIMARY KEY (log, first)
) WITHOUT ROWID, STRICT;
";

/// From here on, what running turns write is in files beside this one, which an older release would not see.
const REDO: &str = "";

/// What is kept for owners beside the sessions.
const ENTRIES: &str = "
CREATE TABLE entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner BLOB NOT NULL,
    id BLOB NOT NULL,            -- the first of its keys
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,       -- bytes, with those of its keys
    written_at INTEGER NOT NULL, -- milliseconds since 1970
    bytes BLOB NOT NULL,
    UNIQUE (owner, id)
) STRICT;
CREATE INDEX entries_by_owner ON entries (owner, number);
CREATE INDEX entries_by_age ON entries (written_at);

CREATE TABLE entry_keys (
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
    PRIMARY KEY (owner, key, entry)
) WITHOUT ROWID, STRICT;
CREATE INDEX entry_keys_by_entry ON entry_keys (entry);

CREATE TABLE claims (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner BLOB NOT NULL,
    key BLOB NOT NULL,
    holder INTEGER NOT NULL,
    lapses INTEGER NOT NULL,     -- whether it ends with its process
    claimed_at INTEGER NOT NULL,
    UNIQUE (owner, key)
) STRICT;
CREATE INDEX claims_by_age ON claims (claimed_at);
";

const TABLES: &str = "
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID, STRICT;
INSERT INTO counters VALUES ('grant', 0), ('version', 0);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    version INTEGER,             -- of the record
    record BLOB,                 -- null until the first turn is over
    epoch INTEGER NOT NULL,
    node BLOB NOT NULL,          -- who has the lease, or had it last
    lease INTEGER,               -- until format 4: its grant
    used_at INTEGER NOT NULL     -- milliseconds since 1970
) STRICT;
CREATE INDEX sessions_by_age ON sessions (used_at);

CREATE TABLE logs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    last INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    UNIQUE (session_id, turn_id)
) STRICT;

CREATE TABLE batches (
    log INTEGER NOT NULL REFERENCES logs ON DELETE CASCADE,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (log, first)
) WITHOUT ROWID, STRICT;

CREATE TABLE artifacts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    owner TEXT NOT NULL,
    name TEXT,
    mime_type TEXT NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX artifacts_by_session ON artifacts (session_id, number);
";

/// More than there are statements, so that each is parsed once.
const STATEMENTS: usize = 128;

/// Opens a file of sessions, and creates it if there is none. No lease in it is held. Once what is beside it was
/// folded, [drop](drop_unsaved) what was never saved.
pub(super) fn open(path: &Path, sync: SyncMode) -> Result<Connection, OpenError> {
    let fault = |error: rusqlite::Error| OpenError::of(path, error);
    OpenError::check_is_file(path)?;
    OpenError::check_is_file(&log_of(path))?;
    redo::paths(path).iter().try_for_each(|file| OpenError::check_is_file(file))?;
    OpenError::check_is_file(&redo::buffer_path(path))?;
    create_file(path).map_err(|error| OpenError::Create(path.into(), error))?;
    // `SQLite` takes a file of one byte for a new one.
    if !has_header(path).map_err(|error| OpenError::Create(path.into(), error))? {
        return Err(OpenError::Foreign(path.into()));
    }
    // It does the same with an empty one, and deletes the log beside it.
    let has_log = file_bytes(&log_of(path)) > 0;
    if file_bytes(path) == 0 && (has_log || redo::has_records(path)) {
        let what = "it is empty, but not the -wal or -redo file beside it".to_owned();
        return Err(OpenError::Damaged { path: path.into(), what });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
    // Before anything is written: another program's file stays as it is.
    connection
        .execute_batch("PRAGMA locking_mode=EXCLUSIVE; PRAGMA busy_timeout=0;")
        .map_err(fault)?;
    let number = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
    let (application, version): (i32, i32) =
        (number("application_id").map_err(fault)?, number("user_version").map_err(fault)?);
    match (application, version) {
        // Most programs give their files no number.
        (0, 0) if has_tables(&connection).map_err(fault)? => {
            return Err(OpenError::Foreign(path.into()));
        }
        (0, 0) | (APPLICATION, 1..=VERSION) => {}
        (APPLICATION, version) => return Err(OpenError::Newer { path: path.into(), version }),
        _ => return Err(OpenError::Foreign(path.into())),
    }
    let sync = match sync {
        SyncMode::Normal => "NORMAL",
        SyncMode::Full => "FULL",
    };
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous={sync}; PRAGMA foreign_keys=ON; \
             PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY;"
        ))
        .map_err(fault)?;
    upgrade(&connection, &CHANGES, version).map_err(fault)?;
    // The lock is taken with this. Whoever held a lease is gone.
    connection
        .execute_batch(
            "BEGIN IMMEDIATE; UPDATE sessions SET lease = NULL WHERE lease IS NOT NULL; \
             DELETE FROM claims WHERE lapses; COMMIT;",
        )
        .map_err(fault)?;
    // Otherwise, many statements are compiled again with each value that is bound to them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(fault)?;
    connection.execute_batch(COUNT).map_err(fault)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Drops what is left of sessions that were never saved: files of theirs, and what an examination has written.
pub(super) fn drop_unsaved(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM sessions WHERE record IS NULL")
}

/// Counts the sessions and the bytes of entries once, and from then on each that comes or goes: a
/// transaction that is taken back takes its part of the count back as well. The file knows nothing of it.
const COUNT: &str = "
PRAGMA temp_store=MEMORY;
CREATE TEMP TABLE present (sessions INTEGER NOT NULL);
INSERT INTO present SELECT count(*) FROM sessions;
CREATE TEMP TRIGGER session_begun AFTER INSERT ON main.sessions
BEGIN UPDATE present SET sessions = sessions + 1; END;
CREATE TEMP TRIGGER session_gone AFTER DELETE ON main.sessions
BEGIN UPDATE present SET sessions = sessions - 1; END;
CREATE TEMP TABLE shares (owner BLOB PRIMARY KEY, bytes INTEGER NOT NULL);
INSERT INTO shares SELECT owner, sum(size) FROM entries GROUP BY owner;
CREATE TEMP TRIGGER entry_kept AFTER INSERT ON main.entries BEGIN
    INSERT OR IGNORE INTO shares VALUES (new.owner, 0);
    UPDATE shares SET bytes = bytes + new.size WHERE owner = new.owner;
END;
CREATE TEMP TRIGGER entry_gone AFTER DELETE ON main.entries BEGIN
    UPDATE shares SET bytes = bytes - old.size WHERE owner = old.owner;
    DELETE FROM shares WHERE owner = old.owner AND bytes <= 0;
END;
";

/// How many sessions are in the file.
pub(super) fn count(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT sessions FROM present")?.query_row([], |row| row.get(0))
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) > 0 FROM sqlite_schema", [], |row| row.get(0))
}

/// Whether the file is empty or begins as a database does.
fn has_header(path: &Path) -> io::Result<bool> {
    const HEADER: &[u8; 16] = b"SQLite format 3\0";
    let mut begins = Vec::new();
    fs::File::open(path)?.take(HEADER.len() as u64).read_to_end(&mut begins)?;
    Ok(begins.is_empty() || begins == HEADER)
}

/// The bytes of the file, and of what was not moved there yet.
pub(super) fn bytes(path: &Path) -> u64 {
    file_bytes(path) + file_bytes(&log_of(path)) + redo::bytes(path)
}

/// Creates the file, if there is none, for its owner alone: conversations are private. What `SQLite` puts
/// beside it gets the same rights.
fn create_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    private_options().create(true).append(true).open(path).map(drop)
}

/// Makes these changes, of which the file has the first `done`.
pub(super) fn upgrade(
    connection: &Connection,
    changes: &[&str],
    done: i32,
) -> rusqlite::Result<()> {
    let missing = changes[usize::try_from(done).unwrap_or_default()..].concat();
    let version = changes.len();
    if usize::try_from(done) == Ok(version) {
        return Ok(());
    }
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {missing} PRAGMA application_id={APPLICATION}; PRAGMA user_version={version}; \
         COMMIT;"
    ))
}
