//! Clients that keep the conversation themselves, with several gateways: what was hidden from them is known on
//! any node, and after a restart.

mod questions;

pub(crate) use questions::store_at;

use serde_json::{Value, json};

use crate::support::Model;
use crate::support::client::{post, request};
use crate::support::gateway::Endpoint;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::{ag_ui, ai_sdk, embedded_store, nodes};

const CALCULATE: &str =
    r#"<<function_call>> {"name":"calculate","arguments":{"expression":"6*7"}}"#;

/// What it returns.
const FOUND: &str = "\"result\":\"42\"";

const ANSWERS: [&str; 2] = [CALCULATE, "It is forty-two."];

/// A request for a chat completion.
fn completion(messages: &Value) -> Value {
    json!({"model": "fake", "messages": messages})
}

/// Posts a request that the model answers in these words, one round each. Returns the answer, and
/// what the model was told last.
async fn asked(
    (gateway, path): (&Endpoint, &str),
    model: &mut Model,
    body: &Value,
    answers: &[&str],
) -> (Value, String) {
    let (reply, told) = tokio::join!(gateway.post(path, body), model.answers(answers));
    assert_eq!(reply.status(), 200, "{}", reply.json());
    (reply.json(), told)
}

/// The API of a client: its address, its first request, and the next one after this answer.
type Api = (&'static str, Value, fn(&Value) -> Value);

fn apis() -> [Api; 3] {
    let sum = json!({"role": "user", "content": "What is 6*7?"});
    let next = |answer: &Value| {
        let message = &answer["choices"][0]["message"];
        completion(&json!([
            {"role": "user", "content": "What is 6*7?"},
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": "Sure?"},
        ]))
    };
    let next_message = |answer: &Value| {
        json!({"model": "fake", "max_tokens": 100, "messages": [
            {"role": "user", "content": "What is 6*7?"},
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": "Sure?"},
        ]})
    };
    let next_response = |answer: &Value| {
        let mut input = vec![json!({"role": "user", "content": "What is 6*7?"})];
        input.extend(answer["output"].as_array().unwrap().clone());
        input.push(json!({"role": "user", "content": "Sure?"}));
        json!({"model": "fake", "store": false, "input": input})
    };
    [
        ("/v1/chat/completions", completion(&json!([sum])), next),
        (
            "/v1/messages",
            json!({"model": "fake", "max_tokens": 100, "messages": [sum]}),
            next_message,
        ),
        ("/v1/responses", json!({"model": "fake", "store": false, "input": [sum]}), next_response),
    ]
}

#[tokio::test]
async fn a_hidden_round_is_known_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    for (path, first, next) in apis() {
        let [one, two] = [nodes::start(&model, &server).await, nodes::start(&model, &server).await];
        let (answer, _) = asked((&one, path), &mut model, &first, &ANSWERS).await;
        let (_, told) = asked((&two, path), &mut model, &next(&answer), &["Yes."]).await;
        assert!(told.contains(FOUND), "{path}: {told}");
        assert_eq!(told.matches("forty-two").count(), 1, "{path}: {told}");
    }
}

#[tokio::test]
async fn a_hidden_round_is_known_after_a_restart() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    for (path, first, next) in apis() {
        let process = embedded_store::start(&model, directory.path()).await;
        let (answer, _) = asked((&process, path), &mut model, &first, &ANSWERS).await;
        process.signal("KILL");
        process.exit().await;
        let process = embedded_store::start(&model, directory.path()).await;
        let (_, told) = asked((&process, path), &mut model, &next(&answer), &["Yes."]).await;
        assert!(told.contains(FOUND), "{path}: {told}");
    }
}

/// The client of a conversation that it names may have cut off its beginning.
#[tokio::test]
async fn a_conversation_that_was_cut_is_found_by_its_name_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [nodes::start(&model, &server).await, nodes::start(&model, &server).await];
    let path = "/v1/chat/completions";
    let named = |messages: Value| {
        let mut body = completion(&messages);
        body["tether"] = json!({"session_id": "c"});
        body
    };
    let history = json!([
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "What is 6*7?"},
    ]);
    asked((&one, path), &mut model, &named(history), &ANSWERS).await;
    let cut = json!([
        {"role": "user", "content": "What is 6*7?"},
        {"role": "assistant", "content": "It is forty-two."},
        {"role": "user", "content": "Sure?"},
    ]);
    let (_, told) = asked((&two, path), &mut model, &named(cut), &["Yes."]).await;
    assert!(told.contains(FOUND), "{told}");
}

