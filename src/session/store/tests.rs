//! What every store must do, whatever it is built on.

use super::redis::tests::RedisServer;
use super::*;
use crate::limits::session::TTL;
use crate::telemetry::millis;

/// Checks a rule for every store. Add new stores here.
async fn check<F: Future<Output = ()>>(rule: impl Fn(Box<dyn Store>) -> F) {
    check_with(TTL, rule).await;
}

/// The same with another TTL.
async fn check_with<F: Future<Output = ()>>(ttl: Duration, rule: impl Fn(Box<dyn Store>) -> F) {
    rule(Box::new(MemoryStore::new(ttl))).await;
    let directory = tempfile::tempdir().unwrap();
    for (name, sync) in [("one.db", SyncMode::Normal), ("two.db", SyncMode::Full)] {
        let path = directory.path().join(name);
        rule(Box::new(SqliteStore::open(&path, sync, ttl).unwrap())).await;
    }
    let server = RedisServer::start();
    rule(Box::new(redis::tests::open_with(&server, |options| options.ttl = ttl))).await;
    let cluster = redis::cluster_tests::shared();
    rule(Box::new(redis::cluster_tests::open_with(&cluster, |options| options.ttl = ttl))).await;
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Events from `first` to `last`, as lines that contain their numbers.
fn batch(first: u64, last: u64) -> Batch {
    let lines: Vec<_> = (first..=last).map(|sequence| sequence.to_string()).collect();
    Batch { first, last, bytes: (lines.join("\n") + "\n").into() }
}

/// They are what follows event `after`, with no more before it than they were joined with.
#[track_caller]
fn assert_tail(batches: &[Batch], after: u64, last: u64) {
    let Some(first) = batches.first() else { return assert!(after >= last, "after {after}") };
    assert!(first.first <= after + 1 && first.last > after, "after {after}: {first:?}");
    let together: Vec<_> = batches.iter().map(|batch| &*batch.bytes).collect();
    assert_eq!(together.concat(), batch(first.first, last).bytes, "after {after}");
}

async fn take(store: &dyn Store, node: NodeId) -> Lease {
    store.acquire("s", node).await.unwrap().unwrap()
}

/// What a turn has to know before it begins, and that a new session is known from then on.
#[tokio::test]
async fn a_turn_enters_a_session_with_all_that_is_known_of_it() {
    check(async |store| {
        let (first, second) = (NodeId::random(), NodeId::random());
        let Entered { lease, is_interrupted, record, .. } =
            store.enter_new("s", first).await.unwrap().unwrap();
        assert_eq!((lease.epoch, is_interrupted, record), (1, false, None));
        assert_eq!(store.enter("s", second).await.unwrap(), None, "it is held");
        let version = store.save(&lease, None, bytes("a")).await.unwrap();
        let news = LogNews { batches: vec![batch(1, 2)], journal: Some(bytes("journal")) };
        store.append(&lease, "t", news).await.unwrap();
        store.release(&lease).await.unwrap();

        let entered = store.enter("s", second).await.unwrap().unwrap();
        let Entered { lease, is_interrupted, record, .. } = entered;
        let record = record.unwrap();
        assert_eq!((lease.epoch, is_interrupted), (2, true));
        assert_eq!((record.version, record.bytes), (version, bytes("a")));
        let end = LogEnd::new("t", vec![batch(1, 3)]);
        let end = if store.wants_whole_logs() { end } else { LogEnd::new("t", vec![batch(3, 3)]) };
        store.finish(&lease, Some(version), bytes("b"), end).await.unwrap();

        let entered = store.enter("s", second).await.unwrap().unwrap();
        assert_eq!((entered.lease.epoch, entered.is_interrupted), (2, false));
        assert_eq!(entered.record.unwrap().bytes, bytes("b"));
    })
    .await;
}

/// A record and the end of a log are written together, or neither is.
#[tokio::test]
async fn a_turn_ends_with_its_session_or_not_at_all() {
    check(async |store| {
        let lease = take(&*store, NodeId::random()).await;
        let version = store.save(&lease, None, bytes("a")).await.unwrap();
        let journal = Some(bytes("journal"));
        let news = LogNews { batches: vec![batch(1, 2)], journal: journal.clone() };
        store.append(&lease, "t", news).await.unwrap();
        let wrong = Some(Version(version.0 + 7));
        let refused =
            store.finish(&lease, wrong, bytes("b"), LogEnd::new("t", vec![batch(3, 3)])).await;
        assert_eq!(refused, Err(StoreError::Superseded));
        let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
        assert_eq!((log.last, log.journal), (2, journal), "nothing of it was written");
        store
            .finish(&lease, Some(version), bytes("b"), LogEnd::new("t", vec![batch(3, 3)]))
            .await
            .unwrap();
        let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
        assert_eq!((log.last, log.journal), (3, None));
        assert_eq!(store.load("s").await.unwrap().unwrap().bytes, bytes("b"));
        // With its lease.
        let late = store.append(&lease, "u", vec![batch(1, 1)].into()).await;
        assert_eq!(late, Err(StoreError::Superseded));
        assert_eq!(take(&*store, NodeId::random()).await.epoch, 2);
    })
    .await;
}

#[tokio::test]
async fn a_record_is_read_as_it_was_saved() {
    check(async |store| {
        assert_eq!(store.load("s").await, Ok(None));
        let lease = take(&*store, NodeId::random()).await;
        let first = store.save(&lease, None, bytes("one")).await.unwrap();
        let second = store.save(&lease, Some(first), bytes("two")).await.unwrap();
        assert_ne!(first, second);
        let stored = StoredRecord { version: second, bytes: bytes("two") };
        assert_eq!(store.load("s").await, Ok(Some(stored)));
        assert_eq!(store.load("other").await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_record_is_saved_over_the_expected_version_only() {
    check(async |store| {
        let lease = take(&*store, NodeId::random()).await;
        let version = store.save(&lease, None, bytes("one")).await.unwrap();
        for wrong in [None, Some(Version(version.0 + 1))] {
            let refused = store.save(&lease, wrong, bytes("two")).await;
            assert_eq!(refused, Err(StoreError::Superseded));
        }
        assert_eq!(store.load("s").await.unwrap().unwrap().bytes, "one");
    })
    .await;
}

#[tokio::test]
async fn one_node_at_a_time_holds_the_lease() {
    check(async |store| {
        let (a, b) = (NodeId::random(), NodeId::random());
        let lease = take(&*store, a).await;
        store.save(&lease, None, bytes("a")).await.unwrap();
        assert_eq!(store.acquire("s", b).await, Ok(None));
        let again = take(&*store, a).await;
        assert_eq!(again.epoch, 1, "it did not change hands");
        // A lease that was taken again is lost.
        store.release(&lease).await.unwrap();
        assert_eq!(store.acquire("s", b).await, Ok(None));
        let lease = again;
        store.release(&lease).await.unwrap();
        let taken = take(&*store, b).await;
        assert_eq!((taken.node, taken.epoch), (b, 2));
    })
    .await;
}

/// A node that lost its lease without noticing changes nothing.
#[tokio::test]
async fn a_lost_lease_writes_nothing() {
    check(async |store| {
        let old = take(&*store, NodeId::random()).await;
        let version = store.save(&old, None, bytes("a")).await.unwrap();
        store.release(&old).await.unwrap();
        let superseded = Err(StoreError::Superseded);
        assert_eq!(store.save(&old, Some(version), bytes("b")).await, Err(StoreError::Superseded));
        let new = take(&*store, NodeId::random()).await;
        assert_eq!(store.save(&old, Some(version), bytes("b")).await, Err(StoreError::Superseded));
        assert_eq!(store.append(&old, "t", vec![batch(1, 1)].into()).await, superseded);
        store.release(&old).await.unwrap();
        store.save(&new, Some(version), bytes("c")).await.unwrap();
        assert_eq!(store.read("s", Some("t"), 0).await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_log_is_read_from_a_place() {
    check(async |store| {
        let lease = take(&*store, NodeId::random()).await;
        store.save(&lease, None, bytes("a")).await.unwrap();
        store.append(&lease, "t", vec![batch(1, 2), batch(3, 3)].into()).await.unwrap();
        store.append(&lease, "t", vec![batch(4, 9)].into()).await.unwrap();
        for after in 0..=10 {
            let log = store.read("s", Some("t"), after).await.unwrap().unwrap();
            assert_eq!((log.turn_id.as_str(), log.epochs.last(), log.last), ("t", 1, 9));
            assert_tail(&log.batches, after, 9);
        }
    })
    .await;
}

/// Of a log that others have gone on with, also in a copy of the session.
#[tokio::test]
async fn a_log_keeps_the_epochs_in_which_it_was_written() {
    check(async |store| {
        for (first, last) in [(1, 2), (3, 3), (4, 9)] {
            let lease = take(&*store, NodeId::random()).await;
            if first == 1 {
                store.save(&lease, None, bytes("a")).await.unwrap();
            }
            store.append(&lease, "t", vec![batch(first, last)].into()).await.unwrap();
            store.append(&lease, "t", LogNews::default()).await.unwrap();
            store.release(&lease).await.unwrap();
        }
        let epochs = Epochs::begun_in(1).then(3, 2).then(4, 3);
        let log = store.read("s", Some("t"), 0).await.unwrap().unwrap();
        assert_eq!(log.epochs, epochs);
        let copy = store.copy("s").await.unwrap().unwrap();
        assert!(store.restore(copy, true).await.unwrap());
        let log = store.read("s", Some("t"), 9).await.unwrap().unwrap();
        assert_eq!((log.epochs, log.batches), (epochs, Vec::new()));
    })
    .await;
}

#[tokio::test]
async fn the_latest_log_needs_no_name() {
    check(async |store| {
        assert_eq!(store.read("s", None, 0).await, Ok(None));
        let lease = take(&*store, NodeId::random()).await;
        store.save(&lease, None, bytes("a")).await.unwrap();
        for turn in ["one", "two"] {
            store.append(&lease, turn, vec![batch(1, 1)].into()).await.unwrap();
        }
        assert_eq!(store.read("s", None, 0).await.unwrap().unwrap().turn_id, "two");
        assert_eq!(store.read("s", Some("one"), 0).await.unwrap().unwrap().turn_id, "one");
        assert_eq!(store.read("s", Some("three"), 0).await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_forgotten_session_is_gone_with_its_lease() {
    check(async |store| {
        assert_eq!(store.forget("s").await, Ok(false));
        let old = take(&*store, NodeId::random()).await;
        let version = store.save(&old, None, bytes("a")).await.unwrap();
        store.append(&old, "t", vec![batch(1, 1)].into()).await.unwrap();
        assert_eq!(store.forget("s").await, Ok(true));
        assert_eq!(store.forget("s").await, Ok(false));
        assert_eq!(store.load("s").await, Ok(None));
        assert_eq!(store.read("s", None, 0).await, Ok(None));
        // A session that begins again is not overwritten.
        let new = take(&*store, old.node).await;
        let begun = store.save(&new, None, bytes("b")).await.unwrap();
        assert_ne!(begun, version);
        let refused =
            if store.is_shared() { StoreError::NoSession } else { StoreError::Superseded };
        for expected in [version, begun] {
            let late = store.save(&old, Some(expected), bytes("c")).await;
            assert_eq!(late, Err(refused.clone()));
        }
        let late = store.append(&old, "t", vec![batch(1, 1)].into()).await;
        assert_eq!(late, Err(refused));
    })
    .await;
}

#[tokio::test]
async fn a_session_is_forgotten_by_whoever_holds_it_only() {
    check(async |store| {
        let old = take(&*store, NodeId::random()).await;
        store.save(&old, None, bytes("a")).await.unwrap();
        store.release(&old).await.unwrap();
        assert_eq!(store.discard(&old).await, Err(StoreError::Superseded));
        let lease = take(&*store, NodeId::random()).await;
        assert_eq!(store.discard(&old).await, Err(StoreError::Superseded));
        assert_eq!(store.load("s").await.unwrap().unwrap().bytes, "a");
        store.discard(&lease).await.unwrap();
        assert_eq!(store.load("s").await, Ok(None));
        assert_eq!(store.discard(&lease).await, Err(StoreError::Superseded));
        assert_eq!(take(&*store, NodeId::random()).await.epoch, 1, "it is another session");
    })
    .await;
}

fn artifact(id: &str) -> Artifact {
    let (name, mime_type) = (Some("a.txt".to_owned()), "text/plain".to_owned());
    let owner = "alice".to_owned();
    Artifact { owner, id: id.to_owned(), name, mime_type, bytes: bytes("content") }
}

#[tokio::test]
async fn a_file_is_read_as_it_was_kept_whoever_holds_the_lease() {
    check(async |store| {
        let lease = take(&*store, NodeId::random()).await;
        store.save(&lease, None, bytes("a")).await.unwrap();
        store.keep_artifact("s", artifact("one")).await.unwrap();
        store.release(&lease).await.unwrap();
        store.keep_artifact("s", artifact("two")).await.unwrap();
        for id in ["one", "two"] {
            assert_eq!(store.artifact(id).await, Ok(Some(artifact(id))));
        }
        assert_eq!(store.artifact("three").await, Ok(None));
    })
    .await;
}

#[tokio::test]
async fn a_file_needs_a_session_and_is_forgotten_with_it() {
    check(async |store| {
        let refused = store.keep_artifact("s", artifact("one")).await;
        assert_eq!(refused, Err(StoreError::NoSession));
        assert_eq!(store.artifact("one").await, Ok(None));
        let lease = take(&*store, NodeId::random()).await;
        store.save(&lease, None, bytes("a")).await.unwrap();
        store.keep_artifact("s", artifact("one")).await.unwrap();
        store.forget("s").await.unwrap();
        assert_eq!(store.artifact("one").await, Ok(None));
        let refused = store.keep_artifact("s", artifact("two")).await;
        assert_eq!(refused, Err(StoreError::NoSession));
    })
    .await;
}

#[tokio::test]
async fn a_lease_without_a_record_leaves_nothing() {
    check(async |store| {
        let lease = take(&*store, NodeId::random()).await;
        store.release(&lease).await.unwrap();
        assert_eq!(store.memory_usage(), MemoryUsage::default());
    })
    .await;
}

/// A session with everything that belongs to one.
async fn fill(store: &dyn Store, session: &str, file: &str) {
    let lease = store.acquire(session, NodeId::random()).await.unwrap().unwrap();
    store.save(&lease, None, bytes("record")).await.unwrap();
    store.append(&lease, "one", vec![batch(1, 2), batch(3, 3)].into()).await.unwrap();
    store.append(&lease, "two", vec![batch(1, 1)].into()).await.unwrap();
    store.keep_artifact(session, artifact(file)).await.unwrap();
    store.release(&lease).await.unwrap();
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    check(async |store| {
        assert_eq!(store.list(None, 10).await, Ok(Vec::new()));
        for (session, file) in [("b", "1"), ("a", "2"), ("c", "3")] {
            fill(&*store, session, file).await;
        }
        // One that has begun and was never saved is not a session yet.
        store.acquire("d", NodeId::random()).await.unwrap();
        let page = async |after, count| {
            let page = store.list(after, count).await.unwrap();
            page.into_iter().map(|session| session.id).collect::<Vec<_>>()
        };
        assert_eq!(page(None, 2).await, ["a", "b"]);
        assert_eq!(page(Some("b"), 2).await, ["c"]);
        assert_eq!(page(Some("bb"), 2).await, ["c"]);
        assert!(page(Some("c"), 2).await.is_empty());
        let listed = store.list(None, 1).await.unwrap().remove(0);
        let logs = [batch(1, 2), batch(3, 3), batch(1, 1)].map(|batch| batch.bytes.len());
        let sum = "record".len() + "content".len() + logs.iter().sum::<usize>();
        assert_eq!((listed.record, listed.bytes), (bytes("record"), sum as u64));
    })
    .await;
}

#[tokio::test]
async fn a_page_of_long_records_ends_early() {
    use crate::limits::session::LIST_RECORD_BYTES_MAX;

    check(async |store| {
        for session in ["a", "b", "c"] {
            let lease = store.acquire(session, NodeId::random()).await.unwrap().unwrap();
            let long = vec![b'x'; LIST_RECORD_BYTES_MAX / 2 + 1];
            store.save(&lease, None, long.into()).await.unwrap();
        }
        assert_eq!(store.list(None, 10).await.unwrap().len(), 2);
        assert_eq!(store.list(Some("b"), 10).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_copy_is_restored_as_it_was() {
    check(async |store| {
        assert_eq!(store.copy("s").await, Ok(None));
        fill(&*store, "s", "one").await;
        let copy = store.copy("s").await.unwrap().unwrap();
        assert_eq!(copy.logs.iter().map(|log| &*log.turn_id).collect::<Vec<_>>(), ["one", "two"]);
        store.forget("s").await.unwrap();
        let old = SessionCopy { used_at_ms: copy.used_at_ms - 60_000, ..copy.clone() };
        assert_eq!(store.restore(old.clone(), false).await, Ok(true));
        let restored = store.copy("s").await.unwrap().unwrap();
        // The clock of a store in memory counts from the moment at which it is read.
        assert!(restored.used_at_ms.abs_diff(old.used_at_ms) < 5000, "{}", restored.used_at_ms);
        assert_eq!(SessionCopy { used_at_ms: old.used_at_ms, ..restored }, old);
        assert_eq!(store.artifact("one").await, Ok(Some(artifact("one"))));
        let log = store.read("s", Some("one"), 2).await.unwrap().unwrap();
        assert_eq!(log.last, 3);
        assert_tail(&log.batches, 2, 3);
        let next = take(&*store, NodeId::random()).await;
        assert_eq!(next.epoch, 2, "it has changed hands");
    })
    .await;
}

#[tokio::test]
async fn a_copy_replaces_nothing_unless_it_is_told_to() {
    check(async |store| {
        fill(&*store, "s", "one").await;
        let copy = store.copy("s").await.unwrap().unwrap();
        let lease = take(&*store, NodeId::random()).await;
        let version = store.load("s").await.unwrap().unwrap().version;
        store.save(&lease, Some(version), bytes("newer")).await.unwrap();
        for replace in [false, true] {
            let restored = store.restore(copy.clone(), replace).await;
            assert_eq!(restored, Ok(false), "a turn runs");
        }
        store.release(&lease).await.unwrap();
        assert_eq!(store.restore(copy.clone(), false).await, Ok(false));
        assert_eq!(store.load("s").await.unwrap().unwrap().bytes, "newer");
        assert_eq!(store.restore(copy, true).await, Ok(true));
        let record = store.load("s").await.unwrap().unwrap();
        assert_eq!(record.bytes, "record");
        assert_ne!(record.version, version);
        // No event id is given out twice.
        assert_eq!(take(&*store, NodeId::random()).await.epoch, lease.epoch + 1);
        assert_eq!(
            store.save(&lease, Some(version), bytes("late")).await,
            Err(StoreError::Superseded)
        );
    })
    .await;
}

/// A session with a log and a file, as if it was last used so long ago.
async fn restore_used(store: &dyn Store, ago: Duration) {
    let (turn_id, epochs) = ("t".to_owned(), Epochs::begun_in(1));
    let log = StoredLog { turn_id, epochs, last: 1, batches: vec![batch(1, 1)], journal: None };
    let copy = SessionCopy {
        id: "s".to_owned(),
        epoch: 1,
        used_at_ms: now_ms() - millis(ago),
        record: bytes("record"),
        logs: vec![log],
        artifacts: vec![artifact("one")],
    };
    assert_eq!(store.restore(copy, true).await, Ok(true));
}

/// Whoever asks for a session.
#[derive(Debug, Clone, Copy)]
enum Asks {
    Load,
    Read,
    Copy,
    List,
    Enter,
    File,
    KeepFile,
    Forget,
    Restore,
}

impl Asks {
    const ALL: [Self; 9] = [
        Self::Load,
        Self::Read,
        Self::Copy,
        Self::List,
        Self::Enter,
        Self::File,
        Self::KeepFile,
        Self::Forget,
        Self::Restore,
    ];

    /// Whether the session is found.
    async fn finds(self, store: &dyn Store) -> bool {
        match self {
            Self::Load => store.load("s").await.unwrap().is_some(),
            Self::Read => store.read("s", None, 0).await.unwrap().is_some(),
            Self::Copy => store.copy("s").await.unwrap().is_some(),
            Self::List => !store.list(None, 10).await.unwrap().is_empty(),
            Self::Enter => {
                let entered = store.enter("s", NodeId::random()).await.unwrap().unwrap();
                let found = entered.record.is_some();
                assert_eq!(entered.lease.epoch, if found { 2 } else { 1 });
                assert_eq!(store.read("s", None, 0).await.unwrap().is_some(), found);
                store.release(&entered.lease).await.unwrap();
                found
            }
            Self::File => store.artifact("one").await.unwrap().is_some(),
            Self::KeepFile => store.keep_artifact("s", artifact("two")).await.is_ok(),
            Self::Forget => store.forget("s").await.unwrap(),
            Self::Restore => {
                let copy = SessionCopy {
                    id: "s".to_owned(),
                    epoch: 1,
                    used_at_ms: now_ms(),
                    record: bytes("other"),
                    logs: Vec::new(),
                    artifacts: Vec::new(),
                };
                !store.restore(copy, false).await.unwrap()
            }
        }
    }
}

/// At once, whether or not a sweep has come by. Those that were used a minute later are there.
#[tokio::test]
async fn an_expired_session_is_gone_for_whoever_asks() {
    check(async |store| {
        for asks in Asks::ALL {
            restore_used(&*store, TTL).await;
            assert!(!asks.finds(&*store).await, "{asks:?}: it has expired");
            restore_used(&*store, TTL.saturating_sub(Duration::from_secs(60))).await;
            assert!(asks.finds(&*store).await, "{asks:?}: it has not");
            store.forget("s").await.unwrap();
        }
    })
    .await;
}

/// In stores that keep no unused session at all.
#[tokio::test]
async fn a_session_does_not_expire_while_a_turn_runs() {
    check_with(Duration::ZERO, async |store| {
        let lease = take(&*store, NodeId::random()).await;
        let version = store.save(&lease, None, bytes("a")).await.unwrap();
        store.append(&lease, "t", vec![batch(1, 1)].into()).await.unwrap();
        store.keep_artifact("s", artifact("one")).await.unwrap();
        store.sweep();
        let asking = [Asks::Load, Asks::Read, Asks::Copy, Asks::List, Asks::File, Asks::KeepFile];
        for asks in asking {
            assert!(asks.finds(&*store).await, "{asks:?}");
        }
        let first = if store.wants_whole_logs() { 1 } else { 2 };
        let end = LogEnd::new("t", vec![batch(first, 2)]);
        store.finish(&lease, Some(version), bytes("b"), end).await.unwrap();
        for asks in asking {
            assert!(!asks.finds(&*store).await, "{asks:?}: it is over");
        }
    })
    .await;
}
