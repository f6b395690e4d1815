//! Sessions on a real Redis server, shared by gateways that come, stall and are killed.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::client::request;
use crate::support::events::Frame;
use crate::support::process::{Log, Process};
use crate::support::redis_server::RedisServer;
use crate::support::{EventStream, Model, ms, pass};

/// A gateway's configuration, with a short lease.
pub(super) fn config(model: &Model, server: &RedisServer, more: &str) -> String {
    config_at(model, &server.url(), more)
}

pub(super) fn config_at(model: &Model, store: &str, more: &str) -> String {
    let url = format!("http://{}/v1", model.address);
    let mut text = format!(
        "upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]\n"
    );
    let _ = writeln!(text, "sessions: {{redis: {{url: \"{store}\", lease_sec: 2, {more}}}}}");
    text
}

async fn start(model: &Model, server: &RedisServer) -> Process {
    Process::start(&config(model, server, "")).await
}

pub(super) async fn start_logged(
    model: &Model,
    server: &RedisServer,
    more: &str,
) -> (Process, Log) {
    Process::start_logged_with(&config(model, server, more), |command| {
        command.args(["--log-format", "json"]).env("TETHER_LOG", "info").stderr(Stdio::piped());
    })
    .await
}

/// All events up to the end of the stream, which may be before the turn's.
pub(super) async fn until_closed(mut stream: EventStream) -> Vec<Frame> {
    let mut events = Vec::new();
    while let Some(frame) = stream.next().await {
        events.push(frame);
    }
    events
}

/// All events of the session's latest turn, once it is over. Whatever the model is asked meanwhile, it answers.
pub(super) async fn ended(process: &Process, query: &str) -> Vec<Frame> {
    loop {
        let events = until_closed(process.rejoin(query, &[]).await).await;
        if events.last().is_some_and(Frame::is_last) {
            return events;
        }
    }
}

/// Answers every request until its gateway is gone.
pub(super) async fn play(mut model: Model) {
    loop {
        model.round().await.answer(" The end.").await;
    }
}

/// A turn of a session in which none runs.
pub(super) async fn next_turn(process: &Process, session: &str) -> Vec<Frame> {
    let body = json!({"session_id": session, "prompt": "And then?"});
    process.turn(&body).await.up_to("turn_completed").await
}

