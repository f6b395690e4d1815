//! The end of the process: running turns finish, and no new ones begin.

use std::io::Read as _;
use std::process::Command;

use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use crate::support::events::{outcome, said};
use crate::support::gateway::STREAM;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::{Model, within};

fn upstream(model: &Model) -> String {
    let url = format!("http://{}/v1", model.address);
    format!("upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]\n")
}

async fn start(model: &Model) -> Process {
    Process::start(&upstream(model)).await
}

/// Waits until a signal has taken effect.
#[track_caller]
fn draining(process: &Process) -> impl Future<Output = ()> {
    within(async {
        while process.get("/readyz").await.json()["status"] != "draining" {
            tokio::task::yield_now().await;
        }
    })
}

#[tokio::test]
async fn nothing_runs() {
    for signal in ["TERM", "INT"] {
        let model = Model::listen();
        let process = start(&model).await;
        // An idle connection and half a request do not delay the end.
        let mut half = process.client().await;
        half.send("GET /healthz HTT").await;
        let mut idle = process.client().await;
        idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(idle.reply().await.status(), 200);
        process.signal(signal);
        let begun = Instant::now();
        idle.closed().await;
        half.closed().await;
        assert_eq!(process.exit().await.code(), Some(0), "{signal}");
        assert!(begun.elapsed() < tether::limits::server::CLOSE_TIMEOUT, "{signal}");
    }
}

/// A gateway with an MCP server that notes in a file that its input was closed.
async fn start_with_server(behaviour: &str, notes: &NamedTempFile) -> Process {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(notes.path(), folder.path().join("events")).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
    let command = json!(["python3", script, behaviour, folder.path()]);
    let process =
        Process::start(&format!("tools: {{mcp: [{{name: bad, command: {command}}}]}}\n")).await;
    within(async {
        while process.get("/api/v1/tools").await.json()["servers"][1]["state"] != "ready" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    process
}

#[tokio::test]
async fn programs_of_tools_are_told_before_they_are_killed() {
    let notes = NamedTempFile::new().unwrap();
    let process = start_with_server("ends_slowly", &notes).await;
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0));
    assert_eq!(std::fs::read_to_string(notes.path()).unwrap(), "ended\n");
}

