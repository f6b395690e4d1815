//! Files that were cut or overwritten: nothing is replaced, and nothing is returned that was not
//! written.

use std::fs;
use std::path::PathBuf;

use super::tests::save;
use super::*;

/// As many as fill some dozens of pages.
const SESSIONS: usize = 100;

fn name(number: usize) -> String {
    format!("s{number}")
}

/// Short enough to be in one page: what `SQLite` reads from further pages, it does not check.
fn record(number: usize) -> Bytes {
    number.to_string().repeat(200).into()
}

/// A file of sessions that no process uses, without a log beside it.
struct Closed {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Closed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tether.db");
        let connection = schema::open(&path, SyncMode::Normal).unwrap();
        for number in 0..SESSIONS {
            save(&connection, &name(number), &record(number));
        }
        drop(connection);
        Self { _directory: directory, path }
    }

    /// Opens it with these bytes instead. Returns how many sessions are there, or `None` if it is
    /// refused.
    #[track_caller]
    fn open_as(&self, bytes: &[u8]) -> Option<usize> {
        fs::write(&self.path, bytes).unwrap();
        let connection = match schema::open(&self.path, SyncMode::Normal) {
            Ok(connection) => connection,
            Err(refused) => {
                let message = refused.to_string();
                assert!(message.contains("tether.db is "), "{message}");
                assert!(matches!(refused, OpenError::Damaged { .. } | OpenError::Foreign(_)));
                assert!(fs::read(&self.path).unwrap() == bytes, "it was changed: {message}");
                return None;
            }
        };
        let read =
            (0..SESSIONS).filter(|number| match statements::load(&connection, &name(*number)) {
                Ok(Some(stored)) => {
                    assert_eq!(stored.bytes, record(*number));
                    true
                }
                Ok(None) => panic!("session {number} has vanished"),
                Err(error) => {
                    assert!(error.to_string().contains("the file is damaged"), "{error}");
                    false
                }
            });
        Some(read.count())
    }
}

const PAGE: usize = 4096;

#[test]
fn garbage_in_any_page_is_an_error_or_harms_no_session() {
    let file = Closed::new();
    let whole = fs::read(&file.path).unwrap();
    assert_eq!(file.open_as(&whole), Some(SESSIONS));
    let whole = fs::read(&file.path).unwrap();
    let pages = whole.len() / PAGE;
    assert!(pages > 20, "{pages}");
    let mut refused = 0;
    for page in 0..pages {
        let mut torn = whole.clone();
        torn[page * PAGE..(page + 1) * PAGE].fill(0xff);
        refused += usize::from(file.open_as(&torn).is_none());
    }
    assert!(refused > 0);
}

#[test]
fn a_file_that_was_cut_is_refused() {
    let file = Closed::new();
    let whole = fs::read(&file.path).unwrap();
    for length in [1, 99, PAGE, PAGE + 1, whole.len() / 2, whole.len() - PAGE] {
        assert_eq!(file.open_as(&whole[..length]), None, "{length} bytes");
    }
}

/// `SQLite` alone would delete the log, with all that was committed to it.
#[test]
fn a_log_without_its_file_is_not_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let log = directory.path().join("tether.db-wal");
    fs::write(&path, "").unwrap();
    fs::write(&log, "committed").unwrap();
    let refused = schema::open(&path, SyncMode::Normal).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    assert_eq!(fs::read(&log).unwrap(), b"committed");
    fs::remove_file(&path).unwrap();
    assert!(schema::open(&path, SyncMode::Normal).is_err());
    assert_eq!(fs::read(&log).unwrap(), b"committed");
}

/// A power cut may leave the end of the log half written.
#[test]
fn a_log_that_was_cut_costs_its_last_commits_alone() {
    let directory = tempfile::tempdir().unwrap();
    let [path, copy] = ["tether.db", "copy.db"].map(|name| directory.path().join(name));
    let [log, copied_log] = [&path, &copy].map(|path| format!("{}-wal", path.display()));
    let connection = schema::open(&path, SyncMode::Normal).unwrap();
    let mut lengths = Vec::new();
    for number in 0..4 {
        save(&connection, &name(number), &record(number));
        lengths.push(usize::try_from(fs::metadata(&log).unwrap().len()).unwrap());
    }
    // As a power cut leaves it: while it is open.
    let (bytes, logged) = (fs::read(&path).unwrap(), fs::read(&log).unwrap());
    for (number, length) in lengths.into_iter().enumerate() {
        for (cut, is_kept) in [(length, true), (length - 1, false)] {
            fs::write(&copy, &bytes).unwrap();
            fs::write(&copied_log, &logged[..cut]).unwrap();
            let connection = schema::open(&copy, SyncMode::Normal).unwrap();
            for earlier in 0..number {
                let stored = statements::load(&connection, &name(earlier)).unwrap().unwrap();
                assert_eq!(stored.bytes, record(earlier));
            }
            let stored = statements::load(&connection, &name(number)).unwrap();
            assert_eq!(stored.is_some(), is_kept, "{cut} of {} bytes", logged.len());
        }
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    drop(other);
    let before = fs::read(&path).unwrap();
    let refused = schema::open(&path, SyncMode::Normal).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}
