//! Streams whose turn fails before it has said anything.

use std::future::pending;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::support::client::post;
use crate::support::gateway::Setup;
use crate::support::h2::Connection;
use crate::support::{Away, Gateway, Model, ms};

/// A request for a stream in each API of programs, and what the stream has of an error.
fn requests() -> [(&'static str, Value, &'static str); 3] {
    let messages = json!([{"role": "user", "content": "Hi."}]);
    [
        (
            "/v1/chat/completions",
            json!({"model": "fake", "stream": true, "messages": messages}),
            "data: {\"error\":{",
        ),
        (
            "/v1/responses",
            json!({"model": "fake", "stream": true, "input": messages}),
            "event: response.failed",
        ),
        (
            "/v1/messages",
            json!({"model": "fake", "stream": true, "max_tokens": 9, "messages": messages}),
            "event: error",
        ),
    ]
}

fn nothing(_: &mut Setup) {}

#[tokio::test]
async fn it_has_the_status_of_an_answer_in_one_piece() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    for (path, body, _) in requests() {
        for (refusal, status, retry) in
            [("400 Bad Request", 502, Some("false")), ("503 Busy\r\nRetry-After: 60", 503, None)]
        {
            let refusing = async {
                let mut round = model.round().await;
                round.write(format!("HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n")).await;
                round.keep();
            };
            let (reply, ()) = tokio::join!(gateway.post(path, &body), refusing);
            assert_eq!(reply.status(), status, "{path}");
            assert_eq!(reply.head.header("x-should-retry"), retry, "{path}");
            let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(&refusal[..3]), "{path}: {message}");
        }
    }
}

#[tokio::test]
async fn a_response_in_the_background_begins_at_once() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    let (path, mut body, error) = requests()[1].clone();
    body["background"] = json!(true);
    let refusing = async {
        let mut round = model.round().await;
        round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        round.keep();
    };
    let (reply, ()) = tokio::join!(gateway.post(path, &body), refusing);
    assert_eq!(reply.status(), 200);
    assert!(String::from_utf8_lossy(&reply.body).contains(error));
}

#[tokio::test]
async fn a_model_server_that_is_not_there_is_told_in_time() {
    let away = Away::anywhere();
    let gateway = Gateway::with(away.address(), nothing).await;
    for (path, body, _) in requests() {
        assert_eq!(gateway.post(path, &body).await.status(), 503, "{path}");
    }
}

#[tokio::test]
async fn a_failure_after_the_first_word_is_part_of_the_stream() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    for (path, body, error) in requests() {
        let dying = async {
            let mut round = model.round().await;
            round.begin().await;
            round.say("Well").await;
            round.chunk("data: {\"error\":\"no\"}\n\n").await;
            round.closed().await;
        };
        let (reply, ()) = tokio::join!(gateway.post(path, &body), dying);
        assert_eq!(reply.status(), 200, "{path}");
        let said = String::from_utf8_lossy(&reply.body);
        assert!(said.contains("Well") && said.contains(error), "{path}: {said}");
    }
}

#[tokio::test]
async fn a_stream_that_is_silent_begins_before_its_first_keep_alive() {
    let (mut model, gateway) = Gateway::with_model(|setup| {
        setup.config.stream.keep_alive = ms(20);
    })
    .await;
    for (path, body, error) in requests() {
        let mut client = gateway.client().await;
        client.send(post(path, &["Connection: close"], &body.to_string())).await;
        let mut round = model.round().await;
        assert_eq!(client.head().await.status, 200, "{path}");
        round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        round.keep();
        let said = client.closed().await;
        assert!(String::from_utf8_lossy(&said).contains(error), "{path}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_word_ends_its_turn() {
    for (path, body, _) in requests() {
        let mut model = Model::listen();
        let gateway =
            Gateway::with(model.address, |s| s.config.stream.disconnect_grace = ms(0)).await;
        let mut client = gateway.client().await;
        client.send(post(path, &[], &body.to_string())).await;
        let mut round = model.round().await;
        drop(client);
        round.closed().await;
    }
}

#[tokio::test]
async fn a_client_that_ends_its_sending_side_gets_the_status_too() {
    for (path, body, _) in requests() {
        let (mut model, gateway) = Gateway::with_model(nothing).await;
        let mut client = gateway.client().await;
        client.send(post(path, &["Connection: close"], &body.to_string())).await;
        client.socket.shutdown().await.unwrap();
        let mut round = model.round().await;
        // Longer than it takes to notice that a client is gone.
        let _ = timeout(ms(700), pending::<()>()).await;
        round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        round.keep();
        let answer = String::from_utf8(client.closed().await).unwrap();
        assert!(answer.contains("HTTP/1.1 502 "), "{path}: {answer}");
    }
}

#[tokio::test]
async fn it_has_a_status_over_http_2() {
    let (mut model, gateway) = Gateway::with_model(nothing).await;
    for (path, body, _) in requests() {
        let mut connection = Connection::open(gateway.address, 65_536).await;
        let body = body.to_string();
        let refusing = async {
            let mut round = model.round().await;
            round.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            round.keep();
        };
        let (reply, ()) = tokio::join!(connection.send("POST", path, &body), refusing);
        assert_eq!(reply.unwrap().status(), 502, "{path}");
    }
}
