//! Sessions in a file on a disk that is full, and has room again, or from which the file is taken.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tether::limits::session::{DISK_TRUSTED_FOR, FILES_CHECK_INTERVAL, REDO_BUFFER_BYTES};

use super::embedded_store::{start, upstream};
use crate::support::client::request;
use crate::support::process::{Log, Process};
use crate::support::{Model, pass, until};

/// A limit on file size stands in for a full disk.
fn logs_errors(command: &mut Command) {
    command.args(["--log-format", "json"]).env("TETHER_LOG", "error").stderr(Stdio::piped());
}

async fn start_on_a_small_disk(model: &Model, state: &Path) -> (Process, Log) {
    let state = state.to_owned();
    Process::start_logged_with(&upstream(model), move |command| {
        command.arg("--state").arg(&state);
        logs_errors(command);
    })
    .await
}

/// Too long for the buffer of what running turns write.
fn long_text() -> String {
    "x".repeat(REDO_BUFFER_BYTES)
}

/// Leaves no room for what turns write while they run, nor for anything longer. Returns when the next turn would notice.
async fn fill_disk(process: &Process, state: &Path) {
    let bytes = std::fs::metadata(state.join("tether.db-redo1")).unwrap().len();
    process.limit_file_bytes(Some(bytes));
    pass(DISK_TRUSTED_FOR).await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, log) = start_on_a_small_disk(&model, directory.path()).await;
    let before = process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    fill_disk(&process, directory.path()).await;
    for _ in 0..3 {
        let refused = process
            .post("/api/v1/chat/stream", &json!({"session_id": "s", "prompt": "More."}))
            .await;
        assert_eq!(refused.status(), 503);
        let body: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(body["error"]["code"], "store_unavailable");
    }
    assert!(process.metric("tether_store_commits_failed_total").await >= 3.0);
    until(|| !log.lines().is_empty()).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "one line a minute: {lines:?}");
    assert_eq!(lines[0]["message"], "the file of sessions cannot be used");
    assert!(lines[0]["path"].as_str().unwrap().ends_with("tether.db"), "{lines:?}");
    assert!(lines[0]["cause"].as_str().unwrap().contains("is full"), "{lines:?}");

    // Once there is room, it goes on by itself.
    process.limit_file_bytes(None);
    let more = process.whole_turn(&mut model, "s", "More.").await.rest().await;
    process.signal("KILL");
    process.exit().await;
    let process = start(&model, directory.path()).await;
    let transcript: Value =
        serde_json::from_slice(&process.get("/api/v1/sessions/s").await.body).unwrap();
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "{transcript}");
    for (turn, events) in turns.iter().zip([before, more]) {
        let query = format!("session_id=s&turn_id={}", turn["turn_id"].as_str().unwrap());
        assert_eq!(process.rejoin(&query, &[]).await.rest().await, events);
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_ends_the_running_turn_honestly() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, _log) = start_on_a_small_disk(&model, directory.path()).await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    fill_disk(&process, directory.path()).await;
    // Not on every file system.
    let is_buffered = directory.path().join("tether.db-redo-buffer").exists();
    if is_buffered {
        round.say(" two").await;
        let rest = stream.up_to("text_delta").await;
        assert_eq!(rest.last().unwrap().data["text"], " two", "there is room in the buffer");
    }
    round.say(&long_text()).await;
    let rest = stream.up_to("turn_failed").await;
    let end = &rest.last().unwrap().data;
    assert_eq!((&end["code"], &end["retryable"]), (&json!("store_unavailable"), &json!(true)));
    round.closed().await;

    // Once there is room, the conversation has what was stored of the turn, and goes on.
    process.limit_file_bytes(None);
    process.whole_turn(&mut model, "s", "More.").await.rest().await;
    let transcript = process.get("/api/v1/sessions/s").await.json();
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2, "{transcript}");
    assert!(
        turns[0].to_string().contains(if is_buffered { "One two" } else { "One" }),
        "{transcript}"
    );
}

