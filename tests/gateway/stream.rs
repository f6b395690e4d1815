//! A turn's stream: its head, its frames, its silence and its end.

use serde_json::json;

use crate::support::events::{names, outcome, said};
use crate::support::gateway::STREAM;
use crate::support::model::{DONE, call, finish, text};
use crate::support::tools::Wait;
use crate::support::{Ending, Frame, Gateway, Model, ms};

#[tokio::test]
async fn the_head_comes_before_the_model_says_anything() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut stream = gateway.turn(&json!({"session_id": "a:b", "prompt": "Hello?"})).await;
    let head = &stream.head;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(head.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert!(head.header("x-request-id").is_some_and(|id| id.len() == 36));
    let location = head.header("location").unwrap().to_owned();

    let first = stream.next().await.unwrap();
    assert_eq!(first.event, "turn_started");
    let turn_id = first.data["turn_id"].as_str().unwrap().to_owned();
    assert_eq!(
        first.data,
        json!({
            "session_id": "a:b", "turn_id": turn_id, "model": "fake", "max_tool_loops": 5
        })
    );
    assert_eq!(location, format!("{STREAM}?session_id=a%3Ab&turn_id={turn_id}"));
    model.round().await.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
}

#[tokio::test]
async fn the_first_frame_arrives_while_the_model_is_silent() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    assert_eq!(stream.next().await.unwrap().event, "turn_started");
    round.answer("Now.").await;
    assert_eq!(said(&stream.rest().await), "Now.");
}

#[tokio::test]
async fn ids_count_from_1_and_only_the_first_frame_sets_retry() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    for word in ["One", " two", " three"] {
        round.say(word).await;
    }
    round.end().await;
    let frames = stream.rest().await;
    assert_eq!(frames[0].id, "1-1");
    assert_eq!(frames[0].retry.as_deref(), Some("2000"));
    assert!(frames[1..].iter().all(|frame| frame.retry.is_none()), "{frames:#?}");
    assert_eq!(names(&frames), ["turn_started", "text_delta", "turn_completed"]);
    assert_eq!(said(&frames), "One two three");
    let last = frames.last().unwrap();
    assert_eq!(last.data["finish_reason"], "stop");
    assert_eq!(last.data["text"], "One two three");
    assert_eq!(last.data["loops"], 1);
    assert_eq!(last.data["tool_calls"], 0);
}

#[tokio::test]
async fn the_connection_serves_requests_after_a_stream() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut stream = gateway.whole_turn(&mut model, "s", "Well.").await;
    stream.rest().await;
    stream.client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(stream.client.reply().await.status(), 200);
}

#[tokio::test]
async fn a_call_runs_and_the_model_answers_with_its_result() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    let words = format!("Let me see.\n{}\n", call("calculate", &json!({"expression": "6 * 7"})));
    round.answer(&words).await;
    let round = model.round().await;
    assert!(round.request.contents().contains("\"42\""), "{}", round.request.body);
    round.answer("It is 42.").await;
    let frames = stream.rest().await;
    assert_eq!(
        names(&frames),
        [
            "turn_started",
            "text_delta",
            "tool_marker_detected",
            "acknowledgement",
            "tool_started",
            "tool_completed",
            "text_delta",
            "turn_completed"
        ]
    );
    let find = |event: &str| frames.iter().find(|frame| frame.event == event).unwrap();
    let heard = json!({"text": "Let me see.", "source": "model"});
    assert_eq!(find("acknowledgement").data, heard);
    assert_eq!(find("tool_started").data["tool_args"], json!({"expression": "6 * 7"}));
    assert_eq!(find("tool_completed").data["tool_result"]["success"], true);
    let last = frames.last().unwrap();
    assert_eq!((&last.data["loops"], &last.data["tool_calls"]), (&json!(2), &json!(1)));
    assert!(said(&frames).ends_with("It is 42."), "{frames:#?}");
    assert_eq!(last.data["text"], said(&frames));
}

