//! HTTP/2 with prior knowledge, on the same port.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::events::{frames, names, outcome, said};
use crate::support::gateway::{CANCEL, STREAM};
use crate::support::h2::{Connection, collect};
use crate::support::{Frame, Gateway, Model, ms, until, within};

/// The window size of a browser.
const WINDOW: u32 = 64 * 1024;

fn prompt(session: &str) -> String {
    json!({"session_id": session, "prompt": "Hello?"}).to_string()
}

async fn events(body: Incoming) -> Vec<Frame> {
    frames(&collect(body).await.unwrap())
}

/// The first bytes of a body, and the rest of the body.
#[track_caller]
fn first_bytes(mut body: Incoming) -> impl Future<Output = (Vec<u8>, Incoming)> {
    within(async {
        let frame = body.frame().await.unwrap().unwrap();
        (frame.into_data().unwrap().to_vec(), body)
    })
}

#[tokio::test]
async fn a_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let reply = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    assert_eq!(reply.status(), 200);
    let headers = reply.headers();
    assert_eq!(headers["content-type"], "text/event-stream; charset=utf-8");
    assert!(headers.contains_key("location") && headers.contains_key("x-request-id"));
    assert!(!headers.contains_key("transfer-encoding") && !headers.contains_key("connection"));
    // The first event is there before the model writes anything.
    let (mut bytes, body) = first_bytes(reply.into_body()).await;
    model.round().await.answer("Well.").await;
    bytes.extend(collect(body).await.unwrap());
    let frames = frames(&bytes);
    assert_eq!(names(&frames), ["turn_started", "text_delta", "turn_completed"]);
    assert_eq!(said(&frames), "Well.");
}

/// A client takes a body of an answer to HEAD for an error of the protocol.
#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    for path in ["/healthz", "/v1/models", "/nowhere"] {
        let got = connection.send("GET", path, "").await.unwrap();
        let length = collect(got.into_body()).await.unwrap().len();
        let reply = connection.send("HEAD", path, "").await.unwrap();
        assert_eq!(reply.headers()["content-length"], length.to_string(), "{path}");
        assert_eq!(collect(reply.into_body()).await.unwrap(), b"");
    }
}

#[tokio::test]
async fn turns_share_a_connection_and_end_in_any_order() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let mut turns = Vec::new();
    for session in ["a", "b", "c"] {
        let reply = connection.send("POST", STREAM, &prompt(session)).await.unwrap();
        turns.push((session, reply.into_body(), model.round().await));
    }
    let (first, second, third) = (turns.remove(0), turns.remove(0), turns.remove(0));
    for (session, body, round) in [third, first, second] {
        round.answer(session).await;
        let frames = events(body).await;
        assert_eq!(frames[0].data["session_id"], session);
        assert_eq!((outcome(&frames), &*said(&frames)), ("stop", session));
    }
}

#[tokio::test]
async fn a_long_answer_passes_a_small_window() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, 100).await;
    let reply = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    let words = "word ".repeat(50_000);
    model.round().await.answer(&words).await;
    assert!(said(&events(reply.into_body()).await) == words, "it came whole");
}

#[tokio::test]
async fn a_turn_is_joined_and_cancelled_over_its_own_connection() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let first = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    let mut round = model.round().await;
    let path = format!("{STREAM}?session_id=s&last_event_id=1-1");
    let second = connection.send("GET", &path, "").await.unwrap();
    let cancel = json!({"session_id": "s"}).to_string();
    assert_eq!(connection.send("POST", CANCEL, &cancel).await.unwrap().status(), 202);
    round.closed().await;
    let first = events(first.into_body()).await;
    assert_eq!(outcome(&first), "cancelled");
    assert_eq!(events(second.into_body()).await, first[1..]);
}

#[tokio::test]
async fn a_reset_stream_ends_its_turn_and_no_other() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |setup| setup.config.stream.disconnect_grace = ms(1)).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let left = connection.send("POST", STREAM, &prompt("left")).await.unwrap();
    let mut left_round = model.round().await;
    let stays = connection.send("POST", STREAM, &prompt("stays")).await.unwrap();
    let stays_round = model.round().await;
    drop(left);
    left_round.closed().await;
    stays_round.answer("Here.").await;
    assert_eq!(said(&events(stays.into_body()).await), "Here.");
}

#[tokio::test]
async fn a_connection_that_breaks_loses_nothing() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let reply = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    let round = model.round().await;
    connection.cut();
    collect(reply.into_body()).await.expect_err("the connection is gone");
    round.answer("Well.").await;
    let frames = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Well."));
}

#[tokio::test]
async fn errors_are_json_here_too() {
    let model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.server.max_body_bytes = 1024).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let long = json!({"prompt": "x".repeat(2000)}).to_string();
    for (method, path, body, status, code) in [
        ("GET", "/nowhere", "", 404, "not_found"),
        ("PUT", STREAM, "", 405, "method_not_allowed"),
        ("POST", STREAM, "{", 400, "invalid_request"),
        ("POST", STREAM, &*long, 413, "body_too_large"),
    ] {
        let reply = connection.send(method, path, body).await.unwrap();
        assert_eq!(reply.status(), status, "{method} {path}");
        let body = collect(reply.into_body()).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], code, "{method} {path}");
    }
}

/// Whoever tries again should come to another gateway.
#[tokio::test]
async fn a_connection_that_a_draining_gateway_refuses_takes_no_more_requests() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let reply = connection.send("POST", STREAM, &prompt("a")).await.unwrap();
    let round = model.round().await;
    let draining = Arc::clone(gateway.running.gateway());
    let drained = tokio::spawn(async move { draining.drain(Duration::from_secs(60)).await });
    until(|| gateway.running.gateway().is_draining()).await;
    let refused = connection.send("POST", STREAM, &prompt("b")).await.unwrap();
    assert_eq!(refused.status(), 503);
    within(async { while connection.send("GET", "/healthz", "").await.is_ok() {} }).await;
    // But what it streams goes on.
    round.answer("Well.").await;
    assert_eq!(said(&events(reply.into_body()).await), "Well.");
    assert!(within(drained).await.unwrap());
}

/// The time for an idle connection does not apply to one with a stream.
#[tokio::test]
async fn a_stream_outlives_the_time_for_an_idle_connection() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.timeouts.head = ms(20);
        setup.config.stream.keep_alive = ms(25);
    })
    .await;
    let mut connection = Connection::open(gateway.address, WINDOW).await;
    let mut body = connection.send("POST", STREAM, &prompt("s")).await.unwrap().into_body();
    let round = model.round().await;
    let mut comments = 0;
    while comments < 4 {
        let (bytes, rest) = first_bytes(body).await;
        comments += usize::from(bytes.starts_with(b":"));
        body = rest;
    }
    round.answer("Still here.").await;
    assert_eq!(said(&events(body).await), "Still here.");
}