/// The server keeps those waiting who want to write.
#[tokio::test]
async fn whether_words_are_shown_before_they_are_stored_is_configured() {
    for durability in ["before_send", "lazy"] {
        let (mut model, server) = (Model::listen(), RedisServer::start());
        let config =
            config(&model, &server, "") + &format!("stream: {{durability: {durability}}}\n");
        let process = Process::start(&config).await;
        let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
        server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
        round.say(" two").await;
        if durability == "before_send" {
            while !server.command(&["INFO", "clients"]).contains("blocked_clients:1") {}
            tokio::select! {
                biased;
                frame = stream.next() => panic!("it is not stored: {frame:?}"),
                () = pass(ms(100)) => {}
            }
            server.command(&["CLIENT", "UNPAUSE"]);
        }
        stream.up_to_text(" two").await;
        server.command(&["CLIENT", "UNPAUSE"]);
        round.end().await;
        assert_eq!(stream.rest().await.last().unwrap().data["text"], "One two");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_in_any_gateway() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let before = one.whole_turn(&mut model, "s", "Well.").await.rest().await;
    assert_eq!(two.rejoin("session_id=s", &[]).await.rest().await, before, "ids included");
    let mut stream = two.turn(&json!({"session_id": "s", "prompt": "And then?"})).await;
    let round = model.round().await;
    assert!(round.request.body.to_string().contains("Well."));
    round.answer("The end.").await;
    let events = stream.up_to("turn_completed").await;
    assert!(events[0].id.starts_with("2-"), "it has changed hands: {}", events[0].id);
    for process in [one, two] {
        process.signal("TERM");
        assert!(process.exit().await.success());
    }
    let three = start(&model, &server).await;
    let transcript = three.get("/api/v1/sessions/s").await.json();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 2);
    let deleted = three.exchange(request("DELETE", "/api/v1/sessions/s", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    assert_eq!(three.get("/api/v1/sessions/s").await.status(), 404);
}

#[tokio::test]
async fn the_session_of_a_killed_gateway_is_free_after_its_lease() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (stream, round, seen) = one.begin_saying(&mut model, "s", "Half a wo").await;
    let busy = two.post("/api/v1/chat/stream", &json!({"session_id": "s", "prompt": "?"})).await;
    assert_eq!(busy.status(), 409, "it runs elsewhere");
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    let player = tokio::spawn(play(model));
    let all = ended(&two, "session_id=s").await;
    assert_eq!(all[..seen.len()], seen[..], "nothing that was seen is lost");
    let next = next_turn(&two, "s").await;
    assert!(!next[0].id.starts_with("1-"), "it has changed hands: {}", next[0].id);
    let turns = two.get("/api/v1/sessions/s").await.json()["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 2, "{turns}");
    assert!(turns[0].to_string().contains("Half a wo"), "{turns}");
    player.abort();
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_a_turn_runs() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let process = start(&model, &server).await;
    let (mut stream, mut round) = process.begin(&mut model, "s").await;
    round.begin().await;
    while process.metric("tether_lease_renewals_total").await < 4.0 {}
    round.say("Still here.").await;
    stream.up_to_text("Still here.").await;
    round.end().await;
    stream.up_to("turn_completed").await;
    assert!(process.metric("tether_leases_lost_total").await < 1.0);
}

/// Alerts on an increase would not see the first event of a counter that begins with it.
#[tokio::test]
async fn counters_begin_at_zero_and_count_what_is_written() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let process = start(&model, &server).await;
    let text = String::from_utf8(process.get("/metrics").await.body).unwrap();
    for name in [
        "tether_store_requests_failed_total",
        "tether_store_writes_fenced_total",
        "tether_lease_renewals_total",
        "tether_leases_lost_total",
        "tether_remote_logs",
        "tether_remote_readers",
        "tether_turns_interrupted_total{outcome=\"ended\"}",
        "tether_turns_interrupted_total{outcome=\"resumed\"}",
        "tether_turns_total{outcome=\"store_unavailable\"}",
        "tether_feedback_total{reason=\"tool_failed\"}",
        "tether_calls_not_run_total{why=\"unapproved\"}",
        "tether_clarifications_total{outcome=\"expired\"}",
    ] {
        assert!(text.lines().any(|line| line == format!("{name} 0")), "{name}: {text}");
    }
    // A few were written when the server was examined.
    let names = [
        "appends_total",
        "appended_bytes_total",
        "append_events_sum",
        "request_seconds_count",
        "request_seconds_sum",
    ];
    let counts = async || {
        let counts = names.map(|name| format!("tether_store_{name}"));
        join_all(counts.iter().map(|name| process.metric(name))).await
    };
    let before = counts().await;
    let told = process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let after = counts().await;
    let [appends, bytes, events, requests, waited] =
        [0, 1, 2, 3, 4].map(|at| after[at] - before[at]);
    assert!(appends >= 2.0 && bytes > 100.0, "{appends} of {bytes} bytes");
    assert!(requests > appends && waited > 0.0, "{requests} in {waited} s");
    #[expect(clippy::cast_precision_loss, reason = "they are few")]
    let count = told.len() as f64;
    assert!((events - count).abs() < 0.5, "{events} of {count}");
}

/// How many turns have ended on this gateway.
async fn turns_counted(process: &Process) -> usize {
    let text = String::from_utf8(process.get("/metrics").await.body).unwrap();
    let counts = text.lines().filter(|line| line.starts_with("tether_turns_total{"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

/// Like a machine that sleeps: its gateway wakes up and knows nothing.
#[tokio::test]
async fn a_gateway_that_stood_still_for_longer_than_its_lease_writes_nothing() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    one.stop().await;
    round.say(" two").await;
    let player = tokio::spawn(play(model));
    let before = ended(&two, "session_id=s").await;
    let next = next_turn(&two, "s").await;
    let transcript = two.get("/api/v1/sessions/s").await.json();
    one.signal("CONT");
    round.closed().await;
    assert_eq!(until_closed(stream).await, [], "it says nothing more, so that its client re-joins");
    assert!(one.metric("tether_leases_lost_total").await >= 1.0);
    assert_eq!(two.get("/api/v1/sessions/s").await.json(), transcript, "nothing was written");
    assert_eq!([turns_counted(&one).await, turns_counted(&two).await], [0, 2], "each turn once");
    // It serves what the other one has written.
    let query = format!("session_id=s&turn_id={}", before[0].data["turn_id"].as_str().unwrap());
    for process in [&one, &two] {
        assert_eq!(process.rejoin(&query, &[]).await.rest().await, before);
        assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, next);
    }
    player.abort();
}

/// What a command prints on standard error, and whether it succeeds.
pub(super) fn tether(arguments: &[&str], config: &str) -> (bool, String, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    let mut command = Command::new("timeout");
    command.arg("20").arg(env!("CARGO_BIN_EXE_tether"));
    command.args(arguments).arg("--config").arg(file.path()).stdin(Stdio::null());
    let ended = command.env("TETHER_LOG", "off").output().unwrap();
    let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    (ended.status.success(), out, err)
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_an_error_at_start() {
    let mut server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "ann", "on", ">right", "~*", "&*", "+@all"]);
    let refused = |url: &str, more: &str| {
        let config = format!(
            "server: {{listen: \"127.0.0.1:0\"}}\nsessions: {{redis: {{url: \"{url}\", {more}}}}}\n"
        );
        let (is_started, _, message) = tether(&["serve"], &config);
        assert!(!is_started, "{message}");
        assert!(!message.contains("secret"), "{message}");
        message
    };
    let message = refused(&server.url(), "user: ann, password: secret");
    assert!(
        message.contains("Redis at /") && message.contains("the password is wrong"),
        "{message}"
    );
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    let message = refused(&server.url(), "");
    assert!(message.contains("it is a read-only replica"), "{message}");
    server.kill();
    let message = refused(&server.url(), "");
    assert!(message.contains("cannot be used: nothing listens at its address"), "{message}");
    assert!(message.contains("(`sessions.redis`)"), "{message}");
}

/// Something else has written under the name of one session.
#[tokio::test]
async fn a_session_that_cannot_be_read_is_named_and_can_be_deleted() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let process = start(&model, &server).await;
    process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let config = config(&model, &server, "");
    for is_by_command in [true, false] {
        server.command(&["LPUSH", "tether:{x}:record", "not ours"]);
        server.command(&["SET", "tether:{x}:session", "nor this"]);
        let shown = process.get("/api/v1/sessions/x").await;
        assert_eq!(
            (shown.status(), &shown.json()["error"]["code"]),
            (500, &json!("session_unreadable"))
        );
        let (is_done, listed, message) = tether(&["sessions", "list"], &config);
        assert!(is_done && listed.contains("  s\n") && listed.contains("  x\n"), "{listed}");
        assert!(message.contains("x cannot be read"), "{message}");
        assert_eq!(process.get("/readyz").await.status(), 200, "the server is well");
        if is_by_command {
            let (is_done, _, message) = tether(&["sessions", "forget", "x"], &config);
            assert!(is_done, "{message}");
        } else {
            let deleted = process.exchange(request("DELETE", "/api/v1/sessions/x", &[], "")).await;
            assert_eq!(deleted.status(), 204);
        }
        assert_eq!(server.command(&["EXISTS", "tether:{x}:record"]), ":0\r\n");
        assert_eq!(process.get("/api/v1/sessions/x").await.status(), 404);
    }
}