/// The turn's events still fit, but not its end, which has the session's record.
/// The store was asked in the middle of an answer. A timer that was set before still ends the wait for the model.
#[tokio::test]
async fn a_model_that_stalls_after_the_disk_was_full_is_given_up() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let config = upstream(&model).replace("model: fake", "model: fake, idle_timeout_sec: 4");
    let state = directory.path().to_owned();
    let process = Process::start_with(&config, move |command| {
        command.arg("--state").arg(&state);
    })
    .await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    fill_disk(&process, directory.path()).await;
    // The first fits into the buffer.
    for _ in 0..2 {
        round.say(&long_text()).await;
    }
    pass(Duration::from_millis(300)).await;
    process.limit_file_bytes(None);
    round.say("Three").await;
    stream.up_to_text("Three").await;
    let end = stream.rest().await;
    assert_eq!(end.last().unwrap().data["code"], "upstream_timeout", "{end:?}");
    round.closed().await;
}

#[tokio::test]
async fn a_turn_whose_end_does_not_fit_on_the_disk_ends_honestly() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, _log) = start_on_a_small_disk(&model, directory.path()).await;
    process.whole_turn(&mut model, "before", "Well.").await.rest().await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    round.say(&long_text()).await;
    stream.up_to("text_delta").await;
    // Its end has the whole log once more.
    let bytes = std::fs::metadata(directory.path().join("tether.db-redo1")).unwrap().len();
    process.limit_file_bytes(Some(bytes + 600));
    round.end().await;
    let rest = stream.rest().await;
    let end = &rest.last().unwrap().data;
    assert_eq!(end["code"], "store_unavailable", "{rest:?}");
    process.limit_file_bytes(None);
    let again = process.rejoin("session_id=s", &[]).await.rest().await;
    assert!(again.iter().any(|frame| frame.data["text"] == "One"), "{again:?}");
    assert!(again.last().unwrap().is_last(), "{again:?}");
}

/// A process that finds the disk full when it starts.
async fn start_on_a_full_disk(model: &Model, state: &Path) -> (Process, Log) {
    let state = state.to_owned();
    Process::start_logged_with(&upstream(model), move |command| {
        command.arg("--state").arg(&state);
        logs_errors(command);
        let mut limited = Command::new("prlimit");
        // Not even the header of a file of running turns fits.
        limited.arg("--fsize=16:").arg(command.get_program()).args(command.get_args());
        limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        *command = limited;
    })
    .await
}

/// Of a session, its transcript and the events of its latest turn.
async fn all_of(process: &Process, session: &str) -> (Value, Vec<Value>) {
    let transcript = process.get(&format!("/api/v1/sessions/{session}")).await;
    assert_eq!(transcript.status(), 200, "{session}");
    let events = process.rejoin(&format!("session_id={session}"), &[]).await.rest().await;
    (transcript.json(), events.into_iter().map(|frame| frame.data).collect())
}

/// Whether they are in the tables or beside them, and by the process that saw the disk fill up or by the next one.
#[tokio::test]
async fn sessions_that_are_over_can_be_read_while_the_disk_is_full() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, _log) = start_on_a_small_disk(&model, directory.path()).await;
    process.whole_turn(&mut model, "settled", "Well.").await.rest().await;
    // Reading it brings it into the tables.
    let settled = all_of(&process, "settled").await;
    process.whole_turn(&mut model, "ended", "Well.").await.rest().await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "cut", "One").await;
    fill_disk(&process, directory.path()).await;
    round.say(&long_text()).await;
    stream.up_to("turn_failed").await;
    round.closed().await;
    let ended = all_of(&process, "ended").await;
    assert!(ended.1.iter().any(|event| event["text"] == "Well."));
    assert_eq!(all_of(&process, "settled").await, settled);
    // What becomes of a turn that was cut off has yet to be written.
    let cut = process.get("/api/v1/sessions/cut").await;
    assert_eq!((cut.status(), &cut.json()["turns"]), (200, &json!([])));

    process.signal("KILL");
    process.exit().await;
    let (process, log) = start_on_a_full_disk(&model, directory.path()).await;
    assert_eq!(all_of(&process, "settled").await, settled);
    assert_eq!(all_of(&process, "ended").await, ended);
    assert_eq!(process.get("/api/v1/sessions/cut").await.json(), cut.json());
    let refused = process.post("/api/v1/chat/stream", &json!({"prompt": "More."})).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(process.get("/readyz").await.status(), 503);
    until(|| !log.lines().is_empty()).await;
    assert!(log.lines()[0]["cause"].as_str().unwrap().contains("is full"));

    process.limit_file_bytes(None);
    process.whole_turn(&mut model, "ended", "More.").await.rest().await;
    assert_eq!(process.get("/api/v1/sessions/cut").await.status(), 200);
    model.round().await.answer(" two").await;
    // What the killed process has left is written by now, and its file removed.
    pass(FILES_CHECK_INTERVAL).await;
    process.whole_turn(&mut model, "ended", "And more.").await.rest().await;
}

