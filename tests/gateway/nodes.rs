//! Several gateways with one Redis server: any of them reads, steers and takes over any turn.

use std::pin::pin;

use serde_json::{Value, json};
use tokio::{join, select};

use crate::support::client::{post, request};
use crate::support::events::{EventStream, Frame, names, said};
use crate::support::gateway::STREAM;
use crate::support::model::{Round, call};
use crate::support::process::Process;
use crate::support::redis_server::RedisServer;
use crate::support::{Model, within};

pub(super) async fn start(model: &Model, server: &RedisServer) -> Process {
    start_with_places(model, server, 100).await
}

/// The same with room for so many turns at a time.
async fn start_with_places(model: &Model, server: &RedisServer, places: usize) -> Process {
    Process::start_raw(config(model, server, places)).await
}

fn config(model: &Model, server: &RedisServer, places: usize) -> String {
    let url = format!("http://{}/v1", model.address);
    format!(
        "server: {{listen: \"127.0.0.1:0\", drain_timeout_sec: 0.2, max_concurrent_turns: {places}}}
upstreams: [{{name: fake, kind: openai_chat, base_url: \"{url}\", model: fake}}]
stream: {{disconnect_grace_sec: 1}}
messages: {{server_tools: hidden}}
sessions: {{redis: {{url: \"{}\", lease_sec: 2}}}}
",
        server.url()
    )
}

#[tokio::test]
async fn a_turn_is_read_on_another_node_as_it_comes() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, seen) = one.begin_saying(&mut model, "s", "One").await;

    let mut whole = two.rejoin("session_id=s", &[]).await;
    assert_eq!(whole.up_to_text("One").await, seen, "ids included");
    let last = format!("Last-Event-ID: {}", seen.last().unwrap().id);
    let mut rest = two.rejoin("session_id=s", &[&last]).await;
    let remote = async |node: &Process| {
        join!(node.metric("tether_remote_logs"), node.metric("tether_remote_readers"))
    };
    assert_eq!(
        format!("{:?} {:?}", remote(&one).await, remote(&two).await),
        "(0.0, 0.0) (1.0, 2.0)"
    );
    let transcript = two.get("/api/v1/sessions/s").await.json();
    assert!(transcript["running_turn_id"].is_string(), "{transcript}");
    round.say(" two").await;
    let second = stream.up_to_text(" two").await;
    assert_eq!(whole.up_to_text(" two").await, second);
    assert_eq!(rest.up_to_text(" two").await, second);
    round.end().await;
    let end = stream.rest().await;
    assert_eq!(whole.rest().await, end);
    assert_eq!(rest.rest().await, end);
    within(async { while remote(&two).await != (0.0, 0.0) {} }).await;
    let transcript = two.get("/api/v1/sessions/s").await.json();
    assert_eq!(
        (&transcript["state"], &transcript["running_turn_id"]),
        (&json!("completed"), &Value::Null)
    );
}

#[tokio::test]
async fn a_turn_is_cancelled_from_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    assert_eq!(two.cancel("s").await, 202);
    let end = stream.rest().await;
    assert_eq!(end.last().unwrap().data["finish_reason"], "cancelled");
    round.closed().await;
    assert_eq!(two.cancel("s").await, 404, "it is over");
}

#[tokio::test]
async fn a_second_turn_is_refused_and_the_same_one_is_joined_on_any_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let body = json!({"session_id": "s", "prompt": "Hello?"});
    let key = "Idempotency-Key: k";
    let mut stream = one.turn_with(&[key], &body).await;
    let mut round = model.round().await;
    round.begin().await;
    round.say("One").await;
    let seen = stream.up_to_text("One").await;
    assert_eq!(two.post(STREAM, &body).await.status(), 409);
    let mut again = two.turn_with(&[key], &body).await;
    assert_eq!(again.up_to_text("One").await, seen);
    round.end().await;
    assert_eq!(again.rest().await, stream.rest().await);
}

/// The second request may come when the first has stored its key, and nothing else.
#[tokio::test]
async fn a_turn_is_begun_once_by_requests_that_come_to_two_nodes_at_once() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    for session in 0..40 {
        let body = json!({"session_id": format!("s{session}"), "prompt": "Hello?"});
        let key = format!("Idempotency-Key: {session}");
        let keys = [&*key];
        let both = async { join!(one.turn_with(&keys, &body), two.turn_with(&keys, &body)) };
        let ((mut first, mut second), round) = join!(both, model.round());
        round.answer("Hi.").await;
        assert_eq!(first.rest().await, second.rest().await);
    }
    assert!(model.has_no_requests());
}

/// Deletes a session through one of three nodes. Its turn runs on the first, and is read there and on the last; all readers
/// have seen this. Then a client comes back, as an `EventSource` does after every end.
async fn check_deletion(
    (nodes, by): (&[Process; 3], usize),
    [stream, elsewhere]: [&mut EventStream; 2],
    seen: &[Frame],
) {
    let deleted = nodes[by].exchange(request("DELETE", "/api/v1/sessions/s", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    for reader in [stream, elsewhere] {
        let end = reader.rest().await;
        assert_eq!(names(&end), ["turn_completed"], "deleted by {by}: {end:?}");
        let Frame { data, .. } = &end[0];
        assert_eq!((&data["finish_reason"], &data["text"]), (&json!("cancelled"), &json!("One")));
        assert_eq!(end[0].sequence(), seen.last().unwrap().sequence() + 1);
        assert_eq!(reader.next().await, None);
        let last = format!("Last-Event-ID: {}", end[0].id);
        for node in nodes {
            let again = request("GET", &format!("{STREAM}?session_id=s"), &[&last], "");
            assert_eq!(node.exchange(again).await.status(), 404);
        }
    }
}

async fn start_three(model: &Model, server: &RedisServer) -> [Process; 3] {
    [start(model, server).await, start(model, server).await, start(model, server).await]
}

#[tokio::test]
async fn every_reader_is_told_that_its_turn_was_cancelled_whichever_node_deletes_the_session() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let nodes = start_three(&model, &server).await;
    for by in 0..nodes.len() {
        let (mut stream, mut round, seen) = nodes[0].begin_saying(&mut model, "s", "One").await;
        let mut elsewhere = nodes[2].rejoin("session_id=s", &[]).await;
        elsewhere.up_to_text("One").await;
        check_deletion((&nodes, by), [&mut stream, &mut elsewhere], &seen).await;
        round.closed().await;
    }
}

#[tokio::test]
async fn a_tool_that_runs_does_not_hold_up_a_deletion_on_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let tools = "tools:
  builtin: []
  command:
    - name: wait
      description: Waits for a minute.
      command: [sleep, '60']
      parameters: {type: object}
      policy: {confirm: never}
      sandbox: {mode: 'off'}
";
    let nodes = [
        Process::start_raw(config(&model, &server, 100) + tools).await,
        start(&model, &server).await,
        start(&model, &server).await,
    ];
    let mut stream = nodes[0].turn(&json!({"session_id": "s", "prompt": "Wait."})).await;
    let words = format!("One{}", call("wait", &json!({})));
    model.round().await.answer(&words).await;
    let seen = stream.up_to("tool_started").await;
    let mut elsewhere = nodes[2].rejoin("session_id=s", &[]).await;
    assert_eq!(elsewhere.up_to("tool_started").await, seen);
    check_deletion((&nodes, 1), [&mut stream, &mut elsewhere], &seen).await;
}

/// The owner of the turn is dead, and nobody has taken it over yet.
#[tokio::test]
async fn a_reader_of_a_dead_nodes_turn_is_told_of_a_deletion() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two, three] = start_three(&model, &server).await;
    let (stream, round, _) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = three.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    let deleted = two.exchange(request("DELETE", "/api/v1/sessions/s", &[], "")).await;
    assert_eq!(deleted.status(), 204);
    let end = elsewhere.rest().await;
    assert_eq!(names(&end), ["turn_completed"], "{end:?}");
    assert_eq!(
        (&end[0].data["finish_reason"], &end[0].data["text"]),
        (&json!("cancelled"), &json!("One"))
    );
}

