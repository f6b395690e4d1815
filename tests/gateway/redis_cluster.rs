//! Sessions in a real Redis cluster, shared by two gateways.

use serde_json::json;

use super::redis_store::{config_at, ended, next_turn, play, tether};
use crate::support::Model;
use crate::support::events::Frame;
use crate::support::process::Process;
use crate::support::redis_cluster::RedisCluster;

async fn start(model: &Model, cluster: &RedisCluster) -> Process {
    Process::start(&config_at(model, &cluster.url(), "")).await
}

/// Re-joins a turn of the other gateway until it has said this.
async fn read_up_to(process: &Process, query: &str, text: &str) {
    process.rejoin(query, &[]).await.up_to_text(text).await;
}

#[tokio::test]
async fn a_conversation_goes_on_in_any_gateway() {
    let (mut model, cluster) = (Model::listen(), RedisCluster::start());
    let [one, two] = [start(&model, &cluster).await, start(&model, &cluster).await];
    // Some of these sessions are on each server.
    for session in ["a", "b", "c", "d"] {
        let (mut stream, mut round) = one.begin(&mut model, session).await;
        round.begin().await;
        round.say("Half a ").await;
        stream.up_to_text("Half a ").await;
        let query = format!("session_id={session}");
        read_up_to(&two, &query, "Half a ").await;
        round.say("word.").await;
        read_up_to(&two, &query, "word.").await;
        round.end().await;
        stream.up_to("turn_completed").await;
        assert!(ended(&two, &query).await.last().unwrap().is_last());
        let player = async { model.round().await.answer("The end.").await };
        let (next, ()) = tokio::join!(next_turn(&two, session), player);
        assert!(next[0].id.starts_with("2-"), "it has changed hands: {}", next[0].id);
    }
    let (_, listed, message) = tether(&["sessions", "list", "--json"], &config(&model, &cluster));
    assert_eq!(listed.lines().count(), 4, "{listed} {message}");
    let of_store = config(&model, &cluster);
    let of_store = of_store.lines().last().unwrap();
    let (is_done, _, message) = tether(&["check", "--probe"], of_store);
    assert!(is_done, "{message}");
    assert!(message.contains("note: sessions: the Redis cluster at 127.0.0.1:"), "{message}");
    assert!(message.contains("3 primaries, which have all slots"), "{message}");
}

fn config(model: &Model, cluster: &RedisCluster) -> String {
    config_at(model, &cluster.url(), "")
}

#[tokio::test]
async fn a_turn_of_a_killed_gateway_goes_on_in_another() {
    let (mut model, cluster) = (Model::listen(), RedisCluster::start());
    let [one, two] = [start(&model, &cluster).await, start(&model, &cluster).await];
    let (stream, round, seen) = one.begin_saying(&mut model, "s", "Half a wo").await;
    let busy = two.post("/api/v1/chat/stream", &json!({"session_id": "s", "prompt": "?"})).await;
    assert_eq!(busy.status(), 409, "it runs elsewhere");
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    let player = tokio::spawn(play(model));
    let all = ended(&two, "session_id=s").await;
    assert_eq!(all[..seen.len()], seen[..], "nothing that was seen is lost");
    let sequences: Vec<u64> = all.iter().map(Frame::sequence).collect();
    assert_eq!(sequences, (1..=all.len() as u64).collect::<Vec<_>>(), "no gap");
    next_turn(&two, "s").await;
    player.abort();
}

/// All of its keys go to another server, one by one, while the model goes on.
#[tokio::test]
async fn a_turn_goes_on_while_its_session_moves() {
    let (mut model, cluster) = (Model::listen(), RedisCluster::start());
    let [one, two] = [start(&model, &cluster).await, start(&model, &cluster).await];
    let (mut stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    read_up_to(&two, "session_id=s", "One").await;
    let to = (cluster.owner("{s}") + 1) % RedisCluster::PRIMARIES;
    let moving = cluster.begin_move("{s}", to);
    moving.keys(1);
    round.say(" two").await;
    moving.finish();
    stream.up_to_text(" two").await;
    read_up_to(&two, "session_id=s", " two").await;
    assert_eq!(cluster.owner("{s}"), to);
    round.say(" three").await;
    stream.up_to_text(" three").await;
    read_up_to(&two, "session_id=s", " three").await;
    round.end().await;
    stream.up_to("turn_completed").await;
    let events = two.rejoin("session_id=s", &[]).await.rest().await;
    let sequences: Vec<u64> = events.iter().map(Frame::sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "nothing twice");
}

#[tokio::test]
async fn a_server_that_is_gone_ends_the_turns_there_honestly() {
    let (mut model, mut cluster) = (Model::listen(), RedisCluster::start());
    let process = Process::start(&config_at(&model, &cluster.url(), "wait_sec: 0.5")).await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    let owner = cluster.owner("{s}");
    cluster.kill(owner);
    round.say(" two").await;
    let rest = stream.up_to("turn_failed").await;
    assert_eq!(rest.last().unwrap().data["code"], "store_unavailable");
    round.closed().await;
    cluster.run(owner);
    while process.get("/api/v1/sessions/s").await.status() == 503 {}
    process.whole_turn(&mut model, "s", "Again.").await.rest().await;
}
