//! What passes between driver and turn besides words and tools: time, readers, upstreams.

use std::time::Duration;

use super::*;

#[test]
fn an_unread_turn_is_abandoned_after_its_grace() {
    let mut scene = Scene::with_rules(|rules| rules.disconnect_grace = Duration::from_millis(500));
    assert_eq!(scene.turn.deadline_ms(), None, "no reader is known to be gone");
    scene.turn.set_now(100);
    scene.handle(Input::Audience { is_present: false });
    scene.turn.set_now(300);
    scene.handle(Input::Audience { is_present: false });
    assert_eq!(scene.turn.deadline_ms(), Some(600), "it counts from when the last one left");
    scene.handle(Input::Audience { is_present: true });
    scene.ticks(600).handle(Input::Audience { is_present: false });
    assert_eq!(scene.turn.deadline_ms(), Some(1100), "somebody was there in between");
    scene.ticks(1099);
    assert!(!scene.turn.is_over());
    scene.ticks(1100).ends("cancelled", "");
    assert!(scene.outputs.contains(&"abandoned"));
    assert_eq!(scene.turn.deadline_ms(), None);
}

#[test]
fn a_request_can_have_a_grace_of_its_own() {
    let disconnect_grace = Some(Duration::from_millis(50));
    let mut scene = Scene::with(Rules::default(), TurnRequest { disconnect_grace, ..request() });
    scene.turn.set_now(100);
    scene.handle(Input::Audience { is_present: false });
    assert_eq!(scene.turn.deadline_ms(), Some(150));
}

#[test]
fn the_upstream_that_answered_last_is_asked_first_next() {
    let mut scene = Scene::new();
    let (answering, why) = ("other".to_owned(), PassedOver::Unreachable);
    scene.handle(Input::Rerouted { place: 1, answering, why });
    scene.says(TIME).stops();
    scene.tool_returns(0, ok());
    assert_eq!(scene.asked_first, [None, Some(1)]);
}

#[test]
fn a_round_is_requested_without_copying_the_turn() {
    let mut scene = Scene::new();
    let record = Arc::as_ptr(&scene.turn.core.record);
    for (call, said) in [TIME, SUM].into_iter().enumerate() {
        scene.says(said).stops();
        scene.tool_returns(call, ok());
    }
    assert_eq!(Arc::as_ptr(&scene.turn.core.record), record);
    assert_eq!(scene.turn.record().steps.len(), 2);
}
