//! Texts at which the client wants the answer to end.

use super::*;

fn request_with(stop: &[&str]) -> TurnRequest {
    let stop = stop.iter().map(|text| (*text).to_owned()).collect();
    TurnRequest { sampling: Sampling { stop, ..Sampling::default() }, ..request() }
}

fn stopping_at(stop: &str) -> Scene {
    Scene::of(request_with(&[stop]))
}

#[test]
fn the_answer_ends_before_the_text() {
    let mut scene = stopping_at("END");
    scene.says("One. E").says("ND of it.");
    scene.ends("stop", "One. ");
    assert!(scene.deeds.contains(&"stop round".to_owned()), "{:?}", scene.deeds);
    assert!(scene.rounds[0].sampling.stop.is_empty(), "the server would look inside calls");
}

#[test]
fn the_end_says_which_text_it_was() {
    let mut scene = Scene::of(request_with(&["x", "END"]));
    scene.says("One. END");
    assert_eq!(scene.event("turn_completed")["stop_text"], "END");

    for end in [RoundFinish::Stop, RoundFinish::Length] {
        let mut scene = stopping_at("END");
        scene.says("One. EN").finishes(end);
        assert_eq!(scene.event("turn_completed").get("stop_text"), None);
    }
}

#[test]
fn a_text_that_only_begins_is_shown() {
    let mut scene = stopping_at("END");
    scene.says("One. EN").stops();
    scene.ends("stop", "One. EN");
}

#[test]
fn an_answer_may_be_empty() {
    let mut scene = stopping_at("One");
    scene.says("One.");
    scene.ends("stop", "");
}

#[test]
fn calls_are_not_searched() {
    let mut scene = stopping_at("}");
    scene.says(TIME).stops().tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 2);
    scene.says("It is {noon}.");
    scene.ends("stop", "It is {noon");
}

#[test]
fn a_text_does_not_go_on_after_a_call() {
    let mut scene = stopping_at("END");
    scene.says("EN").says(TIME).says("D.").stops().tool_returns(0, ok());
    scene.says("Noon.").stops();
    scene.ends("stop", "END.Noon.");
}

#[test]
fn calls_before_the_text_run_and_the_answer_with_their_results_ends_at_the_next() {
    let mut scene = stopping_at("END");
    scene.says(TIME).says("So END").tool_returns(0, ok());
    assert_eq!(scene.rounds.len(), 2);
    scene.says("Noon. END");
    scene.ends("stop", "So Noon. ");
}

#[test]
fn white_space_before_a_call_ends_nothing() {
    let mut scene = stopping_at("\n");
    scene.says("\n\n").says(TIME).stops().tool_returns(0, ok());
    scene.says("\nNoon.\nOr so.");
    scene.ends("stop", "\n\n\nNoon.");
}

#[test]
fn a_call_after_the_text_is_not_read() {
    let mut scene = stopping_at("END");
    scene.says(&format!("So END {TIME}"));
    scene.ends("stop", "So ");
    assert!(scene.running.is_empty());
}

#[test]
fn the_closing_answer_ends_at_it_too() {
    let mut scene =
        Scene::with(Rules { max_tool_loops: 1, ..Rules::default() }, request_with(&["END"]));
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.says("END");
    scene.ends("loop_limit", "");
}

#[test]
fn it_ends_a_turn_that_has_to_call_a_tool() {
    let tool_choice = ToolChoice::Required;
    let mut scene = Scene::of(TurnRequest { tool_choice, ..request_with(&["END"]) });
    scene.says("No END");
    scene.ends("stop", "No ");
}
