use super::*;
use crate::conversation::{Part, Step};
use crate::event::{Event, Summary, TurnFinish, Usage};
use crate::session::Found;
use crate::session::tests::{begin, finish, record};

impl Sessions {
    /// The session, added where there is none yet, as if a turn had just ended in it.
    pub(in crate::session) fn open(&self, id: &str) -> Arc<Session> {
        let mut by_id = self.by_id.lock();
        let found = by_id.get(id).cloned();
        let session = found.unwrap_or_else(|| self.add(&mut by_id, id));
        session.touch();
        self.make_room(&mut by_id);
        session
    }
}

/// Bounds that nothing here comes near.
const WIDE: usize = usize::MAX / 2;

const TTL: Duration = Duration::from_secs(60);

async fn tick() {
    tokio::time::advance(Duration::from_millis(1)).await;
}

/// A turn whose place in the conversation takes some `bytes`.
fn say(session: &Arc<Session>, turn_id: &str, bytes: usize) {
    let (guard, _writer) = begin(session, turn_id, None);
    let words = Step { parts: vec![Part::Text("x".repeat(bytes))], ..Step::default() };
    guard.finish(crate::conversation::Turn { steps: vec![words], ..record(turn_id) });
}

#[track_caller]
fn check(sessions: &Sessions, ids: &[&str]) {
    let mut left: Vec<_> = sessions.by_id.lock().keys().cloned().collect();
    left.sort();
    assert_eq!(left, ids);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_nobody_uses_are_forgotten() {
    let sessions = Sessions::new(TTL);
    let busy = sessions.open("busy");
    let running = begin(&busy, "one", None);
    drop(busy);
    sessions.open("idle");
    tokio::time::advance(TTL.saturating_sub(Duration::from_millis(1))).await;
    sessions.sweep();
    assert!(sessions.find("idle").is_some(), "and finding it is using it");
    tokio::time::advance(TTL).await;
    sessions.sweep();
    assert!(sessions.find("idle").is_none());
    assert!(sessions.find("busy").is_some(), "a turn runs in it");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn the_sessions_used_longest_ago_are_forgotten_first() {
    let mut sessions = Sessions::new(TTL);
    for id in ["a", "b", "c", "d"] {
        tick().await;
        say(&sessions.open(id), "turn", 1000);
    }
    let _running = begin(&sessions.open("a"), "next", None);
    tick().await;
    drop(sessions.open("b"));
    check(&sessions, &["a", "b", "c", "d"]);
    // At the bound nobody is forgotten, and over it the one unused longest.
    sessions.bytes_max = sessions.session_bytes.bytes();
    drop(sessions.open("b"));
    check(&sessions, &["a", "b", "c", "d"]);
    sessions.bytes_max -= 1;
    drop(sessions.open("b"));
    check(&sessions, &["a", "b", "d"]);
    assert!(sessions.session_bytes.bytes() < sessions.bytes_max);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_running_turn_is_never_forgotten() {
    let mut sessions = Sessions::new(TTL);
    let session = sessions.open("busy");
    say(&session, "one", 10_000);
    let _running = begin(&session, "two", None);
    drop(session);
    tick().await;
    say(&sessions.open("idle"), "one", 1000);
    sessions.bytes_max = 0;
    drop(sessions.open("new"));
    check(&sessions, &["busy"]);
}

/// Whatever the bounds are.
#[tokio::test(start_paused = true)]
async fn the_session_that_a_turn_begins_in_is_not_forgotten() {
    let mut sessions = Sessions::new(TTL);
    sessions.bytes_max = 0;
    for (id, left) in [("first", &["first"][..]), ("second", &["first", "second"])] {
        tick().await;
        let begun = sessions.begin(id, "turn", None, &Ask::Prompt("Hello?".to_owned()));
        check(&sessions, left);
        // Its place stays taken.
        std::mem::forget(begun);
    }
}

#[tokio::test]
async fn sessions_are_held_up_to_their_number() {
    let sessions = Sessions::new(TTL);
    for id in 0..limits::SESSIONS_MAX {
        sessions.open(&id.to_string());
    }
    assert_eq!(sessions.by_id.lock().len(), limits::SESSIONS_MAX);
    sessions.open("0");
    assert_eq!(sessions.by_id.lock().len(), limits::SESSIONS_MAX, "that one was there");
    sessions.open("new");
    assert_eq!(sessions.by_id.lock().len(), limits::SESSIONS_MAX - limits::SESSIONS_MAX / 16);
}

#[tokio::test]
async fn what_sessions_take_is_counted_until_they_are_gone() {
    let sessions = Sessions::new(TTL);
    let session = sessions.open("s");
    let empty = sessions.session_bytes.bytes();
    assert!(empty >= size_of::<Session>());
    say(&session, "one", 5000);
    let said = sessions.session_bytes.bytes();
    assert!((5000..6000).contains(&(said - empty)));
    let key = "k".repeat(256);
    drop(begin(&session, "two", Some(&key)));
    assert!((256..1000).contains(&(sessions.session_bytes.bytes() - said)), "keys count, too");
    assert!(sessions.forget("s"));
    assert_ne!(sessions.session_bytes.bytes(), 0, "it is still held");
    drop(session);
    assert_eq!(sessions.session_bytes.bytes(), 0);
}

#[tokio::test]
async fn logs_of_all_sessions_are_held_up_to_their_bytes() {
    let measured = Sessions::new(TTL);
    finish(&measured.open("s"), "turn", 4_000);
    let bytes = measured.finished_logs.bytes();
    for (bytes_max, is_held) in [(3 * bytes, true), (3 * bytes - 1, false)] {
        let sessions = Sessions::bounded(TTL, WIDE, bytes_max);
        let (old, new) = (sessions.open("old"), sessions.open("new"));
        finish(&old, "first", 4_000);
        finish(&new, "second", 4_000);
        finish(&new, "third", 4_000);
        let first = old.turn(Some("first"));
        assert_eq!(matches!(first, Found::Turn(_)), is_held, "the oldest, whosever it is");
        assert_eq!(matches!(first, Found::Gone), !is_held);
        assert!(matches!(new.turn(Some("second")), Found::Turn(_)));
        assert!(matches!(new.turn(Some("third")), Found::Turn(_)));
    }
}

/// The last event tells all that was said once more, and is published only when the
/// turn's place is free.
#[tokio::test]
async fn the_last_event_counts_although_it_is_not_published_yet() {
    let sessions = Sessions::new(TTL);
    let session = sessions.open("s");
    let (guard, mut writer) = begin(&session, "turn", None);
    writer.publish();
    let summary =
        Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: &"x".repeat(30_000) };
    writer.push(&Event::TurnCompleted { finish_reason: TurnFinish::Stop, summary });
    guard.finish(record("turn"));
    assert!(sessions.finished_logs.bytes() > 30_000);
    let counted = sessions.finished_logs.bytes();
    let log = Arc::clone(writer.log());
    drop(writer);
    assert!(counted >= log.bytes(), "{counted} of {}", log.bytes());
}

/// What a session lets go of by itself makes room for the others.
#[tokio::test]
async fn logs_that_are_gone_do_not_count() {
    let sessions = Sessions::new(TTL);
    let session = sessions.open("s");
    for turn in 0..limits::TURN_LOGS_MAX {
        finish(&session, &turn.to_string(), 4_000);
    }
    let full = sessions.finished_logs.bytes();
    finish(&session, "next", 4_000);
    assert_eq!(sessions.finished_logs.bytes(), full);
    sessions.forget("s");
    drop(session);
    assert_eq!(sessions.finished_logs.bytes(), 0);
}
