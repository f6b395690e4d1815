//! `/v1/responses`: chains, branches, background and joining again, with our tools behind them.

use std::sync::Arc;

use serde_json::{Value, json};
use tether::config::Secret;
use tether::limits::server::READINGS_MAX;
use tether::limits::session::INLINE_RECORD_BYTES_MAX;
use tether::tools::{Clarification, ClarificationOption, Policy, ToolResult};

use crate::support::client::{Client, Piece, post, request};
use crate::support::model::{Round, call};
use crate::support::tools::Always;
use crate::support::{Gateway, Model};

mod approvals;
mod chains;
mod deletion;

const RESPONSES: &str = "/v1/responses";

const CALCULATE: &str =
    r#"<<function_call>> {"name":"calculate","arguments":{"expression":"6*7"}}"#;

/// What it returns.
const FOUND: &str = "\"result\":\"42\"";

fn body(input: impl Into<Value>, more: &Value) -> Value {
    let mut body = json!({"model": "fake", "input": input.into()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Posts a request that the model answers in these words, one round each. Returns the response,
/// and what the model was told last.
async fn asked(
    gateway: &Gateway,
    model: &mut Model,
    body: &Value,
    answers: &[&str],
) -> (Value, String) {
    let (reply, told) = tokio::join!(gateway.post(RESPONSES, body), model.answers(answers));
    assert_eq!(reply.status(), 200, "{}", reply.json());
    (reply.json(), told)
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

fn after(previous: &Value) -> Value {
    json!({"previous_response_id": previous["id"]})
}

fn path(response: &Value) -> String {
    format!("{RESPONSES}/{}", id(response))
}

async fn get(gateway: &Gateway, response: &Value) -> Value {
    let reply = gateway.get(&path(response)).await;
    assert_eq!(reply.status(), 200, "{}", reply.json());
    reply.json()
}

/// The types of a response's items.
fn items(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().unwrap();
    output.iter().map(|item| item["type"].as_str().unwrap()).collect()
}

/// Sends a request for a stream.
async fn open(gateway: &Gateway, body: &Value) -> Client {
    let mut client = gateway.client().await;
    client.send(post(RESPONSES, &[], &body.to_string())).await;
    client
}

/// The events of a stream.
fn events(stream: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stream).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Reads events from a stream until one of this type.
async fn read_until(client: &mut Client, kind: &str) -> Vec<Value> {
    let mut text = Vec::new();
    loop {
        match client.piece().await {
            Piece::Bytes(bytes) => text.extend(bytes),
            other => panic!("{other:?}"),
        }
        let events = events(&text);
        if events.iter().any(|event| event["type"] == kind) {
            return events;
        }
    }
}

#[tokio::test]
async fn our_tools_run_behind_a_response_that_can_be_fetched() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body("What is 6*7?", &json!({}));
    let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
    let (response, told) = asked(&gateway, &mut model, &body, &answers).await;
    assert!(told.contains(FOUND), "{told}");
    assert_eq!(items(&response), ["message", "mcp_call", "message"]);
    assert_eq!(response["output"][1]["server_label"], "builtin");
    assert_eq!(response["status"], "completed");
    assert_eq!(get(&gateway, &response).await, response);
}

/// A place to read a long body is free as soon as that has been read.
#[tokio::test]
async fn responses_that_are_waited_for_hold_up_no_other_requests() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let long = |more| body("Hello?", &more).to_string() + &" ".repeat(INLINE_RECORD_BYTES_MAX);
    let mut waiting = Vec::new();
    for _ in 0..READINGS_MAX {
        let mut client = gateway.client().await;
        client.send(post(RESPONSES, &[], &long(json!({})))).await;
        waiting.push((client, model.round().await));
    }
    let mut client = gateway.client().await;
    client.send(post(RESPONSES, &[], &long(json!({"stream": true})))).await;
    model.round().await.answer("Hello.").await;
    assert_eq!(client.reply().await.status(), 200);
}

/// What is streamed to others has no body for HEAD.
#[tokio::test]
async fn head_of_a_stream_leaves_the_connection_in_order() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let asking = body("Hello?", &json!({"background": true}));
    let (response, _) = asked(&gateway, &mut model, &asking, &["Hello."]).await;
    let stream = format!("{}?stream=true", path(&response));
    let mut client = gateway.client().await;
    client.send(request("HEAD", &stream, &[], "")).await;
    assert_eq!(client.head().await.status, 200);
    client.send(request("GET", "/healthz", &[], "")).await;
    assert_eq!(client.reply().await.json()["status"], "ok");
}

#[tokio::test]
async fn a_stream_ends_with_the_response_that_is_kept() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let body = body("What is 6*7?", &json!({"stream": true}));
    let mut client = open(&gateway, &body).await;
    model.round().await.answer(CALCULATE).await;
    model.round().await.answer("It is 42.").await;
    let reply = client.reply().await;
    assert_eq!(reply.head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.head.header("location"), None);
    assert!(reply.body.ends_with(b"data: [DONE]\n\n"));
    let events = events(&reply.body);
    let last = &events.last().unwrap()["response"];
    assert_eq!(get(&gateway, last).await["output"], last["output"]);
    // Its log is still there: the same events again.
    let again = gateway.get(&format!("{}?stream=true", path(last))).await;
    assert_eq!(again.body, reply.body);
    let rest = gateway.get(&format!("{}?stream=true&starting_after=3", path(last))).await;
    assert_eq!(self::events(&rest.body), events[4..]);
}

