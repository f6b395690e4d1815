//! Logs never delay the gateway, whether or not they are read.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::metrics::Samples;
use super::{config, prompt, turn};
use crate::support::process::Process;
use crate::support::{Model, within};

const DROPPED: &str = "tether_log_lines_dropped_total";

/// Logs everything to `stderr`.
fn log_all(command: &mut Command, stderr: impl Into<Stdio>) {
    command.args(["--log-format", "json"]).env("TETHER_LOG", "trace").stderr(stderr);
}

/// Far more turns than it takes to fill the queue of lines.
const TURNS_MAX: usize = 1000;

async fn log_until_lines_are_dropped(gateway: &Process, model: &mut Model) {
    for _ in 0..TURNS_MAX {
        if within(Samples::of(gateway)).await.value(DROPPED) > 0.0 {
            return;
        }
        within(turn(gateway, model, &prompt("a"), &["Hello."])).await;
    }
    panic!("no line was dropped");
}

/// Checks that the gateway completes a turn and exits normally.
async fn check(gateway: Process, model: &mut Model) {
    let frames = turn(&gateway, model, &prompt("a"), &["Hello."]).await;
    assert_eq!(frames.last().unwrap().event, "turn_completed");
    assert_eq!(gateway.get("/healthz").await.status(), 200);
    gateway.signal("TERM");
    assert_eq!(gateway.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_reader_that_is_gone_changes_nothing() {
    let mut model = Model::listen();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let gateway = Process::start_with(&config(&model), |command| log_all(command, writer)).await;
    check(gateway, &mut model).await;
}

#[tokio::test]
async fn a_full_disk_changes_nothing() {
    let mut model = Model::listen();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let gateway = Process::start_with(&config(&model), |command| log_all(command, full)).await;
    check(gateway, &mut model).await;
}

#[tokio::test]
async fn a_reader_that_leaves_changes_nothing() {
    let mut model = Model::listen();
    let (reader, writer) = io::pipe().unwrap();
    let gateway = Process::start_with(&config(&model), |command| log_all(command, writer)).await;
    turn(&gateway, &mut model, &prompt("a"), &["Hello."]).await;
    drop(reader);
    check(gateway, &mut model).await;
}

#[tokio::test]
async fn a_reader_that_stops_reading_loses_lines_and_learns_how_many() {
    let mut model = Model::listen();
    let (mut reader, writer) = io::pipe().unwrap();
    let gateway = Process::start_with(&config(&model), |command| log_all(command, writer)).await;
    log_until_lines_are_dropped(&gateway, &mut model).await;

    let read = spawn_blocking(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    gateway.signal("TERM");
    assert_eq!(gateway.exit().await.code(), Some(0));
    let text = read.await.unwrap().unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = lines.iter().find_map(|line| line["lines"].as_u64());
    assert!(told > Some(0), "{:?}", lines.last());
}

#[tokio::test]
async fn a_reader_that_stops_forever_does_not_block_the_process() {
    let mut model = Model::listen();
    let (reader, writer) = io::pipe().unwrap();
    let gateway = Process::start_with(&config(&model), |command| log_all(command, writer)).await;
    log_until_lines_are_dropped(&gateway, &mut model).await;
    check(gateway, &mut model).await;
    drop(reader);
}
