//! A Redis server that pauses, stays away, crashes or is full.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::redis_store::{config, ended, next_turn, play, start_logged, tether, until_closed};
use crate::support::client::post;
use crate::support::events::Frame;
use crate::support::gateway::STREAM;
use crate::support::model::call;
use crate::support::process::{Log, Process};
use crate::support::redis_server::RedisServer;
use crate::support::{Model, pass, until, within};

#[tokio::test]
async fn a_short_pause_of_the_server_is_waited_out() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (process, log) = start_logged(&model, &server, "wait_sec: 1.5").await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    server.command(&["CLIENT", "PAUSE", "1000", "ALL"]);
    round.say(" two").await;
    stream.up_to_text(" two").await;
    round.end().await;
    stream.up_to("turn_completed").await;
    let events = process.rejoin("session_id=s", &[]).await.rest().await;
    let sequences: Vec<u64> = events.iter().map(Frame::sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "nothing twice");
    drop(log);
}

/// Notes how many entries of logs say that a tool has started.
const COUNT_STARTS: &str = r#"
import socket, sys
script = '''local n = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('TYPE', key).ok == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      if string.find(table.concat(entry[2]), 'tool_started', 1, true) then n = n + 1 end
    end
  end
end
return n'''
words = ["EVAL_RO", script, "0"]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    server.sendall(f"*{len(words)}\r\n".encode())
    for word in words:
        server.sendall(f"${len(word)}\r\n{word}\r\n".encode())
    print(server.makefile().readline().strip())
"#;

/// Otherwise it would run twice if its gateway were killed.
#[tokio::test]
async fn a_tool_starts_once_that_is_stored_even_if_the_model_says_nothing_before() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let socket = server.url().strip_prefix("unix://").unwrap().to_owned();
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), COUNT_STARTS).unwrap();
    let command = json!(["python3", script.path(), socket]);
    let count = format!(
        "tools: {{builtin: [], command: [{{name: count, command: {command}, description: Counts., \
         policy: {{mutates: true, confirm: never}}, sandbox: {{mode: 'off'}}}}]}}\n"
    );
    let process = Process::start(&(config(&model, &server, "wait_sec: 1") + &count)).await;
    let mut stream = process.turn(&json!({"session_id": "s", "prompt": "Count."})).await;
    let mut round = model.round().await;
    round.begin().await;
    let call = call("count", &json!({}));
    let (marker, rest) = call.split_once('{').unwrap();
    round.say(marker).await;
    round.say("{").await;
    stream.up_to("tool_marker_detected").await;
    server.command(&["CLIENT", "PAUSE", "500", "WRITE"]);
    round.say(rest).await;
    round.end().await;
    let events = stream.up_to("tool_completed").await;
    let result = &events.last().unwrap().data["tool_result"];
    assert_eq!(result["data"]["text"], ":1", "{result}");
}

#[tokio::test]
async fn a_server_that_stays_away_ends_the_running_turn_honestly() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (process, log) = start_logged(&model, &server, "wait_sec: 0.5").await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    server.signal("STOP");
    round.say(" two").await;
    let rest = stream.up_to("turn_failed").await;
    let end = &rest.last().unwrap().data;
    assert_eq!((&end["code"], &end["retryable"]), (&json!("store_unavailable"), &json!(true)));
    assert_eq!((&end["text"], &end["loops"]), (&json!("One"), &json!(1)), "what was seen");
    round.closed().await;
    for _ in 0..2 {
        let body = json!({"session_id": "t", "prompt": "Hello?"});
        let refused = process.post("/api/v1/chat/stream", &body).await;
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.json()["error"]["code"], "store_unavailable");
    }
    let ready = process.get("/readyz").await;
    assert_eq!((ready.status(), &ready.json()["status"]), (503, &json!("store_unavailable")));
    let is_error = |line: &&Value| line["message"] == "the session store cannot be used";
    until(|| log.lines().iter().any(|line| is_error(&line))).await;
    let lines = log.lines();
    let errors: Vec<_> = lines.iter().filter(is_error).collect();
    assert_eq!(errors.len(), 1, "one line a minute: {lines:?}");
    assert!(errors[0]["store"].as_str().unwrap().starts_with("Redis at /"), "{errors:?}");

    server.signal("CONT");
    let player = tokio::spawn(play(model));
    ended(&process, "session_id=s").await;
    next_turn(&process, "s").await;
    player.abort();
    assert_eq!(process.get("/readyz").await.json()["status"], "ready");
    let said = process.get("/api/v1/sessions/s").await.json()["turns"][0].to_string();
    assert!(said.contains("One"), "{said}");
}

