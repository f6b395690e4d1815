//! A turn's events as lines of JSON: the same events, for programs that cannot read event
//! streams.

use serde_json::{Value, json};

use crate::support::client::{post, request};
use crate::support::gateway::STREAM;
use crate::support::{Gateway, Model};

const ACCEPT: &str = "Accept: application/x-ndjson";

/// The lines of an answer, with the id of each removed.
#[track_caller]
fn events(body: &[u8]) -> Vec<(String, Value)> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.ends_with('\n'));
    let line = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let id = event.as_object_mut().unwrap().remove("id").unwrap();
        (id.as_str().unwrap().to_owned(), event)
    };
    text.lines().filter(|line| !line.is_empty()).map(line).collect()
}

#[tokio::test]
async fn the_lines_are_the_events_of_the_stream() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    let answer = gateway.exchange(post(STREAM, &[ACCEPT], &body));
    let model = async { model.round().await.answer("One\u{2028}\n two.").await };
    let (reply, ()) = tokio::join!(answer, model);
    assert_eq!(reply.head.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(reply.head.header("cache-control"), Some("no-cache, no-transform"));
    let lines = events(&reply.body);

    let frames = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(lines.len(), frames.len());
    for ((id, event), frame) in lines.iter().zip(&frames) {
        assert_eq!((id, &event["type"]), (&frame.id, &json!(frame.event)));
        assert_eq!(event["data"], frame.data);
    }
}

#[tokio::test]
async fn a_client_resumes_after_the_last_line_it_has_seen() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let frames = gateway.whole_turn(&mut model, "s", "One two three.").await.rest().await;
    let [.., before, _] = &frames[..] else { panic!("{frames:?}") };
    let seen = format!("Last-Event-ID: {}", before.id);
    let path = format!("{STREAM}?session_id=s");
    let reply = gateway.exchange(request("GET", &path, &[ACCEPT, &seen], "")).await;
    let [(id, event)] = &events(&reply.body)[..] else { panic!("{reply:?}") };
    assert_eq!((id, &event["type"]), (&frames.last().unwrap().id, &json!("turn_completed")));
}

/// An event stream cuts whatever is longer than a frame may be, and says so. Lines do not,
/// because nothing is cut in the log.
#[tokio::test]
async fn text_that_an_event_stream_splits_is_whole() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let words = "word ".repeat(30_000);
    let frames = gateway.whole_turn(&mut model, "s", &words).await.rest().await;
    assert!(frames.last().unwrap().data["text_truncated"].is_number());
    let path = format!("{STREAM}?session_id=s");
    let reply = gateway.exchange(request("GET", &path, &[ACCEPT], "")).await;
    let (_, last) = events(&reply.body).pop().unwrap();
    assert_eq!(last["data"]["text"], words);
}

/// Several header lines are one list.
#[tokio::test]
async fn a_second_accept_line_counts() {
    let mut model = Model::listen();
    let gateway = Gateway::start(&model).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    let answer = gateway.exchange(post(STREAM, &["Accept: text/html", ACCEPT], &body));
    let model = async { model.round().await.answer("One.").await };
    let (reply, ()) = tokio::join!(answer, model);
    assert_eq!(reply.head.header("content-type"), Some("application/x-ndjson"));
}
