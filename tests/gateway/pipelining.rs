//! Requests on one connection, each sent before the answer to the one before it has arrived, and streams among them.

use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::support::client::{Reply, post, request};
use crate::support::events::{frames, outcome, said};
use crate::support::gateway::STREAM;
use crate::support::{Gateway, Model, until, within};

/// A request to answer this prompt with a stream.
fn ask(prompt: &str) -> String {
    post(STREAM, &[], &json!({ "prompt": prompt }).to_string())
}

/// Answers each prompt with what it begins with.
async fn echo(mut model: Model) {
    loop {
        let round = model.round().await;
        let messages = round.request.body["messages"].as_array().unwrap();
        let prompt = messages.last().unwrap()["content"].as_str().unwrap();
        let words = prompt.split(' ').next().unwrap().to_owned();
        round.answer_at_once(&words).await;
    }
}

#[track_caller]
fn check_said(reply: &Reply, words: &str) {
    assert_eq!(reply.status(), 200, "{words}: {}", String::from_utf8_lossy(&reply.body));
    let frames = frames(&reply.body);
    assert_eq!((&*said(&frames), outcome(&frames)), (words, "stop"));
}

/// They are more than the gateway reads at once, so some of them are in each of its buffers when a stream begins.
#[tokio::test]
async fn requests_behind_streams_are_answered_in_order() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let model = tokio::spawn(echo(model));
    for bytes in [2000, 7000, 9000, 12_000, 15_000, 30_000] {
        let long = format!("c {}", "p".repeat(bytes));
        let mut client = gateway.client().await;
        let requests = ["a", "b", &*long, "d", &*long, "e"].map(ask).concat();
        client.send(requests + &request("GET", "/healthz", &[], "")).await;
        for words in ["a", "b", "c", "d", "c", "e"] {
            check_said(&client.reply().await, words);
        }
        assert_eq!(client.reply().await.status(), 200);
    }
    model.abort();
}

/// If some bytes of a body were lost, its rest would be read as the next request.
#[tokio::test]
async fn a_request_in_the_body_of_another_is_never_run() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    gateway.whole_turn(&mut model, "victim", "Well.").await.rest().await;
    let model = tokio::spawn(echo(model));
    let hidden = request("DELETE", "/api/v1/sessions/victim", &[], "");
    let body = format!("{{\"prompt\":\"last {}", "x".repeat(3000));
    let length = format!("Content-Length: {}", body.len() + hidden.len());
    let last = request("POST", STREAM, &["Content-Type: application/json", &length], &body);
    for filled in [8000, 8192, 16_384] {
        // Streams that fill a buffer, up to where the last request begins.
        let mut between = String::new();
        while between.len() + 1000 < filled {
            between += &ask("b");
        }
        let count = between.len() / ask("b").len();
        let empty = ask("b 100").len();
        between += &ask(&format!("b 100{}", "p".repeat(filled - between.len() - empty - 1)));
        let mut client = gateway.client().await;
        client.send(ask("a") + &between + &last).await;
        check_said(&client.reply().await, "a");
        for _ in 0..=count {
            check_said(&client.reply().await, "b");
        }
        client.send(&hidden).await;
        // The body is not JSON: what is hidden in it has line breaks.
        assert_eq!(client.reply().await.status(), 400, "{filled}");
        assert_eq!(gateway.get("/api/v1/sessions/victim").await.status(), 200, "{filled}");
    }
    model.abort();
}

/// hyper reads the request behind an answer before all of the answer is sent.
#[tokio::test]
async fn a_stream_does_not_begin_before_the_answer_before_it_is_sent() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let described = gateway.get("/openapi.json").await.body;
    let mut client = gateway.narrow_client().await;
    let chunked =
        request("GET", "/openapi.json", &["Transfer-Encoding: chunked"], "5\r\nhello\r\n0\r\n\r\n");
    client.send(chunked.repeat(8) + &ask("a")).await;
    // Nothing is read until the turn runs, or cannot begin.
    let mut replies = Vec::new();
    for _ in 0..8 {
        replies.push(client.reply().await);
    }
    let round = model.round().await;
    round.answer("a").await;
    for reply in replies {
        assert!(reply.body == described, "{} of {} bytes", reply.body.len(), described.len());
    }
    check_said(&client.reply().await, "a");
}

/// The system answers bytes that nobody reads with a reset, which overtakes what the client has not read yet.
#[tokio::test]
async fn a_stream_is_complete_even_if_something_follows_the_last_request() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.narrow_client().await;
    let body = json!({"prompt": "a"}).to_string();
    client.send(post(STREAM, &["Connection: close"], &body)).await;
    let mut round = model.round().await;
    round.begin().await;
    // hyper would read what is sent before the stream begins.
    assert_eq!(client.head().await.status, 200);
    client.send(request("GET", "/healthz", &[], "")).await;
    // More than the systems of both sides take before the client reads: when the gateway writes the last of it, some is
    // still on its way.
    for _ in 0..128 {
        round.say(&"0123456 ".repeat(1024)).await;
    }
    round.end().await;
    until(|| gateway.running.gateway().running() == 0).await;
    let mut received = Vec::new();
    let _ = within(client.socket.read_to_end(&mut received)).await;
    let body = String::from_utf8(received).unwrap();
    assert!(body.contains("event: turn_completed"), "{} bytes", body.len());
    assert!(body.ends_with("\r\n0\r\n\r\n"), "the next request is not answered");
}
