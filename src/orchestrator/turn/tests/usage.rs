//! The tokens of a turn.

use super::*;
use crate::conversation::trim;

#[test]
fn usage_is_summed_over_rounds() {
    let mut scene = Scene::new();
    let usage = |n| Usage { prompt_tokens: n, completion_tokens: 1, total_tokens: n + 1 };
    scene
        .handle(Input::Delta(Delta::Usage(usage(2))))
        .handle(Input::Delta(Delta::Usage(usage(10))));
    scene.says(TIME).stops().tool_returns(0, ok());
    scene.handle(Input::Delta(Delta::Usage(usage(20)))).says("x").stops();
    assert_eq!(scene.event("turn_completed")["usage"]["prompt_tokens"], 30);
}

/// The model server counts at the end of an answer, and is not asked for the rest of this one.
#[test]
fn the_tokens_of_a_round_that_is_broken_off_are_estimated() {
    let usage = |scene: &Scene, end: &str| -> Usage {
        serde_json::from_value(scene.event(end)["usage"].clone()).unwrap()
    };
    let reaches = |scene: &mut Scene| {
        scene.says("Once upon a time ");
        scene.handle(Input::Delta(Delta::Reasoning("END")));
    };
    let told = |scene: &Scene| -> usize {
        let texts = scene.rounds[0].messages.iter().filter_map(Message::text_content);
        texts.map(|text| trim::tokens(&text)).sum()
    };

    let mut stopped = Scene::of(TurnRequest {
        sampling: Sampling { stop: vec!["END".to_owned()], ..Sampling::default() },
        ..request()
    });
    reaches(&mut stopped);
    stopped.says("END");
    let prompt_tokens = told(&stopped) as u64;
    assert!(prompt_tokens > 100, "{prompt_tokens}");
    let completion_tokens = "Once upon a time ENDEND".len().div_ceil(3) as u64;
    let total_tokens = prompt_tokens + completion_tokens;
    let expected = Usage { prompt_tokens, completion_tokens, total_tokens };
    assert_eq!(usage(&stopped, "turn_completed"), expected);

    let mut cancelled = Scene::new();
    reaches(&mut cancelled);
    cancelled.says("END").handle(Input::Cancel);
    assert_eq!(usage(&cancelled, "turn_completed"), expected);

    let mut broken = Scene::new();
    reaches(&mut broken);
    broken.says("END").handle(Input::RoundFailed {
        code: FailureCode::UpstreamError,
        message: String::new(),
        retryable: true,
    });
    assert_eq!(usage(&broken, "turn_failed"), expected);

    let mut unbegun = Scene::new();
    unbegun.handle(Input::Cancel);
    assert_eq!(usage(&unbegun, "turn_completed"), Usage::NONE, "who knows what it has read?");

    let mut uncounted = Scene::new();
    reaches(&mut uncounted);
    uncounted.stops();
    assert_eq!(usage(&uncounted, "turn_completed"), Usage::NONE, "its server does not count");

    let mut counted = Scene::new();
    let so_far = Usage { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 };
    reaches(&mut counted);
    counted.handle(Input::Delta(Delta::Usage(so_far))).says("END").handle(Input::Cancel);
    assert_eq!(usage(&counted, "turn_completed"), so_far, "it counts as it goes");
}

/// With native calls, the server reads the tools to its model.
#[test]
fn an_estimate_has_the_tools_that_a_server_is_sent() {
    let prompt_tokens = |tools: &Catalog| {
        let rules = Rules { call_contract: CallContract::Native, ..Rules::default() };
        let mut scene = Scene::with(
            rules,
            TurnRequest { briefing: briefing(Rules::default(), tools), ..request() },
        );
        scene.says("Well").handle(Input::Cancel);
        scene.event("turn_completed")["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let none = prompt_tokens(Registry::default().catalog());
    let two = prompt_tokens(tools().catalog());
    assert!(two > none + 50, "{none} and {two}");
}
