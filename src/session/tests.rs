use std::time::Duration;

use super::*;
use crate::conversation::Ending;
use crate::event::{Event, TurnFinish};

pub(super) fn record(turn_id: &str) -> conversation::Turn {
    conversation::Turn {
        turn_id: turn_id.to_owned(),
        prompt: "?".to_owned(),
        ending: Ending::Completed(TurnFinish::Stop),
        ..conversation::Turn::default()
    }
}

#[track_caller]
pub(super) fn begin(
    session: &Arc<Session>,
    turn_id: &str,
    key: Option<&str>,
) -> (TurnGuard, Writer) {
    match session.begin(turn_id, key, &Ask::default()) {
        Begin::New(begun) => (begun.guard, begun.writer),
        other => panic!("{other:?}"),
    }
}

pub(super) fn finish(session: &Arc<Session>, turn_id: &str, bytes: usize) {
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
    assert!(matches!(session.begin("two", None, &Ask::default()), Begin::Busy));
    guard.finish(record("one"));
    // The last event is still to come, and the place is free.
    begin(&session, "two", None);
    drop(writer);
    assert_eq!(session.snapshot().conversation.turns().len(), 1);
}

#[tokio::test]
async fn a_turn_whose_driver_dies_frees_its_place() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    drop(begin(&session, "one", None));
    begin(&session, "two", None);
    assert_eq!(session.snapshot().conversation.turns().len(), 0);
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
    assert!(matches!(session.begin("again", Some(&newest), &Ask::default()), Begin::Repeated(_)));
    assert!(matches!(session.begin("again", Some("key-1"), &Ask::default()), Begin::Gone));
    begin(&session, "again", Some("key-0"));
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

#[test]
fn a_session_that_was_forgotten_begins_anew() {
    let sessions = Sessions::new(Duration::from_secs(60));
    let forgotten = sessions.open("s");
    assert!(sessions.forget("s"));
    let begun = sessions.begin("s", "one", None, &Ask::default());
    let Begin::New(begun) = begun else { panic!("{begun:?}") };
    assert!(Arc::ptr_eq(&begun.guard.session, &sessions.find("s").unwrap()));
    assert!(!Arc::ptr_eq(&begun.guard.session, &forgotten));
}

/// From the running turn, from the latest one's log, and without any log.
#[tokio::test]
async fn a_session_tells_where_its_turn_is() {
    let sessions = Sessions::new(Duration::from_secs(1));
    let session = sessions.open("s");
    assert_eq!(session.snapshot().state, None);
    let (guard, writer) = begin(&session, "one", None);
    assert_eq!(session.snapshot().state, Some(TurnState::Planning));
    writer.log().set_turn_state(TurnState::Executing);
    assert_eq!(session.snapshot().state, Some(TurnState::Executing));
    guard.finish(record("one"));
    assert_eq!(session.snapshot().state, Some(TurnState::Completed));

    // Its driver has died and left nothing but its log.
    drop(begin(&session, "two", None));
    assert_eq!(session.snapshot().state, Some(TurnState::Failed));
    session.state.lock().finished.clear();
    assert_eq!(session.snapshot().state, Some(TurnState::Completed));
}

/// What an answer that is not taken would have begun is as if never asked for.
#[tokio::test]
async fn a_refused_answer_leaves_no_key_and_no_session() {
    let sessions = Sessions::new(Duration::from_secs(60));
    let choice = conversation::Choice::Text("?".to_owned());
    let answer = Ask::Answer { clarification_id: "q".to_owned(), choice };
    assert!(matches!(sessions.begin("s", "one", Some("key"), &answer), Begin::Refused(_)));
    assert!(sessions.find("s").is_none());
    let session = sessions.open("s");
    let refused = session.begin("one", Some("key"), &answer);
    assert!(matches!(refused, Begin::Refused(_)), "{refused:?}");
    assert!(session.begun_by("key").is_none() && session.running().is_none());
    begin(&session, "one", Some("key"));
}
