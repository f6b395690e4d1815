//! Model servers that never stop: each is dropped at a limit.

use serde_json::json;

use super::{failed, nothing, turn};
use crate::support::events::said;
use crate::support::model::{UNTIL_CLOSE, delta, frame, text};

#[tokio::test]
async fn it_sends_a_frame_without_end() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(UNTIL_CLOSE).await;
        round.write("data: {\"choices\": \"").await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of one frame were taken");
    })
    .await;
    failed(&frames, "upstream_error", false);
}

#[tokio::test]
async fn it_sends_a_line_without_end_and_no_frame() {
    let frames = turn(nothing, async |mut round, _| {
        round.write(UNTIL_CLOSE).await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of one line were taken");
    })
    .await;
    failed(&frames, "upstream_error", false);
}

#[tokio::test]
async fn it_sends_a_head_without_end() {
    let frames = turn(nothing, async |mut round, _| {
        round.write("HTTP/1.1 200 OK\r\nX: ").await;
        let taken = round.flood("x".repeat(64 * 1024).as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of a head were taken");
    })
    .await;
    failed(&frames, "upstream_error", true);
}

#[tokio::test]
async fn it_sends_interim_answers_without_end() {
    let frames = turn(nothing, async |mut round, _| {
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(2500);
        let taken = round.flood(many.as_bytes(), 16 * 1024).await;
        assert!(taken < 32 << 20, "{taken} bytes of heads were taken");
    })
    .await;
    failed(&frames, "upstream_error", true);
}

/// A gigabyte of words: the turn ends at its limit, and the server is dropped.
#[tokio::test]
async fn it_sends_a_gigabyte_of_text() {
    for field in ["content", "reasoning_content"] {
        let frames = turn(
            |setup| setup.config.limits.max_turn_bytes = 1 << 20,
            async |mut round, _| {
                round.write(UNTIL_CLOSE).await;
                let words = delta(&json!({field: "word ".repeat(800)})).repeat(16);
                let taken = round.flood(words.as_bytes(), (1 << 30) / words.len()).await;
                assert!(taken < 32 << 20, "{taken} bytes were taken");
            },
        )
        .await;
        failed(&frames[..], "turn_too_large", false);
    }
}

/// A gigabyte of anything except words.
#[tokio::test]
async fn it_sends_a_gigabyte_without_content() {
    for wordless in
        [": ping\n\n".to_owned(), "\n".to_owned(), frame(&json!({"object": "ping"})), text("")]
    {
        let frames = turn(nothing, async |mut round, _| {
            round.write(UNTIL_CLOSE.to_owned() + &text("Half")).await;
            let block = wordless.repeat((64 << 10) / wordless.len());
            let taken = round.flood(block.as_bytes(), (1 << 30) / block.len()).await;
            assert!(taken < 32 << 20, "{taken} bytes of {wordless:?} were taken");
        })
        .await;
        let message = failed(&frames, "upstream_error", false);
        assert!(message.contains("base_url"), "{message}");
        assert_eq!(said(&frames), "Half");
    }
}