/// Reads a turn as an `EventSource` does: through any node, from the last event that it has seen.
async fn read_on(nodes: &[&Process], mut seen: Vec<Frame>) -> Vec<Frame> {
    for node in nodes.iter().cycle() {
        let last = seen.last().map(|frame| format!("Last-Event-ID: {}", frame.id));
        let mut stream = node.rejoin("session_id=s", &[&*last.unwrap()]).await;
        while let Some(frame) = stream.next().await {
            seen.push(frame);
        }
        if seen.last().is_some_and(Frame::is_last) {
            break;
        }
    }
    seen
}

#[tokio::test]
async fn a_turn_goes_on_when_its_node_is_killed_while_another_one_reads() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two, three] =
        [start(&model, &server).await, start(&model, &server).await, start(&model, &server).await];
    let (stream, round, seen) = one.begin_saying(&mut model, "s", "Half a wo").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("Half a wo").await;
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    let reader = tokio::spawn(async move {
        let rest = elsewhere.rest().await;
        (elsewhere, rest)
    });
    let round = model.round().await;
    round.answer("rd.").await;
    let (_, rest) = reader.await.unwrap();
    assert_eq!(names(&rest), ["status", "text_delta", "turn_completed"]);
    assert_eq!(rest[0].sequence(), seen.last().unwrap().sequence() + 1);
    let all = read_on(&[&three, &two], seen.clone()).await;
    assert_eq!(all, [seen, rest].concat());
    assert_eq!(said(&all), "Half a word.");
}

