//! Model servers that die, and premature ends.

use serde_json::json;

use super::{failed, nothing, turn};
use crate::support::events::{names, outcome, said};
use crate::support::model::{CHUNKED, DONE, UNTIL_CLOSE, call, finish, text};
use crate::support::{Gateway, Model, Round};

fn die(round: Round, reset: bool) {
    if reset { round.reset() } else { drop(round) }
}

/// A used connection may just have been closed by the server. On a new connection, the server
/// has died.
#[tokio::test]
async fn it_dies_before_the_head() {
    for reset in [false, true] {
        let mut model = Model::listen();
        let gateway = Gateway::start(&model).await;
        gateway.whole_turn(&mut model, "s", "First.").await.rest().await;
        let (mut stream, mut round) = gateway.begin(&mut model, "s").await;
        let first = round.connection;
        die(round, reset);
        round = model.round().await;
        assert_ne!(round.connection, first);
        die(round, reset);
        let message = failed(&stream.rest().await, "upstream_error", true);
        assert!(message.contains("before the model server answered"), "{message}");
        assert!(model.has_no_requests());
    }
}

#[tokio::test]
async fn it_dies_in_the_middle_of_the_text() {
    for reset in [false, true] {
        for head in [CHUNKED, UNTIL_CLOSE] {
            let frames = turn(nothing, async |mut round, stream| {
                round.write(head).await;
                if head == CHUNKED {
                    round.say("Half").await;
                } else {
                    round.write(text("Half")).await;
                }
                stream.up_to_text("Half").await;
                die(round, reset);
            })
            .await;
            assert_eq!(outcome(&frames), "upstream_error");
            assert_eq!(frames[0].data["text"], "Half");
            assert_eq!(frames[0].data["retryable"], true);
        }
    }
}

/// A server that closes cleanly without `[DONE]` or a finish reason has lost its model.
#[tokio::test]
async fn it_ends_without_having_finished() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.say("Half").await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    let message = failed(&frames, "upstream_error", true);
    assert!(message.contains("finish reason"), "{message}");
}

#[tokio::test]
async fn it_finishes_without_done() {
    for head in [CHUNKED, UNTIL_CLOSE] {
        let frames = turn(nothing, async |mut round, _| {
            round.write(head).await;
            if head == CHUNKED {
                round.chunk(text("Whole.") + &finish("stop")).await;
                round.write("0\r\n\r\n").await;
                round.keep();
            } else {
                round.write(text("Whole.") + &finish("stop")).await;
            }
        })
        .await;
        assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."));
    }
}

#[tokio::test]
async fn it_finishes_and_then_talks_nonsense() {
    for nonsense in ["DONE", "[]", r#"{"choices":[null]}"#, r#"{"error":{"message":"too late"}}"#] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.chunk(text("Whole.") + &finish("stop")).await;
            round.chunk(format!("data: {nonsense}\n\n")).await;
            round.closed().await;
        })
        .await;
        assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."), "{nonsense}");
    }
}

#[tokio::test]
async fn it_says_done_and_nothing_else() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.say("Whole.").await;
        round.chunk(DONE).await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    assert_eq!((outcome(&frames), &*said(&frames)), ("stop", "Whole."));
}

#[tokio::test]
async fn it_dies_in_the_middle_of_a_call_which_is_not_run() {
    let call = call("calculate", &json!({"expression": "6 * 7"}));
    for cut in [3, 17, 18, 25, call.len() - 3, call.len() - 1] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.say("Let me see. ").await;
            round.say(&call[..cut]).await;
        })
        .await;
        failed(&frames, "upstream_error", true);
        assert!(!names(&frames).contains(&"tool_started"), "{cut}: {frames:#?}");
    }
}

/// A complete call has started to run, but its round broke and the turn fails.
#[tokio::test]
async fn it_dies_after_a_call() {
    let frames = turn(nothing, async |mut round, stream| {
        round.begin().await;
        round.say(&(call("calculate", &json!({"expression": "6 * 7"})) + "\n")).await;
        stream.up_to("tool_completed").await;
        drop(round);
    })
    .await;
    assert_eq!(outcome(&frames), "upstream_error");
}

#[tokio::test]
async fn it_is_cut_by_its_token_limit() {
    let frames = turn(nothing, async |mut round, _| {
        round.begin().await;
        round.chunk(text("Half of") + &finish("length") + DONE).await;
        round.write("0\r\n\r\n").await;
        round.keep();
    })
    .await;
    assert_eq!(outcome(&frames), "length");
}

#[tokio::test]
async fn it_reports_an_error_inside_its_stream() {
    for (error, words) in [
        (
            r#"data: {"error":{"message":"out of memory","type":"server_error","code":500}}"#,
            "out of memory",
        ),
        (r#"data: {"error":"out of memory"}"#, "out of memory"),
        (r#"data: {"object":"error","message":"out of memory","code":500}"#, "out of memory"),
        ("event: error\ndata: {\"error\":{\"message\":\"out of memory\"}}", "out of memory"),
        (r#"error: {"code":500,"message":"out of memory","type":"server_error"}"#, "out of memory"),
    ] {
        let frames = turn(nothing, async |mut round, _| {
            round.begin().await;
            round.chunk(format!("{}{error}\n\n", text("Half"))).await;
            round.closed().await;
        })
        .await;
        let message = failed(&frames, "upstream_error", true);
        assert!(message.contains(words), "{error}: {message}");
        assert_eq!(said(&frames), "Half", "{error}");
    }
}
