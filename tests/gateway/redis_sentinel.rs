//! Sessions on a primary that fails, with a Sentinel that makes its replica the next one.

use super::redis_store::{config_at, next_turn};
use crate::support::Model;
use crate::support::events::Frame;
use crate::support::process::Process;
use crate::support::redis_sentinel::RedisSentinel;

async fn start(model: &Model, servers: &RedisSentinel, waits: &str) -> Process {
    let config = config_at(model, &servers.url(), waits);
    Process::start(&config.replace("lease_sec: 2", "lease_sec: 40")).await
}

#[tokio::test]
async fn a_turn_goes_on_after_a_failover() {
    for is_killed in [true, false] {
        let (mut model, mut servers) = (Model::listen(), RedisSentinel::start());
        let process = start(&model, &servers, "wait_sec: 15").await;
        let (mut stream, mut round) = process.begin(&mut model, "s").await;
        round.begin().await;
        round.say("One").await;
        stream.up_to_text("One").await;
        servers.wait_for_replica();
        if is_killed {
            servers.kill_primary();
        } else {
            servers.fail_over();
            servers.wait_for_failover();
        }
        round.say(" two").await;
        stream.up_to_text(" two").await;
        round.end().await;
        stream.up_to("turn_completed").await;
        let events = process.rejoin("session_id=s", &[]).await.rest().await;
        let sequences: Vec<u64> = events.iter().map(Frame::sequence).collect();
        assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>(), "nothing twice");
    }
}

#[tokio::test]
async fn a_gateway_logs_in_at_the_sentinels() {
    let (model, servers) = (Model::listen(), RedisSentinel::start());
    servers.require_login("tether", "SECRET");
    let login = "sentinel_user: tether, sentinel_password: SECRET, wait_sec: 15";
    let process = start(&model, &servers, login).await;
    assert_eq!(process.get("/readyz").await.status(), 200);
}

#[tokio::test]
async fn a_failover_that_takes_too_long_ends_the_turn_honestly() {
    let (mut model, mut servers) = (Model::listen(), RedisSentinel::start());
    let process = start(&model, &servers, "wait_sec: 0.2").await;
    let (mut stream, mut round, _) = process.begin_saying(&mut model, "s", "One").await;
    servers.wait_for_replica();
    servers.kill_primary();
    round.say(" two").await;
    let rest = stream.up_to("turn_failed").await;
    assert_eq!(rest.last().unwrap().data["code"], "store_unavailable");
    round.closed().await;
    servers.wait_for_failover();
    while process.get("/readyz").await.status() == 503 {}
    let answer = async { model.round().await.answer("The end.").await };
    let (next, ()) = tokio::join!(next_turn(&process, "t"), answer);
    assert!(next.last().unwrap().is_last());
}
