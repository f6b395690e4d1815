//! Behaviour that is not a fault: standard requests, answers in any pieces, turns without
//! readers.

use serde_json::{Value, json};

use crate::support::events::{outcome, said};
use crate::support::model::{DONE, UNTIL_CLOSE, call, finish, frame, text};
use crate::support::{Frame, Gateway, Model, until};

/// A request to a server identifies its sender and reveals nothing of other clients.
#[tokio::test]
async fn requests_follow_the_standard() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.upstream().api_key = Some(tether::config::Secret::new("sesame".to_owned()));
    })
    .await;
    let (_stream, round) = gateway.begin(&mut model, "s").await;
    let head = round.request.head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nauthorization: bearer sesame\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    assert_eq!(head.matches("\r\nhost: ").count(), 1, "{head}");
    let body = &round.request.body;
    assert_eq!((&body["model"], &body["stream"]), (&json!("fake-model"), &json!(true)));
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["messages"].as_array().unwrap().last().unwrap()["content"], "Hello?");
}

#[tokio::test]
async fn it_spells_its_media_type_differently() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    let head = UNTIL_CLOSE.replace("text/event-stream", "Text/Event-Stream; Charset=UTF-8");
    round.write(head + &text("Well.") + &finish("stop") + DONE).await;
    drop(round);
    assert_eq!(said(&stream.rest().await), "Well.");
}

/// Wherever a stream is cut, its events are the same. Here the pieces pass through a socket,
/// which may join them again; the decoders' own tests control the cuts exactly.
#[tokio::test]
async fn it_comes_in_pieces() {
    let words =
        format!("Let me \u{1f9ee} see.\n{}\n", call("calculate", &json!({"expression": "6 * 7"})));
    let mut first = String::new();
    for word in words.split_inclusive(' ') {
        first += &text(word);
    }
    first += &finish("stop");
    first += &frame(&json!({"choices": [], "usage": {
        "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}));
    first += DONE;
    let first = first.as_bytes();
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let mut expected = None;
    for cut in (1..first.len()).step_by(3) {
        let (mut stream, mut round) = gateway.begin(&mut model, &format!("s{cut}")).await;
        round.begin().await;
        round.chunk(&first[..cut]).await;
        tokio::task::yield_now().await;
        round.chunk(&first[cut..]).await;
        round.write("0\r\n\r\n").await;
        round.keep();
        model.round().await.answer("It is 42.").await;
        let frames = stream.rest().await;
        let merged = merged(&frames);
        assert_eq!(*expected.get_or_insert_with(|| merged.clone()), merged, "cut at {cut}");
    }
    // And one byte at a time.
    let (mut stream, mut round) = gateway.begin(&mut model, "bytes").await;
    round.begin().await;
    for byte in first {
        round.chunk([*byte]).await;
    }
    round.write("0\r\n\r\n").await;
    round.keep();
    model.round().await.answer("It is 42.").await;
    assert_eq!(expected, Some(merged(&stream.rest().await)));
}

/// Events without what differs between turns, with text joined.
fn merged(frames: &[Frame]) -> Vec<(String, Value)> {
    let mut merged: Vec<(String, Value)> = Vec::new();
    for frame in &frames[1..] {
        let mut data = frame.data.clone();
        if let Some(fields) = data.as_object_mut() {
            fields.remove("duration_ms");
        }
        match merged.last_mut() {
            Some((event, last)) if frame.event == "text_delta" && event == "text_delta" => {
                let text =
                    format!("{}{}", last["text"].as_str().unwrap(), data["text"].as_str().unwrap());
                last["text"] = text.into();
            }
            _ => merged.push((frame.event.clone(), data)),
        }
    }
    merged
}

/// The model is read to the end even without readers.
#[tokio::test]
async fn a_reader_who_leaves_does_not_stop_its_words() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let (stream, mut round) = gateway.begin(&mut model, "s").await;
    drop(stream);
    round.begin().await;
    let words = "word ".repeat(20_000);
    for _ in 0..10 {
        round.say(&words).await;
    }
    round.end().await;
    until(|| gateway.running.gateway().running() == 0).await;
    let frames = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(said(&frames).len(), words.len() * 10);
    assert_eq!(outcome(&frames), "stop");
}