/// Otherwise its client could run one more turn for each node that dies.
#[tokio::test]
async fn a_turn_that_was_taken_over_counts_against_the_limit_of_its_key() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let limits = "server: {api_keys: [key], limits: {turns_per_key: 1}, ";
    let config = config(&model, &server, 100).replacen("server: {", limits, 1);
    let [one, two] = [Process::start_raw(config.clone()).await, Process::start_raw(config).await];
    let key = &["X-Api-Key: key"][..];
    let stream = one.turn_with(key, &json!({"session_id": "s", "prompt": "Hello?"})).await;
    let round = model.round().await;
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    let round = model.round().await;
    let mut stream = two.rejoin("session_id=s", key).await;
    let more = json!({"session_id": "t", "prompt": "And?"});
    let refused = two.exchange(post(STREAM, key, &more.to_string())).await.refusal();
    assert_eq!((refused.0, &*refused.1), (429, "too_many_turns"));
    round.answer("Well.").await;
    assert_eq!(said(&stream.rest().await), "Well.");
    two.turn_with(key, &more).await;
}

/// It does not even take their sessions' leases.
#[tokio::test]
async fn a_full_node_leaves_interrupted_turns_to_others() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let one = start(&model, &server).await;
    let full = start_with_places(&model, &server, 1).await;
    let _running = full.begin_saying(&mut model, "own", "Here").await;
    let sessions = ["a", "b", "c", "d"];
    let mut begun = Vec::new();
    for session in sessions {
        begun.push(one.begin_saying(&mut model, session, "Half a wo").await);
    }
    let free = start(&model, &server).await;
    one.signal("KILL");
    one.exit().await;
    drop(begun);
    for _ in sessions {
        model.round().await.answer("rd.").await;
    }
    for session in sessions {
        let end = free.rejoin(&format!("session_id={session}"), &[]).await.rest().await;
        assert_eq!(said(&end), "Half a word.");
    }
}

#[tokio::test]
async fn a_full_node_goes_on_with_an_interrupted_turn_once_it_has_a_place() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let one = start(&model, &server).await;
    let full = start_with_places(&model, &server, 1).await;
    let (mut its_own, running, _) = full.begin_saying(&mut model, "own", "Here").await;
    let begun = one.begin_saying(&mut model, "s", "Half a wo").await;
    let mut reader = full.rejoin("session_id=s", &[]).await;
    one.signal("KILL");
    one.exit().await;
    drop(begun);
    // Nobody goes on with it yet.
    assert_eq!(full.post(STREAM, &json!({"session_id": "s", "prompt": "?"})).await.status(), 503);
    running.end().await;
    its_own.rest().await;
    model.round().await.answer("rd.").await;
    assert_eq!(said(&reader.rest().await), "Half a word.");
}

/// As in an upgrade, one node after another.
#[tokio::test]
async fn a_node_that_stops_leaves_its_turns_to_the_others() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, mut seen) = one.begin_saying(&mut model, "s", "Half a wo").await;
    one.signal("TERM");
    // The stream ends without a last event, so the client re-joins.
    while let Some(frame) = stream.next().await {
        seen.push(frame);
    }
    assert!(!seen.last().unwrap().is_last());
    round.closed().await;
    let reader = tokio::spawn(async move {
        let all = read_on(&[&two], seen).await;
        (two, all)
    });
    model.round().await.answer("rd.").await;
    let (_two, all) = reader.await.unwrap();
    let sequences: Vec<u64> = all.iter().map(Frame::sequence).collect();
    assert!(sequences.iter().copied().eq(1..=all.len() as u64), "{sequences:?}");
    assert_eq!(all.last().unwrap().data["text"], "Half a word.");
    assert!(one.exit().await.success());
}

