//! Readers who take nothing: they hold up nobody, are cut, and lose nothing.

use serde_json::json;

use crate::support::client::post;
use crate::support::events::{check_order, frames, outcome, said};
use crate::support::gateway::{STREAM, Setup};
use crate::support::h2::{Connection, collect};
use crate::support::model::text;
use crate::support::{Client, Ending, Gateway, Model, Round, ms};

/// More than the buffers between a gateway and a narrow client hold, in bytes.
const FLOOD_BYTES: usize = 8 << 20;

/// Words of which no two are the same.
fn words(bytes: usize) -> String {
    let numbers: Vec<_> = (0..bytes / 8).map(|number| format!("{number:07} ")).collect();
    numbers.concat()
}

/// Says it in pieces, as long as anybody listens.
async fn say(round: &mut Round, words: &str) {
    for piece in words.as_bytes().chunks(32 * 1024) {
        let frame = text(std::str::from_utf8(piece).unwrap());
        let chunk = format!("{:x}\r\n{frame}\r\n", frame.len());
        round.flood(chunk.as_bytes(), 1).await;
    }
}

fn roomy(setup: &mut Setup) {
    setup.config.limits.max_turn_bytes = 64 << 20;
}

/// Whoever takes nothing for long is cut; a turn that nobody reads then ends, so
/// that its end at the model shows the cut.
fn impatient(setup: &mut Setup) {
    roomy(setup);
    setup.patience.reader = ms(300);
    setup.config.stream.disconnect_grace = ms(1);
}

/// A turn whose only reader has not read anything.
async fn begin_unread(gateway: &Gateway, model: &mut Model) -> (Client, Round) {
    let mut slow = gateway.narrow_client().await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    slow.send(post(STREAM, &[], &body)).await;
    let mut round = model.round().await;
    round.begin().await;
    (slow, round)
}

#[tokio::test]
async fn a_slow_reader_slows_neither_the_turn_nor_others() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, roomy).await;
    let (slow, mut round) = begin_unread(&gateway, &mut model).await;
    let mut other = gateway.rejoin("session_id=s", &[]).await;
    let words = words(FLOOD_BYTES);
    say(&mut round, &words).await;
    round.end().await;
    let frames = other.rest().await;
    assert!(said(&frames) == words, "the other reader has all of it");
    // What it did not take was kept for it.
    let late = slow.events().await.rest().await;
    assert!(late == frames, "the slow reader has all of it");
}

#[tokio::test]
async fn a_reader_who_takes_nothing_is_cut_and_goes_on_where_it_was() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, impatient).await;
    let (slow, mut round) = begin_unread(&gateway, &mut model).await;
    say(&mut round, &words(FLOOD_BYTES)).await;
    round.closed().await;

    let mut slow = slow.events().await;
    let mut seen = Vec::new();
    while let Some(frame) = slow.next().await {
        seen.push(frame);
    }
    assert_eq!(slow.ending, Some(Ending::Cut));
    let last_id = format!("Last-Event-ID: {}", seen.last().unwrap().id);
    seen.extend(gateway.rejoin("session_id=s", &[&last_id]).await.rest().await);
    check_order(&seen);
    assert_eq!(seen[0].sequence(), 1);
    assert!(seen == gateway.rejoin("session_id=s", &[]).await.rest().await, "no gap, no double");
}

#[tokio::test]
async fn others_are_not_cut_with_it() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, |setup| {
        impatient(setup);
        setup.patience.reader = ms(1000);
        setup.config.stream.keep_alive = ms(100);
    })
    .await;
    let (slow, mut round) = begin_unread(&gateway, &mut model).await;
    let mut other = gateway.rejoin("session_id=s", &[]).await;
    let words = words(FLOOD_BYTES);
    tokio::join!(say(&mut round, &words), other.up_to_text(&words[words.len() - 8..]));
    // Longer than the slow reader has.
    other.comments(15).await;
    let mut slow = slow.events().await;
    while slow.next().await.is_some() {}
    assert_eq!(slow.ending, Some(Ending::Cut));
    round.end().await;
    assert_eq!(outcome(&other.rest().await), "stop");
}

/// There is nothing to take while nothing is said.
#[tokio::test]
async fn a_reader_who_has_caught_up_is_not_cut() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, |setup| {
        impatient(setup);
        setup.patience.reader = ms(60);
        setup.config.stream.keep_alive = ms(400);
    })
    .await;
    let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
    round.begin().await;
    round.say("Still").await;
    stream.up_to_text("Still").await;
    stream.comments(1).await;
    round.say(" there.").await;
    round.end().await;
    assert_eq!(said(&stream.rest().await), " there.");
}

#[tokio::test]
async fn a_shut_window_of_http2_slows_nobody() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, roomy).await;
    let mut connection = Connection::open(gateway.address, 1024).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    let slow = connection.send("POST", STREAM, &body).await.unwrap();
    let mut round = model.round().await;
    let mut other = gateway.rejoin("session_id=s", &[]).await;
    let words = words(1 << 20);
    round.begin().await;
    say(&mut round, &words).await;
    round.end().await;
    let seen = other.rest().await;
    assert!(said(&seen) == words, "the other reader has all of it");
    // Other streams of the same connection go on as well.
    let live = connection.send("GET", "/healthz", "").await.unwrap();
    assert_eq!(live.status(), 200);
    assert!(frames(&collect(slow.into_body()).await.unwrap()) == seen, "nothing is lost");
}

#[tokio::test]
async fn a_window_of_http2_that_stays_shut_is_cut() {
    let mut model = Model::listen().await;
    let gateway = Gateway::with(model.address, impatient).await;
    let mut connection = Connection::open(gateway.address, 1024).await;
    let body = json!({"session_id": "s", "prompt": "Hello?"}).to_string();
    let slow = connection.send("POST", STREAM, &body).await.unwrap();
    let mut round = model.round().await;
    round.begin().await;
    say(&mut round, &words(64 * 1024)).await;
    round.closed().await;
    collect(slow.into_body()).await.expect_err("it was cut");
    let whole = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(outcome(&whole), "cancelled");
}
