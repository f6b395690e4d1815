//! Readers that take nothing: they delay no one, are cut, and lose nothing.

use std::error::Error as _;

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use crate::support::client::post;
use crate::support::events::{check_order, frames, outcome, said};
use crate::support::gateway::{STREAM, Setup};
use crate::support::h2::{Connection, collect};
use crate::support::model::text;
use crate::support::{Client, Ending, Gateway, Model, Round, ms, pass, within};

/// More bytes than the buffers between a gateway and a narrow client hold.
const FLOOD_BYTES: usize = 8 << 20;

/// Words that are all different.
fn words(bytes: usize) -> String {
    let numbers: Vec<_> = (0..bytes / 8).map(|number| format!("{number:07} ")).collect();
    numbers.concat()
}

/// Says `words` in pieces, for as long as the gateway reads.
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

/// Cuts readers that take nothing for long. A turn without readers then ends, so the end of its
/// round at the model reveals the cut.
fn impatient(setup: &mut Setup) {
    roomy(setup);
    setup.timeouts.reader = ms(300);
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
    let mut model = Model::listen();
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
async fn a_reader_that_takes_nothing_is_cut_and_can_resume() {
    let recorder = PrometheusBuilder::new().build_recorder();
    // The gateway runs on this thread.
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
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
    let counted = recorder.handle().render();
    assert!(counted.contains("tether_readers_cut_total 1\n"), "{counted}");
}

#[tokio::test]
async fn others_are_not_cut_with_it() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        impatient(setup);
        setup.timeouts.reader = ms(1000);
        setup.config.stream.keep_alive = ms(100);
    })
    .await;
    let (slow, mut round) = begin_unread(&gateway, &mut model).await;
    let mut other = gateway.rejoin("session_id=s", &[]).await;
    let words = words(FLOOD_BYTES);
    tokio::join!(say(&mut round, &words), other.up_to_text(&words[words.len() - 8..]));
    // Longer than the slow reader's timeout.
    other.comments(15).await;
    let mut slow = slow.events().await;
    while slow.next().await.is_some() {}
    assert_eq!(slow.ending, Some(Ending::Cut));
    round.end().await;
    assert_eq!(outcome(&other.rest().await), "stop");
}

/// While nothing is said, there is nothing to take.
#[tokio::test]
async fn a_reader_that_has_caught_up_is_not_cut() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        impatient(setup);
        setup.timeouts.reader = ms(60);
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
async fn a_closed_http2_window_slows_no_other_reader() {
    let mut model = Model::listen();
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
    // Other streams of the same connection continue as well.
    let live = connection.send("GET", "/healthz", "").await.unwrap();
    assert_eq!(live.status(), 200);
    assert!(frames(&collect(slow.into_body()).await.unwrap()) == seen, "nothing is lost");
}

/// Streams with a window of zero, and with a very small one.
#[tokio::test]
async fn an_http2_stream_that_stays_closed_is_cut_and_no_other() {
    for window in [0, 1024] {
        let mut model = Model::listen();
        let gateway = Gateway::with(model.address, impatient).await;
        let mut connection = Connection::open(gateway.address, window).await;
        let mut open = Connection::open(gateway.address, 64 * 1024).await;
        let slow = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
        let mut round = model.round().await;
        let other = open.send("POST", STREAM, &prompt("other")).await.unwrap();
        let mut other_round = model.round().await;
        other_round.begin().await;
        other_round.say("First").await;
        round.begin().await;
        say(&mut round, &words(64 * 1024)).await;
        round.closed().await;
        assert_eq!(reset_reason(slow).await, Some(h2::Reason::CANCEL), "{window}");
        let whole = gateway.rejoin("session_id=s", &[]).await.rest().await;
        assert_eq!(outcome(&whole), "cancelled");

        // The connection itself continues.
        let next = connection.send("POST", STREAM, &prompt("next")).await.unwrap();
        assert_eq!(next.status(), 200);
        other_round.say(" and last.").await;
        other_round.end().await;
        let other = frames(&collect(other.into_body()).await.unwrap());
        assert_eq!(said(&other), "First and last.");
    }
}

/// The whole turn was given to the connection, but its client does not take it.
#[tokio::test]
async fn an_http2_stream_whose_turn_is_over_is_cut_too() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, impatient).await;
    let mut connection = Connection::open(gateway.address, 1024).await;
    let slow = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    let round = model.round().await;
    round.answer(&words(8 * 1024)).await;
    // A response without a turn, too.
    let page = connection.send("GET", "/", "").await.unwrap();
    pass(ms(900)).await;
    assert!(collect(slow.into_body()).await.is_err(), "it was cut");
    assert!(collect(page.into_body()).await.is_err(), "it was cut");
    let counted = recorder.handle().render();
    assert!(counted.contains("tether_readers_cut_total 2\n"), "{counted}");
    let whole = gateway.rejoin("session_id=s", &[]).await.rest().await;
    assert_eq!(outcome(&whole), "stop");
    assert_eq!(connection.send("GET", "/healthz", "").await.unwrap().status(), 200);
}

/// It needs longer for what it was given at once than a stall may last.
#[tokio::test]
async fn an_http2_stream_that_is_read_slowly_is_not_cut() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, impatient).await;
    let mut connection = Connection::open(gateway.address, 1024).await;
    let slow = connection.send("POST", STREAM, &prompt("s")).await.unwrap();
    let words = words(64 * 1024);
    model.round().await.answer(&words).await;
    let mut body = slow.into_body();
    let mut seen = Vec::new();
    while let Some(frame) = within(body.frame()).await {
        seen.extend_from_slice(&frame.expect("it moves").into_data().unwrap());
        pass(ms(20)).await;
    }
    assert!(said(&frames(&seen)) == words, "it came whole");
}

/// Without a limit, the system would take megabytes at once, and nothing more until most of
/// them are gone.
#[tokio::test]
async fn a_connection_that_is_read_slowly_is_not_cut() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        impatient(setup);
        setup.timeouts.reader = ms(2000);
    })
    .await;
    let (mut slow, mut round) = begin_unread(&gateway, &mut model).await;
    let words = words(FLOOD_BYTES);
    let read_slowly = async {
        let begun = Instant::now();
        let mut piece = vec![0; 32 * 1024];
        while begun.elapsed() < ms(5000) {
            let read = slow.socket.read(&mut piece).await.unwrap();
            assert_ne!(read, 0);
            pass(ms(50)).await;
        }
    };
    within(async { tokio::join!(say(&mut round, &words), read_slowly) }).await;
    // If it had been cut, the turn would have had no reader and would have been cancelled.
    let whole = gateway.rejoin("session_id=s", &[]);
    round.end().await;
    assert_eq!(outcome(&whole.await.rest().await), "stop");
}

fn prompt(session: &str) -> String {
    json!({"session_id": session, "prompt": "Hello?"}).to_string()
}

/// Why a stream was reset; `None` if it was not reset, or broke in another way.
async fn reset_reason(response: Response<Incoming>) -> Option<h2::Reason> {
    let error = collect(response.into_body()).await.err()?;
    error.source()?.downcast_ref::<h2::Error>()?.reason()
}
