//! `tools.call_contract: native`, on the wire of Chat Completions.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};
use tether::upstream::History;

use crate::support::events::said;
use crate::support::gateway::Setup;
use crate::support::model::{DONE, delta, finish, text};
use crate::support::{Gateway, Model};

fn native(setup: &mut Setup) {
    setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
    setup.upstream().history = History::Native;
}

fn piece(piece: &Value) -> String {
    delta(&json!({ "tool_calls": [piece] }))
}

#[tokio::test]
async fn a_native_call_runs_and_goes_back_with_its_result() {
    let mut model = Model::listen();
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

#[tokio::test]
async fn kimi_k2_gets_its_calls_back_with_ids_of_its_own() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        native(setup);
        setup.upstream().model = "moonshotai/Kimi-K2-Instruct".to_owned();
    })
    .await;
    let (_stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    for (index, expression) in ["6*7", "6*8"].into_iter().enumerate() {
        let arguments = json!({ "expression": expression }).to_string();
        let function = json!({"name": "calculate", "arguments": arguments});
        round.chunk(piece(&json!({"index": index, "id": "x", "function": function}))).await;
    }
    round.chunk(finish("tool_calls") + DONE).await;
    round.write("0\r\n\r\n").await;
    round.keep();

    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap();
    for at in 0..2 {
        let id = format!("functions.calculate:{at}");
        assert_eq!(messages[2]["tool_calls"][at]["id"], id, "{messages:?}");
        assert_eq!(messages[3 + at]["tool_call_id"], id, "{messages:?}");
    }
}

/// Runs a turn whose first message makes these calls, one chunk per piece. Returns how many
/// ran, and the feedback.
async fn called(pieces: &[Value]) -> (usize, Vec<String>) {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, native).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    for json in pieces {
        round.chunk(piece(json)).await;
    }
    round.chunk(finish("tool_calls") + DONE).await;
    round.write("0\r\n\r\n").await;
    round.keep();
    model.round().await.answer("So.").await;
    let frames = stream.rest().await;
    assert_eq!(frames.last().unwrap().event, "turn_completed", "{frames:#?}");
    let ran = frames.iter().filter(|frame| frame.event == "tool_completed").count();
    let feedback = frames.iter().filter(|frame| frame.event == "feedback");
    (ran, feedback.map(|frame| frame.data["reason"].as_str().unwrap().to_owned()).collect())
}

/// However a server writes calls, no turn fails, and no call is lost or doubled.
#[tokio::test]
async fn calls_are_taken_as_servers_write_them() {
    let call = |index: Value, id: &str, arguments: Value| {
        let function = json!({"name": "calculate", "arguments": arguments});
        json!({"index": index, "id": id, "function": function})
    };
    let (six, seven) = (json!("{\"expression\":\"6\"}"), json!("{\"expression\":\"7\"}"));
    let (first, second) = (call(json!(0), "a", six.clone()), call(json!(1), "b", seven.clone()));
    let malformed = &["malformed_call"][..];
    for (pieces, ran, feedback) in [
        // One id for two calls.
        (vec![first.clone(), call(json!(1), "a", seven.clone())], 2, &[][..]),
        // All of it again, after the first call has run.
        (vec![first.clone(), second.clone(), first.clone(), second.clone()], 2, &[]),
        (vec![first.clone(), first.clone()], 1, &[]),
        // Invalid indexes.
        (vec![call(json!("0"), "a", six.clone()), call(json!("1"), "b", seven.clone())], 2, &[]),
        (vec![call(json!(-1), "a", six.clone()), call(json!(-1), "b", seven.clone())], 2, &[]),
        (vec![call(json!(0.0), "a", six.clone())], 1, &[]),
        (vec![call(Value::Null, "", six.clone()), call(Value::Null, "", seven)], 2, &[]),
        // Arguments that are not an object are the model's mistake.
        (vec![call(json!(0), "a", json!(["6"]))], 0, malformed),
        (vec![first, call(json!(1), "b", json!(6))], 1, malformed),
    ] {
        let told: Vec<String> = feedback.iter().map(|reason| (*reason).to_owned()).collect();
        assert_eq!(called(&pieces).await, (ran, told), "{pieces:?}");
    }
}
