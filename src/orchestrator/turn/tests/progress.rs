//! What tools report while they run.

use super::*;
use crate::limits::tools::PROGRESS_INTERVAL;
use crate::telemetry::millis;

fn step_ms() -> u64 {
    millis(PROGRESS_INTERVAL)
}

/// A running call, already acknowledged.
fn running() -> Scene {
    let mut scene = Scene::new();
    scene.says("One moment.\n").says(TIME).stops();
    scene
}

fn told(scene: &Scene) -> Vec<f64> {
    let told = scene.events.iter().filter(|event| event["type"] == "tool_progress");
    told.map(|event| event["data"]["progress"].as_f64().unwrap()).collect()
}

#[test]
fn a_report_is_passed_on_unchanged() {
    let mut scene = running();
    scene.tool_progresses(0, Progress::new(2.0).of(8.0).saying("two of eight"), 1);
    assert_eq!(
        *scene.event("tool_progress"),
        json!({
            "call_id": "call_1",
            "tool_name": "get_current_time",
            "progress": 2.0,
            "total": 8.0,
            "message": "two of eight",
        })
    );
    scene.tool_progresses(0, Progress::new(3.0), 1).ticks(step_ms());
    assert_eq!(scene.event("tool_progress")["total"], Value::Null);
}

#[test]
fn the_newest_report_is_sent_and_always_the_last() {
    let mut scene = running();
    for done in 0..10 {
        scene.tool_progresses(0, Progress::new(f64::from(done)), 1);
    }
    assert_eq!(told(&scene), [0.0]);
    assert_eq!(scene.turn.deadline_ms(), Some(step_ms()));
    scene.ticks(step_ms() - 1);
    assert_eq!(told(&scene), [0.0], "too early");
    scene.ticks(step_ms());
    assert_eq!(told(&scene), [0.0, 9.0]);
    assert_eq!(scene.turn.deadline_ms(), None, "there is nothing more to tell");
    scene.tool_progresses(0, Progress::new(10.0), 1).tool_returns(0, ok());
    assert_eq!(told(&scene), [0.0, 9.0, 10.0]);
    let types = scene.types();
    let last = types.iter().rposition(|name| *name == "tool_progress");
    assert_eq!(types.get(last.unwrap() + 1), Some(&"tool_completed"));
}

#[test]
fn reports_must_rise_within_an_attempt() {
    let mut scene = running();
    for (at, (progress, attempt)) in
        [(5.0, 1), (5.0, 1), (4.0, 1), (1.0, 2), (2.0, 2)].iter().enumerate()
    {
        scene.ticks(step_ms() * at as u64);
        scene.tool_progresses(0, Progress::new(*progress), *attempt);
    }
    assert_eq!(told(&scene), [5.0, 1.0, 2.0]);
}

#[test]
fn progress_waits_for_the_acknowledgement() {
    let mut scene = Scene::new();
    scene.says(TIME).tool_progresses(0, Progress::new(1.0), 1);
    assert_eq!(told(&scene), [] as [f64; 0]);
    scene.stops();
    let types = scene.types();
    assert_eq!(types[types.len() - 3..], ["acknowledgement", "tool_started", "tool_progress"]);
}

#[test]
fn progress_of_a_call_that_does_not_run_is_ignored() {
    let mut scene = running();
    scene.tool_progresses(1, Progress::new(1.0), 1);
    scene.tool_returns(0, ok()).tool_progresses(0, Progress::new(1.0), 1);
    assert_eq!(told(&scene), [] as [f64; 0]);
}

/// Reports are sent at the limit and dropped one byte over it. The turn ends as usual.
#[test]
fn reports_are_dropped_once_they_take_too_much_space() {
    let mut scene = running();
    let half = scene.turn.rules().max_turn_bytes * EVENTS_FACTOR / 2;
    scene.handle(Input::Logged(half)).tool_progresses(0, Progress::new(1.0), 1);
    scene.ticks(step_ms()).handle(Input::Logged(half + 1));
    scene.tool_progresses(0, Progress::new(2.0), 1).tool_returns(0, ok());
    assert_eq!(told(&scene), [1.0]);
    scene.says("Noon.").stops().ends("stop", "One moment.\nNoon.");
}

#[test]
fn a_tool_that_asks_while_it_runs_ends_the_turn_with_its_question() {
    let mut scene = running();
    let question = Clarification {
        r#type: "text".into(),
        question: "Which city?".into(),
        options: Vec::new(),
        ..Clarification::default()
    };
    scene.tool_progresses(0, Progress::new(1.0), 1).tool_asks(0, question, Continuation::Model);
    assert_eq!(scene.deeds.last().unwrap(), "stop tool");
    assert!(scene.running.is_empty());
    assert_eq!(scene.event("tool_completed")["tool_result"]["next_action"], "clarification_needed");
    assert_eq!(scene.event("clarification_needed")["question"], "Which city?");
    scene.ends("clarification_needed", "One moment.\n");
}

/// It is treated like a question in a result.
#[test]
fn a_question_that_breaks_the_shape_is_an_error() {
    let mut scene = running();
    let nothing = Clarification {
        r#type: "text".into(),
        question: String::new(),
        options: Vec::new(),
        ..Clarification::default()
    };
    scene.tool_asks(0, nothing, Continuation::Model);
    assert_eq!(scene.event("tool_completed")["tool_result"]["success"], false);
    assert!(!scene.turn.is_over());
}