#[tokio::test]
async fn a_thread_of_ag_ui_goes_on_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [nodes::start(&model, &server).await, nodes::start(&model, &server).await];
    let sent = [ag_ui::user("What is 6*7?")];
    let (events, _) = ag_ui::ran(&one, &mut model, &ag_ui::body(&sent), &ANSWERS).await;
    let mut history = ag_ui::messages(&sent, &events);
    // The client's word for what our tool returned does not count.
    for message in &mut history {
        if message["role"] == "tool" {
            message["content"] = "43".into();
        }
    }
    history.push(ag_ui::user("Sure?"));
    let (_, told) = ag_ui::ran(&two, &mut model, &ag_ui::body(&history), &["Yes."]).await;
    assert!(told.contains(FOUND) && !told.contains("43"), "{told}");
}

#[tokio::test]
async fn a_chat_of_the_ai_sdk_goes_on_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [nodes::start(&model, &server).await, nodes::start(&model, &server).await];
    let first = ai_sdk::user("What is 6*7?");
    let body = ai_sdk::body(std::slice::from_ref(&first));
    let (parts, _) = ai_sdk::asked(&one, &mut model, &body, &ANSWERS).await;
    let history = [first, sure_of_43(&parts), ai_sdk::user("Sure?")];
    let (_, told) = ai_sdk::asked(&two, &mut model, &ai_sdk::body(&history), &["Yes."]).await;
    assert!(told.contains(FOUND) && !told.contains("43"), "{told}");
}

/// The message that a client makes of these parts, with another result.
fn sure_of_43(parts: &[Value]) -> Value {
    let mut forged = ai_sdk::message(parts);
    for part in forged["parts"].as_array_mut().unwrap() {
        if part.get("output").is_some() {
            part["output"] = json!({"result": "43"});
        }
    }
    forged
}

/// Begins a turn of the AI SDK that calculates, and reads it until it has said this.
async fn begin_to_say(
    one: &Process,
    model: &mut Model,
    words: &str,
) -> crate::support::model::Round {
    let mut client = one.client().await;
    let body = ai_sdk::body(&[ai_sdk::user("What is 6*7?")]);
    client.send(post(ai_sdk::CHAT, &[], &body.to_string())).await;
    model.round().await.answer(CALCULATE).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say(words).await;
    assert_eq!(client.head().await.status, 200);
    ai_sdk::read_until(&mut client, words).await;
    round
}

/// Also that its end is seen on a third one, although nothing is left of its session.
#[tokio::test]
async fn what_a_turn_found_before_it_was_taken_over_is_known_later() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two, three] = [
        nodes::start(&model, &server).await,
        nodes::start(&model, &server).await,
        nodes::start(&model, &server).await,
    ];
    let round = begin_to_say(&one, &mut model, "It is forty").await;
    let mut reader = two.client().await;
    reader.send(request("GET", ai_sdk::JOIN, &[], "")).await;
    assert_eq!(reader.head().await.status, 200);
    ai_sdk::read_until(&mut reader, "It is forty").await;
    one.signal("KILL");
    one.exit().await;
    drop(round);
    model.round().await.answer("-two.").await;
    ai_sdk::read_until(&mut reader, "[DONE]").await;
    let mut body = ai_sdk::body(&[ai_sdk::user("What is 6*7?")]);
    body["messages"].as_array_mut().unwrap().extend([
        json!({"id": "a", "role": "assistant",
            "parts": [{"type": "text", "text": "It is forty-two."}]}),
        ai_sdk::user("Sure?"),
    ]);
    let (_, told) = ai_sdk::asked(&three, &mut model, &body, &["Yes."]).await;
    assert!(told.contains(FOUND), "{told}");
}

/// A reader on another node sees the end of a turn whose session is forgotten then.
#[tokio::test]
async fn a_turn_of_the_ai_sdk_is_read_to_its_end_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [nodes::start(&model, &server).await, nodes::start(&model, &server).await];
    let round = begin_to_say(&one, &mut model, "It is forty").await;
    let mut reader = two.client().await;
    reader.send(request("GET", ai_sdk::JOIN, &[], "")).await;
    assert_eq!(reader.head().await.status, 200);
    ai_sdk::read_until(&mut reader, "It is forty").await;
    round.end().await;
    let end = ai_sdk::read_until(&mut reader, "[DONE]").await;
    assert!(end.contains("\"finish\""), "{end}");
    assert_eq!(two.get(ai_sdk::JOIN).await.status(), 204);
}