/// A response in the background has no reader at all.
#[tokio::test]
async fn a_background_response_goes_on_on_another_node_and_is_kept() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let body = json!({"model": "fake", "input": "Hi.", "background": true});
    let queued = one.post("/v1/responses", &body).await.json();
    assert_eq!(queued["status"], "queued", "{queued}");
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    let mut round = model.round().await;
    round.begin().await;
    round.say("Half a wo").await;
    let mut reader = two.client().await;
    reader.send(request("GET", &format!("{path}?stream=true"), &[], "")).await;
    reader.head().await;
    reader.until("Half a wo").await;
    one.signal("KILL");
    one.exit().await;
    drop(round);
    model.round().await.answer("rd.").await;
    let response = loop {
        let response = two.get(&path).await.json();
        if response["status"] != "in_progress" {
            break response;
        }
    };
    assert_eq!(response["status"], "completed", "{response}");
    assert!(response.to_string().contains("Half a word."), "{response}");
    // The conversation goes on from it.
    let body = json!({"model": "fake", "input": "And?", "previous_response_id": queued["id"]});
    let mut next = pin!(two.post("/v1/responses", &body));
    let round = select! {
        biased;
        refused = &mut next => panic!("{}", refused.json()),
        round = model.round() => round,
    };
    let told = round.request.body.to_string();
    let ((), next) = join!(round.answer("The end."), next);
    assert_eq!(next.json()["status"], "completed");
    assert!(told.contains("Half a word."), "{told}");
}

/// From the receipt on, its client relies on it.
#[tokio::test]
async fn a_background_response_goes_on_though_its_node_is_killed_at_its_receipt() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let two = start(&model, &server).await;
    for _ in 0..4 {
        let one = start(&model, &server).await;
        let body = json!({"model": "fake", "input": "Hi.", "background": true});
        let queued = one.post("/v1/responses", &body).await.json();
        one.signal("KILL");
        one.exit().await;
        let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
        let ended = async {
            loop {
                let response = two.get(&path).await.json();
                if response["status"] != "in_progress" && response["status"] != "queued" {
                    break response;
                }
            }
        };
        let answers = async {
            loop {
                model.round().await.answer_at_once("Hello.").await;
            }
        };
        let response = select! {
            response = within(ended) => response,
            () = answers => unreachable!("it goes on"),
        };
        assert_eq!(response["status"], "completed", "{response}");
    }
}

/// Its client was told that it is being cancelled. Whoever takes it over asks neither the model nor a tool.
#[tokio::test]
async fn a_turn_that_was_cancelled_after_its_node_died_does_not_go_on() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (_stream, _round, seen) = one.begin_saying(&mut model, "s", "One").await;
    one.signal("KILL");
    one.exit().await;
    assert_eq!(two.cancel("s").await, 202);
    let last = format!("Last-Event-ID: {}", seen.last().unwrap().id);
    let end = two.rejoin("session_id=s", &[&last]).await.rest().await;
    assert_eq!(end.last().unwrap().data["finish_reason"], "cancelled", "{end:?}");
    // The next round is the next turn's.
    let (_stream, round, _) = two.begin_saying(&mut model, "other", "Two").await;
    assert!(!round.request.body.to_string().contains("One"), "{}", round.request.body);
}

/// A background response that has begun on this node.
async fn begun_in_the_background(node: &Process, model: &mut Model) -> (String, Round) {
    let body = json!({"model": "fake", "input": "Hi.", "background": true});
    let queued = node.post("/v1/responses", &body).await.json();
    let mut round = model.round().await;
    round.begin().await;
    round.say("One").await;
    (format!("/v1/responses/{}", queued["id"].as_str().unwrap()), round)
}

#[tokio::test]
async fn a_background_response_is_cancelled_from_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (path, mut round) = begun_in_the_background(&one, &mut model).await;
    let cancelled = two.post(&format!("{path}/cancel"), &json!({})).await.json();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    round.closed().await;
    // Its end is stored now. Its own node says so once the session is free for another turn, a moment later.
    within(async { while one.get(&path).await.json()["status"] != "cancelled" {} }).await;
}

/// Nobody holds its session until a node takes it over.
#[tokio::test]
async fn a_background_response_of_a_dead_node_is_cancelled_from_another_one() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (path, _round) = begun_in_the_background(&one, &mut model).await;
    one.signal("KILL");
    one.exit().await;
    let cancelled = two.post(&format!("{path}/cancel"), &json!({})).await.json();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
}

#[tokio::test]
async fn a_background_response_is_deleted_from_another_node() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (path, mut round) = begun_in_the_background(&one, &mut model).await;
    let deleted = two.exchange(request("DELETE", &path, &[], "")).await.json();
    assert_eq!(deleted["deleted"], true, "{deleted}");
    round.closed().await;
    for node in [&one, &two] {
        assert_eq!(node.get(&path).await.status(), 404);
    }
}

/// Its own node has none, and would give it up after a second.
#[tokio::test]
async fn a_reader_on_another_node_keeps_a_turn_going() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    drop(stream);
    // More than two seconds, at a third of a lease each.
    let before = one.metric("tether_lease_renewals_total").await;
    while one.metric("tether_lease_renewals_total").await < before + 5.0 {}
    round.say(" two").await;
    elsewhere.up_to_text(" two").await;
    round.end().await;
    assert_eq!(elsewhere.rest().await.last().unwrap().data["finish_reason"], "stop");
}