#[tokio::test]
async fn a_whole_history_finds_what_was_hidden() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    for store in [true, false] {
        let user = json!({"role": "user", "content": format!("What is 6*7? {store}")});
        let first = body(json!([user]), &json!({"store": store}));
        let answers = [&*format!("Let me see. {CALCULATE}"), "It is 42."];
        let (first, _) = asked(&gateway, &mut model, &first, &answers).await;
        let all = first["output"].as_array().unwrap().clone();
        let words: Vec<_> = all.iter().filter(|it| it["type"] == "message").cloned().collect();
        for output in [all, words] {
            let mut input = vec![user.clone()];
            input.extend(output);
            input.push(json!({"role": "user", "content": "Sure?"}));
            let next = body(input, &json!({"store": store}));
            let (_, told) = asked(&gateway, &mut model, &next, &["Yes."]).await;
            assert!(told.contains(FOUND), "{told}");
            assert_eq!(told.matches("It is 42.").count(), 1, "{told}");
        }
    }
}

#[tokio::test]
async fn references_stand_for_items_of_stored_responses() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let first = body("Hi.", &json!({}));
    let (first, _) = asked(&gateway, &mut model, &first, &["I am a parrot."]).await;
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let user = |text: &str| json!({"role": "user", "content": text});
    let next = body(json!([user("Hi."), reference, user("What?")]), &json!({}));
    let (_, told) = asked(&gateway, &mut model, &next, &["Polly."]).await;
    assert!(told.contains("I am a parrot."), "{told}");
}

/// A client that keeps the conversation itself cuts it off, and sends back the words alone.
#[tokio::test]
async fn a_conversation_with_a_name_is_found_although_it_was_cut() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let question = said("user", "What is 6*7?");
    let first = json!([said("user", "Hi."), said("assistant", "Hello."), question]);
    let cut = json!([question, said("assistant", "It is 42."), said("user", "Sure?")]);
    for store in [false, true] {
        let mine = format!("X-Session-Id: {store}");
        let mut told_with = async |header: &str, input: &Value, answers: &[&str]| {
            let body = body(input.clone(), &json!({ "store": store }));
            let request = post(RESPONSES, &[header], &body.to_string());
            let (reply, told) = tokio::join!(gateway.exchange(request), model.answers(answers));
            assert_eq!(reply.status(), 200, "{}", reply.json());
            told
        };
        told_with(&mine, &first, &[CALCULATE, "It is 42."]).await;
        let told = told_with(&mine, &cut, &["Yes."]).await;
        assert!(told.contains(FOUND), "{told}");
        for other in ["X-Session-Id: other", "X-Other: 1"] {
            let told = told_with(other, &cut, &["Yes."]).await;
            assert!(!told.contains(FOUND), "{told}");
        }
    }
}

