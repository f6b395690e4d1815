//! Turns that end because they are no longer wanted.

use std::future::pending;
use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

use crate::support::client::post;
use crate::support::events::{names, outcome, said};
use crate::support::gateway::{CANCEL, STREAM, Setup};
use crate::support::model::call;
use crate::support::tools::Wait;
use crate::support::{Gateway, Model, ms, until};

async fn with_wait(model: &Model, change: impl FnOnce(&mut Setup)) -> (Gateway, Wait) {
    let wait = Wait::new();
    let tool = Arc::new(wait.clone());
    let gateway = Gateway::with(model.address, |setup| {
        setup.tools.add(tool).unwrap();
        change(setup);
    })
    .await;
    (gateway, wait)
}

#[tokio::test]
async fn before_the_answers_head() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    let frames = stream.rest().await;
    assert_eq!(names(&frames), ["turn_started", "turn_completed"]);
    assert_eq!(outcome(&frames), "cancelled");
}

#[tokio::test]
async fn after_the_head_before_the_first_word() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
}

#[tokio::test]
async fn in_the_middle_of_the_text_which_is_kept() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half of it").await;
    let mut frames = stream.up_to_text("Half of it").await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    frames.extend(stream.rest().await);
    assert_eq!(outcome(&frames), "cancelled");
    assert_eq!(frames.last().unwrap().data["text"], "Half of it");
    // The history is valid and includes the partial answer.
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert!(round.request.contents().contains("Half of it"));
}

#[tokio::test]
async fn in_the_middle_of_a_call_which_is_not_run() {
    let mut model = Model::listen();
    let (gateway, wait) = with_wait(&model, |_| {}).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("<<function_call>> {\"name\": \"wait\", \"arg").await;
    stream.up_to("tool_marker_detected").await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    assert_eq!(wait.running(), 0);
}

#[tokio::test]
async fn while_a_tool_runs_which_is_dropped() {
    let mut model = Model::listen();
    let (gateway, wait) = with_wait(&model, |_| {}).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer(&call("wait", &json!({}))).await;
    wait.started().await;
    assert_eq!(wait.running(), 1);
    assert_eq!(gateway.cancel("s").await, 202);
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    until(|| wait.running() == 0).await;
    assert!(model.has_no_requests());
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    assert!(round.request.contents().contains("interrupted"), "{}", round.request.contents());
}

#[tokio::test]
async fn while_a_tool_runs_alongside_the_model() {
    let mut model = Model::listen();
    let (gateway, wait) = with_wait(&model, |_| {}).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say(&call("wait", &json!({}))).await;
    round.say("\n").await;
    wait.started().await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    until(|| wait.running() == 0).await;
}

#[tokio::test]
async fn in_the_second_round() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer(&call("calculate", &json!({"expression": "1+1"}))).await;
    let mut round = model.round().await;
    round.begin().await;
    assert_eq!(gateway.cancel("s").await, 202);
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
}

#[tokio::test]
async fn while_a_refused_request_waits_to_be_sent_again() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.write("HTTP/1.1 503 Busy\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n").await;
    stream.up_to("turn_started").await;
    assert_eq!(gateway.cancel("s").await, 202);
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn only_a_running_turn_can_be_cancelled() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    assert_eq!(gateway.cancel("s").await, 404);
    gateway.whole_turn(&mut model, "s", "Well.").await.rest().await;
    assert_eq!(gateway.cancel("s").await, 404);
    let all = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(outcome(&all), "stop");
}

#[tokio::test]
async fn cancelling_twice_is_the_same_as_once() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, _round) = gateway.begin(&mut model, "s").await;
    let cancel = post(CANCEL, &[], r#"{"session_id":"s"}"#);
    let mut client = gateway.client().await;
    // Both in one write: by the second, the turn may be over.
    client.send(cancel.repeat(2)).await;
    assert_eq!(client.reply().await.status(), 202);
    assert!(matches!(client.reply().await.status(), 202 | 404));
    assert_eq!(outcome(&stream.rest().await), "cancelled");
}

