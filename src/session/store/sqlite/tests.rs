//! What a file of sessions promises beyond the rules of every store.

use std::fs;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::super::Batch;
use super::worker::atomically;
use super::*;

const TTL: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SyncMode::Normal, TTL)
}

/// A store in a file of its own.
struct File {
    directory: tempfile::TempDir,
}

impl File {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("tether.db")
    }

    /// Opens it again, once the last store's thread has let it go.
    async fn reopen(&self) -> SqliteStore {
        loop {
            match open(&self.path()) {
                Ok(store) => return store,
                Err(OpenError::InUse(_)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Saves a session as a node does that was never here before.
pub(super) fn save(connection: &Connection, session_id: &str, record: &Bytes) {
    let (session_id, node) = (session_id.into(), NodeId::random());
    let lease = Lease { session_id, node, epoch: 1, grant: 1 };
    statements::save(connection, &lease, Version(1), record).unwrap();
}

fn batch() -> Batch {
    Batch { first: 1, last: 2, bytes: Bytes::from_static(b"1\n2\n") }
}

fn artifact(id: &str, bytes: usize) -> Artifact {
    Artifact {
        owner: "alice".to_owned(),
        id: id.to_owned(),
        name: None,
        mime_type: "text/plain".to_owned(),
        bytes: vec![b'x'; bytes].into(),
    }
}

#[tokio::test]
async fn what_was_written_outlives_the_store() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, Bytes::from_static(b"record")).await.unwrap();
    store.append(&lease, "t", vec![batch()].into()).await.unwrap();
    store.keep_artifact("s", artifact("a", 3)).await.unwrap();
    drop(store);

    let store = file.reopen().await;
    let record = store.load("s").await.unwrap().unwrap();
    assert_eq!((record.version, &*record.bytes), (version, &b"record"[..]));
    let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
    assert_eq!((log.last, log.batches), (2, vec![batch()]));
    assert_eq!(store.artifact("a").await, Ok(Some(artifact("a", 3))));
    // The process that held the lease is gone, so another one takes it at once, in the next epoch.
    assert_eq!(store.append(&lease, "t", vec![batch()].into()).await, Err(StoreError::Superseded));
    let taken = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    assert_eq!(taken.epoch, 2);
    let saved = store.save(&taken, Some(version), Bytes::from_static(b"more")).await.unwrap();
    assert!(saved.0 > version.0, "no two writes have the same version");
}

#[tokio::test]
async fn a_session_that_was_never_saved_ends_with_its_process() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    drop(store);
    let store = file.reopen().await;
    assert_eq!(store.acquire("s", NodeId::random()).await.unwrap().unwrap().epoch, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let file = File::new();
    let store = open(&file.path()).unwrap();
    store.acquire("s", NodeId::random()).await.unwrap();
    for entry in fs::read_dir(file.directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_created_says_why() {
    let file = File::new();
    fs::write(file.path(), "").unwrap();
    let below = file.path().join("tether.db");
    let refused = open(&below).unwrap_err().to_string();
    let expected = format!("{} is a file, not a folder", file.path().display());
    assert!(refused.starts_with(&expected), "{refused}");
}

/// To open a pipe would wait for its other end.
#[test]
fn what_is_no_file_is_refused() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let make = |what: &str, path: &Path| match what {
        "a named pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
        "a socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        _ => fs::create_dir(path).unwrap(),
    };
    for what in ["a named pipe", "a socket", "a folder"] {
        for name in ["tether.db", "tether.db-redo1", "tether.db-redo-buffer"] {
            let file = File::new();
            let place = file.directory.path().join(name);
            make(what, &place);
            let refused = open(&file.path()).unwrap_err().to_string();
            let expected = format!("{} is {what}, not a file", place.display());
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }
}

#[tokio::test]
async fn a_file_serves_one_gateway() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    let refused = open(&file.path()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse(_)), "{refused}");
    assert!(refused.to_string().contains("in use by another process"));
    drop(store);
}

#[tokio::test]
async fn another_file_and_a_newer_one_are_refused_and_left_alone() {
    let file = File::new();
    fs::write(file.path(), "not a database, but as long as the header of one would have to be")
        .unwrap();
    let before = fs::read(file.path()).unwrap();
    assert!(matches!(open(&file.path()).unwrap_err(), OpenError::Foreign(_)));
    assert_eq!(fs::read(file.path()).unwrap(), before);

    for (pragma, is_newer) in [("application_id=7", false), ("user_version=6", true)] {
        let file = File::new();
        drop(open(&file.path()).unwrap());
        drop(file.reopen().await);
        let connection = loop {
            let connection = Connection::open(file.path()).unwrap();
            if connection.execute_batch(&format!("PRAGMA {pragma}")).is_ok() {
                break connection;
            }
            tokio::task::yield_now().await;
        };
        drop(connection);
        let refused = open(&file.path()).unwrap_err();
        assert_eq!(matches!(refused, OpenError::Newer { version: 6, .. }), is_newer, "{refused}");
        assert_eq!(matches!(refused, OpenError::Foreign(_)), !is_newer, "{refused}");
    }
}

#[tokio::test]
async fn expired_sessions_are_swept_but_not_leased_ones() {
    let file = File::new();
    let store = SqliteStore::open(&file.path(), SyncMode::Full, Duration::ZERO).unwrap();
    for session in ["held", "old"] {
        let lease = store.acquire(session, NodeId::random()).await.unwrap().unwrap();
        store.save(&lease, None, Bytes::from_static(b"record")).await.unwrap();
        if session == "old" {
            store.release(&lease).await.unwrap();
        }
    }
    store.sweep();
    assert_eq!(store.load("old").await, Ok(None));
    assert!(store.load("held").await.unwrap().is_some());
}

#[tokio::test]
async fn each_session_keeps_its_newest_logs_and_files() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, Bytes::from_static(b"record")).await.unwrap();
    for turn in 0..=limits::TURN_LOGS_MAX {
        store.append(&lease, &turn.to_string(), vec![batch()].into()).await.unwrap();
    }
    assert_eq!(store.read("s", Some("0"), 0).await, Ok(None));
    assert!(store.read("s", Some("1"), 0).await.unwrap().is_some());

    let half = limits::ARTIFACT_BYTES_MAX / 2;
    for (id, bytes) in [("a", half), ("b", half), ("c", 1)] {
        store.keep_artifact("s", artifact(id, bytes)).await.unwrap();
    }
    assert_eq!(store.artifact("a").await, Ok(None));
    assert!(store.artifact("b").await.unwrap().is_some());
}

