//! Counters that only some turns touch: what was repaired, left out, started again or told.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::metrics::Samples;
use super::{config, look_up_and_send, prompt};
use crate::support::client::post;
use crate::support::model::call;
use crate::support::process::Process;
use crate::support::{Away, Model, within};

/// Makes a request to which the model says hello.
async fn answered(gateway: &Process, model: &mut Model, body: &Value) {
    let request = post("/v1/chat/completions", &[], &body.to_string());
    let answer = async { model.round().await.answer("Hello.").await };
    let (reply, ()) = tokio::join!(gateway.exchange(request), answer);
    assert_eq!(reply.status(), 200, "{}", String::from_utf8_lossy(&reply.body));
}

#[tokio::test]
async fn repairs_of_a_clients_history_are_counted_by_kind() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let result = json!({"role": "tool", "tool_call_id": "x", "content": "Buy milk."});
    let messages = json!([result, {"role": "user", "content": "Hi."}]);
    answered(&gateway, &mut model, &json!({"model": "model", "messages": messages})).await;
    let samples = Samples::of(&gateway).await;
    let counted = |kind: &str| {
        samples.value(&format!("tether_history_repairs_total{{kind=\"{kind}\"}}")).to_string()
    };
    assert_eq!((&*counted("stray_result"), &*counted("late_result")), ("1", "0"));
}

#[tokio::test]
async fn tools_of_a_client_that_are_left_out_are_counted() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let tools = json!([tool("looks"), tool("looks"), tool("a.b"), tool("waits")]);
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let body = json!({"model": "model", "messages": messages, "tools": tools});
    answered(&gateway, &mut model, &body).await;
    let left_out = gateway.metric("tether_client_tools_left_out_total").await;
    assert_eq!(left_out.to_string(), "2");
}

#[tokio::test]
async fn the_tools_that_a_model_is_told_about_are_counted() {
    let mut model = Model::listen();
    let tools = "demo: true, select: {max_told: 2}";
    let gateway = Process::start(&config(&model).replace("demo: true", tools)).await;
    gateway.whole_turn(&mut model, "s", "Hello.").await.rest().await;
    let samples = Samples::of(&gateway).await;
    for name in ["tether_tools_told", "tether_tools_told_tokens"] {
        assert_eq!(samples.value(&format!("{name}_count")).to_string(), "1", "{name}");
    }
    let [tools, tokens] =
        ["tether_tools_told_sum", "tether_tools_told_tokens_sum"].map(|name| samples.value(name));
    // None of them fits this prompt, so the model is only told of the tool that finds the others.
    assert_eq!(tools.to_string(), "1");
    assert!((20.0..1000.0).contains(&tokens), "{tokens}");
}

/// A model server that is away refuses nothing, although its clients get the same status.
#[tokio::test]
async fn refusals_are_counted_by_their_code() {
    let (model, away) = (Model::listen(), Away::anywhere());
    let [there, not_there] = [model.address, away.address()].map(|address| address.to_string());
    let gateway = Process::start(&config(&model).replace(&there, &not_there)).await;
    assert_eq!(gateway.post("/v1/chat/completions", &json!({"messages": []})).await.status(), 400);
    assert_eq!(gateway.exchange("nonsense\r\n\r\n").await.status(), 400);
    let body = json!({"model": "model", "messages": [{"role": "user", "content": "Hi."}]});
    assert_eq!(gateway.post("/v1/chat/completions", &body).await.status(), 503);
    let text = String::from_utf8(gateway.get("/metrics").await.body).unwrap();
    let refusals: Vec<_> =
        text.lines().filter(|line| line.starts_with("tether_refusals_total{")).collect();
    assert_eq!(refusals, ["tether_refusals_total{code=\"invalid_request\",status=\"400\"} 2"]);
}

/// Such clients send the conversation as often as they like, and some prompts of theirs ask for a title.
#[tokio::test]
async fn prompts_of_clients_that_know_no_questions_drop_none() {
    let mut model = Model::listen();
    let gateway = Process::start(&config(&model)).await;
    let mut messages = vec![json!({"role": "user", "content": "Tell John."})];
    let body = json!({"model": "model", "messages": messages});
    let asks = async { model.round().await.answer_at_once(&look_up_and_send()).await };
    let (reply, ()) = tokio::join!(gateway.post("/v1/chat/completions", &body), asks);
    let asked = reply.json()["choices"][0]["message"]["content"].clone();
    messages.push(json!({"role": "assistant", "content": asked}));
    messages.push(json!({"role": "user", "content": "Never mind."}));
    let body = json!({"model": "model", "messages": messages});
    for _ in 0..3 {
        answered(&gateway, &mut model, &body).await;
    }
    let samples = Samples::of(&gateway).await;
    let counted = |outcome: &str| {
        let name = format!("tether_clarifications_total{{outcome=\"{outcome}\"}}");
        samples.value(&name).to_string()
    };
    assert_eq!(["asked", "dropped"].map(counted), ["1", "0"]);
}

/// A gateway whose tools are those of a server with this behaviour, and the server's folder.
async fn with_server(model: &Model, behaviour: &str) -> (Process, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("events"), "").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
    let command = json!(["python3", script, behaviour, folder.path()]);
    let server =
        format!("{{name: bad, prefix: '', trust: true, required: true, command: {command}}}");
    let config = config(model).replace("demo: true", &format!("builtin: [], mcp: [{server}]"));
    (Process::start(&config).await, folder)
}

/// Runs a turn that calls a tool, whatever becomes of the call.
async fn call_of(gateway: &Process, model: &mut Model, tool: &str) {
    let mut stream = gateway.turn(&prompt("s")).await;
    model.round().await.answer(&call(tool, &json!({"text": "hi"}))).await;
    model.round().await.answer("Well.").await;
    stream.rest().await;
}

#[tokio::test]
async fn servers_of_tools_that_start_again_are_counted() {
    let mut model = Model::listen();
    let (gateway, _folder) = with_server(&model, "exit_in_call").await;
    call_of(&gateway, &mut model, "echo").await;
    let count = "tether_mcp_restarts_total{name=\"bad\"}";
    let up = "tether_tool_source_up{kind=\"mcp\",name=\"bad\"}";
    for metric in [count, up] {
        within(async { while gateway.metric(metric).await.to_string() != "1" {} }).await;
    }
    assert_eq!(
        gateway.metric("tether_mcp_list_changes_total{name=\"bad\"}").await.to_string(),
        "0"
    );
}

#[tokio::test]
async fn lists_of_tools_that_change_are_counted() {
    let mut model = Model::listen();
    let (gateway, _folder) = with_server(&model, "changes").await;
    call_of(&gateway, &mut model, "odd").await;
    let count = "tether_mcp_list_changes_total{name=\"bad\"}";
    within(async { while gateway.metric(count).await.to_string() != "1" {} }).await;
    assert_eq!(gateway.metric("tether_mcp_restarts_total{name=\"bad\"}").await.to_string(), "0");
}
