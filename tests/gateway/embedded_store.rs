//! Sessions in a file: they outlive the process, however it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::Model;
use crate::support::client::request;
use crate::support::events::names;
use crate::support::process::Process;
use crate::support::within;

pub(super) fn upstream(model: &Model) -> String {
    let url = format!("http://{}/v1", model.address);
    format!("upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]\n")
}

pub(super) async fn start(model: &Model, state: &Path) -> Process {
    let config = upstream(model) + "messages: {server_tools: hidden}\n";
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
    let (stream, round, seen) = process.begin_saying(&mut model, "s", "Half a wo").await;
    process.signal("KILL");
    assert_eq!(process.exit().await.code(), None, "it was killed");
    drop((stream, round));

    let process = start(&model, &state).await;
    let last = format!("Last-Event-ID: {}", seen.last().unwrap().id);
    let mut stream = process.rejoin("session_id=s", &[&last]).await;
    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap();
    assert_eq!(messages[messages.len() - 2]["content"], "Half a wo");
    round.answer("rd.").await;
    let rest = stream.rest().await;
    assert_eq!(names(&rest), ["status", "text_delta", "turn_completed"]);
    assert_eq!(rest.last().unwrap().data["text"], "Half a word.");
    let resumed = "tether_turns_interrupted_total{outcome=\"resumed\"}";
    assert_eq!(process.metric(resumed).await.to_string(), "1");
    let first = before[0].data["turn_id"].as_str().unwrap();
    let query = format!("session_id=s&turn_id={first}");
    assert_eq!(process.rejoin(&query, &[]).await.rest().await, before, "ids included");

    let mut stream = process.turn(&json!({"session_id": "s", "prompt": "And then?"})).await;
    let round = model.round().await;
    let messages = round.request.body["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().rev().take(5).map(|message| &message["content"]).collect();
    assert_eq!(said, ["And then?", "Half a word.", "Hello?", "Well.", "Hello?"]);
    round.answer("The end.").await;
    let events = stream.up_to("turn_completed").await;
    assert!(events[0].id.starts_with("2-"), "a process is a node: {}", events[0].id);
    let transcript: Value =
        serde_json::from_slice(&process.get("/api/v1/sessions/s").await.body).unwrap();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 3);
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
    let config = directory.path().join("tether.yml");
    std::fs::write(&config, "sessions: {embedded: {path: here/tether.db}}\n").unwrap();
    let probe = Command::new(env!("CARGO_BIN_EXE_tether"))
        .args(["check", "--probe", "--config"])
        .arg(&config)
        .output()
        .unwrap();
    let message = String::from_utf8(probe.stderr).unwrap();
    assert!(probe.status.success() && message.contains("note: sessions: "), "{message}");
    assert!(message.contains("tether.db is in use by another process, probably a"), "{message}");
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

#[tokio::test]
async fn metrics_show_the_sessions_and_the_commits_of_the_file() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let process = start(&model, directory.path()).await;
    for session in ["a", "b"] {
        process.whole_turn(&mut model, session, "Well.").await.rest().await;
    }
    // The tables get the ends of turns before long.
    let counted = async |sessions: &str| {
        while process.metric("tether_store_sessions").await.to_string() != sessions {}
    };
    within(counted("2")).await;
    assert!(process.metric("tether_store_file_bytes").await >= 4096.0);
    let commits = process.metric("tether_store_commit_seconds_count").await;
    assert!(commits >= 2.0);
    assert!(process.metric("tether_store_commit_jobs_sum").await >= commits);
    let appends = process.metric("tether_store_appends_total").await;
    assert!(appends >= 1.0 && process.metric("tether_store_appended_bytes_total").await > appends);
    assert!(process.metric("tether_store_commits_failed_total").await < 1.0);
    let deleted = process.exchange(request("DELETE", "/api/v1/sessions/a", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    within(counted("1")).await;
    assert!(process.metric("tether_store_commit_seconds_count").await > commits);
}

/// A folder and a file that this process may not write. Root may write anything, unless it gives up
/// the right to.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_folder_is_an_error_at_start() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let start = |folder: &Path| {
        let tether = env!("CARGO_BIN_EXE_tether");
        let mut command = Command::new("timeout");
        command.arg("20");
        if is_root {
            command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
        }
        command.args([tether, "--listen", "127.0.0.1:0", "--state"]).arg(folder);
        let ended = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8(ended.stderr).unwrap()
    };
    let folder = directory.path().join("state");
    fs::create_dir(&folder).unwrap();
    let read_only = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    read_only(&folder, 0o555).unwrap();
    let message = start(&folder);
    assert!(message.contains("state/tether.db: Permission denied"), "{message}");

    read_only(&folder, 0o755).unwrap();
    let file = folder.join("tether.db");
    let exported = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/session/export-1.jsonl");
    assert!(sessions(&folder, &["import", exported]).status.success());
    let bytes = fs::read(&file).unwrap();
    read_only(&folder, 0o555).unwrap();
    let message = start(&folder);
    assert!(message.contains("tether.db cannot be written ("), "{message}");
    assert!(message.contains("needs write access to the file and its folder"), "{message}");
    read_only(&file, 0o444).unwrap();
    let message = start(&folder);
    assert!(message.contains("state/tether.db: Permission denied"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
    read_only(&folder, 0o755).unwrap();
}
