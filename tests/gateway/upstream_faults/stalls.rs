//! Model servers that stop sending.

use serde_json::json;
use tokio::time::Instant;

use super::{failed, turn};
use crate::support::events::{outcome, said};
use crate::support::gateway::Setup;
use crate::support::model::{UNTIL_CLOSE, delta, finish, text};
use crate::support::{Gateway, Model, ms};

#[tokio::test]
async fn it_stalls_before_the_head() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| round.closed().await,
    )
    .await;
    failed(&frames, "upstream_timeout", true);
}

#[tokio::test]
async fn it_stalls_before_the_first_frame() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.begin().await;
            round.closed().await;
        },
    )
    .await;
    let message = failed(&frames, "upstream_timeout", true);
    assert!(message.contains("idle_timeout_sec"), "{message}");
}

#[tokio::test]
async fn it_stalls_in_the_middle() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.begin().await;
            round.say("Half").await;
            round.closed().await;
        },
    )
    .await;
    failed(&frames, "upstream_timeout", true);
    assert_eq!(said(&frames), "Half");
}

/// The head and the first text arrive in one piece, followed by nothing.
#[tokio::test]
async fn it_stalls_after_its_first_bytes() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.write(UNTIL_CLOSE.to_owned() + &text("Half")).await;
            round.closed().await;
        },
    )
    .await;
    failed(&frames, "upstream_timeout", true);
    assert_eq!(said(&frames), "Half");
}

/// Everything has been said.
#[tokio::test]
async fn it_stalls_once_it_has_finished() {
    let frames = turn(
        |setup| setup.upstream().idle_timeout = ms(100),
        async |mut round, _| {
            round.begin().await;
            round.chunk(text("Whole.") + &finish("stop")).await;
            round.closed().await;
        },
    )
    .await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."));
}

/// Keep-alives do not count as an answer. Many of them come in each idle timeout, from a thread of
/// their own, so that the server does not fall silent on an overloaded machine.
#[tokio::test]
async fn it_sends_only_keep_alives() {
    let sends_only = async |sign: String| {
        let frames = turn(
            |setup| setup.upstream().idle_timeout = ms(300),
            async |mut round, _| {
                round.write(UNTIL_CLOSE.to_owned() + &text("Half")).await;
                round.drip(sign, ms(5)).await;
            },
        )
        .await;
        let message = failed(&frames, "upstream_timeout", true);
        assert!(
            message.contains("only keep-alives") && message.contains("idle_timeout_sec"),
            "{message}"
        );
        assert_eq!(said(&frames), "Half");
    };
    tokio::join!(
        sends_only(": ping\n\n".to_owned()),
        sends_only(text("")),
        sends_only(delta(&json!({"role": "assistant"}))),
    );
}

/// The longest silence counts, not the duration of the answer. The silence is long enough for
/// an overloaded machine.
#[tokio::test]
async fn it_is_slow_but_not_silent() {
    let frames = turn(
        |setup| {
            setup.upstream().idle_timeout = ms(1000);
            setup.config.stream.keep_alive = ms(20);
        },
        async |mut round, stream| {
            round.begin().await;
            stream.up_to("turn_started").await;
            let begun = Instant::now();
            while begun.elapsed() < ms(1250) {
                round.chunk(": still reading the prompt\n\n").await;
                stream.up_to_comment().await;
            }
            round.say("There.").await;
            round.end().await;
        },
    )
    .await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "There."));
}

/// A server that answers one request at a time. The second one's turn comes after more than the
/// longest silence, whether or not its head has been sent.
#[tokio::test]
async fn it_answers_another_first() {
    for has_head in [false, true] {
        let mut model = Model::listen();
        let gateway = Gateway::with(model.address, |setup| {
            setup.upstream().idle_timeout = ms(1000);
            setup.config.stream.keep_alive = ms(20);
        })
        .await;
        let (mut first_stream, mut first) = gateway.begin(&mut model, "first").await;
        let (mut second_stream, mut second) = gateway.begin(&mut model, "second").await;
        first.begin().await;
        if has_head {
            second.begin().await;
        }
        second_stream.up_to("turn_started").await;
        let begun = Instant::now();
        while begun.elapsed() < ms(1250) {
            first.say("more ").await;
            second_stream.up_to_comment().await;
        }
        first.end().await;
        assert_eq!(outcome(&first_stream.rest().await), "stop");
        if has_head {
            second.say("My turn.").await;
            second.end().await;
        } else {
            second.answer("My turn.").await;
        }
        assert_eq!(said(&second_stream.rest().await), "My turn.", "{has_head}");
    }
}

/// The other answer comes whole, in one piece, and is a sign of life all the same.
#[tokio::test]
async fn it_answers_another_at_once() {
    let mut model = Model::listen();
    let gateway = Gateway::with(model.address, |setup| {
        setup.upstream().idle_timeout = ms(1000);
        setup.config.stream.keep_alive = ms(20);
    })
    .await;
    let (mut first_stream, first) = gateway.begin(&mut model, "first").await;
    let (mut second_stream, second) = gateway.begin(&mut model, "second").await;
    second_stream.up_to("turn_started").await;
    let begun = Instant::now();
    while begun.elapsed() < ms(700) {
        second_stream.up_to_comment().await;
    }
    first.answer_at_once("Done.").await;
    assert_eq!(outcome(&first_stream.rest().await), "stop");
    while begun.elapsed() < ms(1250) {
        second_stream.up_to_comment().await;
    }
    second.answer("My turn.").await;
    assert_eq!(said(&second_stream.rest().await), "My turn.");
}

/// It goes on with others for ever.
#[tokio::test]
async fn it_only_answers_others() {
    let mut model = Model::listen();
    let idle = |setup: &mut Setup| setup.upstream().idle_timeout = ms(300);
    let gateway = Gateway::with(model.address, idle).await;
    let (_stream, mut other) = gateway.begin(&mut model, "other").await;
    other.write(UNTIL_CLOSE).await;
    let (mut stream, mut waits) = gateway.begin(&mut model, "s").await;
    let frames = tokio::select! {
        () = other.drip(text("more "), ms(5)) => unreachable!("somebody reads it"),
        frames = stream.rest() => frames,
    };
    let message = failed(&frames, "upstream_timeout", true);
    assert!(message.contains("answered other requests for 3 s"), "{message}");
    waits.closed().await;
}

/// What it says to others is no sign of life for an answer that has begun.
#[tokio::test]
async fn it_stalls_in_the_middle_and_answers_others() {
    let mut model = Model::listen();
    let idle = |setup: &mut Setup| setup.upstream().idle_timeout = ms(300);
    let gateway = Gateway::with(model.address, idle).await;
    let (_stream, mut other) = gateway.begin(&mut model, "other").await;
    other.write(UNTIL_CLOSE).await;
    let (mut stream, mut stalls) = gateway.begin(&mut model, "s").await;
    stalls.begin().await;
    stalls.say("Half").await;
    let frames = tokio::select! {
        () = other.drip(text("more "), ms(5)) => unreachable!("somebody reads it"),
        frames = stream.rest() => frames,
    };
    let message = failed(&frames, "upstream_timeout", true);
    assert!(message.contains("sent nothing for 0.3 s"), "{message}");
    assert_eq!(said(&frames), "Half");
}
