//! What gateways of older releases have left behind when they were stopped in the middle of a turn: `tests/data/session`
//! has files of each format, and the data of a Redis server. Each has a session `done` with one turn, and one named
//! `running`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::embedded_store::start;
use super::redis_store::config_at;
use crate::support::Model;
use crate::support::events::{Frame, said};
use crate::support::gateway::STREAM;
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/session")
}

/// The names of the archives of files, which end with their formats: `file-TABLES` or `file-TABLES-redo-RECORDS`.
fn archives() -> Vec<String> {
    let entries = fs::read_dir(data()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".tar.gz")?.to_owned())).collect();
    names.sort_unstable();
    names
}

fn unpack(archive: &str, folder: &Path) {
    let path = data().join(format!("{archive}.tar.gz"));
    let status = Command::new("tar").arg("-xzf").arg(path).arg("-C").arg(folder).status();
    assert!(status.unwrap().success(), "{archive}");
}

/// Checks that the finished session is there, and that its conversation goes on.
async fn check_done(process: &Process, model: &mut Model) {
    let events = process.rejoin("session_id=done", &[]).await.rest().await;
    assert_eq!(said(&events), "Well.");
    let mut stream = process.turn(&json!({"session_id": "done", "prompt": "And then?"})).await;
    let round = model.round().await;
    let told = round.request.contents();
    assert!(told.contains("Hello?") && told.contains("Well."), "{told}");
    round.answer("The end.").await;
    let next = stream.rest().await;
    let epoch = |frame: &Frame| frame.id.split('-').next().unwrap().parse::<u64>().unwrap();
    assert!(epoch(&next[0]) > epoch(&events[0]), "no event id is given out twice");
    let transcript = process.get("/api/v1/sessions/done").await.json();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
}

async fn check_no_running(process: &Process) {
    assert_eq!(process.get(&format!("{STREAM}?session_id=running")).await.status(), 404);
}

/// Checks that the turn that was running has ended with what it had said.
async fn check_interrupted(process: &Process) {
    let events = process.rejoin("session_id=running", &[]).await.rest().await;
    assert_eq!(said(&events), "Half a wo");
    let interrupted = "tether_turns_interrupted_total{outcome=\"ended\"}";
    assert_eq!(process.metric(interrupted).await.to_string(), "1");
}

/// Checks that the turn goes on that was running.
async fn check_running(process: &Process, model: &mut Model) {
    let mut stream = process.rejoin("session_id=running", &[]).await;
    model.round().await.answer("rd.").await;
    assert_eq!(said(&stream.rest().await), "Half a word.");
}

#[tokio::test]
async fn a_file_of_each_older_format_is_read_and_goes_on() {
    for archive in archives() {
        let (mut model, folder) = (Model::listen(), tempfile::tempdir().unwrap());
        unpack(&archive, folder.path());
        let process = start(&model, folder.path()).await;
        match &*archive {
            // Turns that ran were not stored.
            "file-1" => check_no_running(&process).await,
            // They were stored without their request.
            "file-2" => check_interrupted(&process).await,
            _ => check_running(&process, &mut model).await,
        }
        check_done(&process, &mut model).await;
    }
}

/// Whoever changes a format adds what the last release has written.
#[tokio::test]
async fn there_is_a_file_of_todays_format() {
    let (model, folder) = (Model::listen(), tempfile::tempdir().unwrap());
    let _process = start(&model, folder.path()).await;
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    // SQLite, "Database File Format", 1.3.15: `user_version` at offset 60.
    let tables = u32::from_be_bytes(read("tether.db")[60..64].try_into().unwrap());
    let records = u32::from_le_bytes(read("tether.db-redo1")[12..16].try_into().unwrap());
    let expected = format!("file-{tables}-redo-{records}");
    assert!(archives().contains(&expected), "{expected} is not in {:?}", archives());
}

#[tokio::test]
async fn what_an_older_release_has_left_in_redis_is_read_and_goes_on() {
    let (mut model, folder) = (Model::listen(), tempfile::tempdir().unwrap());
    fs::copy(data().join("redis-1.rdb"), folder.path().join("dump.rdb")).unwrap();
    let protected = ["--enable-protected-configs", "yes", "--enable-debug-command", "yes"];
    let server = RedisServer::start_with(&protected);
    server.command(&["CONFIG", "SET", "dir", folder.path().to_str().unwrap()]);
    server.command(&["DEBUG", "RELOAD", "NOSAVE"]);
    let process = Process::start(&config_at(&model, &server.url(), "")).await;
    check_running(&process, &mut model).await;
    check_done(&process, &mut model).await;
    assert_eq!(server.command(&["GET", "tether:version"]), "$1\r\n1\r\n", "redis-VERSION.rdb");
}
