//! A Redis server that has lost what it had confirmed: all of it, or the last writes. Every reader of a turn hears
//! of it, and none sees a gap.

use serde_json::json;

use super::nodes::start;
use super::redis_store::{ended, next_turn, play};
use crate::support::Model;
use crate::support::events::{Frame, said};
use crate::support::redis_server::RedisServer;

/// The last of these events, which says that the store has lost something.
#[track_caller]
fn check_lost(events: &[Frame]) {
    let end = events.last().unwrap();
    assert_eq!((&*end.event, &end.data["code"]), ("turn_failed", &json!("store_unavailable")));
    assert_eq!(end.data["loops"], 1);
    assert!(end.data["text"].as_str().unwrap().starts_with("One"), "{end:?}");
}

#[tokio::test]
async fn a_server_that_comes_back_empty_fails_the_turn_for_all_its_readers() {
    let (mut model, mut server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    server.kill();
    server.run();
    round.say(" two").await;
    for stream in [&mut stream, &mut elsewhere] {
        check_lost(&stream.up_to("turn_failed").await);
    }
    round.closed().await;
    assert_eq!(one.get("/api/v1/sessions/s").await.status(), 404);
    let player = tokio::spawn(play(model));
    next_turn(&two, "s").await;
    player.abort();
}

/// Nothing is written meanwhile, so that only the lease tells.
#[tokio::test]
async fn a_turn_that_is_silent_notices_that_all_is_gone() {
    let (mut model, server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, _) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    server.command(&["FLUSHALL"]);
    for stream in [&mut stream, &mut elsewhere] {
        check_lost(&stream.up_to("turn_failed").await);
    }
    round.closed().await;
}

/// As after a failover to a replica that lagged behind.
#[tokio::test]
async fn a_server_that_has_lost_the_last_writes_gets_them_again_with_the_failure() {
    let (mut model, mut server) = (Model::listen(), RedisServer::start());
    let [one, two] = [start(&model, &server).await, start(&model, &server).await];
    let (mut stream, mut round, mut seen) = one.begin_saying(&mut model, "s", "One").await;
    let mut elsewhere = two.rejoin("session_id=s", &[]).await;
    elsewhere.up_to_text("One").await;
    server.command(&["SAVE"]);
    round.say(" two").await;
    seen.extend(stream.up_to_text(" two").await);
    elsewhere.up_to_text(" two").await;
    server.kill();
    server.run();
    round.say(" three").await;
    seen.extend(stream.up_to("turn_failed").await);
    check_lost(&seen);
    check_lost(&elsewhere.up_to("turn_failed").await);
    round.closed().await;
    // Whoever comes back finds what the others have seen, and so does the next turn.
    assert_eq!(ended(&two, "session_id=s").await, seen);
    assert!(said(&seen).starts_with("One two"));
    let player = tokio::spawn(play(model));
    next_turn(&two, "s").await;
    player.abort();
    let turns = two.get("/api/v1/sessions/s").await.json()["turns"].clone();
    assert!(turns[0].to_string().contains("One two"), "{turns}");
}

/// The turn ends as usual: whatever is missing, its gateway still has.
#[tokio::test]
async fn a_loss_at_the_end_of_a_turn_is_made_good() {
    let (mut model, mut server) = (Model::listen(), RedisServer::start());
    let process = start(&model, &server).await;
    let (mut stream, mut round, mut seen) = process.begin_saying(&mut model, "s", "One").await;
    server.command(&["SAVE"]);
    round.say(" two").await;
    seen.extend(stream.up_to_text(" two").await);
    server.kill();
    server.run();
    round.end().await;
    seen.extend(stream.up_to("turn_completed").await);
    assert_eq!(process.rejoin("session_id=s", &[]).await.rest().await, seen);
}
