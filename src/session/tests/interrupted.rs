//! Turns that were interrupted, and the next process.

use std::pin::pin;

use tokio::sync::{Semaphore, mpsc};

use super::*;
use journal::Journal;
use serde_json::value::RawValue;
use store::{SqliteStore, SyncMode, redis_tests};

/// A store in a file of its own, which goes with the directory.
pub(super) fn embedded() -> (tempfile::TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tether.db");
    let store = SqliteStore::open(&path, SyncMode::Normal, limits::TTL).unwrap();
    (directory, Arc::new(store))
}

/// Stores the first journal of a turn and what it says.
pub(super) async fn say(guard: &mut TurnGuard, writer: &mut Writer, text: &str) {
    let saying = async {
        let asked = RawValue::from_string("{}".to_owned()).unwrap();
        writer.note_asked(asked.into());
        writer.note_journal(&Arc::new(turn("t")), conversation::Tally::default(), None);
        writer.push(&Event::text(text));
        writer.publish();
        writer.barrier().wait().await;
    };
    guard.store_while(pin!(saying)).await;
}

/// Its gateway is stopped after the key is stored, and before anything else is.
#[tokio::test]
async fn a_turn_that_left_nothing_but_its_key_begins_again() {
    let (_directory, embedded) = embedded();
    for store in [memory(), embedded] {
        let sessions = of(Arc::clone(&store));
        play(&sessions, "one", Some("first"), "Hi.").await;
        drop(begin(&sessions, "two", Some("key")).await);
        wait_until_free(&store).await;
        let next = of(store);
        assert!(next.begun_by("s", "key").await.unwrap().is_none());
        play(&next, "three", Some("key"), "Hi.").await;
        for (key, turn_id) in [("first", "one"), ("key", "three")] {
            let repeated = ask(&next, "four", Some(key)).await;
            assert!(matches!(repeated, Err(NotBegun::Repeated(turn)) if turn.turn_id == turn_id));
        }
    }
}

/// Its client's turns are already in the session.
#[tokio::test]
async fn a_chain_that_left_nothing_but_its_key_begins_again() {
    let sessions = sessions();
    let input = ClientInput::default();
    let mut history = Conversation::default();
    history.push(turn("claimed"));
    for turn_id in ["one", "two"] {
        let head = RawValue::from_string("{}".to_owned()).unwrap();
        let (client_history, head) = (Some(history.clone()), Some(head.into()));
        let first = beginning(turn_id, Some("key"), &input);
        let begun = sessions.begin(Beginning { client_history, head, ..first }, |_| false).await;
        drop(begun.unwrap());
        tokio::task::yield_now().await;
    }
}

/// The key of a turn that left nothing is not the next turn's.
#[tokio::test]
async fn a_turn_that_left_nothing_begins_again_after_another_one() {
    let sessions = sessions();
    drop(begin(&sessions, "one", Some("key")).await);
    tokio::task::yield_now().await;
    play(&sessions, "two", Some("other"), "Hi.").await;
    let (_running, _) = begin(&sessions, "three", Some("key")).await;
}

/// A retry on another node re-joins the turn, once there is something to join.
#[tokio::test]
async fn a_key_is_known_to_other_nodes_while_its_turn_runs() {
    let (_directory, store) = embedded();
    let (a, b) = (of(Arc::clone(&store)), of(store));
    let (mut guard, mut writer) = begin(&a, "t", Some("key")).await;
    assert!(matches!(ask(&b, "two", Some("key")).await, Err(NotBegun::Busy)));
    say(&mut guard, &mut writer, "Hi.").await;
    assert!(matches!(b.begun_by("s", "key").await, Ok(Some(NotBegun::Repeated(_)))));
}

/// A node that forgets a session at the end of its turn still holds it for a moment.
#[tokio::test]
async fn a_turn_waits_for_a_session_in_which_no_turn_runs_elsewhere() {
    let server = redis_tests::RedisServer::start();
    let [a, b] = [redis_tests::open(&server), redis_tests::open(&server)];
    let lease = a.acquire("s", NodeId::random()).await.unwrap().unwrap();
    let b = of(Arc::new(b));
    let before = redis_tests::scripts_run(&server);
    let asked = tokio::spawn(async move { ask(&b, "two", None).await.map(drop) });
    while redis_tests::scripts_run(&server) < before + 2 {
        tokio::task::yield_now().await;
    }
    assert!(!asked.is_finished(), "it was refused, and asked again");
    a.release(&lease).await.unwrap();
    asked.await.unwrap().unwrap();
}

