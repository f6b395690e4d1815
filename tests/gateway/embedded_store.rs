//! Sessions in a file: they outlive the process, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::Model;
use crate::support::client::request;
use crate::support::process::Process;

fn upstream(model: &Model) -> String {
    let url = format!("http://{}/v1", model.address);
    format!("upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]\n")
}

async fn start(model: &Model, state: &Path) -> Process {
    let config = upstream(model);
    Process::start_with(&config, |command| {
        command.arg("--state").arg(state);
    })
    .await
}

#[tokio::test]
async fn a_conversation_goes_on_after_its_process_was_killed() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("made").join("on demand");
    let process = start(&model, &state).await;
    let before = process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    // A turn in the middle of a word is lost, and nothing else.
    let (mut stream, mut round) = process.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Half a wo").await;
    stream.up_to_text("Half a wo").await;
    process.signal("KILL");
    assert_eq!(process.exit().await.code(), None, "it was killed");
    drop((stream, round));

    let process = start(&model, &state).await;
    let rejoined = process.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(rejoined, before, "the last whole turn, ids included");
    let mut stream = process.turn(&json!({"session_id": "s", "prompt": "And then?"})).await;
    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().rev().take(3).map(|message| &message["content"]).collect();
    assert_eq!(said, ["And then?", "Well.", "Hello?"]);
    round.answer("The end.").await;
    let events = stream.up_to("turn_completed").await;
    assert!(events[0].id.starts_with("2-"), "a process is a node: {}", events[0].id);
    let transcript: Value =
        serde_json::from_slice(&process.get("/api/v1/sessions/s").await.body).unwrap();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_second_gateway_is_refused_the_file_of_the_first() {
    let model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let process = start(&model, directory.path()).await;
    let second = Command::new(env!("CARGO_BIN_EXE_tether"))
        .args(["--listen", "127.0.0.1:0", "--state"])
        .arg(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains("tether.db is in use by another process"), "{message}");
    drop(process);
}

fn sessions(state: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tether"));
    command.arg("sessions").args(arguments).arg("--state").arg(state);
    command.stdin(Stdio::null()).output().unwrap()
}

#[tokio::test]
async fn a_session_moves_to_another_machine() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let [here, there] = ["here", "there"].map(|folder| directory.path().join(folder));
    let process = start(&model, &here).await;
    let before = process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let transcript = process.get("/api/v1/sessions/s").await.body;

    let refused = sessions(&here, &["export"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("is in use by a running gateway: stop it first, or use"), "{message}");
    process.signal("TERM");
    process.exit().await;

    let shown = sessions(&here, &["show", "s", "--json"]).stdout;
    let [shown, transcript] =
        [shown, transcript].map(|json| serde_json::from_slice::<Value>(&json).unwrap());
    assert_eq!(shown, transcript, "the same as the gateway's");
    let exported = sessions(&here, &["export"]);
    let file = directory.path().join("exported.jsonl");
    std::fs::write(&file, exported.stdout).unwrap();
    assert_eq!(sessions(&there, &["import", file.to_str().unwrap()]).status.code(), Some(0));

    let process = start(&model, &there).await;
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, before);
    let mut stream = process.whole_turn(&mut model, "s", "Well, well.").await;
    let next = stream.up_to("turn_completed").await;
    assert!(next[0].id.starts_with("2-"), "no event id is given out twice: {}", next[0].id);
}

/// A value in `/metrics`; 0 if it is not there yet.
async fn metric(process: &Process, name: &str) -> f64 {
    let text = String::from_utf8(process.get("/metrics").await.body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn metrics_show_the_sessions_and_the_commits_of_the_file() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let process = start(&model, directory.path()).await;
    for session in ["a", "b"] {
        process.whole_turn(&mut model, session, "Well.").await.rest().await;
    }
    let sessions = async || metric(&process, "tether_store_sessions").await.to_string();
    assert_eq!(sessions().await, "2");
    assert!(metric(&process, "tether_store_file_bytes").await >= 4096.0);
    let commits = metric(&process, "tether_store_commit_seconds_count").await;
    assert!(commits >= 2.0);
    assert!(metric(&process, "tether_store_commit_jobs_sum").await >= commits);
    assert!(metric(&process, "tether_store_commits_failed_total").await < 1.0);
    let deleted = process.exchange(request("DELETE", "/api/v1/sessions/a", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    assert_eq!(sessions().await, "1");
    assert!(metric(&process, "tether_store_commit_seconds_count").await > commits);
}
