//! The bounds of the memory store: sessions, their bytes, their logs and their age.

use super::*;

const TTL: Duration = Duration::from_secs(60);

fn bounded(sessions: usize, session_bytes: usize, turn_log_bytes: usize) -> MemoryStore {
    let bounds = Bounds { sessions, session_bytes, turn_log_bytes, artifact_bytes: usize::MAX };
    MemoryStore { bounds, ..MemoryStore::new(TTL) }
}

const WIDE: usize = usize::MAX / 2;

fn take(store: &MemoryStore, session: &str) -> Lease {
    let lease = store.state.lock().acquire(session, NodeId(uuid::Uuid::nil()));
    lease.expect("there is one node")
}

/// Saves a session with a record of this many bytes, in which no turn runs.
fn save(store: &MemoryStore, session: &str, bytes: usize) {
    let lease = take(store, session);
    let before = store.state.lock().sessions[session].record.as_ref().map(|record| record.version);
    store.save_now(&lease, before, vec![b'x'; bytes].into()).unwrap();
    store.state.lock().release(&lease);
}

/// Appends a turn's log of this many bytes.
fn log(store: &MemoryStore, session: &str, turn_id: &str, bytes: usize) {
    let lease = take(store, session);
    let batch = Batch { first: 1, last: 1, bytes: vec![b'x'; bytes].into() };
    store.append_now(&lease, turn_id, vec![batch].into()).unwrap();
    store.state.lock().release(&lease);
}

fn has_log(store: &MemoryStore, session: &str, turn_id: &str) -> bool {
    let state = store.state.lock();
    let mut logs = state.sessions.get(session).into_iter().flat_map(|entry| &entry.logs);
    logs.any(|log| log.stored.turn_id == turn_id)
}

#[track_caller]
fn check(store: &MemoryStore, sessions: &[&str]) {
    let mut left: Vec<_> = store.state.lock().sessions.keys().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, sessions);
}

async fn tick() {
    tokio::time::advance(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn unused_sessions_expire() {
    let store = MemoryStore::new(TTL);
    for session in ["busy", "idle", "loaded", "read"] {
        save(&store, session, 10);
        log(&store, session, "turn", 10);
    }
    let _lease = take(&store, "busy");
    tokio::time::advance(TTL.saturating_sub(Duration::from_millis(1))).await;
    store.sweep();
    check(&store, &["busy", "idle", "loaded", "read"]);
    store.load("loaded").await.unwrap();
    store.read("read", None, 0).await.unwrap();
    tick().await;
    store.sweep();
    check(&store, &["busy", "loaded", "read"]);
}

#[tokio::test(start_paused = true)]
async fn the_sessions_used_longest_ago_go_first() {
    let measured = bounded(WIDE, WIDE, WIDE);
    save(&measured, "a", 1000);
    let one = measured.memory_usage().session_bytes;
    // The bound is just enough for three sessions, or one byte less.
    for (most, left) in [(3 * one, &["a", "b", "c"][..]), (3 * one - 1, &["a", "c"])] {
        let store = bounded(WIDE, most, WIDE);
        for session in ["a", "b", "a", "c"] {
            tick().await;
            save(&store, session, 1000);
        }
        check(&store, left);
        assert_eq!(store.memory_usage().session_bytes, left.len() * one);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_running_turn_is_never_dropped() {
    let store = bounded(WIDE, 0, WIDE);
    let lease = take(&store, "busy");
    store.save_now(&lease, None, Bytes::from_static(b"record")).unwrap();
    check(&store, &["busy"]);
    tick().await;
    save(&store, "idle", 1000);
    drop(take(&store, "new"));
    store.state.lock().make_room(store.bounds);
    check(&store, &["busy", "new"]);
}

#[tokio::test]
async fn sessions_are_kept_up_to_their_number() {
    const MOST: usize = 32;
    let store = bounded(MOST, WIDE, WIDE);
    for session in 0..MOST {
        save(&store, &session.to_string(), 1);
    }
    assert_eq!(store.memory_usage().sessions, MOST);
    save(&store, "0", 1);
    assert_eq!(store.memory_usage().sessions, MOST, "it was there already");
    save(&store, "new", 1);
    assert_eq!(store.memory_usage().sessions, MOST - MOST / 16);
}

#[tokio::test]
async fn the_oldest_logs_of_all_sessions_go_first() {
    let measured = bounded(WIDE, WIDE, WIDE);
    save(&measured, "s", 1);
    log(&measured, "s", "turn", 1000);
    let one = measured.memory_usage().turn_log_bytes;
    for (most, is_kept) in [(3 * one, true), (3 * one - 1, false)] {
        let store = bounded(WIDE, WIDE, most);
        for session in ["old", "new"] {
            save(&store, session, 1);
        }
        log(&store, "old", "one1", 1000);
        log(&store, "new", "two2", 1000);
        log(&store, "new", "tri3", 1000);
        assert_eq!(has_log(&store, "old", "one1"), is_kept, "whoever has it");
        assert!(has_log(&store, "new", "two2") && has_log(&store, "new", "tri3"));
    }
}

#[tokio::test]
async fn a_session_keeps_a_limited_number_of_logs() {
    let store = MemoryStore::new(TTL);
    save(&store, "s", 1);
    for turn in 0..=limits::TURN_LOGS_MAX {
        log(&store, "s", &turn.to_string(), 10);
    }
    assert!(!has_log(&store, "s", "0"));
    assert!((1..=limits::TURN_LOGS_MAX).all(|turn| has_log(&store, "s", &turn.to_string())));
}

/// The latest is kept, however large.
#[tokio::test]
async fn a_session_keeps_logs_of_a_limited_size() {
    let store = MemoryStore::new(TTL);
    save(&store, "s", 1);
    log(&store, "s", "large", limits::TURN_LOG_BYTES_MAX);
    assert!(has_log(&store, "s", "large"));
    log(&store, "s", "small", 10);
    assert!(!has_log(&store, "s", "large") && has_log(&store, "s", "small"));
}

#[tokio::test]
async fn what_is_dropped_does_not_count() {
    let store = MemoryStore::new(TTL);
    for session in ["a", "b"] {
        save(&store, session, 1000);
        save(&store, session, 10);
        for turn in 0..10 {
            log(&store, session, &turn.to_string(), 1000);
        }
    }
    let usage = store.memory_usage();
    assert!((10..1000).contains(&(usage.session_bytes / 2 - entry_bytes("a"))));
    assert!(store.forget_now("a"));
    let left = store.memory_usage();
    assert_eq!(2 * left.session_bytes, usage.session_bytes);
    assert_eq!(2 * left.turn_log_bytes, usage.turn_log_bytes);
    assert!(store.forget_now("b"));
    assert_eq!(store.memory_usage(), MemoryUsage::default());
    assert!(store.state.lock().logs.is_empty());
}
