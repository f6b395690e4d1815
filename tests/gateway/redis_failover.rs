//! A server of a cluster dies, and its replica takes its place.

use serde_json::json;

use super::redis_outages::{noting, turn_once_stored};
use super::redis_store::{config_at, ended, next_turn, play};
use crate::support::Model;
use crate::support::events::Frame;
use crate::support::model::call;
use crate::support::process::Process;
use crate::support::redis_cluster::RedisCluster;

/// A cluster, and which of its servers has the session `s`. That one has a replica.
fn cluster() -> (RedisCluster, usize) {
    let mut cluster = RedisCluster::start();
    let owner = cluster.owner("{s}");
    cluster.replicate(owner);
    (cluster, owner)
}

fn sequences(events: &[Frame]) -> Vec<u64> {
    events.iter().map(Frame::sequence).collect()
}

#[tokio::test]
async fn a_turn_goes_on_on_the_replica() {
    let (mut model, (mut cluster, owner)) = (Model::listen(), cluster());
    let config = config_at(&model, &cluster.url(), "wait_sec: 15");
    let process = Process::start(&config.replace("lease_sec: 2", "lease_sec: 40")).await;
    let (mut stream, mut round, mut seen) = process.begin_saying(&mut model, "s", "One").await;
    cluster.wait_for_replica(owner);
    cluster.kill(owner);
    round.say(" two").await;
    seen.extend(stream.up_to_text(" two").await);
    round.end().await;
    seen.extend(stream.up_to("turn_completed").await);
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, seen, "nothing twice");
    assert_eq!(sequences(&seen), (1..=seen.len() as u64).collect::<Vec<_>>(), "no gap");
    let player = tokio::spawn(play(model));
    next_turn(&process, "s").await;
    player.abort();
}

/// Server and gateway are lost at the same time, as when they share a machine.
#[tokio::test]
async fn a_turn_whose_gateway_is_lost_too_goes_on_in_another() {
    let (mut model, (mut cluster, owner)) = (Model::listen(), cluster());
    let config = config_at(&model, &cluster.url(), "wait_sec: 1");
    let [one, two] = [Process::start(&config).await, Process::start(&config).await];
    let (stream, round, seen) = one.begin_saying(&mut model, "s", "Half a wo").await;
    cluster.wait_for_replica(owner);
    one.signal("KILL");
    one.exit().await;
    drop((stream, round));
    cluster.kill(owner);
    let player = tokio::spawn(play(model));
    let all = ended_at(&two).await;
    assert_eq!(all[..seen.len()], seen[..], "nothing that was seen is lost");
    assert_eq!(sequences(&all), (1..=all.len() as u64).collect::<Vec<_>>(), "no gap");
    assert_eq!(all.last().unwrap().event, "turn_completed");
    player.abort();
}

/// The turn of `s`, once it has ended and can be read.
async fn ended_at(process: &Process) -> Vec<Frame> {
    while process.get("/api/v1/sessions/s").await.status() != 200 {}
    ended(process, "session_id=s").await
}

/// Its client was told to try again.
#[tokio::test]
async fn a_turn_that_failed_meanwhile_does_not_go_on_elsewhere() {
    let (mut model, (mut cluster, owner)) = (Model::listen(), cluster());
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let config = config_at(&model, &cluster.url(), "wait_sec: 1") + &noting(&notes);
    let [one, two] = [Process::start(&config).await, Process::start(&config).await];
    let (mut stream, mut round, mut seen) = one.begin_saying(&mut model, "s", "One").await;
    cluster.wait_for_replica(owner);
    cluster.kill(owner);
    round.say(&call("note", &json!({}))).await;
    seen.extend(stream.up_to("turn_failed").await);
    assert_eq!(seen.last().unwrap().data["code"], "store_unavailable");
    let player = tokio::spawn(play(model));
    let next = turn_once_stored(&two).await;
    assert_eq!(next.last().unwrap().event, "turn_completed");
    let turns = two.get("/api/v1/sessions/s").await.json()["turns"].clone();
    assert_eq!(turns.as_array().unwrap().len(), 2, "{turns}");
    assert!(!notes.exists(), "the turn went on elsewhere");
    player.abort();
}
