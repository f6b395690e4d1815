//! Model servers that cannot be reached, refuse, or send something unexpected.

use serde_json::{Value, json};
use tether::call_format::ContractSetting;
use tether::config::Secret;
use tether::limits::upstream::ERROR_BODY_TIMEOUT;
use tokio::time::Instant;

use super::{failed, nothing, turn};
use crate::support::events::said;
use crate::support::gateway::Setup;
use crate::support::model::{DONE, finish, text};
use crate::support::{Away, Frame, Gateway, Model, ms};

fn prompt() -> Value {
    json!({"session_id": "s", "prompt": "Hello?"})
}

/// An answer with a status, a body and optional headers.
fn refusal(status: &str, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{header}Content-Length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn it_refuses_connections() {
    let away = Away::anywhere();
    let gateway = Gateway::with(away.address(), nothing).await;
    let frames = gateway.turn(&prompt()).await.rest().await;
    let message = failed(&frames, "upstream_unavailable", true);
    assert!(message.contains("refused") && message.contains("running?"), "{message}");
}

#[tokio::test]
async fn it_refuses_connections_and_then_serves() {
    let away = Away::anywhere();
    let gateway = Gateway::with(away.address(), nothing).await;
    let begun = Instant::now();
    let mut stream = gateway.turn(&prompt()).await;
    stream.up_to("turn_started").await;
    let mut model = away.back();
    model.round().await.answer("At last.").await;
    // If it took less time, the connection was not refused first.
    assert!(begun.elapsed() >= tether::limits::upstream::RETRY_BACKOFF);
    assert_eq!(said(&stream.rest().await), "At last.");
}

/// Which format the model gets is known only once the server has been asked.
#[tokio::test]
async fn it_refuses_connections_and_is_then_asked_about_its_model() {
    let away = Away::anywhere();
    let gateway = Gateway::with(away.address(), |setup| {
        setup.config.tools.call_contract = ContractSetting::Auto;
    })
    .await;
    let mut stream = gateway.turn(&prompt()).await;
    stream.up_to("turn_started").await;
    let mut model = away.back();
    model.round().await.answer("At last.").await;
    assert_eq!(said(&stream.rest().await), "At last.");
}

#[tokio::test]
async fn it_says_how_long_it_is_busy() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let asked = Instant::now();
    round.write(refusal("429 Slow down", "Retry-After: 1\r\n", "")).await;
    round.keep();
    model.round().await.answer("At last.").await;
    assert!(asked.elapsed() >= ms(1000), "{:?}", asked.elapsed());
    assert_eq!(said(&stream.rest().await), "At last.");
}

#[tokio::test]
async fn it_is_busy_twice_and_then_serves() {
    for status in ["503 Busy", "429 Slow down", "502 Bad", "504 Late"] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        for _ in 0..2 {
            round.write(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).await;
            round.keep();
            round = model.round().await;
        }
        round.answer("At last.").await;
        assert_eq!(said(&stream.rest().await), "At last.", "{status}");
    }
}

#[tokio::test]
async fn it_stays_busy() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let body = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
    for attempt in 1.. {
        round.write(refusal("503 Busy", "Retry-After: 0\r\n", body)).await;
        round.keep();
        if attempt == tether::limits::upstream::ATTEMPTS_MAX {
            break;
        }
        round = model.round().await;
    }
    let frames = stream.rest().await;
    let message = failed(&frames, "upstream_unavailable", true);
    assert!(message.contains("503") && message.contains("Loading model"), "{message}");
    assert!(model.has_no_requests());
}

#[tokio::test]
async fn it_asks_for_too_long_a_wait() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(refusal("503 Busy", "Retry-After: 3600\r\n", "")).await;
        round.keep();
    })
    .await;
    failed(&frames, "upstream_unavailable", true);
}

