//! Answers in one piece.

use std::future::poll_fn;
use std::task::Poll;

use hyper::StatusCode;
use hyper::header::HeaderValue;

use super::dialect::{Collector, WholeAnswer};
use super::reply::{Reply, json_reply};
use super::route::SHOULD_RETRY;
use super::waiting::Waiting;
use crate::session::LoggedTurn;

/// Answers in one piece, once the turn is over. If the client leaves first, the turn loses its
/// reader.
pub(super) async fn collect(
    turn: &LoggedTurn,
    mut whole: Box<dyn Collector>,
    mut client: Waiting,
) -> Reply {
    let mut reader = turn.log.read_after(0);
    poll_fn(|cx| {
        while let Poll::Ready(read) = reader.poll_read(cx, |record| whole.take(&record)) {
            if read.is_none() {
                return Poll::Ready(());
            }
        }
        client.poll_gone(cx)
    })
    .await;
    whole_answer(whole.answer())
}

/// The reply with an answer in one piece.
pub(super) fn whole_answer(answer: WholeAnswer) -> Reply {
    let WholeAnswer { mut status, body, may_be_repeated } = answer;
    // After a 503, proxies send the request to another gateway.
    if !may_be_repeated && status == 503 {
        status = 500;
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = json_reply(status, &body);
    if !may_be_repeated {
        // SDKs send a request again after an error, and a tool may have changed something.
        reply.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    reply
}