/// More than are looked for at a time.
#[tokio::test]
async fn all_interrupted_turns_are_settled_at_start() {
    let (_directory, store) = embedded();
    let sessions = of(Arc::clone(&store));
    let input = ClientInput::default();
    for number in 0..=limits::INTERRUPTED_MAX {
        let session_id = number.to_string();
        let beginning = Beginning { session_id: &session_id, ..beginning("t", None, &input) };
        let begun = sessions.begin(beginning, |_| false).await.unwrap();
        let Begun { mut guard, mut writer, .. } = *begun;
        say(&mut guard, &mut writer, "Hi.").await;
        guard.leave().await;
        writer.leave();
    }
    assert_eq!(store.interrupted(usize::MAX).await.unwrap().len(), limits::INTERRUPTED_MAX + 1);
    of(Arc::clone(&store)).settle_all().await.unwrap();
    assert!(store.interrupted(usize::MAX).await.unwrap().is_empty());
}

/// Begins a turn that its gateway then leaves as it is.
async fn interrupt(sessions: &Sessions) {
    let (mut guard, mut writer) = begin(sessions, "t", None).await;
    say(&mut guard, &mut writer, "Hi.").await;
    guard.leave().await;
    writer.leave();
}

/// The next process takes the session's turn over, if it may go on.
pub(super) async fn next(store: &Arc<dyn Store>) -> Option<TakenOver> {
    let (sender, mut taken_over) = mpsc::channel(1);
    let sessions = of(Arc::clone(store));
    sessions.resume_with(sender, Arc::new(Semaphore::new(1)));
    sessions.settle("s").await.unwrap();
    taken_over.try_recv().ok()
}

/// Waits until no process holds the session any more.
async fn wait_until_free(store: &Arc<dyn Store>) {
    loop {
        if let Some(lease) = store.acquire("s", NodeId::random()).await.unwrap() {
            return store.release(&lease).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
}

async fn takeovers(store: &Arc<dyn Store>) -> Option<u32> {
    let log = store.read("s", None, 0).await.unwrap().unwrap();
    log.journal.map(|json| Journal::read(&json).unwrap().takeovers)
}

/// Each of these processes is gone before it has done anything with the turn.
#[tokio::test]
async fn a_turn_that_ends_each_process_while_it_is_prepared_is_ended() {
    let (_directory, store) = embedded();
    interrupt(&of(Arc::clone(&store))).await;
    for count in 1..=limits::TAKEOVERS_MAX {
        drop(next(&store).await.expect("it goes on"));
        wait_until_free(&store).await;
        assert_eq!(takeovers(&store).await, Some(count));
    }
    assert!(next(&store).await.is_none());
    assert_eq!(takeovers(&store).await, None, "it is over");
}

/// They are about to stop, which is not the turn's fault.
#[tokio::test]
async fn a_turn_that_is_left_unprepared_does_not_count() {
    let (_directory, store) = embedded();
    interrupt(&of(Arc::clone(&store))).await;
    for _ in 0..=limits::TAKEOVERS_MAX {
        next(&store).await.expect("it goes on").leave().await;
        assert_eq!(takeovers(&store).await, Some(0));
    }
}

#[tokio::test]
async fn a_cancelled_turn_is_cancelled_for_whoever_goes_on_with_it() {
    for cancels in [false, true] {
        let (_directory, store) = embedded();
        let sessions = of(Arc::clone(&store));
        let (mut guard, mut writer) = begin(&sessions, "t", None).await;
        say(&mut guard, &mut writer, "Hi.").await;
        if cancels {
            assert_eq!(sessions.cancel("s").await.unwrap(), Cancel::Cancelling);
        }
        // It has no time to end.
        guard.leave().await;
        writer.leave();
        let taken_over = next(&store).await.unwrap();
        let audience = taken_over.writer.log().watch_audience(&Context::from_waker(Waker::noop()));
        assert_eq!(audience.cancelled, cancels);
    }
}