#[tokio::test]
async fn it_refuses_the_request() {
    for (status, code, retryable, advice) in [
        ("400 Bad", "upstream_error", false, "no such thing"),
        ("401 No", "upstream_error", false, "api_key"),
        ("403 No", "upstream_error", false, "api_key"),
        ("404 No", "upstream_error", false, "base_url"),
        ("500 Oh", "upstream_error", true, "no such thing"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(refusal(status, "", r#"{"error":{"message":"no such thing"}}"#)).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, code, retryable);
        assert!(message.contains(&status[..3]) && message.contains(advice), "{message}");
        assert!(message.contains("no such thing"), "{message}");
    }
}

fn with_key(setup: &mut Setup) {
    setup.upstream().api_key = Some(Secret::new("secret-key".to_owned()));
}

/// Some servers repeat what they were sent, as their JSON encoder writes it.
const QUOTES_KEY: [&str; 2] = [
    r#"{"error":{"message":"Bearer secret-key is no key"}}"#,
    r#"{"error":{"message":"Bearer secret\u002dkey is no key"}}"#,
];

#[track_caller]
fn check_key_is_hidden(frames: &[Frame]) {
    let end = frames.last().unwrap().data.to_string();
    assert!(end.contains("Bearer [the key] is no key"), "{end}");
}

#[tokio::test]
async fn it_quotes_the_key_that_it_was_sent() {
    for (told, status) in QUOTES_KEY.iter().flat_map(|told| [(told, "401 No"), (told, "200 OK")]) {
        let frames = turn(with_key, async |mut round, _| {
            round.write(refusal(status, "", told)).await;
            round.keep();
        })
        .await;
        failed(&frames, "upstream_error", false);
        check_key_is_hidden(&frames);
    }
}

#[tokio::test]
async fn it_quotes_the_key_in_its_headers() {
    for header in ["Content-Type: ", "Content-Type: text/event-stream\r\nContent-Encoding: "] {
        let frames = turn(with_key, async |mut round, _| {
            let header = format!("{header}secret-key\r\n");
            round.write(refusal("200 OK", &header, "")).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("[the key]"), "{message}");
    }
}

#[tokio::test]
async fn it_quotes_the_key_in_its_stream() {
    for told in QUOTES_KEY {
        let frames = turn(with_key, async |mut round, _| {
            round.begin().await;
            round.chunk(format!("data: {told}\n\n")).await;
            round.closed().await;
        })
        .await;
        check_key_is_hidden(&frames);
    }
}

#[tokio::test]
async fn it_quotes_the_key_when_it_is_asked_for_its_models() {
    for told in QUOTES_KEY {
        let model = Model::listen();
        model.list_as(told);
        model.refuse_to_list();
        let gateway = Gateway::with(model.address, |setup| {
            with_key(setup);
            setup.upstream().model = String::new();
        })
        .await;
        check_key_is_hidden(&gateway.turn(&prompt()).await.rest().await);
        let ready = gateway.get("/readyz").await.json().to_string();
        assert!(ready.contains("[the key]"), "{ready}");
    }
}

#[tokio::test]
async fn its_error_is_quoted_but_not_at_any_length() {
    let frames = turn(nothing, async |mut round, _| {
        round.write("HTTP/1.1 500 Oh\r\nConnection: close\r\n\r\n").await;
        round.flood("wordy ".repeat(1000).as_bytes(), 1000).await;
    })
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("wordy wordy"), "{message}");
    assert!(message.len() < 2000, "{}", message.len());
}

#[tokio::test]
async fn it_stalls_inside_its_error() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.write("HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nhalf of").await;
            round.closed().await;
        },
    )
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("500") && message.contains("half of"), "{message}");
}

/// Neither says where the error ends, nor closes the connection.
#[tokio::test]
async fn it_never_ends_its_error() {
    let begun = Instant::now();
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(15_000),
        async |mut round, _| {
            round.write("HTTP/1.1 500 Oh\r\n\r\nout of memory").await;
            round.closed().await;
        },
    )
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("500") && message.contains("out of memory"), "{message}");
    assert!(begun.elapsed() < ERROR_BODY_TIMEOUT * 3);
}

#[tokio::test]
async fn it_answers_with_something_else() {
    for (head, body) in [
        ("Content-Type: application/json\r\n", r#"{"choices":[{"message":{"content":"Hi"}}]}"#),
        ("Content-Type: text/html\r\n", "<h1>Welcome</h1>"),
        ("", "data: x\n\n"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(refusal("200 OK", head, body)).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("event stream"), "{message}");
    }
}

#[tokio::test]
async fn it_is_elsewhere() {
    let frames = turn(nothing, async |mut round, _| {
        let location = "Location: https://models.example/v1/chat/completions\r\n";
        round.write(refusal("301 Moved", location, "<html>")).await;
        round.keep();
    })
    .await;
    let message = failed(&frames, "upstream_error", false);
    assert!(message.contains("redirects to https://models.example/v1/"), "{message}");
    assert!(message.contains("set base_url"), "{message}");
}

/// `Accept-Encoding` did not ask for it.
#[tokio::test]
async fn it_compresses_its_answer() {
    let gzip = "\u{1f}\u{8}\u{0}garbage";
    for (status, headers, expected) in [
        ("200 OK", "Content-Type: text/event-stream\r\n", "turn off compression"),
        ("200 OK", "Content-Type: text/html\r\n", "text/html instead of an event stream"),
        ("400 Bad", "", "answered 400"),
    ] {
        let headers = format!("{headers}Content-Encoding: gzip\r\n");
        let frames = turn(nothing, async |mut round, _| {
            let asked = round.request.head.to_ascii_lowercase();
            assert!(asked.contains("\r\naccept-encoding: identity\r\n"), "{asked}");
            round.write(refusal(status, &headers, gzip)).await;
            round.keep();
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("Content-Encoding: gzip"), "{message}");
        assert!(message.contains(expected) && !message.contains("garbage"), "{message}");
    }
}

/// Naming no coding is odd, but most clients accept it.
#[tokio::test]
async fn it_says_that_it_does_not_compress() {
    let frames = turn(nothing, async |mut round, _| {
        let headers = "Content-Type: text/event-stream\r\nContent-Encoding: Identity\r\n";
        let body = text("Plain.") + &finish("stop") + DONE;
        round.write(refusal("200 OK", headers, &body)).await;
        round.keep();
    })
    .await;
    assert_eq!(said(&frames), "Plain.");
}