/// The end of a turn replaces what the tables had of its log.
#[tokio::test]
async fn a_long_end_takes_the_place_of_older_logs() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let version = store.save(&lease, None, Bytes::from_static(b"record")).await.unwrap();
    for turn in ["old", "new"] {
        store.append(&lease, turn, vec![batch()].into()).await.unwrap();
        assert!(store.read("s", Some(turn), 0).await.unwrap().is_some());
    }
    let long = Batch { bytes: vec![b'x'; limits::TURN_LOG_BYTES_MAX].into(), ..batch() };
    let end = LogEnd::new("new", vec![long]);
    store.finish(&lease, Some(version), Bytes::new(), end).await.unwrap();
    assert_eq!(store.read("s", Some("old"), 0).await, Ok(None));
    assert!(store.read("s", Some("new"), 0).await.unwrap().is_some());
}

/// As on a full disk: their callers are told that they failed.
#[tokio::test]
async fn jobs_after_a_rollback_of_their_transaction_write_nothing() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    let rolls_back = |connection: &Connection| -> Result<(), StoreError> {
        connection.execute_batch("ROLLBACK").unwrap();
        Err(StoreError::Unavailable("full".to_owned()))
    };
    let writes = |connection: &Connection| {
        save(connection, "s", &Bytes::from_static(b"record"));
        Ok(())
    };
    let mut jobs = [store.run(false, rolls_back), store.run(false, writes)];
    {
        // Both wait for the same transaction.
        let _late = store.worker.lock();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(jobs.iter_mut().all(|job| job.as_mut().poll(&mut cx).is_pending()));
    }
    for job in jobs {
        assert!(matches!(job.await, Err(StoreError::Unavailable(_))));
    }
    assert_eq!(store.load("s").await, Ok(None));
}

/// A job that fails leaves the others of its transaction alone.
#[tokio::test]
async fn jobs_that_share_a_commit_succeed_and_fail_by_themselves() {
    let file = File::new();
    let store = Arc::new(open(&file.path()).unwrap());
    let jobs = (0..64).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let session = format!("s{number}");
            let lease = store.acquire(&session, NodeId::random()).await.unwrap().unwrap();
            let wrong = (number % 2 == 1).then_some(Version(7));
            store.save(&lease, wrong, Bytes::from_static(b"record")).await.is_ok()
        })
    });
    let jobs: Vec<_> = jobs.collect();
    for (number, job) in jobs.into_iter().enumerate() {
        assert_eq!(job.await.unwrap(), number % 2 == 0, "{number}");
    }
}