#[tokio::test]
async fn another_signal_does_not_wait_for_programs_of_tools() {
    let notes = NamedTempFile::new().unwrap();
    let process = start_with_server("never_ends", &notes).await;
    process.signal("TERM");
    within(async {
        while std::fs::read_to_string(notes.path()).unwrap() != "ended\n" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    process.signal("TERM");
    let begun = Instant::now();
    assert_eq!(process.exit().await.code(), Some(0));
    assert!(begun.elapsed() < tether::limits::process::CLOSE_WAIT);
}

/// It comes when a terminal closes, and people send it to have a configuration reloaded.
#[tokio::test]
async fn a_hang_up_is_logged_and_changes_nothing() {
    let model = Model::listen();
    let mut log = NamedTempFile::new().unwrap();
    let stderr = log.reopen().unwrap();
    let start = |command: &mut Command| _ = command.env("TETHER_LOG", "info").stderr(stderr);
    let process = Process::start_with(&upstream(&model), start).await;
    process.signal("HUP");
    let mut lines = String::new();
    within(async {
        while !lines.contains("SIGHUP: nothing to reload") {
            log.read_to_string(&mut lines).unwrap();
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(process.get("/readyz").await.status(), 200);
    process.signal("HUP");
    process.signal("TERM");
    assert_eq!(process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_running_turn_finishes_and_no_new_turn_begins() {
    let mut model = Model::listen();
    let process = start(&model).await;
    let (mut stream, mut round) = process.begin(&mut model, "s").await;
    round.begin().await;
    round.say("First").await;
    let mut seen = stream.up_to_text("First").await;
    process.signal("TERM");
    draining(&process).await;

    let refused = process.post(STREAM, &json!({"prompt": "Hello?"})).await;
    assert_eq!(refused.refusal(), (503, "draining".to_owned(), None));
    assert!(refused.head.header("retry-after").is_some());
    assert_eq!(refused.head.header("connection"), Some("close"), "the next gateway is elsewhere");
    assert!(model.has_no_requests());
    assert_eq!(process.get("/healthz").await.status(), 200);

    let mut rejoined = process.rejoin("session_id=s", &[]).await;
    round.say(" and last.").await;
    round.end().await;
    seen.extend(stream.rest().await);
    assert_eq!((outcome(&seen), &*said(&seen)), ("stop", "First and last."));
    assert_eq!(rejoined.rest().await, seen);
    assert_eq!(process.exit().await.code(), Some(0));
}

/// No client reads the turn, so only the turn itself can hold up the exit.
#[tokio::test]
async fn a_second_signal_waits_for_the_end_of_a_turn_in_the_background() {
    let mut model = Model::listen();
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("tether.db");
    let config = upstream(&model)
        + &format!("sessions: {{store: embedded, embedded: {{path: {path:?}}}}}\n");
    // With a single one, nothing runs any more once the main task stops waiting.
    let process = Process::start_on_one_processor(&config).await;
    let asking = json!({"model": "fake", "input": "Hello?", "background": true});
    let (response, mut round) = tokio::join!(process.post("/v1/responses", &asking), model.round());
    process.signal("TERM");
    draining(&process).await;
    process.signal("TERM");
    round.closed().await;
    assert_eq!(process.exit().await.code(), Some(0));
    let process = Process::start_on_one_processor(&config).await;
    let id = response.json()["id"].as_str().unwrap().to_owned();
    let response = process.get(&format!("/v1/responses/{id}")).await.json();
    assert_eq!(response["status"], "cancelled", "{response}");
    assert!(model.has_no_requests());
}

/// A running turn may still run its tools and further rounds.
#[tokio::test]
async fn a_running_turn_goes_through_its_rounds() {
    let mut model = Model::listen();
    let process = start(&model).await;
    let (mut stream, round) = process.begin(&mut model, "s").await;
    process.signal("TERM");
    draining(&process).await;
    round
        .answer(r#"<<function_call>> {"name":"calculate","arguments":{"expression":"1+1"}}"#)
        .await;
    model.round().await.answer("Two.").await;
    let frames = stream.rest().await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Two."));
    assert_eq!(process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_cancelled() {
    let mut model = Model::listen();
    let server = "server: {listen: \"127.0.0.1:0\", drain_timeout_sec: 0.2}\n";
    let process = Process::start_raw(server.to_owned() + &upstream(&model)).await;
    let (mut stream, mut round) = process.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half").await;
    let mut seen = stream.up_to_text("Half").await;
    process.signal("TERM");
    round.closed().await;
    seen.extend(stream.rest().await);
    assert_eq!(outcome(&seen), "cancelled");
    assert_eq!(process.exit().await.code(), Some(0));
}

/// The store does not take the end of the turn.
#[tokio::test]
async fn a_third_signal_does_not_wait_for_the_ends_of_turns() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let sessions = format!("sessions: {{redis: {{url: \"{}\"}}}}\n", server.url());
    let process = Process::start(&(upstream(&model) + &sessions)).await;
    let (stream, mut round, _) = process.begin_saying(&mut model, "s", "Half").await;
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    process.signal("TERM");
    draining(&process).await;
    process.signal("INT");
    round.closed().await;
    let begun = Instant::now();
    process.signal("INT");
    drop(stream);
    assert_eq!(process.exit().await.code(), Some(0));
    assert!(begun.elapsed() < tether::limits::turn::CANCEL_TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_second_signal_cancels_running_turns() {
    let mut model = Model::listen();
    let process = start(&model).await;
    let (mut stream, mut round) = process.begin(&mut model, "s").await;
    process.signal("TERM");
    draining(&process).await;
    let begun = Instant::now();
    process.signal("INT");
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    assert_eq!(process.exit().await.code(), Some(0));
    assert!(begun.elapsed() < tether::limits::server::CLOSE_TIMEOUT);
}
