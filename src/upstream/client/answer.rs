//! An answer: its head, and its body, read by the task that drives its connection.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::http::response::Parts;
use tokio::time::timeout;

use super::Client;
use super::connection::Connection;
use super::pool::{self, Pool};
use super::progress::Progress;
use super::wire_error::WireError;
use crate::limits::upstream as limits;

/// An answer whose body is still arriving.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status and headers.
    pub(crate) head: Parts,
    /// What is still arriving.
    pub(crate) body: AnswerBody,
}

/// The body of an answer. Dropping it closes the connection, unless [`finish`](Self::finish) has
/// seen the end of the body.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    connection: Connection,
    client: Client,
    /// How long the connection may be idle afterwards.
    keep_alive: Duration,
}

/// What was read of a body.
#[derive(Debug)]
pub(crate) struct ReadText {
    pub(crate) text: String,
    pub(crate) extent: Extent,
}

/// How much of a body was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// As many bytes as were asked for; there are more.
    Longer,
    /// Its beginning: the connection broke.
    Cut,
    /// Its beginning: the rest did not come in time.
    Late,
}

impl Answer {
    pub(super) fn new(head: Parts, connection: Connection, client: Client) -> Self {
        let keep_alive = pool::keep_alive(&head.headers);
        Self { head, body: AnswerBody { connection, client, keep_alive } }
    }
}

impl AnswerBody {
    /// Reads what has arrived and passes the pieces of the body in it to `sink`.
    ///
    /// **After [`Progress::More`], poll again, at once or after yielding**: the task is woken for
    /// more data only after a poll has returned pending.
    ///
    /// # Errors
    /// If the connection breaks before the end of the body.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        sink: impl FnMut(&[u8]),
    ) -> Poll<Result<Progress, WireError>> {
        self.connection.poll_read(cx, sink)
    }

    /// Reads the rest of the body as text: at most `bytes_max` bytes, and only those that arrive
    /// within `within`.
    pub(crate) async fn read_to_string(&mut self, bytes_max: usize, within: Duration) -> ReadText {
        let (mut body, mut is_longer) = (Vec::new(), false);
        let read = async {
            loop {
                let read = poll_fn(|cx| {
                    self.poll_read(cx, |piece| {
                        let room = bytes_max - body.len();
                        is_longer |= piece.len() > room;
                        body.extend_from_slice(&piece[..piece.len().min(room)]);
                    })
                });
                match read.await {
                    _ if is_longer => return Extent::Longer,
                    Ok(Progress::More) => {}
                    Ok(Progress::End) => return Extent::Whole,
                    Err(_) => return Extent::Cut,
                }
            }
        };
        // Half of an error message is more useful than the fact that it was cut.
        let extent = timeout(within, read).await.unwrap_or(Extent::Late);
        ReadText { text: String::from_utf8_lossy(&body).into_owned(), extent }
    }

    /// Waits briefly for the end of the body, then keeps the connection for the next request.
    /// Call it when the rest of the body no longer matters.
    pub(crate) fn finish(mut self) {
        match self.poll_end(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(true) => self.give_back(),
            Poll::Ready(false) => {}
            Poll::Pending => {
                tokio::spawn(async move {
                    let end = poll_fn(|cx| self.poll_end(cx));
                    if timeout(limits::ANSWER_END_TIMEOUT, end).await == Ok(true) {
                        self.give_back();
                    }
                });
            }
        }
    }

    /// Whether the body ended, as opposed to sending more or breaking.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        loop {
            let mut has_more = false;
            let read = std::task::ready!(self.poll_read(cx, |_| has_more = true));
            match read {
                Ok(Progress::More) if !has_more => {}
                read => return Poll::Ready(!has_more && matches!(read, Ok(Progress::End))),
            }
        }
    }

    fn give_back(self) {
        let pool: &Pool = &self.client.shared.pool;
        pool.give_back(self.connection, self.keep_alive);
    }
}
