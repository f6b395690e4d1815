//! Every process that a call has started ends with the call.

use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::*;

/// A pipe that a program and its children hold open: it closes when the last of them is gone.
struct Held {
    directory: tempfile::TempDir,
    pipe: pipe::Receiver,
}

impl Held {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let pipe = pipe::OpenOptions::new().open_receiver(path).unwrap();
        Self { directory, pipe }
    }

    /// A script in which every process holds the pipe as its file 3.
    fn script(&self, script: &str) -> Program {
        let directory = self.directory.path().to_owned();
        Program::script(&format!("exec 3>pipe; {script}")).with(|it| it.directory = Some(directory))
    }

    /// Waits until a process has written this.
    async fn reads(&mut self, expected: &str) {
        let mut read = vec![0; expected.len()];
        within(self.pipe.read_exact(&mut read)).await.unwrap();
        assert_eq!(read, expected.as_bytes());
    }

    /// Waits for a line.
    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        within(async {
            while line.last() != Some(&b'\n') {
                line.push(self.pipe.read_u8().await.unwrap());
            }
        })
        .await;
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Waits until no process is left.
    async fn closes(&mut self) {
        let mut rest = Vec::new();
        within(self.pipe.read_to_end(&mut rest)).await.unwrap();
    }
}

async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it takes too long")
}

/// Two levels of children in the background.
const FAMILY: &str = "(sleep 1000 & sleep 1000) & sleep 1000 & echo ready >&3;";

#[tokio::test]
async fn what_a_program_leaves_running_ends_with_it() {
    let mut held = Held::new();
    let printed = held.script(&format!("{FAMILY} echo done")).prints(json!({})).await;
    assert_eq!(printed, "done", "though others still hold its output");
    held.closes().await;
}

/// A child that has left the group and the session, and whose parent has ended.
const DAEMON: &str = "(setsid sleep 1000 >/dev/null 2>&1 &) ; echo ready >&3;";

#[tokio::test]
async fn a_daemon_ends_with_the_call_that_started_it() {
    for rest in ["echo done", "exit 3"] {
        let mut held = Held::new();
        held.script(&format!("{DAEMON} {rest}")).run(json!({})).await.unwrap();
        held.reads("ready\n").await;
        held.closes().await;
    }
}

#[tokio::test]
async fn a_call_out_of_time_ends_the_whole_tree() {
    let mut held = Held::new();
    let tool = held.script(&format!("{FAMILY} {DAEMON} wait")).tool();
    let call = tool.call(json!({}), CallContext::first("call"));
    let ended = tokio::time::timeout(Duration::from_millis(500), call).await;
    assert!(ended.is_err(), "{ended:?}");
    held.closes().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_the_whole_tree() {
    let mut held = Held::new();
    let tool = held.script(&format!("{FAMILY} wait")).tool();
    let call = tokio::spawn(tool.call(json!({}), CallContext::first("call")));
    held.reads("ready\n").await;
    call.abort();
    held.closes().await;
}

/// The program is over, and what it has left holds its standard error.
#[tokio::test]
async fn a_call_that_is_cancelled_at_its_end_ends_what_is_left() {
    let mut held = Held::new();
    // The shell waits until the other one has left its group, and with that its output.
    let leave = "setsid sh -c 'exec sleep 1000 >/dev/null' &";
    let tool = held.script(&format!(": \"$({leave})\"; echo $$ >&3")).tool();
    let call = tokio::spawn(tool.call(json!({}), CallContext::first("call")));
    let program = format!("/proc/{}", held.line().await);
    within(async {
        while Path::new(&program).exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The call waits for that, up to a second.
    call.abort();
    held.closes().await;
}

/// Two calls that change the same thing would otherwise overlap.
#[tokio::test]
async fn a_session_is_settled_when_nothing_of_a_cancelled_call_is_left() {
    let mut held = Held::new();
    let tool = held.script("trap '' TERM; echo $$ >&3; while :; do sleep 0.01; done").tool();
    let call = tokio::spawn(tool.call(json!({}), CallContext::first("call")));
    let program = format!("/proc/{}", held.line().await);
    let is_settled = async |session| {
        let settled = tool.settled(session);
        tokio::time::timeout(Duration::ZERO, settled).await.is_ok()
    };
    assert!(!is_settled("").await && is_settled("another").await);
    call.abort();
    within(tool.settled("")).await;
    assert!(!Path::new(&program).exists());
}

#[tokio::test]
async fn a_tree_that_ignores_the_request_to_end_is_killed() {
    let mut held = Held::new();
    let script = format!("trap '' TERM INT HUP; {FAMILY} wait; wait; wait");
    let tool = held.script(&script).tool();
    let call = tokio::spawn(tool.call(json!({}), CallContext::first("call")));
    held.reads("ready\n").await;
    call.abort();
    held.closes().await;
}

#[tokio::test]
async fn a_program_is_asked_to_end_first() {
    let mut held = Held::new();
    let script = "trap 'echo asked >&3; exit' TERM; echo ready >&3; while :; do sleep 0.01; done";
    let tool = held.script(script).tool();
    let call = tokio::spawn(tool.call(json!({}), CallContext::first("call")));
    held.reads("ready\n").await;
    call.abort();
    held.reads("asked\n").await;
    held.closes().await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_nothing_running() {
    let mut held = Held::new();
    let directory = held.directory.path().display();
    let script = format!(
        "trap '' TERM HUP; exec 3>{directory}/pipe; pwd >{directory}/ran_in; {DAEMON} {FAMILY} wait; wait; wait"
    );
    let config = json!({ "tools": { "command": [{
        "name": "stay",
        "description": "Stays.",
        "command": ["sh", "-c", script],
        "sandbox": { "mode": "off" },
    }] } });
    let file = held.directory.path().join("tether.yml");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut gateway = std::process::Command::new(env!("CARGO_BIN_EXE_tether"))
        .args(["tools", "call", "stay", "--config"])
        .arg(&file)
        .spawn()
        .unwrap();
    held.reads("ready\n").await;
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    held.closes().await;
    let ran_in = text_of(&held.directory.path().join("ran_in"));
    within(async {
        while Path::new(ran_in.trim_end()).exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
