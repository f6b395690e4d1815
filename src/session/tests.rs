use super::*;
use crate::conversation::Ending;
use crate::event::{Event, TurnFinish};

fn record(turn_id: &str) -> conversation::Turn {
    conversation::Turn {
        turn_id: turn_id.to_owned(),
        started_at_ms: 0,
        prompt: "?".to_owned(),
        steps: Vec::new(),
        ending: Ending::Completed(TurnFinish::Stop),
    }
}

#[track_caller]
fn begin(session: &Arc<Session>, turn_id: &str, key: Option<&str>) -> (TurnGuard, Writer) {
    match session.begin(turn_id, key) {
        Begin::New(guard, writer) => (guard, writer),
        other => panic!("{other:?}"),
    }
}

fn finish(session: &Arc<Session>, turn_id: &str, bytes: usize) {
    let (guard, mut writer) = begin(session, turn_id, None);
    writer.push(&Event::Status { message: &"x".repeat(bytes) });
    writer.publish();
    guard.finish(record(turn_id));
}

#[tokio::test]
async fn a_session_has_one_turn_at_a_time() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    let (guard, writer) = begin(&session, "one", None);
    assert!(matches!(session.begin("two", None), Begin::Busy));
    guard.finish(record("one"));
    // The last event is still to come, and the place is free.
    begin(&session, "two", None);
    drop(writer);
    assert_eq!(session.conversation().turns().len(), 1);
}

#[tokio::test]
async fn a_turn_whose_driver_dies_frees_its_place() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    drop(begin(&session, "one", None));
    begin(&session, "two", None);
    assert!(session.conversation().turns().is_empty());
}

#[tokio::test]
async fn logs_are_held_up_to_their_number_and_then_gone() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    let ids: Vec<_> = (0..=limits::TURN_LOGS_MAX).map(|n| format!("turn-{n}")).collect();
    for id in &ids {
        finish(&session, id, 10);
    }
    assert!(matches!(session.turn(Some(&ids[0])), Found::Gone));
    for id in &ids[1..] {
        assert!(matches!(session.turn(Some(id)), Found::Turn(_)), "{id}");
    }
    assert!(matches!(session.turn(Some("never")), Found::Unknown));
    let Found::Turn(latest) = session.turn(None) else { panic!("no latest turn") };
    assert_eq!(latest.turn_id, *ids.last().unwrap());
}

#[tokio::test]
async fn keys_are_remembered_up_to_their_number() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    for n in 0..=limits::IDEMPOTENCY_KEYS_MAX {
        let (guard, _writer) = begin(&session, &format!("turn-{n}"), Some(&format!("key-{n}")));
        guard.finish(record(&format!("turn-{n}")));
    }
    let newest = format!("key-{}", limits::IDEMPOTENCY_KEYS_MAX);
    assert!(matches!(session.begin("again", Some(&newest)), Begin::Repeated(_)));
    assert!(matches!(session.begin("again", Some("key-1")), Begin::Gone));
    begin(&session, "again", Some("key-0"));
}

#[tokio::test(start_paused = true)]
async fn sessions_that_nobody_uses_are_forgotten() {
    let ttl = Duration::from_secs(60);
    let sessions = Sessions::new(ttl);
    let busy = sessions.open("busy");
    let running = begin(&busy, "one", None);
    sessions.open("idle");
    tokio::time::advance(ttl.saturating_sub(Duration::from_millis(1))).await;
    sessions.sweep();
    assert!(sessions.find("idle").is_some(), "and finding it is using it");
    tokio::time::advance(ttl).await;
    sessions.sweep();
    assert!(sessions.find("idle").is_none());
    assert!(sessions.find("busy").is_some(), "a turn runs in it");
    drop(running);
}

#[tokio::test]
async fn forgetting_a_session_cancels_its_turn() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    let (_guard, writer) = begin(&session, "one", None);
    assert!(sessions.forget("s"));
    assert!(!sessions.forget("s"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(writer.log().watch_audience(&mut cx).cancelled);
}

#[tokio::test]
async fn logs_of_all_sessions_are_held_up_to_their_bytes() {
    let mut sessions = Sessions::new(Duration::from_secs(1));
    sessions.ledger = Ledger::new(10_000);
    let (old, new) = (sessions.open("old"), sessions.open("new"));
    finish(&old, "first", 4_000);
    finish(&new, "second", 4_000);
    assert!(matches!(old.turn(Some("first")), Found::Turn(_)));
    finish(&new, "third", 4_000);
    assert!(matches!(old.turn(Some("first")), Found::Gone), "the oldest, whosever it is");
    assert!(matches!(new.turn(Some("second")), Found::Turn(_)));
    assert!(matches!(new.turn(Some("third")), Found::Turn(_)));
}

#[tokio::test(start_paused = true)]
async fn the_sessions_used_longest_ago_are_forgotten_first() {
    let sessions = Sessions::new(Duration::from_secs(1));
    for id in ["a", "b", "c", "d"] {
        tokio::time::advance(Duration::from_millis(1)).await;
        sessions.open(id);
    }
    let busy = sessions.open("a");
    let _running = begin(&busy, "turn", None);
    tokio::time::advance(Duration::from_millis(1)).await;
    sessions.open("b");
    forget_oldest(&mut sessions.by_id.lock(), 1);
    let mut left: Vec<_> = sessions.by_id.lock().keys().cloned().collect();
    left.sort();
    assert_eq!(left, ["a", "b", "d"]);
}
