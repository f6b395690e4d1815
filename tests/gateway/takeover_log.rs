//! What the log says of a turn that is taken over: one line, with all that is needed to understand it.

use serde_json::{Value, json};

use super::redis_store::config_at;
use crate::support::model::call;
use crate::support::process::{Log, Process};
use crate::support::redis_server::RedisServer;
use crate::support::{EventStream, Model, within};

/// Tools that take longer than any test.
const TOOLS: &str = "tools:
  builtin: [get_current_time]
  command:
    - {name: look, description: Looks., command: [sleep, '1000'], policy: {mutates: false}, sandbox: {mode: 'off'}}
    - {name: send, description: Sends., command: [sleep, '1000'], policy: {mutates: true, confirm: never}, sandbox: {mode: 'off'}}
";

async fn start(model: &Model, server: &RedisServer) -> (Process, Log) {
    Process::start_logging(&(config_at(model, &server.url(), "") + TOOLS)).await
}

/// Begins a turn whose model makes these calls, up to the start of the last.
async fn begin(process: &Process, model: &mut Model, session: &str, calls: &[&str]) -> EventStream {
    let (mut stream, mut round) = process.begin(model, session).await;
    round.begin().await;
    for name in calls {
        round.say(&call(name, &json!({}))).await;
    }
    round.end().await;
    for _ in calls {
        stream.up_to("tool_started").await;
    }
    stream
}

const TAKEN_OVER: &str = "an interrupted turn is taken over";

#[tokio::test]
async fn the_line_says_from_whom_when_and_what_becomes_of_each_call() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (one, log_of_one) = start(&model, &server).await;
    let (_two, log) = start(&model, &server).await;
    let _streams = [
        begin(&one, &mut model, "sends", &["get_current_time", "send"]).await,
        begin(&one, &mut model, "looks", &["look"]).await,
    ];
    let (_stream, _round, seen) = one.begin_saying(&mut model, "talks", "One").await;
    one.signal("KILL");
    one.exit().await;

    let nodes = [&log_of_one, &log].map(|log| {
        let lines = log.lines();
        let listening = lines.iter().find(|line| line["message"] == "listening");
        listening.unwrap()["node"].clone()
    });
    let of = |line: &Value, names: [&str; 3]| names.map(|name| line[name].clone());
    let calls = ["calls_kept", "calls_run_again", "calls_unknown"];
    let line = log.line_of("sends", TAKEN_OVER).await;
    assert_eq!(of(&line, calls), ["call_1 get_current_time", "", "call_2 send"], "{line}");
    assert_eq!(of(&line, ["from_node", "node", "under_way"])[..2], nodes, "{line}");
    assert_eq!(
        of(&line, ["under_way", "epoch", "takeovers"]),
        [json!("calls"), json!(2), json!(1)]
    );
    assert_eq!(of(&line, ["rounds", "epochs_before", "level"])[..2], [json!(1), json!(1)]);
    assert!(line["lapsed_ms"].as_u64().is_some_and(|passed| passed < 60_000), "{line}");
    assert!(line["turn"].is_string() && line["after"].is_u64(), "{line}");
    let line = log.line_of("looks", TAKEN_OVER).await;
    assert_eq!(of(&line, calls), ["", "call_1 look", ""], "{line}");
    let line = log.line_of("talks", TAKEN_OVER).await;
    assert_eq!(line["under_way"], "words", "{line}");
    assert_eq!(line["after"], seen.last().unwrap().sequence(), "{line}");
    assert_eq!(of(&line, calls), ["", "", ""], "{line}");
}

/// Its gateway has given it back, so nobody had to wait for the lease.
#[tokio::test]
async fn a_turn_that_was_left_has_no_lapsed_lease() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let one = super::nodes::start(&model, &server).await;
    let (_two, log) = start(&model, &server).await;
    let (_stream, _round, _) = one.begin_saying(&mut model, "s", "One").await;
    one.signal("TERM");
    let line = log.line_of("s", TAKEN_OVER).await;
    assert!(line["from_node"].is_string() && line["lapsed_ms"].is_null(), "{line}");
    assert_eq!(line["takeovers"], 0, "nothing went wrong: {line}");
}

/// The poison must not spread.
#[tokio::test]
async fn a_turn_that_does_not_go_on_says_why() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let (one, _) = start(&model, &server).await;
    let _stream = begin(&one, &mut model, "s", &["send"]).await;
    one.signal("KILL");
    one.exit().await;
    let journal = server.command(&["HGETALL", "tether:{s}:journal"]);
    let mut lines = journal.lines().filter(|line| !line.starts_with(['*', '$']));
    let (turn, journal) = (lines.next().unwrap(), lines.next().unwrap());
    let often = journal.replace("\"takeovers\":0", "\"takeovers\":3");
    assert_ne!(often, journal);
    server.command(&["HSET", "tether:{s}:journal", turn, &often]);
    let (two, log) = start(&model, &server).await;
    let line = log.line_of("s", "an interrupted turn is ended").await;
    let counted = "tether_turns_total{outcome=\"internal\"}";
    within(async { while two.metric(counted).await < 1.0 {} }).await;
    assert_eq!(line["why"], "it was taken over too often in one round", "{line}");
    assert_eq!((&line["calls_unknown"], &line["rounds"]), (&json!("call_1 send"), &json!(1)));
    assert!(line["from_node"].is_string() && line["lapsed_ms"].is_u64(), "{line}");
}
