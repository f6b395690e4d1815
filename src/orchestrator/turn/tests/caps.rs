//! The caps on rounds, calls and tokens.

use super::*;

#[test]
fn a_request_can_lower_the_cap_and_not_raise_it() {
    for (asked, cap) in [(1, 1), (9, 5)] {
        let request = TurnRequest { max_tool_loops: Some(asked), ..request() };
        let scene = Scene::with(Rules::default(), request);
        assert_eq!(scene.event("turn_started")["max_tool_loops"], cap);
    }
}

#[test]
fn a_request_can_lower_the_cap_on_calls_and_not_raise_it() {
    for (asked, started) in [(1, 1), (9, 2)] {
        let rules = Rules { max_calls: 2, ..Rules::default() };
        let request = TurnRequest { max_calls: Some(asked), ..request() };
        let mut scene = Scene::with(rules, request);
        scene
            .says(TIME)
            .says(SUM)
            .says(r#"<<function_call>> {"name": "calculate", "arguments": {"expression": "1+2"}}"#)
            .stops();
        assert_eq!(scene.started().len(), started, "{asked}");
    }
}

#[test]
fn calls_over_the_cap_are_skipped_and_reported_to_the_model() {
    let mut scene = Scene::with_rules(|rules| rules.max_calls = 1);
    scene.says(TIME).says(SUM).stops().tool_returns(0, ok());
    assert!(scene.running.is_empty());
    let last = scene.rounds.last().unwrap();
    assert!(last.tools.is_empty(), "synthesis");
    assert!(format!("{:?}", last.messages).contains("not run"));
}

#[test]
fn a_model_that_keeps_calling_is_stopped() {
    let mut scene = Scene::with_rules(|rules| rules.max_calls = 2);
    scene.says(SUM).says(TIME);
    assert!(!scene.deeds.contains(&"stop round".to_owned()), "at the cap it goes on");
    scene.says(SUM).says(TIME);
    assert!(scene.deeds.contains(&"stop round".to_owned()));
    scene.tool_returns(0, ok()).tool_returns(1, ok());
    assert!(scene.last_message().text_content().unwrap().contains("no more than 2 calls"));
    assert!(scene.rounds.last().unwrap().tools.is_empty());
}

/// Unreadable calls count too, and the model is not told that it said nothing.
#[test]
fn unreadable_calls_count_toward_the_cap() {
    let mut scene = Scene::with_rules(|rules| rules.max_calls = 1);
    for _ in 0..2 {
        scene.says("<<function_call>> {]").stops();
    }
    scene.says(SUM);
    let status = scene.event("status")["message"].as_str().unwrap();
    assert!(status.contains("limits.max_calls_per_turn"), "{status}");
    assert!(scene.rounds.last().unwrap().tools.is_empty());
    scene.says("Two.").stops();
    scene.ends("stop", "Two.");
}

#[test]
fn a_content_filter_shows_in_the_finish_reason() {
    let mut scene = Scene::new();
    scene.says("Once upon a").finishes(RoundFinish::ContentFilter);
    scene.ends("content_filter", "Once upon a");

    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.says("It is").finishes(RoundFinish::ContentFilter);
    scene.ends("content_filter", "It is");
}

#[test]
fn an_answer_of_which_a_filter_leaves_nothing_is_not_asked_for_again() {
    let mut scene = Scene::new();
    scene.finishes(RoundFinish::ContentFilter);
    scene.ends("content_filter", "");
    let told = scene.event("status")["message"].as_str().unwrap();
    assert!(told.contains("a filter of the model server"), "{told}");
    assert_eq!(scene.rounds.len(), 1);
}

/// Asked again, it would think as long again.
#[test]
fn thoughts_that_use_up_the_tokens_end_the_turn_at_their_limit() {
    let thinks = |scene: &mut Scene| {
        scene.handle(Input::Delta(Delta::Reasoning("Hm, let me see.")));
        scene.finishes(RoundFinish::Length);
    };
    let mut scene = Scene::new();
    thinks(&mut scene);
    scene.ends("length", "");
    let told = scene.event("status")["message"].as_str().unwrap();
    assert!(told.contains("max_tokens"), "{told}");
    assert_eq!(scene.rounds.len(), 1);

    let mut scene = Scene::new();
    scene.says(TIME).stops().tool_returns(0, ok());
    thinks(&mut scene);
    assert_eq!(scene.event("turn_completed")["finish_reason"], "length");
    let text = scene.event("turn_completed")["text"].as_str().unwrap();
    assert!(text.starts_with("Here is what I found."), "{text}");

    let mut scene = Scene::with_rules(|rules| rules.max_tool_loops = 1);
    scene.says(TIME).stops().tool_returns(0, ToolResult::error("closed"));
    thinks(&mut scene);
    scene.ends("length", "");
    assert_eq!(scene.rounds.len(), 2, "the closing answer, too");
}
