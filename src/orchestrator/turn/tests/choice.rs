//! `tool_choice`: whether a turn has to begin with a call.

use super::*;

fn scene(tool_choice: ToolChoice) -> Scene {
    Scene::with(Rules::default(), TurnRequest { tool_choice, ..request() })
}

fn clock() -> ToolChoice {
    ToolChoice::Named("get_current_time".to_owned())
}

fn choices(scene: &Scene) -> Vec<&ToolChoice> {
    scene.rounds.iter().map(|round| &round.tool_choice).collect()
}

#[test]
fn a_required_call_is_requested_only_in_the_first_round() {
    let mut scene = scene(ToolChoice::Required);
    scene.says(SUM).stops();
    scene.tool_returns(0, ok());
    scene.says("Two.").stops();
    scene.ends("stop", "Two.");
    assert_eq!(choices(&scene), [&ToolChoice::Required, &ToolChoice::Auto]);
}

#[test]
fn the_only_attempt_does_not_take_the_tools_away() {
    let rules = Rules { feedback_attempts: 1, ..Rules::default() };
    let request = TurnRequest { tool_choice: ToolChoice::Required, ..request() };
    let mut scene = Scene::with(rules, request);
    scene.says("Hello.").stops();
    assert_eq!(choices(&scene), [&ToolChoice::Required, &ToolChoice::Required]);
    assert!(!scene.rounds.last().unwrap().tools.is_empty());
}

#[test]
fn a_call_that_is_refused_does_not_count() {
    let mut scene = scene(ToolChoice::Required);
    scene.says(&TIME.replace("get_current_time", "nobody")).stops();
    assert_eq!(choices(&scene), [&ToolChoice::Required, &ToolChoice::Required]);
}

#[test]
fn a_refused_call_does_not_count_however_often_it_is_repeated() {
    let mut scene = scene(ToolChoice::Required);
    scene.says(&TIME.replace("get_current_time", "nobody").repeat(2));
    assert_eq!(choices(&scene), [&ToolChoice::Required, &ToolChoice::Required]);
}

#[test]
fn a_named_tool_is_requested_until_it_is_called() {
    let mut scene = scene(clock());
    scene.says(SUM).stops();
    scene.tool_returns(0, ok());
    scene.says(TIME).stops();
    scene.tool_returns(1, ok());
    assert_eq!(choices(&scene), [&clock(), &clock(), &ToolChoice::Auto]);
}

#[test]
fn a_model_that_answers_instead_is_reminded_once() {
    let mut scene = scene(clock());
    scene.says("It is late.").stops();
    let feedback = scene.event("feedback");
    assert_eq!(feedback["reason"], "malformed_call");
    let told = feedback["message"].as_str().unwrap();
    assert!(told.contains("a call to get_current_time must come before"), "{told}");
    assert!(scene.last_message().text_content().unwrap().ends_with(told));
    assert_eq!(choices(&scene), [&clock(), &clock()]);
    scene.says("Very late.").stops();
    scene.ends("stop", "It is late.Very late.");
}

#[test]
fn without_tools_nothing_is_required() {
    let scene = Scene::with_tools(&Catalog::default());
    assert_eq!(choices(&scene), [&ToolChoice::Auto]);
}