#[tokio::test]
async fn what_is_not_stored_is_gone() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let stored = body("My name is Ann.", &json!({}));
    let (stored, _) = asked(&gateway, &mut model, &stored, &["Hello."]).await;
    let mut more = after(&stored);
    more["store"] = false.into();
    let (passing, told) = asked(&gateway, &mut model, &body("And I?", &more), &["Ann."]).await;
    assert!(told.contains("Ann"), "it continues what is stored: {told}");
    assert_eq!(gateway.get(&path(&passing)).await.status(), 404);
    let next = gateway.post(RESPONSES, &body("Hm?", &after(&passing))).await;
    assert_eq!(next.status(), 404);
    let error = &next.json()["error"];
    assert_eq!(error["code"], "previous_response_not_found");
    assert_eq!(
        (&error["type"], &error["param"]),
        (&json!("not_found"), &json!("previous_response_id"))
    );
    // It never was one of ours.
    let foreign = gateway.post(RESPONSES, &body("Hm?", &after(&json!({"id": "resp_x"})))).await;
    let error = &foreign.json()["error"];
    assert_eq!((foreign.status(), &error["code"]), (404, &json!("previous_response_not_found")));
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("\"resp_x\" is not the id of a response"), "{message}");
    // The chain has not moved.
    let (_, told) = asked(&gateway, &mut model, &body("So?", &after(&stored)), &["Yes."]).await;
    assert!(!told.contains("And I?"), "{told}");
    assert_eq!(gateway.running.gateway().memory_usage().sessions, 1);
}

#[tokio::test]
async fn responses_are_not_shared_between_keys() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let keys = ["a", "b"].map(|key| Secret::new(key.to_owned()));
        setup.config.server.api_keys = keys.into();
    })
    .await;
    let exchange = async |key: &str, method: &str, path: &str, body: &str| {
        let header = format!("Authorization: Bearer {key}");
        let length = format!("Content-Length: {}", body.len());
        gateway.exchange(request(method, path, &[&header, &length], body)).await
    };
    let hi = body("Hi.", &json!({})).to_string();
    let answering = async { model.round().await.answer("Hello.").await };
    let (response, ()) = tokio::join!(exchange("a", "POST", RESPONSES, &hi), answering);
    let response = response.json();
    let path = path(&response);
    let next = body("And?", &after(&response)).to_string();
    for (method, path, body) in [
        ("GET", &*path, ""),
        ("GET", &format!("{path}/input_items"), ""),
        ("POST", &format!("{path}/cancel"), ""),
        ("DELETE", &path, ""),
        ("POST", RESPONSES, &next),
    ] {
        assert_eq!(exchange("b", method, path, body).await.status(), 404, "{method} {path}");
        assert_eq!(exchange("c", method, path, body).await.status(), 401, "{method} {path}");
    }
    assert_eq!(exchange("a", "GET", &path, "").await.status(), 200);
}

#[tokio::test]
async fn input_items_are_listed_in_pages() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let said = json!({"role": "assistant", "content": "Two."});
    let items = json!([user("One."), said, user("Three.")]);
    let (response, _) = asked(&gateway, &mut model, &body(items, &json!({})), &["Four."]).await;
    let list = async |query: &str| {
        let list = gateway.get(&format!("{}/input_items{query}", path(&response))).await.json();
        let texts = list["data"].as_array().unwrap().iter();
        let texts: Vec<_> = texts.map(|it| it["content"][0]["text"].clone()).collect();
        (texts, list)
    };
    let (texts, all) = list("").await;
    assert_eq!(texts, ["Three.", "Two.", "One."], "the newest first");
    assert_eq!((&all["object"], &all["has_more"]), (&json!("list"), &json!(false)));
    let said = json!([{"type": "output_text", "text": "Two.", "annotations": []}]);
    assert_eq!(
        (&all["data"][1]["content"], &all["data"][1]["status"]),
        (&said, &"completed".into())
    );
    assert_eq!(all["data"][0].get("status"), None, "clients know none of the user's");
    assert_eq!((&all["first_id"], &all["last_id"]), (&all["data"][0]["id"], &all["data"][2]["id"]));
    let (texts, page) = list("?order=asc&limit=2").await;
    assert_eq!(texts, ["One.", "Two."]);
    assert_eq!(page["has_more"], true);
    let seen = page["last_id"].as_str().unwrap();
    assert_eq!(list(&format!("?order=asc&after={seen}")).await.0, ["Three."]);
    assert!(list(&format!("?after={}", all["last_id"].as_str().unwrap())).await.0.is_empty());
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("after=msg_x", "after"),
        ("order=up", "order"),
    ] {
        let answer = gateway.get(&format!("{}/input_items?{query}", path(&response))).await;
        assert_eq!(answer.status(), 400, "{query}");
        assert_eq!(answer.json()["error"]["param"], param, "{query}");
    }
}