/// What `/metrics` shows, without a look at each session.
#[test]
fn sessions_are_counted_as_they_come_and_go() {
    let file = File::new();
    let connection = schema::open(&file.path(), SyncMode::Normal).unwrap();
    let count = || schema::count(&connection).unwrap();
    for session in ["a", "b", "c"] {
        save(&connection, session, &Bytes::from_static(b"record"));
    }
    assert_eq!(count(), 3);
    let holder = Some((NodeId::random(), 1));
    statements::keep_artifact(&connection, "a", holder, &artifact("1", 1)).unwrap();
    assert_eq!(count(), 3, "it was there");
    statements::keep_artifact(&connection, "d", holder, &artifact("2", 1)).unwrap();
    assert_eq!(count(), 4);
    for session in ["a", "d"] {
        statements::drop_unsaved(&connection, session).unwrap();
    }
    assert_eq!(count(), 3);
    let failed = atomically(&connection, |connection| {
        statements::forget(connection, "b", Version(1)).and(Err::<(), _>(StoreError::NoSession))
    });
    assert_eq!((failed, count()), (Err(StoreError::NoSession), 3), "it was taken back");
    statements::forget(&connection, "b", Version(1)).unwrap();
    assert_eq!(count(), 2);
    drop(connection);
    let connection = schema::open(&file.path(), SyncMode::Normal).unwrap();
    assert_eq!(schema::count(&connection).unwrap(), 2);
}

#[tokio::test]
async fn an_examination_leaves_nothing() {
    let file = File::new();
    let store = open(&file.path()).unwrap();
    assert!(matches!(
        SqliteStore::examine(&file.path(), SyncMode::Normal),
        Err(OpenError::InUse(_))
    ));
    let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, Bytes::from_static(b"record")).await.unwrap();
    drop(store);
    for sync in [SyncMode::Normal, SyncMode::Full] {
        let report = SqliteStore::examine(&file.path(), sync).unwrap();
        assert_eq!((report.version, report.sessions, &report.damage), (5, 1, &None));
        assert!(report.bytes >= 4096 && report.commit > Duration::ZERO, "{report:?}");
    }
    let listed = open(&file.path()).unwrap().list(None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|session| &*session.id).collect::<Vec<_>>(), ["s"]);
}

/// A session as every format has it.
const OLD_SESSION: &str = "
    INSERT INTO sessions (id, version, record, epoch, node, used_at)
    VALUES ('old', 3, CAST('old record' AS BLOB), 2, x'', 9000000000000);
    INSERT INTO logs (session_id, turn_id, epoch, last, bytes) VALUES ('old', 't', 2, 2, 4);
    INSERT INTO batches SELECT number, 1, 2, CAST('1' || char(10) || '2' || char(10) AS BLOB) FROM logs;
";

#[tokio::test]
async fn a_file_of_an_older_format_gets_what_it_lacks() {
    for format in 1..schema::CHANGES.len() {
        let file = File::new();
        let connection = Connection::open(file.path()).unwrap();
        schema::upgrade(&connection, &schema::CHANGES[..format], 0).unwrap();
        let node = [7; 16];
        connection.execute_batch(OLD_SESSION).unwrap();
        connection.execute("UPDATE sessions SET node = ?", [node]).unwrap();
        drop(connection);
        let store = open(&file.path()).unwrap();
        let record = store.load("old").await.unwrap().unwrap();
        assert_eq!((record.version, &record.bytes[..]), (Version(3), &b"old record"[..]));
        let log = store.read("old", Some("t"), 0).await.unwrap().unwrap();
        assert_eq!((log.last, log.batches, log.journal), (2, vec![batch()], None));
        let entered = store.enter("old", NodeId::random()).await.unwrap().unwrap();
        assert_eq!((entered.lease.epoch, entered.is_interrupted), (3, false));
        let lease = store.acquire("s", NodeId::random()).await.unwrap().unwrap();
        let version = store.save(&lease, None, "{}".into()).await.unwrap();
        let journal = Some(Bytes::from_static(b"{}"));
        let news = LogNews { batches: vec![batch()], journal: journal.clone() };
        store.append(&lease, "t", news).await.unwrap();
        assert_eq!(store.read("s", None, 0).await.unwrap().unwrap().journal, journal);
        store
            .finish(&lease, Some(version), "{}".into(), LogEnd::new("t", Vec::new()))
            .await
            .unwrap();
        assert_eq!(store.read("s", None, 0).await.unwrap().unwrap().journal, None);
        let (owner, key) = (EntryOwner::of(&["a"]), EntryKey::of(&["a"]));
        let entry = Entry { keys: vec![key], epoch: 1, bytes: "{}".into() };
        assert!(store.keep_entry(owner, entry, None).await.unwrap(), "format {format}");
        assert_eq!(store.entries(owner, vec![key]).await.unwrap().entries.len(), 1);
    }
}
