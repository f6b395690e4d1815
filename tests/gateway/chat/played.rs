//! Questions of a gateway that a test plays.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::program::{ANSWER, PROMPT, Terminal};
use super::terminal::STREAM_HEAD;
use crate::support::client::find;
use crate::support::within;

const UNSEEN: &str = "The arguments could not be loaded, so the call can only be denied";

/// A gateway that a person talks to, and whose answers come from the test.
struct Played {
    listener: TcpListener,
    terminal: Terminal,
}

impl Played {
    /// Takes the first prompt.
    async fn begin() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let terminal = Terminal::start(listener.local_addr().unwrap(), &[]);
        let mut played = Self { listener, terminal };
        played.answers("GET /api/v1/tools ", 200, &json!({"tools": []})).await;
        played.terminal.line("Wipe it.").await;
        played
    }

    /// The next request, which begins like this: its connection, and its body.
    async fn requested(&self, expected: &str) -> (TcpStream, Value) {
        within(async {
            let (mut client, _) = self.listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let head = loop {
                if let Some(end) = find(&bytes, b"\r\n\r\n") {
                    break end + 4;
                }
                assert_ne!(client.read_buf(&mut bytes).await.unwrap(), 0);
            };
            let text = String::from_utf8(bytes[..head].to_vec()).unwrap().to_lowercase();
            assert!(text.starts_with(&expected.to_lowercase()), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            while bytes.len() < head + length {
                assert_ne!(client.read_buf(&mut bytes).await.unwrap(), 0);
            }
            let body = serde_json::from_slice(&bytes[head..]).unwrap_or_default();
            (client, body)
        })
        .await
    }

    /// Answers the next request, which begins like this. Returns its body.
    async fn answers(&self, expected: &str, status: u16, answer: &Value) -> Value {
        let (mut client, body) = self.requested(expected).await;
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} OK\r\nConnection: close\r\nContent-Length: ");
        let reply = format!("{head}{}\r\n\r\n{answer}", answer.len());
        client.write_all(reply.as_bytes()).await.unwrap();
        body
    }

    /// Answers the next request with a turn of these events. Returns the request's body.
    async fn plays(&self, events: &[Value]) -> Value {
        let (mut client, body) = self.requested("POST /api/v1/chat/stream ").await;
        let started = json!({"type": "turn_started", "data": {"turn_id": "t", "model": "m"}});
        let mut text = STREAM_HEAD.to_owned();
        for (number, event) in (1..).zip([&started].into_iter().chain(events)) {
            let _ = write!(text, "id: 1-{number}\ndata: {event}\n\n");
        }
        client.write_all(text.as_bytes()).await.unwrap();
        body
    }

    /// Ends the turn with this question.
    async fn asks(&self, question: &Value) -> Value {
        let asked = json!({"type": "clarification_needed", "data": question});
        self.plays(&[asked, completed("clarification_needed")]).await
    }
}

fn completed(reason: &str) -> Value {
    json!({"type": "turn_completed", "data": {"finish_reason": reason}})
}

/// Whether a call may run, with these arguments.
fn confirmation(id: &str, arguments: &Value) -> Value {
    let option = |id: &str| json!({"id": id, "title": id});
    json!({
        "clarification_id": id, "call_id": "call_1", "tool_name": "wipe", "type": "confirmation",
        "question": "Run wipe with these arguments?", "arguments": arguments,
        "options": [option("approve"), option("approve_session"), option("deny")],
    })
}

/// The same as in an event, for which the arguments are too long.
fn shortened(id: &str) -> Value {
    let mut question = confirmation(id, &Value::Null);
    question["arguments_truncated"] = json!(20_000);
    question
}

fn transcript(question: &Value) -> Value {
    json!({"running_turn_id": null, "clarification": question, "turns": []})
}

#[tokio::test]
async fn a_question_that_was_shortened_is_fetched_and_shown_before_it_is_answered() {
    let mut played = Played::begin().await;
    played.asks(&shortened("t.1")).await;
    let whole = confirmation("t.1", &json!({"path": "/everything"}));
    played.answers("GET /api/v1/sessions/", 200, &transcript(&whole)).await;
    let shown = played.terminal.seen.take(ANSWER).await;
    assert!(shown.contains("\r\n    path: \"/everything\"\r\n"), "{shown}");
    assert!(!shown.contains(UNSEEN), "{shown}");
    played.terminal.keys("y\r");
    let body = played.plays(&[completed("stop")]).await;
    let expected = json!({"clarification_id": "t.1", "selected_option": {"id": "approve"}});
    assert_eq!(body["clarification_response"], expected);
    played.terminal.seen.take(PROMPT).await;
}

/// Either the session has another question by now, or it cannot be read.
#[tokio::test]
async fn a_call_whose_arguments_cannot_be_fetched_can_only_be_denied() {
    let other = transcript(&confirmation("u.1", &json!({"path": "nothing"})));
    let away = json!({"error": {"code": "store_unavailable", "message": "It is away."}});
    for (status, answer) in [(200, other), (200, transcript(&Value::Null)), (503, away)] {
        let mut played = Played::begin().await;
        played.asks(&shortened("t.1")).await;
        played.answers("GET /api/v1/sessions/", status, &answer).await;
        let shown = played.terminal.seen.take(ANSWER).await;
        assert!(shown.contains(UNSEEN) && !shown.contains("nothing"), "{shown}");
        played.terminal.keys("y\r");
        played.terminal.seen.take("Please answer with n.").await;
        played.terminal.seen.take(ANSWER).await;
        played.terminal.keys("n\r");
        let body = played.plays(&[completed("stop")]).await;
        let expected = json!({"clarification_id": "t.1", "selected_option": {"id": "deny"}});
        assert_eq!(body["clarification_response"], expected);
    }
}

#[tokio::test]
async fn a_question_is_asked_again_if_the_answer_does_not_fit_it() {
    let mut played = Played::begin().await;
    let question = json!({
        "clarification_id": "t.1", "tool_name": "wipe", "type": "text", "question": "Which one?",
    });
    played.asks(&question).await;
    played.terminal.seen.take(ANSWER).await;
    played.terminal.keys("the last\r");
    let refusal =
        json!({"error": {"code": "invalid_request", "message": "There is no such disk."}});
    let body = played.answers("POST /api/v1/chat/stream ", 400, &refusal).await;
    assert_eq!(body["clarification_response"]["text"], "the last");
    played.terminal.seen.take("There is no such disk.").await;
    played.terminal.seen.take(ANSWER).await;
    played.terminal.keys("the first\r");
    let body = played.answers("POST /api/v1/chat/stream ", 409, &stale()).await;
    assert_eq!(body["clarification_response"]["text"], "the first");
    // Nothing can be answered any more.
    played.terminal.seen.take("It is too late.").await;
    played.terminal.seen.take(PROMPT).await;
}

fn stale() -> Value {
    json!({"error": {"code": "clarification_stale", "message": "It is too late."}})
}