#[tokio::test]
async fn a_bad_request_to_cancel_is_refused() {
    let model = Model::listen();
    let gateway = Gateway::start(&model).await;
    for body in [json!({}), json!({"session_id": 1}), json!({"session_id": "s", "x": 1})] {
        assert_eq!(gateway.post(CANCEL, &body).await.refusal().0, 400, "{body}");
    }
}

#[tokio::test]
async fn no_client_rejoins_within_the_grace() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(50)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half").await;
    stream.up_to_text("Half").await;
    drop(stream);
    let left = Instant::now();
    round.closed().await;
    assert!(left.elapsed() >= ms(50), "{:?}", left.elapsed());
    let all = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(outcome(&all), "cancelled");
    assert_eq!(said(&all), "Half");
}

#[tokio::test]
async fn without_a_grace_a_turn_ends_with_its_reader() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
    let (stream, mut round) = gateway.begin(&mut model, "s").await;
    drop(stream);
    round.closed().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_a_tool_runs() {
    let mut model = Model::listen();
    let (gateway, wait) = with_wait(&model, |s| s.config.stream.disconnect_grace = ms(20)).await;
    let (stream, round) = gateway.begin(&mut model, "s").await;
    round.answer(&call("wait", &json!({}))).await;
    wait.started().await;
    drop(stream);
    until(|| wait.running() == 0).await;
    let all = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(outcome(&all), "cancelled");
}

/// The grace period restarts whenever a reader leaves.
#[tokio::test]
async fn a_reader_that_comes_back_keeps_the_turn() {
    let mut model = Model::listen();
    let grace = ms(150);
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = grace).await;
    let (stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    drop(stream);
    let mut stream = gateway.rejoin("session_id=s", &[]).await;
    let rejoined = Instant::now();
    while rejoined.elapsed() < grace * 2 {
        round.say("x").await;
        stream.up_to_text("x").await;
    }
    round.end().await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

#[tokio::test]
async fn one_reader_of_two_keeps_the_turn() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
    let (first, mut round) = gateway.begin(&mut model, "s").await;
    let mut second = gateway.rejoin("session_id=s", &[]).await;
    second.up_to("turn_started").await;
    drop(first);
    round.begin().await;
    for word in ["Still", " here"] {
        round.say(word).await;
        second.up_to_text(word).await;
    }
    round.end().await;
    assert_eq!(outcome(&second.rest().await), "stop");
}

/// The client leaves before it reads anything.
#[tokio::test]
async fn a_client_that_leaves_at_once() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(10)).await;
    let mut client = gateway.client().await;
    client.send(post(STREAM, &[], r#"{"session_id":"s","prompt":"Hello?"}"#)).await;
    drop(client);
    model.round().await.closed().await;
}

/// The client has nothing more to send, like `nc -N`, but keeps reading.
#[tokio::test]
async fn a_client_that_ends_its_sending_side_reads_to_the_end() {
    for media_type in ["text/event-stream", "application/x-ndjson"] {
        let mut model = Model::listen();
        let gateway =
            Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
        let accept = format!("Accept: {media_type}");
        let body = r#"{"session_id":"s","prompt":"Hello?"}"#;
        let mut client = gateway.client().await;
        client.send(post(STREAM, &[&accept], body)).await;
        client.socket.shutdown().await.unwrap();
        let mut round = model.round().await;
        round.begin().await;
        round.say("Half").await;
        // Longer than it takes to notice that a client is gone.
        let _ = timeout(ms(700), pending::<()>()).await;
        round.say(" of it.").await;
        round.end().await;
        let answer = String::from_utf8(client.closed().await).unwrap();
        assert!(answer.contains("turn_completed") && answer.contains("Half of it."), "{answer}");
        assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    }
}

/// The model is silent, and the next keep-alive is a long way off.
#[tokio::test]
async fn a_client_that_is_gone_is_noticed_at_once() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    stream.up_to("turn_started").await;
    let left = Instant::now();
    drop(stream);
    round.closed().await;
    assert!(left.elapsed() < ms(2000), "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_client_that_ends_its_sending_side_and_leaves_later() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| {
        s.config.stream.disconnect_grace = ms(0);
        s.config.stream.keep_alive = ms(1000);
    })
    .await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    stream.up_to("turn_started").await;
    stream.client.socket.shutdown().await.unwrap();
    stream.comments(tether::limits::stream::PROBES_MS.len()).await;
    let left = Instant::now();
    drop(stream);
    round.closed().await;
    // One keep-alive and the probe after it.
    assert!(left.elapsed() < ms(2000), "{:?}", left.elapsed());
}