#[tokio::test]
async fn a_question_is_answered_in_words_by_the_next_response() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        let question = Clarification {
            r#type: "choice".to_owned(),
            question: "Which size?".to_owned(),
            options: ["s", "m"].map(|id| ClarificationOption::new(id, id)).into(),
            ..Clarification::default()
        };
        let result = ToolResult::clarification(question);
        setup.tools.add(Arc::new(Always::new("pick", Policy::default(), result))).unwrap();
    })
    .await;
    let first = body("Pick.", &json!({}));
    let (first, _) = asked(&gateway, &mut model, &first, &[&call("pick", &json!({}))]).await;
    assert_eq!(first["status"], "completed");
    assert_eq!(items(&first), ["mcp_call", "message"]);
    let question = first["output"][1]["content"][0]["text"].as_str().unwrap();
    assert!(question.contains("1. "), "{question}");
    let (_, told) = asked(&gateway, &mut model, &body("1", &after(&first)), &["Ok."]).await;
    assert!(told.contains("\"id\":\"s\""), "{told}");
}

/// Begins a response in the background, whose model has said `Well`.
async fn in_background(gateway: &Gateway, model: &mut Model) -> (Value, Round) {
    let body = body("Hi.", &json!({"background": true}));
    let reply = gateway.post(RESPONSES, &body).await;
    assert_eq!(reply.status(), 200);
    let queued = reply.json();
    assert_eq!((&queued["status"], &queued["background"]), (&json!("queued"), &json!(true)));
    let mut round = model.round().await;
    round.begin().await;
    round.say("Well").await;
    (queued, round)
}

/// Joins the stream of a response after event `after`.
async fn join(gateway: &Gateway, response: &Value, query: &str) -> Client {
    let mut client = gateway.client().await;
    let path = format!("{}?stream=true{query}", path(response));
    client.send(request("GET", &path, &[], "")).await;
    assert_eq!(client.head().await.status, 200);
    client
}

/// The rest of a stream.
async fn rest(client: &mut Client) -> Vec<u8> {
    let mut rest = Vec::new();
    while let Piece::Bytes(bytes) = client.piece().await {
        rest.extend(bytes);
    }
    rest
}

#[tokio::test]
async fn a_response_in_the_background_needs_no_reader() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.stream.disconnect_grace = std::time::Duration::from_millis(1);
    })
    .await;
    let (queued, mut round) = in_background(&gateway, &mut model).await;
    let mut client = join(&gateway, &queued, "").await;
    read_until(&mut client, "response.output_text.delta").await;
    let running = get(&gateway, &queued).await;
    assert_eq!((&running["status"], &running["output"]), (&json!("in_progress"), &json!([])));
    // The last reader leaves.
    drop(client);
    let mut client = join(&gateway, &queued, "&starting_after=4").await;
    round.say(", hello.").await;
    round.end().await;
    let rest = events(&rest(&mut client).await);
    assert_eq!(rest[0]["sequence_number"], 5);
    assert_eq!(rest[0]["delta"], ", hello.");
    let done = get(&gateway, &queued).await;
    assert_eq!(done["status"], "completed");
    assert_eq!(done["output"][0]["content"][0]["text"], "Well, hello.");
    assert_eq!(rest.last().unwrap()["response"], done);
}

#[tokio::test]
async fn a_response_in_the_background_can_be_cancelled() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (queued, mut round) = in_background(&gateway, &mut model).await;
    let cancel = async || gateway.post(&format!("{}/cancel", path(&queued)), &json!({})).await;
    let cancelled = cancel().await;
    assert_eq!(cancelled.status(), 200);
    assert_eq!(cancelled.json()["status"], "cancelled");
    round.closed().await;
    assert_eq!(cancel().await.json(), cancelled.json(), "it stays as it is");
    assert_eq!(get(&gateway, &queued).await, cancelled.json());
}

#[tokio::test]
async fn only_the_background_is_cancelled_by_request() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut client = open(&gateway, &body("Hi.", &json!({"stream": true}))).await;
    let mut round = model.round().await;
    assert_eq!(client.head().await.status, 200);
    let created = read_until(&mut client, "response.created").await;
    let response = &created[0]["response"];
    let refused = gateway.post(&format!("{}/cancel", path(response)), &json!({})).await;
    assert_eq!(refused.status(), 400);
    let busy = gateway.post(RESPONSES, &body("And?", &after(response))).await;
    assert_eq!(busy.status(), 409, "nothing can follow it yet");
    round.begin().await;
    round.say("Ho.").await;
    round.end().await;
    read_until(&mut client, "response.completed").await;
}