/// A session in a server whose memory is used up since.
async fn with_full_server() -> (Model, RedisServer, Process, Log, Vec<Frame>) {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (process, log) = start_logged(&model, &server, "").await;
    let before = process.whole_turn(&mut model, "s", "Well.").await.rest().await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let body = json!({"session_id": "s", "prompt": "More."});
    assert_eq!(process.post("/api/v1/chat/stream", &body).await.status(), 503);
    assert_eq!(process.get("/readyz").await.status(), 503);
    (model, server, process, log, before)
}

#[tokio::test]
async fn a_server_that_was_full_can_be_used_again_once_it_takes_a_write() {
    let (mut model, server, process, log, before) = with_full_server().await;
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, before);
    let again = |line: &Value| line["message"] == "the session store can be used again";
    assert!(!log.lines().iter().any(again), "it can only be read");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    process.whole_turn(&mut model, "s", "More.").await.rest().await;
    until(|| log.lines().iter().any(again)).await;
}

#[tokio::test]
async fn what_a_full_server_has_can_be_read_exported_and_deleted() {
    let (model, server, process, _log, before) = with_full_server().await;
    // It was not used for a while, which is noted when it is read.
    server.command(&["EVAL", AGE, "0"]);
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, before);
    server.command(&["EVAL", AGE, "0"]);
    assert_eq!(process.get("/api/v1/sessions/s").await.status(), 200);
    let config = config(&model, &server, "");
    for command in ["list", "export"] {
        let (is_done, told, message) = tether(&["sessions", command], &config);
        assert!(is_done && told.contains('s'), "{command}: {message}");
    }
    let (is_done, _, message) = tether(&["sessions", "forget", "s"], &config);
    assert!(is_done, "{message}");
    assert_eq!(process.get("/api/v1/sessions/s").await.status(), 404);
}

/// Makes the session `s` one that was used long ago, also in a server that is full.
const AGE: &str = "#!lua flags=allow-oom
redis.call('HSET', 'tether:{s}:session', 'used', 1)";

/// Configures a tool that notes each run: a second run would show.
pub(super) fn noting(notes: &Path) -> String {
    format!(
        "tools:
  builtin: []
  command:
    - name: note
      description: Notes something.
      command: [sh, -c, 'echo noted >> {}']
      parameters: {{type: object}}
      policy: {{mutates: true, confirm: never}}
      sandbox: {{mode: 'off'}}
",
        notes.display()
    )
}

/// The next turn of `s`, once the gateway begins one.
pub(super) async fn turn_once_stored(process: &Process) -> Vec<Frame> {
    loop {
        let body = json!({"session_id": "s", "prompt": "And then?"});
        let stream = process.stream(&post(STREAM, &[], &body.to_string())).await;
        if stream.head.status == 200 {
            return until_closed(stream).await;
        }
    }
}

/// A turn that was to call a tool fails, because of what `break_it` does to the server, for longer than its lease. Its
/// client may try again, so the turn must not go on after `mend`, even if its gateway has been told to stop (`stops`).
async fn check_failed_for_good(
    stops: bool,
    break_it: impl Fn(&RedisServer),
    mend: impl Fn(&RedisServer),
) {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let config = config(&model, &server, "wait_sec: 1") + &noting(&notes);
    let [one, two] = [Process::start(&config).await, Process::start(&config).await];
    let (mut stream, mut round, mut seen) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    break_it(&server);
    round.say(" two").await;
    round.say(&call("note", &json!({}))).await;
    seen.extend(stream.up_to("turn_failed").await);
    assert_eq!(seen.last().unwrap().data["code"], "store_unavailable");
    // Its lease of two seconds lapses meanwhile, for all who look.
    pass(Duration::from_secs(3)).await;
    if stops {
        one.signal("TERM");
    }
    mend(&server);
    // Its client tries again, at another gateway, before that can know. The next round is the next turn's.
    let player = tokio::spawn(play(model));
    let next = turn_once_stored(&two).await;
    assert_eq!(next.last().unwrap().event, "turn_completed");
    let end = elsewhere.up_to("turn_failed").await;
    assert_eq!(end.last().unwrap().data["code"], "store_unavailable", "{end:?}");
    assert!(!notes.exists(), "the turn went on elsewhere");
    if stops {
        assert!(one.exit().await.success());
    }
    player.abort();
}

