//! Connections to model servers: kept, lost and reused.

use serde_json::json;
use tokio::time::Instant;

use super::failed;
use crate::support::events::{outcome, said};
use crate::support::model::{CHUNKED, DONE, call, finish, text};
use crate::support::{EventStream, Gateway, Model, Round};

#[tokio::test]
async fn its_connection_serves_the_next_round_and_the_next_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let first = round.connection;
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let round = model.round().await;
    assert_eq!(round.connection, first);
    round.answer("Two.").await;
    stream.rest().await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(round.connection, first);
    round.answer("More.").await;
    stream.rest().await;
}

#[tokio::test]
async fn its_idle_connection_has_died() {
    for reset in [false, true] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        round.begin().await;
        round.chunk(text("First.") + &finish("stop") + DONE).await;
        round.write("0\r\n\r\n").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
        let first = round.connection;
        if reset {
            round.reset();
        } else {
            drop(round);
        }
        let (mut stream, round) = gateway.begin(&mut model, "s").await;
        assert_ne!(round.connection, first);
        round.answer("Second.").await;
        assert_eq!(said(&stream.rest().await), "Second.");
    }
}

/// The second turn of a session, whose round has the connection of the first.
async fn reused(gateway: &Gateway, model: &mut Model) -> (EventStream, Round) {
    let (mut stream, round) = gateway.begin(model, "s").await;
    let first = round.connection;
    round.answer("First.").await;
    stream.rest().await;
    let (stream, round) = gateway.begin(model, "s").await;
    assert_eq!(round.connection, first);
    (stream, round)
}

/// The close by the server and the next request cross on the way.
#[tokio::test]
async fn its_idle_connection_dies_on_reuse() {
    for reset in [false, true] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let (mut stream, round) = reused(&gateway, &mut model).await;
        let first = round.connection;
        let asked = round.request.body.clone();
        if reset {
            round.reset();
        } else {
            drop(round);
        }
        let round = model.round().await;
        assert_ne!(round.connection, first);
        assert_eq!(round.request.body, asked);
        round.answer("Second.").await;
        assert_eq!(said(&stream.rest().await), "Second.");
    }
}

/// A server may say so before it closes, just as the next request comes. A new connection has no such excuse.
#[tokio::test]
async fn its_idle_connection_has_waited_too_long_for_a_request() {
    const LATE: &str =
        "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = reused(&gateway, &mut model).await;
    let asked = round.request.body.clone();
    round.write(LATE).await;
    drop(round);
    let mut round = model.round().await;
    assert_eq!(round.request.body, asked);
    round.write(LATE).await;
    failed(&stream.rest().await, "upstream_error", true);
    assert!(model.has_no_requests());
}

/// An answer that has begun may already cost generation, so the request is not repeated.
#[tokio::test]
async fn its_idle_connection_dies_in_the_head_of_the_next_answer() {
    for begun in
        ["H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"]
    {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let (mut stream, mut round) = reused(&gateway, &mut model).await;
        round.write(begun).await;
        drop(round);
        let message = failed(&stream.rest().await, "upstream_error", true);
        assert!(message.contains("response headers"), "{begun:?}: {message}");
        assert!(model.has_no_requests(), "{begun:?}: it was asked again");
    }
}

/// Bytes after `[DONE]` on the connection would be read as the next answer.
#[tokio::test]
async fn it_sends_more_than_it_should() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let first = round.connection;
    round.begin().await;
    round.chunk(text("Well.") + &finish("stop") + DONE + &text("More.")).await;
    round.write(format!("0\r\n\r\n{CHUNKED}")).await;
    round.chunk(text("Smuggled.")).await;
    assert_eq!(said(&stream.rest().await), "Well.");
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_ne!(round.connection, first);
    round.answer("Second.").await;
    assert_eq!(said(&stream.rest().await), "Second.");
}

/// The server says that it is done but leaves the answer open. The turn does not wait.
#[tokio::test]
async fn it_does_not_end_its_answer() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.chunk(text("Well.") + &finish("stop") + DONE).await;
    let ended = Instant::now();
    assert_eq!(outcome(&stream.rest().await), "stop");
    assert!(ended.elapsed() < tether::limits::upstream::ANSWER_END_TIMEOUT);
    round.closed().await;
}