/// Nothing is beside the file then.
#[tokio::test]
async fn a_gateway_that_was_stopped_starts_on_a_full_disk() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let process = start(&model, directory.path()).await;
    process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let before = all_of(&process, "s").await;
    process.signal("TERM");
    assert!(process.exit().await.success());
    let (process, _log) = start_on_a_full_disk(&model, directory.path()).await;
    assert_eq!(all_of(&process, "s").await, before);
    let refused = process.post("/api/v1/chat/stream", &json!({"prompt": "More."})).await;
    assert_eq!(refused.status(), 503);
    process.limit_file_bytes(None);
    process.whole_turn(&mut model, "s", "More.").await.rest().await;
}

/// A mark of a few bytes says so. The tables, which cannot be written, follow later.
#[tokio::test]
async fn what_is_deleted_while_the_disk_is_full_is_gone() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, _log) = start_on_a_small_disk(&model, directory.path()).await;
    for _ in 0..2 {
        process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    }
    all_of(&process, "s").await;
    let bytes = std::fs::metadata(directory.path().join("tether.db-redo1")).unwrap().len();
    process.limit_file_bytes(Some(bytes + 200));
    let deleted = process.exchange(request("DELETE", "/api/v1/sessions/s", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    let transcript = "/api/v1/sessions/s";
    assert_eq!(process.get(transcript).await.status(), 404);
    process.signal("KILL");
    process.exit().await;
    let (process, _log) = start_on_a_full_disk(&model, directory.path()).await;
    assert_eq!(process.get(transcript).await.status(), 404);
    process.limit_file_bytes(None);
    process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let turns = process.get(transcript).await.json();
    assert_eq!(turns["turns"].as_array().unwrap().len(), 1);
}

/// Neither on the disk nor in the buffer.
#[tokio::test]
async fn a_delete_without_room_for_its_mark_is_refused() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (process, _log) = start_on_a_small_disk(&model, directory.path()).await;
    process.whole_turn(&mut model, "kept", "Well.").await.rest().await;
    let before = all_of(&process, "kept").await;
    fill_disk(&process, directory.path()).await;
    let delete = async |session: &str| {
        process.exchange(request("DELETE", &format!("/api/v1/sessions/{session}"), &[], "")).await
    };
    // The mark for `s` is shorter: if it does not fit, neither does that for `kept`.
    while delete("s").await.status() != 503 {}
    let refused = delete("kept").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.json()["error"]["code"], "store_unavailable");
    process.limit_file_bytes(None);
    assert_eq!(all_of(&process, "kept").await, before);
    assert_eq!(delete("kept").await.status(), 204);
    assert_eq!(process.get("/api/v1/sessions/kept").await.status(), 404);
}

/// Otherwise, turns would be acknowledged and then be gone after the next start.
#[tokio::test]
async fn moved_files_are_noticed() {
    let mut model = Model::listen();
    let directory = tempfile::tempdir().unwrap();
    let (state, elsewhere) = (directory.path().join("state"), directory.path().join("elsewhere"));
    let (process, log) = start_on_a_small_disk(&model, &state).await;
    process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let (mut stream, round, _) = process.begin_saying(&mut model, "t", "One").await;
    std::fs::rename(&state, &elsewhere).unwrap();
    pass(FILES_CHECK_INTERVAL).await;
    for session in ["s", "new"] {
        let body = json!({"session_id": session, "prompt": "More."});
        let refused = process.post("/api/v1/chat/stream", &body).await;
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.json()["error"]["code"], "store_unavailable");
    }
    let unready = process.get("/readyz").await;
    assert_eq!((unready.status(), &unready.json()["status"]), (503, &json!("store_unavailable")));
    // A turn that was running is not said to be stored.
    round.end().await;
    assert_eq!(stream.rest().await.last().unwrap().data["code"], "store_unavailable");
    until(|| !log.lines().is_empty()).await;
    let cause = log.lines()[0]["cause"].as_str().unwrap().to_owned();
    assert!(cause.contains("tether.db was moved, replaced or deleted while in use"), "{cause}");

    // Once they are back, it goes on by itself.
    std::fs::rename(&elsewhere, &state).unwrap();
    process.whole_turn(&mut model, "s", "More.").await.rest().await;
    process.whole_turn(&mut model, "t", "More.").await.rest().await;
}