/// As through a forwarder that passes on the end of the sending side before it closes. The next keep-alive of a stream
/// that is only silent is a long way off.
#[tokio::test]
async fn a_client_that_leaves_soon_after_the_end_of_its_sending_side() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    stream.up_to("turn_started").await;
    stream.client.socket.shutdown().await.unwrap();
    // Those that come within half a second.
    stream.comments(3).await;
    let left = Instant::now();
    drop(stream);
    round.closed().await;
    assert!(left.elapsed() < ms(5000), "{:?}", left.elapsed());
}

/// Bytes after the request hide that its connection was closed. The next keep-alive is a long way off.
#[tokio::test]
async fn a_client_that_has_sent_too_much_leaves_its_stream() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    stream.client.socket.write_all(b"\r\n").await.unwrap();
    stream.up_to("turn_started").await;
    // It waits for as long as it likes.
    let _ = timeout(ms(700), pending::<()>()).await;
    let left = Instant::now();
    drop(stream);
    round.closed().await;
    assert!(left.elapsed() < ms(3500), "{:?}", left.elapsed());
}

/// Where answers in one piece are asked for.
const WHOLE: [&str; 2] = ["/v1/chat/completions", "/v1/messages"];

const ASKED: &str =
    r#"{"model":"fake","max_tokens":9,"messages":[{"role":"user","content":"Hello?"}]}"#;

#[tokio::test]
async fn a_client_that_waits_for_the_whole_answer_leaves() {
    for path in WHOLE {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let mut client = gateway.client().await;
        client.send(post(path, &[], ASKED)).await;
        let mut round = model.round().await;
        let left = Instant::now();
        drop(client);
        round.closed().await;
        // A second, and some for noticing.
        assert!(left.elapsed() < ms(3000), "{path}: {:?}", left.elapsed());
    }
}

/// Many proxies speak HTTP/1.0. Bytes that come after a request hide that its connection was closed.
#[tokio::test]
async fn an_older_client_or_one_that_sends_too_much_leaves() {
    let request = post(WHOLE[0], &[], ASKED);
    for (sent, later) in [(request.replacen("HTTP/1.1", "HTTP/1.0", 1), ""), (request, "\r\n")] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let mut client = gateway.client().await;
        client.send(sent).await;
        let mut round = model.round().await;
        client.socket.write_all(later.as_bytes()).await.unwrap();
        // It waits for as long as it likes.
        let _ = timeout(ms(700), pending::<()>()).await;
        let left = Instant::now();
        drop(client);
        round.closed().await;
        assert!(left.elapsed() < ms(3500), "{:?}", left.elapsed());
    }
}

/// It may be gone or not: an interim response tells, which it skips.
#[tokio::test]
async fn a_client_that_ends_its_sending_side_gets_the_whole_answer() {
    for path in WHOLE {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let mut client = gateway.client().await;
        client.send(post(path, &[], ASKED)).await;
        client.socket.shutdown().await.unwrap();
        let round = model.round().await;
        // Longer than it takes to notice that a client is gone.
        let _ = timeout(ms(1700), pending::<()>()).await;
        round.answer("All of it.").await;
        let answer = String::from_utf8(client.closed().await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 "), "{answer}");
        assert!(answer.contains("HTTP/1.1 200 ") && answer.contains("All of it."), "{answer}");
    }
}
