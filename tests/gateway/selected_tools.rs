//! More tools than a model is told about: the best for each question in full, others by name.

use serde_json::{Value, json};
use tether::tools::Glob;
use tether::tools::builtin::demo;

use crate::support::events::{Frame, said};
use crate::support::gateway::{STREAM, Setup};
use crate::support::model::{Round, call};
use crate::support::{Gateway, Model};

/// The demonstration tools, two of which are told. `lookup_contacts` is always among them.
fn two_told(setup: &mut Setup) {
    for tool in demo::tools() {
        setup.tools.add(tool).unwrap();
    }
    setup.config.tools.select.max_told = 2;
    setup.config.tools.select.always = vec![Glob::new("lookup_con*")];
}

/// The tools that a round's prompt describes, in order.
fn told(round: &Round) -> Vec<String> {
    let system = round.request.body["messages"][0]["content"].as_str().unwrap().to_owned();
    let lines = system.lines().collect::<Vec<_>>();
    let described = lines.windows(2).filter(|pair| pair[1].starts_with("  arguments ("));
    let name = |line: &str| line.trim_start_matches("- ").split(':').next().unwrap().to_owned();
    described.map(|pair| name(pair[0])).collect()
}

/// The data of all events of this type.
fn data<'f>(frames: &'f [Frame], event: &str) -> Vec<&'f Value> {
    frames.iter().filter(|frame| frame.event == event).map(|frame| &frame.data).collect()
}

async fn gateway() -> (Model, Gateway) {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, two_told).await;
    (model, gateway)
}

#[tokio::test]
async fn each_question_has_its_tools() {
    let (mut model, gateway) = gateway().await;
    let mut stream = gateway.turn(&json!({"prompt": "What is my next appointment?"})).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["lookup_contacts", "lookup_appointments", "find_tools"]);
    let contents = round.request.contents();
    assert!(contents.contains("- get_current_time, calculate, send_message, lookup_invoices\n"));
    round.answer("None.").await;
    stream.rest().await;
    let mut stream = gateway.turn(&json!({"prompt": "Which invoices are open?"})).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["lookup_contacts", "lookup_invoices", "find_tools"]);
    round.answer("None.").await;
    stream.rest().await;
}

/// What is left has other positions.
#[tokio::test]
async fn tools_are_selected_from_those_that_a_client_has_not_claimed() {
    let (mut model, gateway) = gateway().await;
    let claimed = json!({"name": "lookup_contacts", "parameters": {"type": ["object", "null"]}});
    let body = json!({
        "threadId": "t", "runId": "r", "tools": [claimed],
        "messages": [{"id": "1", "role": "user", "content": "Which invoices are open?"}],
    });
    let answering = async {
        let round = model.round().await;
        assert_eq!(told(&round), ["lookup_invoices", "find_tools"]);
        round.answer("None.").await;
    };
    let (reply, ()) = tokio::join!(gateway.post("/api/v1/ag-ui", &body), answering);
    assert_eq!(reply.status(), 200);
}

#[tokio::test]
async fn a_tool_that_was_not_told_is_found_and_called() {
    let (mut model, gateway) = gateway().await;
    let mut stream = gateway.turn(&json!({"prompt": "6*7?"})).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["lookup_contacts", "find_tools"]);
    round.answer(&call("find_tools", &json!({"query": "arithmetic sum"}))).await;
    let round = model.round().await;
    let system = &round.request.body["messages"][0]["content"];
    assert!(round.request.contents().contains("Calculates an arithmetic expression"));
    let before = system.clone();
    round.answer(&call("calculate", &json!({"expression": "6*7"}))).await;
    let round = model.round().await;
    assert_eq!(round.request.body["messages"][0]["content"], before, "the prompt stays cached");
    round.answer("42.").await;
    let frames = stream.rest().await;
    assert_eq!(said(&frames).trim(), "42.");
    let results = data(&frames, "tool_completed");
    assert_eq!(results[0]["tool_result"]["data"]["tools"][0]["name"], "calculate");
    assert_eq!(results[1]["tool_result"]["data"]["result"], "42");
}

#[tokio::test]
async fn a_session_keeps_the_tools_it_has_used() {
    let (mut model, gateway) = gateway().await;
    let body = json!({"session_id": "s", "prompt": "6*7?"});
    let mut stream = gateway.turn(&body).await;
    let calculate = call("calculate", &json!({"expression": "6*7"}));
    model.round().await.answer(&calculate).await;
    model.round().await.answer(&calculate).await;
    model.round().await.answer("42.").await;
    let frames = stream.rest().await;
    let learned = "the model is told what calculate takes before it can call it";
    assert_eq!(data(&frames, "status")[0]["message"], learned);
    assert_eq!(data(&frames, "tool_completed").len(), 1);
    let mut stream = gateway.turn(&json!({"session_id": "s", "prompt": "Thank you."})).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["lookup_contacts", "calculate", "find_tools"]);
    round.answer("You are welcome.").await;
    stream.rest().await;
}

#[tokio::test]
async fn a_request_that_names_its_tools_gets_them_all() {
    let (mut model, gateway) = gateway().await;
    let tools = json!(["calculate", "get_current_time", "lookup_invoices"]);
    let mut stream = gateway.turn(&json!({"prompt": "Hello.", "tools": tools})).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["get_current_time", "calculate", "lookup_invoices"]);
    round.answer("Hello.").await;
    stream.rest().await;
    let choice = json!({"prompt": "Hello.", "tool_choice": {"name": "send_message"}});
    let mut stream = gateway.turn(&choice).await;
    let round = model.round().await;
    assert_eq!(told(&round), ["send_message"], "it is the only one");
    round.answer("Hello.").await;
    model.round().await.answer("Hello.").await;
    stream.rest().await;
}

#[tokio::test]
async fn the_search_is_listed_only_if_it_is_needed() {
    let listed = |gateway: Gateway| async move {
        let tools = gateway.get("/api/v1/tools").await.json()["tools"].clone();
        let is_finder = |tool: &Value| tool["name"] == "find_tools";
        tools.as_array().unwrap().iter().any(is_finder)
    };
    let model = Model::listen();
    assert!(listed(Gateway::with(model.address, two_told).await).await);
    assert!(!listed(Gateway::with(model.address, |_| {}).await).await);
    let refused = Gateway::with(model.address, |_| {}).await;
    let refused = refused.post(STREAM, &json!({"prompt": "x", "tools": ["find_tools"]})).await;
    assert_eq!(refused.status(), 400);
}