#[tokio::test]
async fn a_key_begins_one_response() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let hi = body("Hi.", &json!({})).to_string();
    let send = async || gateway.exchange(post(RESPONSES, &["Idempotency-Key: k"], &hi)).await;
    let answering = async { model.round().await.answer("Hello.").await };
    let (first, ()) = tokio::join!(send(), answering);
    let (first, second) = (first.json(), send().await.json());
    assert_eq!(second["id"], first["id"]);
    for form in [json!({}), json!({"stream": true})] {
        let mut other = body("Hi.", &form);
        other["metadata"] = json!({"sent": "again"});
        let again = gateway.exchange(post(RESPONSES, &["Idempotency-Key: k"], &other.to_string()));
        let again = again.await;
        let again = if form == json!({}) {
            again.json()
        } else {
            events(&again.body).pop().unwrap()["response"].take()
        };
        assert_eq!(again, first, "it describes the response that it began");
    }
    // So it does in a chain that it has moved on.
    let next = body("And?", &after(&first)).to_string();
    let send = async || gateway.exchange(post(RESPONSES, &["Idempotency-Key: l"], &next)).await;
    let answering = async { model.round().await.answer("So.").await };
    let (third, ()) = tokio::join!(send(), answering);
    assert_eq!(send().await.json()["id"], third.json()["id"]);
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn old_logs_are_gone_and_their_responses_are_replayed() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let (first, _) = asked(&gateway, &mut model, &body("0", &json!({})), &["Zero"]).await;
    let mut last = first.clone();
    for number in 1..=4 {
        let next = body(number.to_string(), &after(&last));
        (last, _) = asked(&gateway, &mut model, &next, &["And so on."]).await;
    }
    let all = gateway.get(&format!("{}?stream=true", path(&first))).await;
    let all = events(&all.body);
    assert_eq!(all.last().unwrap()["response"], first);
    assert!(all.iter().any(|event| event["delta"] == "Zero"), "{all:?}");
    let end = gateway.get(&format!("{}?stream=true&starting_after=5", path(&first))).await;
    let end = events(&end.body);
    assert_eq!((end.len(), &end[0]["sequence_number"]), (1, &json!(6)));
    assert_eq!(end[0]["response"], first);
}

#[tokio::test]
async fn a_failure_is_kept_as_one() {
    let (mut model, gateway) = Gateway::with_model(|_| {}).await;
    let mut client = open(&gateway, &body("Hi.", &json!({"stream": true}))).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("Well").await;
    round.chunk("data: no JSON\n\n").await;
    round.closed().await;
    let events = events(&client.reply().await.body);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let kept = get(&gateway, &last["response"]).await;
    assert_eq!(
        (&kept["status"], &kept["error"]["code"]),
        (&json!("failed"), &json!("invalid_prompt"))
    );
}

#[tokio::test]
async fn a_stream_whose_reader_leaves_is_cancelled_after_the_grace() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.stream.disconnect_grace = std::time::Duration::from_millis(20);
    })
    .await;
    let mut client = open(&gateway, &body("Hi.", &json!({"stream": true}))).await;
    let mut round = model.round().await;
    assert_eq!(client.head().await.status, 200);
    let created = read_until(&mut client, "response.created").await;
    drop(client);
    round.closed().await;
    let mut client = join(&gateway, &created[0]["response"], "").await;
    let all = events(&rest(&mut client).await);
    assert_eq!(all.last().unwrap()["response"]["status"], "cancelled");
}

#[tokio::test]
async fn requests_that_cannot_be_answered_are_refused_in_the_dialects_form() {
    let (_model, gateway) = Gateway::with_model(|_| {}).await;
    for (body, status, code, param) in [
        (json!({"input": "Hi."}), 400, "invalid_request", json!("model")),
        (json!({"model": "gpt-9", "input": "Hi."}), 404, "model_not_found", json!("model")),
        (json!({"model": "fake"}), 400, "invalid_request", json!("input")),
        (json!({"model": 1}), 400, "invalid_request", json!("model")),
        (
            json!({"model": "fake", "input": "Hi.", "tool_choice": {"type": "function", "name": "x"}}),
            400,
            "invalid_request",
            json!("tool_choice"),
        ),
    ] {
        let reply = gateway.post(RESPONSES, &body).await;
        assert_eq!(reply.status(), status, "{body}");
        let error = &reply.json()["error"];
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &param), "{body}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
    }
    for path in ["/v1/responses/", "/v1/responses/x", "/v1/responses/x/y", "/v1/responses/x/y/z"] {
        assert_eq!(gateway.get(path).await.status(), 404, "{path}");
    }
    assert_eq!(gateway.get(RESPONSES).await.status(), 405);
    let compact = gateway.post("/v1/responses/compact", &json!({"model": "fake"})).await;
    assert_eq!(compact.status(), 404);
}
