//! `tools.call_contract: native`, on the wire of Chat Completions.

use serde_json::{Value, json};
use tether::config::{CallContract, History};

use crate::support::events::said;
use crate::support::gateway::Setup;
use crate::support::model::{DONE, delta, finish, text};
use crate::support::{Gateway, Model};

fn native(setup: &mut Setup) {
    setup.config.tools.call_contract = CallContract::Native;
    setup.upstream().history = History::Native;
}

fn piece(piece: &Value) -> String {
    delta(&json!({ "tool_calls": [piece] }))
}

#[tokio::test]
async fn a_native_call_runs_and_goes_back_with_its_result() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, native).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;

    let body = &round.request.body;
    assert_eq!(body["tools"][1]["function"]["name"], "calculate");
    assert_eq!(body["parallel_tool_calls"], true);
    assert!(!round.request.contents().contains("<<function_call>>"));

    round.begin().await;
    round.chunk(text("Let me see. <<function_call>> {}")).await;
    let begins = json!({"index": 0, "id": "x", "type": "function",
                        "function": {"name": "calculate", "arguments": ""}});
    round.chunk(piece(&begins)).await;
    for json in ["{\"expression\":", " \"6*7\"}"] {
        round.chunk(piece(&json!({"index": 0, "function": {"arguments": json}}))).await;
    }
    round.chunk(finish("tool_calls") + DONE).await;
    round.write("0\r\n\r\n").await;
    round.keep();

    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap().clone();
    let call = &messages[2]["tool_calls"][0];
    assert_eq!(
        call["function"],
        json!({"name": "calculate", "arguments": "{\"expression\": \"6*7\"}"})
    );
    assert_eq!(messages[3]["tool_call_id"], call["id"]);
    assert!(messages[3]["content"].as_str().unwrap().contains("42"), "{messages:?}");
    round.answer("It is 42.").await;

    let frames = stream.rest().await;
    assert_eq!(said(&frames), "Let me see. <<function_call>> {}It is 42.");
    let types: Vec<&str> = frames.iter().map(|frame| &*frame.event).collect();
    for event in ["tool_marker_detected", "tool_started", "tool_completed", "turn_completed"] {
        assert!(types.contains(&event), "{event} in {types:?}");
    }
}
