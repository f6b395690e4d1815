//! Connections and memory are released, whatever happens to turns.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::client::{post, request};
use crate::support::events::outcome;
use crate::support::gateway::STREAM;
use crate::support::h2::{Connection, collect};
use crate::support::model::{UNTIL_CLOSE, call, text};
use crate::support::process::Process;
use crate::support::{Client, Model, Round, until, within};

async fn start(model: SocketAddr) -> Process {
    Process::start(&format!(
        "upstreams: [{{name: fake, kind: openai_chat, base_url: \"http://{model}/v1\", model: m}}]\n\
         stream: {{disconnect_grace_sec: 0.01}}\n"
    ))
    .await
}

/// What a process holds for its clients and model servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    turns: u32,
    connections: u32,
    sockets: usize,
}

/// Watches a process over one connection, which stays open.
struct Watch {
    process: Process,
    client: Client,
}

impl Watch {
    async fn new(process: Process) -> Self {
        let client = process.client().await;
        Self { process, client }
    }

    async fn held(&mut self) -> Held {
        self.client.send(request("GET", "/metrics", &[], "")).await;
        let text = String::from_utf8(self.client.reply().await.body).unwrap();
        let metric = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map_or(0, |value| value.parse().unwrap())
        };
        Held {
            turns: ["planning", "executing", "synthesizing"]
                .map(|state| metric(&format!("tether_turns_running{{state=\"{state}\"}}")))
                .into_iter()
                .sum(),
            connections: metric("tether_connections_open"),
            sockets: self.process.sockets(),
        }
    }

    /// Waits until `condition` is met; returns what is held then.
    #[track_caller]
    fn until(&mut self, condition: impl Fn(&Held) -> bool) -> impl Future<Output = Held> {
        within(async move {
            loop {
                let held = self.held().await;
                if condition(&held) {
                    return held;
                }
                tokio::task::yield_now().await;
            }
        })
    }
}

fn prompt(session: &str) -> String {
    json!({"session_id": session, "prompt": "Hello?"}).to_string()
}

/// Clients that leave in every possible way.
async fn clients_that_leave(process: &Process, model: &mut Model, session: &str) {
    // Before the answer, in the middle of it, and after it.
    let (stream, mut round) = process.begin(model, session).await;
    drop(stream);
    round.closed().await;
    let (mut stream, mut round) = process.begin(model, session).await;
    round.begin().await;
    round.say("Half").await;
    stream.up_to_text("Half").await;
    drop(stream);
    round.closed().await;
    process.whole_turn(model, session, "Well.").await.rest().await;
    // With a reset.
    let (stream, mut round) = process.begin(model, session).await;
    stream.client.socket.set_zero_linger().unwrap();
    drop(stream);
    round.closed().await;
    // One of two readers.
    let (mut stream, round) = process.begin(model, session).await;
    drop(process.rejoin(&format!("session_id={session}"), &[]).await);
    round.answer("Well.").await;
    assert_eq!(outcome(&stream.rest().await), "stop");
    // In the middle of a request, which then does not count.
    let whole = post(STREAM, &[], &prompt("never"));
    for cut in [1, 20, whole.len() / 2, whole.len() - 1] {
        process.client().await.send(&whole[..cut]).await;
    }
    // Without sending anything, or with bytes that make no sense.
    drop(process.client().await);
    for rubbish in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\r\n\r\n\r\n", b"\xff\xfe\x00 / HTTP/9"]
    {
        let mut client = process.client().await;
        client.send(rubbish).await;
        client.socket.shutdown().await.unwrap();
        client.closed().await;
    }
    // Over HTTP/2: first a stream, then the connection.
    let mut connection = Connection::open(process.address, 1024).await;
    drop(connection.send("POST", STREAM, &prompt(session)).await.unwrap());
    model.round().await.closed().await;
    let reply = connection.send("POST", STREAM, &prompt(session)).await.unwrap();
    let mut round = model.round().await;
    connection.cut();
    collect(reply.into_body()).await.expect_err("the connection is gone");
    round.closed().await;
}

