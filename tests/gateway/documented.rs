//! Checks that a running gateway behaves as the documentation shows.

use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::support::Frame;
use crate::support::process::Process;

const EMBEDDED: &str = "upstreams: [{name: embedded, kind: embedded, tokens_per_sec: 100000}]";

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// One turn with the embedded model.
async fn turn(gateway: &Process, prompt: &str) -> Vec<Frame> {
    gateway.turn(&json!({"session_id": "demo", "prompt": prompt})).await.rest().await
}

/// A line of the log without what differs between runs: time, ids, durations.
fn masked(line: &str) -> String {
    let from_level = ["DEBUG ", "INFO "].iter().filter_map(|level| line.find(level)).min();
    let mut rest = &line[from_level.unwrap_or_default()..];
    let mut masked = String::new();
    while let Some((before, value)) = ["id=", "turn=", "duration_ms="]
        .iter()
        .filter_map(|key| Some(rest.split_at(rest.find(key)? + key.len())))
        .min_by_key(|(before, _)| before.len())
    {
        masked += before;
        rest = &value[value.find([' ', '}']).unwrap_or(value.len())..];
    }
    masked + rest
}

#[tokio::test]
async fn the_documented_log_lines_are_the_logged_ones() {
    let (mut reader, writer) = io::pipe().unwrap();
    let gateway = Process::start_with(EMBEDDED, |command| {
        command.env("TETHER_LOG", "debug").stderr(writer);
    })
    .await;
    turn(&gateway, "What is 17 * 23?").await;
    gateway.signal("TERM");
    gateway.exit().await;
    let mut log = String::new();
    let log = spawn_blocking(move || reader.read_to_string(&mut log).map(|_| log));
    let log = log.await.unwrap().unwrap();

    let troubleshooting = page("troubleshooting.md");
    let shown = troubleshooting.lines().map(str::trim).filter(|line| line.contains(" request{"));
    let mut shown: Vec<_> = shown.map(masked).collect();
    let mut logged: Vec<_> =
        log.lines().filter(|line| line.contains(" request{")).map(masked).collect();
    // The request is answered concurrently with the turn.
    shown.sort();
    logged.sort();
    assert_eq!(shown, logged);
}

#[tokio::test]
async fn the_documented_error_result_is_the_one_that_is_sent() {
    let gateway = Process::start(EMBEDDED).await;
    let frames = turn(&gateway, "What time is it in Atlantis?").await;
    let mut sent = frames.into_iter().find(|frame| frame.event == "tool_completed").unwrap().data;
    sent["duration_ms"] = Value::Null;
    let events = page("events.md");
    let shown = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut shown = shown
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["data"].take())
        .find(|data| data["tool_args"].is_null() && data.to_string().contains("Atlantis"))
        .expect("an example of it");
    shown["duration_ms"] = Value::Null;
    assert_eq!(shown, sent);
}