#[tokio::test]
async fn silence_is_filled_with_comments_of_one_line_end() {
    let mut model = Model::listen();
    let gateway =
        Gateway::with(model.address, |setup| setup.config.stream.keep_alive = ms(10)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    stream.up_to("turn_started").await;
    stream.comments(3).await;
    round.begin().await;
    round.say("Here.").await;
    stream.up_to_text("Here.").await;
    stream.comments(2).await;
    round.end().await;
    stream.rest().await;
    let raw = String::from_utf8(stream.raw).unwrap();
    assert!(raw.contains("\n\n: keep-alive\n: keep-alive\n"), "{raw}");
    assert!(!raw.contains(": keep-alive\n\n"), "{raw}");
}

#[tokio::test]
async fn nothing_fills_a_stream_that_is_not_silent() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut stream = gateway.whole_turn(&mut model, "s", "Quick.").await;
    stream.rest().await;
    assert_eq!(stream.comments, 0);
}

#[tokio::test]
async fn a_running_tool_is_silence_too() {
    let mut model = Model::listen();
    let wait = Wait::new();
    let tool = wait.clone();
    let gateway = Gateway::with(model.address, move |setup| {
        setup.config.stream.keep_alive = ms(10);
        setup.tools.add(std::sync::Arc::new(tool)).unwrap();
    })
    .await;
    let (mut stream, round) = gateway.begin(&mut model, "s").await;
    round.answer(&call("wait", &json!({}))).await;
    wait.started().await;
    stream.up_to("tool_started").await;
    stream.comments(3).await;
    wait.release();
    model.round().await.answer("Done.").await;
    let frames = stream.rest().await;
    assert_eq!(frames[0].event, "tool_completed");
    assert_eq!(outcome(&frames), "stop");
}

#[tokio::test]
async fn text_that_arrived_together_leaves_in_one_frame() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    let words: String = (0..50).map(|word| text(&format!("{word} "))).collect();
    round.chunk(words + &finish("stop") + DONE).await;
    round.write("0\r\n\r\n").await;
    let frames = stream.rest().await;
    let deltas = frames.iter().filter(|frame| frame.event == "text_delta").count();
    assert_eq!(deltas, 1, "{frames:#?}");
    assert!(said(&frames).ends_with("48 49 "));
}

#[tokio::test]
async fn a_word_leaves_without_waiting_for_the_next() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    for word in ["One", " two", " three"] {
        round.say(word).await;
        stream.up_to_text(word).await;
    }
    round.end().await;
    stream.rest().await;
}

#[tokio::test]
async fn line_ends_in_disguise_are_escaped() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let words = "a\u{2028}b\u{2029}c\u{85}d\r\ne\u{feff}\u{0}";
    let mut stream = gateway.whole_turn(&mut model, "s", words).await;
    assert_eq!(said(&stream.rest().await), words);
    let raw = String::from_utf8(stream.raw).unwrap();
    assert!(!raw.contains(['\u{2028}', '\u{2029}', '\u{85}', '\r', '\0']), "{raw:?}");
}

#[tokio::test]
async fn long_text_is_split_into_frames_of_64_kib() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    // Quotes take two bytes each in JSON.
    let words = "\"\u{e9}".repeat(100_000);
    let mut stream = gateway.whole_turn(&mut model, "s", &words).await;
    let mut frames = stream.rest().await;
    // Its `text` repeats the whole answer, cut to fit into a frame.
    let last = frames.pop().unwrap();
    assert_eq!(last.event, "turn_completed");
    assert!(last.data["text_truncated"].as_u64().is_some_and(|bytes| bytes > 64 * 1024));
    let longest = frames.iter().map(|frame| frame.bytes).max().unwrap().max(last.bytes);
    assert!(longest <= 64 * 1024, "{longest}");
    assert!(longest > 60 * 1024, "{longest}");
    assert_eq!(said(&frames), words);
}

/// A client of HTTP/1.0 cannot read chunks, so the body ends with the connection.
#[tokio::test]
async fn an_old_client_reads_to_the_connections_end() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut client = gateway.client().await;
    let body = r#"{"prompt":"Hello?"}"#;
    let length = body.len();
    client
        .send(format!(
            "POST {STREAM} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    model.round().await.answer("Well.").await;
    let response = String::from_utf8(client.closed().await).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK"), "{head}");
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    let frames = crate::support::events::frames(body.as_bytes());
    assert!(frames.last().is_some_and(Frame::is_last), "{body}");
}

#[tokio::test]
async fn a_stream_ends_cleanly_even_if_the_turn_fails() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half").await;
    drop(round);
    let frames = stream.rest().await;
    assert_eq!(stream.ending, Some(Ending::Well));
    assert_eq!(names(&frames), ["turn_started", "text_delta", "turn_failed"]);
}