#[tokio::test]
async fn commands_work_on_a_server() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let process = start(&model, &server).await;
    process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    let config = config(&model, &server, "");
    let (_, listed, _) = tether(&["sessions", "list", "--json"], &config);
    assert!(listed.contains("\"s\""), "{listed}");
    let (_, shown, _) = tether(&["sessions", "show", "s"], &config);
    assert!(shown.contains("Well."), "{shown}");
    let (_, exported, _) = tether(&["sessions", "export"], &config);
    assert_eq!(exported.lines().count(), 1);
    let (is_done, _, message) = tether(&["sessions", "forget", "s"], &config);
    assert!(is_done, "{message}");
    assert_eq!(process.get("/api/v1/sessions/s").await.status(), 404);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), exported).unwrap();
    let path = file.path().to_str().unwrap();
    let (is_done, _, message) = tether(&["sessions", "import", path], &config);
    assert!(is_done, "{message}");
    let transcript: Value = process.get("/api/v1/sessions/s").await.json();
    assert_eq!(transcript["turns"].as_array().unwrap().len(), 1);

    let of_server = config.lines().last().unwrap();
    let (is_done, _, message) = tether(&["check", "--probe"], of_server);
    assert!(is_done, "{message}");
    assert!(message.contains("note: sessions: Redis at /"), "{message}");
    assert!(
        message.contains("a write takes ") && message.contains("set `appendonly yes`"),
        "{message}"
    );
}
