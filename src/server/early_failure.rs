//! Streams whose turn fails before it has said anything: their clients get a status, as if there were no stream. SDKs
//! raise the error that belongs to it, and repeat the request if that may help; most take an error inside a stream for
//! the end of the answer.
//!
//! ```text
//!   turn_started, status, feedback .. ──> turn_failed                   a status and an error
//!                                     ──> anything else, or a while     the stream, from its beginning
//! ```

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::dialect;
use super::waiting::Waiting;
use crate::event::Kind;
use crate::session::LoggedTurn;

/// Waits until anybody may hear of the turn: with a store, until that could bring it back.
pub(super) async fn until_begun(turn: &LoggedTurn) {
    let mut reader = turn.log.read_after(0);
    poll_fn(|cx| reader.poll_read(cx, |_| {})).await;
}

/// The turn's failure, if it fails within this time and before it has said anything.
pub(super) async fn early_failure(
    turn: &LoggedTurn,
    within: Duration,
    mut client: Waiting,
) -> Option<Value> {
    let mut reader = turn.log.read_after(0);
    let (mut failed, mut has_begun) = (None, false);
    let first = poll_fn(|cx| {
        while let Poll::Ready(read) = reader.poll_read(cx, |record| match record.kind {
            Kind::TurnStarted | Kind::Status | Kind::Feedback => {}
            Kind::TurnFailed if !has_begun => {
                failed = Some(dialect::json::event(record.data)["data"].take());
            }
            _ => has_begun = true,
        }) {
            if read.is_none() || has_begun {
                return Poll::Ready(());
            }
        }
        client.poll_gone(cx)
    });
    // If the time is up, the stream reports what follows.
    let _ = timeout(within, first).await;
    failed
}
