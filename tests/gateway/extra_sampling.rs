//! Ways to choose tokens that only some model servers know.

use serde_json::{Value, json};
use tether::upstream::dialect::Kind;

use crate::support::client::{Client, post};
use crate::support::model::Round;
use crate::support::{Gateway, Model};

async fn ask(gateway: &Gateway, fields: &Value) -> Client {
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let mut body = json!({"model": "fake", "messages": messages});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut client = gateway.client().await;
    client.send(post("/v1/chat/completions", &[], &body.to_string())).await;
    client
}

async fn refuse(mut round: Round, reason: &str) {
    let body = json!({"error": {"message": reason}}).to_string();
    let length = body.len();
    round.write(format!("HTTP/1.1 422 No\r\nContent-Length: {length}\r\n\r\n{body}")).await;
    round.keep();
}

#[track_caller]
fn check(round: &Round, fields: &Value) {
    for (name, value) in fields.as_object().unwrap() {
        assert_eq!(round.request.body.get(name).unwrap_or(&Value::Null), value, "{name}");
    }
}

#[tokio::test]
async fn it_is_passed_on_as_it_is() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let fields = json!({
        "frequency_penalty": 0.5, "presence_penalty": -0.5, "repeat_penalty": 1.1, "min_p": 0.05,
        "top_k": 40, "logit_bias": {"42": -100}, "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": false},
    });
    let mut client = ask(&gateway, &fields).await;
    let round = model.round().await;
    check(&round, &fields);
    round.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
}

#[tokio::test]
async fn a_server_that_refuses_it_is_asked_without_it_and_not_sent_it_again() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let fields = json!({"top_k": 40, "min_p": 0.05});
    let mut client = ask(&gateway, &fields).await;
    refuse(model.round().await, "extra inputs are not permitted: top_k").await;
    let round = model.round().await;
    check(&round, &json!({"top_k": null, "min_p": 0.05}));
    round.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
    let mut client = ask(&gateway, &fields).await;
    let round = model.round().await;
    check(&round, &json!({"top_k": null, "min_p": 0.05}));
    refuse(round, "no").await;
    let round = model.round().await;
    check(&round, &json!({"top_k": null, "min_p": null}));
    round.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
}

/// The first model is still asked when the other one takes its place.
#[tokio::test]
async fn a_model_is_sent_what_the_one_before_it_refused() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let fields = json!({"top_k": 40});
    let mut client = ask(&gateway, &fields).await;
    refuse(model.round().await, "no top_k").await;
    let asked_again = model.round().await;
    let mut other = ask(&gateway, &json!({})).await;
    let mut unknown = model.round().await;
    unknown.write("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").await;
    unknown.keep();
    assert_eq!(other.reply().await.status(), 502);
    asked_again.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
    let _client = ask(&gateway, &fields).await;
    check(&model.round().await, &fields);
}

/// The Responses API has fields of its own for two of them.
#[tokio::test]
async fn a_server_with_the_responses_api_gets_it_too() {
    let (mut model, gateway) =
        Gateway::with_model(|setup| setup.upstream().dialect = Kind::OpenaiResponses).await;
    let fields = json!({"reasoning_effort": "low", "top_k": 40, "min_p": 0.05});
    let _client = ask(&gateway, &fields).await;
    let round = model.round().await;
    check(&round, &json!({"reasoning": {"effort": "low"}, "top_k": 40, "min_p": 0.05}));
    refuse(round, "Unsupported parameter: 'reasoning.effort' is not supported").await;
    let round = model.round().await;
    check(&round, &json!({"reasoning": null, "reasoning_effort": null, "top_k": 40}));
    refuse(round, "Unknown parameter: 'top_k'.").await;
    let round = model.round().await;
    check(&round, &json!({"reasoning": null, "top_k": null, "min_p": 0.05}));
}

#[tokio::test]
async fn a_refusal_of_something_else_stays_one() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = ask(&gateway, &json!({"top_k": 40})).await;
    for _ in 0..2 {
        refuse(model.round().await, "no such thing").await;
    }
    assert_eq!(client.reply().await.status(), 502);
    let _client = ask(&gateway, &json!({"top_k": 40})).await;
    check(&model.round().await, &json!({"top_k": 40}));
}

#[tokio::test]
async fn what_is_no_sampling_is_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let long = |bytes: usize| json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
    let most = 16 << 10;
    for (name, value) in [
        ("top_k", json!("many")),
        ("logit_bias", json!([])),
        ("reasoning_effort", json!(3)),
        ("chat_template_kwargs", json!("x")),
        ("chat_template_kwargs", long(most + 1)),
    ] {
        let reply = ask(&gateway, &json!({ name: value })).await.reply().await;
        let error = reply.json();
        assert_eq!((reply.status(), &error["error"]["param"]), (400, &json!(name)), "{error}");
    }
    let mut model = model;
    let _client = ask(&gateway, &json!({ "chat_template_kwargs": long(most) })).await;
    check(&model.round().await, &json!({ "chat_template_kwargs": long(most) }));
}
