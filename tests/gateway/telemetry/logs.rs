//! Each decision of a turn leaves one line, with its context.

use serde_json::{Value, json};

use super::{choice, config, look_up_and_send, prompt, send, sum, turn};
use crate::support::Model;
use crate::support::model::call;
use crate::support::process::{Log, Process};

/// A line of a turn with the fields of its spans; inner fields override outer ones.
fn with_spans(line: &Value) -> Value {
    let mut fields = serde_json::Map::new();
    for span in line["spans"].as_array().into_iter().flatten() {
        fields.extend(span.as_object().unwrap().clone());
    }
    fields.extend(line.as_object().unwrap().clone());
    Value::Object(fields)
}

/// A short form of the lines of a session's turn: the message and those of these fields that it
/// has. The value of a duration is only checked to be a number.
fn told(lines: &[Value], session: &str) -> Vec<String> {
    let lines = lines.iter().map(with_spans).filter(|line| line["session"] == session);
    let short = lines.map(|line| {
        assert!(line["turn"].as_str().is_some_and(|turn| turn.len() == 36), "{line}");
        let mut short = line["message"].as_str().unwrap().to_owned();
        for field in ["loop", "tool", "position", "outcome", "state", "reason", "source"] {
            match &line[field] {
                Value::Null => {}
                Value::String(value) => short.extend([" ", field, "=", value]),
                value => short.extend([" ", field, "=", &value.to_string()]),
            }
        }
        assert_eq!(line["duration_ms"].is_u64(), short.contains("ended"), "{line}");
        short
    });
    short.collect()
}

/// Checks the lines of a session, in any order, because some run concurrently.
#[track_caller]
fn check(log: &Log, session: &str, expected: &[&str]) {
    let mut found = told(&log.lines(), session);
    let mut expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{:#?}", log.lines());
}

const STATE: &str = "turn state changed";

#[tokio::test]
async fn each_decision_is_logged_in_one_line() {
    let mut model = Model::listen();
    let config = config(&model) + "\n  execution: after_turn";
    let (gateway, log) =
        Process::start_logging(&config.replace("{demo: true}", "\n  demo: true")).await;

    let calls = [&*call("calc", &json!({})), &*sum(1)].join("\n");
    turn(&gateway, &mut model, &prompt("mistakes"), &[&calls, "", "Two."]).await;
    let asked = turn(&gateway, &mut model, &prompt("asks"), &[&look_up_and_send()]).await;
    log.turns(2).await;
    check(
        &log,
        "mistakes",
        &[
            &format!("{STATE} state=planning"),
            "round started loop=1",
            "round ended loop=1 outcome=stop",
            "call not run loop=1 tool=calc position=1 outcome=refused",
            "feedback sent to the model loop=1 reason=tool_not_found",
            "acknowledgement sent loop=1 source=hints",
            "tool started loop=1 tool=calculate position=2",
            &format!("{STATE} state=executing"),
            "tool ended loop=1 tool=calculate position=2 outcome=done",
            &format!("{STATE} state=planning"),
            "round started loop=2",
            "round ended loop=2 outcome=stop",
            "empty answer loop=2",
            "feedback sent to the model loop=2 reason=empty_response",
            "round started loop=3",
            "round ended loop=3 outcome=stop",
            &format!("{STATE} state=completed"),
            "turn ended outcome=stop",
        ],
    );
    check(
        &log,
        "asks",
        &[
            &format!("{STATE} state=planning"),
            "round started loop=1",
            "round ended loop=1 outcome=stop",
            "acknowledgement sent loop=1 source=hints",
            "tool started loop=1 tool=lookup_contacts position=1",
            &format!("{STATE} state=executing"),
            "tool ended loop=1 tool=lookup_contacts position=1 outcome=done",
            "call not run loop=1 tool=send_message position=2 outcome=skipped",
            "user asked for clarification loop=1 tool=lookup_contacts",
            &format!("{STATE} state=awaiting_clarification"),
            "turn ended outcome=clarification_needed",
        ],
    );

    // The answer; then a model that goes in circles, up to the limit.
    let answer = choice("asks", &asked, "contact_john_doe");
    log.forget();
    turn(&gateway, &mut model, &answer, &[&send(), "It is sent."]).await;
    turn(&gateway, &mut model, &prompt("circles"), &[&sum(1), &sum(1), &sum(2), "Two."]).await;
    log.turns(2).await;
    check(
        &log,
        "asks",
        &[
            "clarification closed tool=lookup_contacts outcome=answered",
            &format!("{STATE} state=planning"),
            "round started loop=1",
            "round ended loop=1 outcome=stop",
            "acknowledgement sent loop=1 source=hints",
            "tool started loop=1 tool=send_message position=1",
            &format!("{STATE} state=executing"),
            "tool ended loop=1 tool=send_message position=1 outcome=done",
            &format!("{STATE} state=planning"),
            "round started loop=2",
            "round ended loop=2 outcome=stop",
            &format!("{STATE} state=completed"),
            "turn ended outcome=stop",
        ],
    );
    let circles = told(&log.lines(), "circles");
    for line in [
        "call not run loop=2 tool=calculate position=1 outcome=repeated",
        "loop cap reached loop=3",
        &format!("{STATE} state=synthesizing"),
        "turn ended outcome=loop_limit",
    ] {
        assert_eq!(circles.iter().filter(|told| **told == line).count(), 1, "{line}: {circles:#?}");
    }
}

#[tokio::test]
async fn cancelled_and_broken_rounds_are_logged() {
    let mut model = Model::listen();
    let (gateway, log) = Process::start_logging(&config(&model)).await;
    let (mut stream, mut round) = gateway.begin(&mut model, "cancelled").await;
    assert_eq!(gateway.cancel("cancelled").await, 202);
    stream.rest().await;
    round.closed().await;
    let (mut stream, mut round) = gateway.begin(&mut model, "broken").await;
    round.begin().await;
    round.say("Half a").await;
    stream.up_to("text_delta").await;
    round.reset();
    stream.rest().await;
    log.turns(2).await;
    check(
        &log,
        "cancelled",
        &[
            &format!("{STATE} state=planning"),
            "round started loop=1",
            "round ended loop=1 outcome=stopped",
            &format!("{STATE} state=completed"),
            "turn ended outcome=cancelled",
        ],
    );
    let broken = told(&log.lines(), "broken");
    let failed = broken.iter().filter(|line| line.starts_with("round ended loop=1 outcome="));
    let failed: Vec<_> = failed.collect();
    assert!(failed.len() == 1 && failed[0].contains("outcome=upstream_error"), "{broken:#?}");
}

#[tokio::test]
async fn words_and_arguments_are_never_logged() {
    let mut model = Model::listen();
    let (gateway, log) = Process::start_logging(&config(&model)).await;
    let body = json!({"session_id": "s", "prompt": "secret-of-the-user"});
    let calls = [
        call("calculate", &json!({"expression": "secret-of-the-call"})),
        call("send_message", &json!({"contact_id": "nobody", "text": "secret-of-the-message"})),
    ];
    turn(&gateway, &mut model, &body, &[&calls.join("\n"), "secret-of-the-model"]).await;
    log.turns(1).await;
    for line in log.lines() {
        assert!(!line.to_string().contains("secret"), "{line}");
    }
}
