//! What `GET /api/v1/sessions/{id}` and `GET /api/v1/tools` show.

use serde_json::{Value, json};

use crate::support::model::call;
use crate::support::{Gateway, Model};

async fn transcript(gateway: &Gateway) -> Value {
    gateway.get("/api/v1/sessions/s").await.json()
}

/// The keys of an object, in order.
#[track_caller]
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_turn_with_a_call() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round
        .answer(&format!("Let me see.\n{}", call("calculate", &json!({"expression": "1+1"}))))
        .await;
    model.round().await.answer("Two.").await;
    stream.rest().await;

    let shown = transcript(&gateway).await;
    assert_eq!(
        keys(&shown),
        ["session_id", "state", "running_turn_id", "clarification", "dropped_turns", "turns"]
    );
    assert_eq!((&shown["session_id"], &shown["running_turn_id"]), (&json!("s"), &Value::Null));
    assert_eq!((&shown["state"], &shown["clarification"]), (&json!("completed"), &Value::Null));
    let turn = &shown["turns"][0];
    assert_eq!(keys(turn), ["turn_id", "started_at_ms", "prompt", "steps", "ending"]);
    let location = stream.head.header("location").unwrap();
    assert!(location.ends_with(turn["turn_id"].as_str().unwrap()), "{location}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let age = now.as_millis() - u128::from(turn["started_at_ms"].as_u64().unwrap());
    assert!(age < 60_000, "{age}");
    assert_eq!(turn["prompt"], "Hello?");
    assert_eq!(turn["ending"], json!({"completed": "stop"}));
    let steps = &turn["steps"];
    assert_eq!(keys(&steps[0]), ["at_ms", "parts"]);
    for step in steps.as_array().unwrap() {
        assert!(step["at_ms"].as_u64() >= turn["started_at_ms"].as_u64(), "{turn}");
    }
    let said = &steps[0]["parts"][1]["said"];
    assert_eq!(keys(said), ["kind", "source", "text", "tools", "at_ms"]);
    assert_eq!((&said["text"], &said["tools"]), (&json!("Let me see."), &json!(["calculate"])));
    let call = &steps[0]["parts"][2]["call"];
    assert_eq!(keys(call), ["call_id", "name", "arguments", "outcome"]);
    assert_eq!(call["arguments"], json!({"expression": "1+1"}));
    assert_eq!(call["outcome"]["ended"]["success"], true);
    assert_eq!(steps[1]["parts"], json!([{"text": "Two."}]));
}

#[tokio::test]
async fn a_running_turn_is_named_but_not_yet_included() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let shown = transcript(&gateway).await;
    assert_eq!((&shown["turns"], &shown["state"]), (&json!([]), &json!("planning")));
    let started = stream.up_to("turn_started").await;
    assert_eq!(shown["running_turn_id"], started[0].data["turn_id"]);
    round.answer("Well.").await;
    stream.rest().await;
    let shown = transcript(&gateway).await;
    assert_eq!(shown["running_turn_id"], Value::Null);
    assert_eq!(shown["turns"][0]["turn_id"], started[0].data["turn_id"]);
}

#[tokio::test]
async fn how_a_turn_ended() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half").await;
    stream.up_to_text("Half").await;
    assert_eq!(gateway.cancel("s").await, 202);
    stream.rest().await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let mut round = round;
    round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    stream.rest().await;
    let shown = transcript(&gateway).await;
    assert_eq!(shown["turns"][0]["ending"], json!({"completed": "cancelled"}));
    assert_eq!(shown["turns"][0]["steps"][0]["parts"], json!([{"text": "Half"}]));
    assert_eq!(shown["turns"][1]["ending"], json!({"failed": "upstream_error"}));
    assert_eq!(shown["state"], "failed");
}

#[tokio::test]
async fn tools_with_schemas_and_policies() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let shown = gateway.get("/api/v1/tools").await.json();
    assert_eq!(keys(&shown), ["tools", "servers"]);
    let names: Vec<_> = shown["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["get_current_time", "calculate"]);
    for tool in shown["tools"].as_array().unwrap() {
        for key in ["name", "description", "parameters", "waiting_hint", "policy"] {
            assert!(tool.get(key).is_some(), "{key}: {tool}");
        }
        assert_eq!(tool["parameters"]["type"], "object");
        assert_eq!(tool["policy"]["mutates"], false);
    }
}
