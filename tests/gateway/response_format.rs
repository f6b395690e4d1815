//! Answers that must be JSON, with tools behind them.

use serde_json::{Value, json};

use crate::support::client::post;
use crate::support::model::call;
use crate::support::{Gateway, Model};

const COMPLETIONS: &str = "/v1/chat/completions";

fn request(stream: bool) -> String {
    let properties = json!({"sum": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["sum"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}});
    let messages = json!([{"role": "user", "content": "What is 6*7?"}]);
    json!({"model": "fake", "messages": messages, "stream": stream, "response_format": format})
        .to_string()
}

#[tokio::test]
async fn tools_run_and_the_answer_has_the_form() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for stream in [false, true] {
        let mut client = gateway.client().await;
        client.send(post(COMPLETIONS, &[], &request(stream))).await;
        let round = model.round().await;
        assert_eq!(round.request.body.get("response_format"), None);
        let calculate = call("calculate", &json!({"expression": "6*7"}));
        round.answer(&format!("Let me see. {calculate}")).await;
        model.round().await.answer("It is 42.").await;
        let round = model.round().await;
        assert_eq!(round.request.body["response_format"]["json_schema"]["name"], "sum");
        assert!(round.request.contents().contains("42"));
        round.answer("{\"sum\": 42}").await;
        let body = String::from_utf8(client.reply().await.body).unwrap();
        if stream {
            assert_eq!(body.matches("\"content\"").count(), 2, "the first is empty: {body}");
            assert!(body.contains("\"content\":\"{\\\"sum\\\": 42}\""), "{body}");
        } else {
            let answer: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(answer["choices"][0]["message"]["content"], "{\"sum\": 42}");
        }
    }
}

#[tokio::test]
async fn a_server_without_it_is_asked_in_words() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    client.send(post(COMPLETIONS, &[], &request(false))).await;
    model.round().await.answer("It is 42.").await;
    let mut round = model.round().await;
    let refusal = "{\"error\":{\"message\":\"response_format is not supported\"}}";
    let length = refusal.len();
    round.write(format!("HTTP/1.1 400 No\r\nContent-Length: {length}\r\n\r\n{refusal}")).await;
    round.keep();
    let round = model.round().await;
    assert_eq!(round.request.body.get("response_format"), None);
    assert!(round.request.contents().contains("JSON Schema"));
    round.answer("{\"sum\": 42}").await;
    let answer = client.reply().await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"sum\": 42}");
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let body = json!({"model": "fake", "messages": messages, "response_format": format});
    let reply = gateway.post(COMPLETIONS, &body).await;
    let error = reply.json();
    assert_eq!((reply.status(), &error["error"]["param"]), (400, &json!("response_format")));
}
