//! The rules that a configuration sets for every turn: how calls run, and what a model's mistakes cost.

use std::sync::Arc;

use serde_json::json;
use tether::tools::Policy;

use crate::support::events::{Frame, names, outcome};
use crate::support::model::call;
use crate::support::tools::Wait;
use crate::support::{Gateway, Model};

/// Ends the request for an answer in words.
const WITHOUT_TOOLS: &str = "Do not call any function.";

/// A call to a tool that does not exist.
fn mistake() -> String {
    call("no_such_tool", &json!({}))
}

#[tokio::test]
async fn only_so_many_calls_run_at_the_same_time() {
    let (first, second) = (Wait::that("first", Policy::NONE), Wait::that("second", Policy::NONE));
    for (most, expected) in [
        (1, &["tool_started", "tool_completed", "tool_started", "tool_completed"][..]),
        (2, &["tool_started", "tool_completed"]),
    ] {
        let (mut model, gateway) = Gateway::with_model(|setup| {
            setup.config.tools.max_parallel = most;
            for tool in [&first, &second] {
                setup.tools.add(Arc::new(tool.clone())).unwrap();
            }
        })
        .await;
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        let calls = [call("first", &json!({})), call("second", &json!({}))];
        round.answer_at_once(&calls.join("\n")).await;
        first.started().await;
        let mut frames = stream.up_to("tool_marker_detected").await;
        frames.extend(stream.up_to("tool_marker_detected").await);
        if most == 2 {
            second.started().await;
        }
        first.release();
        second.release();
        model.round().await.answer("Done.").await;
        frames.extend(stream.rest().await);
        let is_run = |frame: &Frame| matches!(&*frame.event, "tool_started" | "tool_completed");
        frames.retain(is_run);
        assert_eq!(names(&frames), expected, "{most}");
        if most == 1 {
            second.started().await;
        }
    }
}

#[tokio::test]
async fn a_model_is_told_of_so_many_mistakes() {
    for most in [1, 2] {
        let (mut model, gateway) = Gateway::with_model(|setup| {
            setup.config.feedback.max_attempts = most;
        })
        .await;
        let mut stream = gateway.turn(&json!({"prompt": "Hello?"})).await;
        for _ in 0..most {
            let round = model.round().await;
            assert!(!round.request.contents().contains(WITHOUT_TOOLS));
            round.answer(&mistake()).await;
        }
        let round = model.round().await;
        assert!(round.request.contents().contains(WITHOUT_TOOLS), "{}", round.request.contents());
        round.answer("Well.").await;
        let frames = stream.rest().await;
        let told = frames.iter().filter(|frame| frame.event == "feedback");
        assert_eq!(told.count(), most as usize);
    }
}

#[tokio::test]
async fn each_mistake_raises_the_temperature_by_a_step() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.feedback.temperature_step = 0.5;
    })
    .await;
    let body = json!({"prompt": "Hello?", "sampling": {"temperature": 0.25}});
    let mut stream = gateway.turn(&body).await;
    let round = model.round().await;
    assert_eq!(round.request.body["temperature"], 0.25);
    round.answer(&mistake()).await;
    let round = model.round().await;
    assert_eq!(round.request.body["temperature"], 0.75);
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

#[tokio::test]
async fn a_turn_may_end_with_the_results_of_its_calls() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |setup| setup.config.tools.continue_after_tool = false).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let frames = stream.rest().await;
    assert!(frames.iter().any(|frame| frame.event == "tool_completed"), "{frames:?}");
    let end = &frames.last().unwrap().data;
    assert_eq!((&end["finish_reason"], &end["loops"]), (&json!("stop"), &json!(1)));
    assert!(model.has_no_requests());
}