#[tokio::test]
async fn a_turn_that_failed_with_its_server_does_not_go_on_elsewhere() {
    for stops in [false, true] {
        let break_it = |server: &RedisServer| server.signal("STOP");
        check_failed_for_good(stops, break_it, |server| server.signal("CONT")).await;
    }
}

#[tokio::test]
async fn a_turn_that_failed_with_a_full_server_does_not_go_on_elsewhere() {
    let set = |bytes| {
        move |server: &RedisServer| {
            server.command(&["CONFIG", "SET", "maxmemory", bytes]);
        }
    };
    check_failed_for_good(false, set("1"), set("0")).await;
}

/// Somebody makes room in time.
#[tokio::test]
async fn a_turn_waits_for_a_server_that_is_full() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let process = Process::start(&config(&model, &server, "wait_sec: 1.5")).await;
    let (mut stream, mut round, mut seen) = process.begin_saying(&mut model, "s", "One").await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    round.say(" two").await;
    until_refused(&process).await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    seen.extend(stream.up_to_text(" two").await);
    round.end().await;
    seen.extend(stream.up_to("turn_completed").await);
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, seen);
}

/// Waits until the server has refused something that it will be asked for again.
async fn until_refused(process: &Process) {
    within(async { while process.metric("tether_store_requests_failed_total").await < 1.0 {} })
        .await;
}

#[tokio::test]
async fn a_server_that_stays_full_ends_the_running_turn_honestly() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (process, log) = start_logged(&model, &server, "wait_sec: 0.5").await;
    let (mut stream, mut round, seen) = process.begin_saying(&mut model, "s", "One").await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    round.say(" two").await;
    let end = stream.up_to("turn_failed").await;
    assert_eq!(end[0].data["code"], "store_unavailable", "{end:?}");
    assert_eq!(end[0].data["text"], "One", "what was seen");
    round.closed().await;
    let line = "the session store cannot be used";
    until(|| log.lines().iter().any(|it| it["message"] == line)).await;
    let lines = log.lines();
    let cause = &lines.iter().find(|it| it["message"] == line).unwrap()["cause"];
    assert!(cause.as_str().unwrap().starts_with("its memory is full"), "{cause}");

    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let player = tokio::spawn(play(model));
    let all = ended(&process, "session_id=s").await;
    assert_eq!(all[..seen.len()], seen, "nothing that was seen is lost");
    next_turn(&process, "s").await;
    player.abort();
}

/// Like a long command of somebody else.
#[tokio::test]
async fn a_server_that_is_busy_for_a_while_is_waited_for() {
    let mut model = Model::listen();
    let server = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let process = Process::start(&config(&model, &server, "wait_sec: 1.5")).await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    let asleep = spawn_blocking(move || (server.command(&["DEBUG", "SLEEP", "1"]), server));
    round.say(" two").await;
    stream.up_to_text(" two").await;
    round.end().await;
    let seen = stream.up_to("turn_completed").await;
    let (answer, _server) = asleep.await.unwrap();
    assert!(!answer.starts_with('-'), "{answer}");
    assert_eq!(seen.last().unwrap().data["text"], "One two");
}

#[tokio::test]
async fn a_server_that_crashes_and_comes_back_has_everything() {
    for fsync in ["always", "everysec"] {
        check_crash(fsync).await;
    }
}

async fn check_crash(fsync: &str) {
    let mut model = Model::listen();
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", fsync]);
    let process = Process::start(&config(&model, &server, "wait_sec: 1.5")).await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    // With `everysec`, a write may wait for the one before it to be on the disk. One that was made outlives the process.
    while !server.command(&["INFO", "persistence"]).contains("aof_buffer_length:0") {}
    server.kill();
    round.say(" two").await;
    server.run();
    stream.up_to_text(" two").await;
    round.end().await;
    stream.up_to("turn_completed").await;
    let turns = process.get("/api/v1/sessions/s").await.json()["turns"].clone();
    assert!(turns[0].to_string().contains("One two"), "{turns}");
}