/// Model servers that fail in the ways most likely to leak.
async fn servers_that_fail(process: &Process, model: &mut Model, session: &str) {
    let die: [fn(Round); 2] = [drop, Round::reset];
    for die in die {
        let (mut stream, round) = process.begin(model, session).await;
        die(round);
        assert_eq!(outcome(&stream.rest().await), "upstream_error");
        let (mut stream, mut round) = process.begin(model, session).await;
        round.begin().await;
        round.say(&call("calculate", &json!({"expression": "1+1"}))[..30]).await;
        stream.up_to("tool_marker_detected").await;
        die(round);
        assert_eq!(outcome(&stream.rest().await), "upstream_error");
    }
    let (mut stream, mut round) = process.begin(model, session).await;
    round.write("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno").await;
    assert_eq!(outcome(&stream.rest().await), "upstream_error");
    let (mut stream, mut round) = process.begin(model, session).await;
    round.write(UNTIL_CLOSE).await;
    round.write("data: rubbish\n\n").await;
    round.closed().await;
    assert_eq!(outcome(&stream.rest().await), "upstream_error");
    // It keeps sending although the turn was cancelled.
    let (mut stream, mut round) = process.begin(model, session).await;
    round.begin().await;
    round.say("Half").await;
    stream.up_to_text("Half").await;
    assert_eq!(process.cancel(session).await, 202);
    round.flood(text("more").as_bytes(), 10_000).await;
    assert_eq!(outcome(&stream.rest().await), "cancelled");
    // It leaves the answer open, so the connection cannot be reused.
    process.whole_turn(model, session, "Well.").await.rest().await;
}

#[tokio::test]
async fn connections_and_turns_come_back() {
    let mut model = Model::listen();
    let mut watch = Watch::new(start(model.address).await).await;
    // The first turns leave a connection to the model for the next ones.
    clients_that_leave(&watch.process, &mut model, "s").await;
    servers_that_fail(&watch.process, &mut model, "s").await;
    let alone = |held: &Held| held.turns == 0 && held.connections == 1;
    let goal = watch.until(alone).await;
    for _ in 0..10 {
        clients_that_leave(&watch.process, &mut model, "s").await;
        servers_that_fail(&watch.process, &mut model, "s").await;
        watch.until(|held| *held == goal).await;
    }
    assert!(goal.sockets < 10, "{goal:?}");
}

/// Memory grows only by what is kept for clients that return.
#[tokio::test]
async fn memory_comes_back() {
    let mut model = Model::listen();
    let process = start(model.address).await;
    let words = "word ".repeat(20_000);
    let mut before = 0;
    for turn in 0..200 {
        let session = format!("s{turn}");
        let frames = process.whole_turn(&mut model, &session, &words).await.rest().await;
        assert_eq!(outcome(&frames), "stop");
        let forget = request("DELETE", &format!("/api/v1/sessions/{session}"), &[], "");
        assert_eq!(process.exchange(forget).await.status(), 204);
        if turn == 100 {
            before = process.memory_kib();
        }
    }
    // A hundred turns have produced 10 MB of text, and as much again in events.
    let grown = process.memory_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{before} KiB and {grown} KiB more");
}

/// Freed memory goes back to the system, within the ten seconds that the allocator takes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[tokio::test]
async fn memory_is_given_back() {
    let mut model = Model::listen();
    let process = start(model.address).await;
    process.whole_turn(&mut model, "warm", "Well.").await.rest().await;
    let before = process.memory_kib();
    let sessions = 0..300;
    for n in sessions.clone() {
        let prompt = "Go. ".repeat(256 * (1 + n * 37 % 300));
        let body = json!({"session_id": format!("s{n}"), "prompt": prompt});
        let mut stream = process.turn(&body).await;
        model.round().await.answer_in_pieces("Gone and come back. ", 2).await;
        assert_eq!(outcome(&stream.rest().await), "stop");
    }
    let held = process.memory_kib() - before;
    assert!(held > 40 * 1024, "{held} KiB");
    for n in sessions {
        let forget = request("DELETE", &format!("/api/v1/sessions/s{n}"), &[], "");
        assert_eq!(process.exchange(forget).await.status(), 204);
    }
    until(|| process.memory_kib() < before + held / 4).await;
}

/// A session keeps only the logs of its last turns.
#[tokio::test]
async fn a_long_session_keeps_little() {
    let mut model = Model::listen();
    let process = start(model.address).await;
    let call = call("calculate", &json!({"expression": "1+1"}));
    let mut before = 0;
    for turn in 0..200 {
        let (mut stream, round) = process.begin(&mut model, "s").await;
        round.answer(&call).await;
        model.round().await.answer("Two.").await;
        assert_eq!(outcome(&stream.rest().await), "stop");
        if turn == 100 {
            before = process.memory_kib();
        }
    }
    let grown = process.memory_kib().saturating_sub(before);
    assert!(grown < 4 * 1024, "{before} KiB and {grown} KiB more");
}
