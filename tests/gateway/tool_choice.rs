//! `tool_choice` in the body of a turn.

use serde_json::{Value, json};
use tether::call_format::{CallContract, ContractSetting};
use tether::config::Constrain;
use tether::upstream::History;

use crate::support::events::said;
use crate::support::gateway::{STREAM, Setup};
use crate::support::model::call;
use crate::support::{Gateway, Model};

fn held(setup: &mut Setup) {
    setup.upstream().constrain = Some(Constrain::LlamaGrammar);
}

/// The root rule of the grammar in a request.
fn root(body: &Value) -> String {
    let grammar = body["grammar"].as_str().expect("a grammar");
    let root = grammar.lines().find_map(|line| line.strip_prefix("root ::= "));
    root.expect("a root").to_owned()
}

#[tokio::test]
async fn the_grammar_enforces_a_required_call_only_in_the_first_round() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, held).await;
    let body = json!({"prompt": "What is 1 + 1?", "tool_choice": "required"});
    let mut stream = gateway.turn(&body).await;
    let round = model.round().await;
    assert_eq!(root(&round.request.body), "\"<<function_call>>\" calls");
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let round = model.round().await;
    assert_eq!(root(&round.request.body), "text-0");
    round.answer("It is 2.").await;
    assert_eq!(said(&stream.rest().await).trim(), "It is 2.");
}

#[tokio::test]
async fn a_named_tool_is_the_only_one_that_can_be_called() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, held).await;
    let body = json!({"prompt": "Hi.", "tool_choice": {"name": "calculate"}});
    let mut stream = gateway.turn(&body).await;
    let round = model.round().await;
    let grammar = round.request.body["grammar"].as_str().unwrap();
    assert!(grammar.contains("calculate") && !grammar.contains("get_current_time"), "{grammar}");
    assert!(!round.request.contents().contains("get_current_time"), "no other is offered");
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    model.round().await.answer("2.").await;
    stream.rest().await;
}

#[tokio::test]
async fn beside_a_named_tool_no_other_runs() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |_| {}).await;
    for named in ["open_file", "get_current_time"] {
        let body = json!({
            "prompt": "Hi.", "tool_choice": {"name": named}, "client_tools": [{"name": "open_file"}],
        });
        let mut stream = gateway.turn(&body).await;
        let round = model.round().await;
        let told = round.request.contents();
        assert!(told.contains(named) && !told.contains("calculate"), "{told}");
        round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
        model.round().await.answer(&call(named, &json!({}))).await;
        if named != "open_file" {
            model.round().await.answer("Noon.").await;
        }
        let frames = stream.rest().await;
        let feedback = frames.iter().find(|frame| frame.event == "feedback").expect("feedback");
        assert_eq!(feedback.data["reason"], "tool_not_found");
        let ran = frames
            .iter()
            .filter(|frame| matches!(&*frame.event, "tool_started" | "client_tool_call"));
        let ran: Vec<&Value> = ran.map(|frame| &frame.data["tool_name"]).collect();
        assert_eq!(ran, [named]);
    }
}

#[tokio::test]
async fn with_none_the_model_sees_no_tools() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, held).await;
    let mut stream = gateway.turn(&json!({"prompt": "Hi.", "tool_choice": "none"})).await;
    let round = model.round().await;
    assert_eq!(round.request.body["grammar"], Value::Null);
    assert!(!round.request.contents().contains("calculate"));
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let frames = stream.rest().await;
    assert!(frames.iter().all(|frame| frame.event != "tool_started"));
}

#[tokio::test]
async fn a_server_that_reads_calls_itself_is_told_what_is_required() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.config.tools.call_contract = ContractSetting::Is(CallContract::Native);
        setup.upstream().history = History::Native;
    })
    .await;
    let mut stream = gateway.turn(&json!({"prompt": "Hi.", "tool_choice": "required"})).await;
    let round = model.round().await;
    assert_eq!(round.request.body["tool_choice"], "required");
    round.answer("Hello.").await;
    let round = model.round().await;
    assert_eq!(round.request.body["tool_choice"], "required", "it is asked for once more");
    round.answer("Hello again.").await;
    let frames = stream.rest().await;
    let feedback = frames.iter().find(|frame| frame.event == "feedback").expect("feedback");
    assert_eq!(feedback.data["reason"], "malformed_call");
    assert_eq!(said(&frames), "Hello.Hello again.");
}

/// In each API under its own name.
#[tokio::test]
async fn the_field_at_fault_has_the_name_that_the_client_wrote() {
    let (model, gateway) = Gateway::with_model(|_| {}).await;
    let messages = json!([{"id": "u", "role": "user", "content": "Hi."}]);
    let (model_name, required) = ("fake:no-tools", "required");
    let forwarded = json!({"model": model_name, "tether": {"tool_choice": required}});
    for (path, body, field) in [
        (STREAM, json!({"prompt": "Hi.", "tools": [], "tool_choice": required}), "tool_choice"),
        (
            "/api/v1/ai-sdk/chat",
            json!({"model": model_name, "messages": messages, "toolChoice": required}),
            "toolChoice",
        ),
        (
            "/api/v1/ag-ui",
            json!({
                "threadId": "t", "runId": "r", "messages": messages, "forwardedProps": forwarded,
            }),
            "forwardedProps.tether.tool_choice",
        ),
        (
            "/v1/chat/completions",
            json!({"model": model_name, "messages": messages, "tool_choice": required}),
            "tool_choice",
        ),
        (
            "/v1/responses",
            json!({"model": model_name, "input": "Hi.", "tool_choice": required}),
            "tool_choice",
        ),
        (
            "/v1/messages",
            json!({"model": "fake", "max_tokens": 9, "messages": messages,
                "tool_choice": {"type": "any"}}),
            "tool_choice",
        ),
    ] {
        let reply = gateway.post(path, &body).await;
        let text = String::from_utf8(reply.body.clone()).unwrap();
        assert_eq!(reply.status(), 400, "{path}: {text}");
        let (message, param) = match path {
            "/api/v1/ai-sdk/chat" => (text, Value::Null),
            _ => (reply.message(), reply.json()["error"]["param"].clone()),
        };
        assert!(message.starts_with(&format!("{field}: a call is required")), "{path}: {message}");
        assert!(param.is_null() || param == field, "{path}: {param}");
    }
    assert!(model.has_no_requests());
}
