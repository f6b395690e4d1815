//! The body of an answer, read by the task that drives its connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::timeout;

use super::Client;
use super::connection::Connection;
use crate::limits::upstream as limits;

/// An answer whose body is still arriving. Dropping it closes the connection, unless
/// [`finish`](Self::finish) has seen the end of the body.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status and headers.
    pub(crate) head: hyper::http::response::Parts,
    body: Incoming,
    connection: Connection,
    client: Client,
    /// Whether wake-ups are only noted, because the task is already reading.
    entered: bool,
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        client: Client,
    ) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body, connection, client, entered: false }
    }

    /// The next piece of the body, as it came from the socket; `None` at the end.
    ///
    /// **After a piece, poll again, in this turn of the task or its next**: the task is woken
    /// for more data only after a poll has returned pending.
    ///
    /// # Errors
    /// If the connection breaks before the end of the body.
    pub(crate) fn poll_chunk(&mut self, cx: &Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            if !std::mem::replace(&mut self.entered, true) {
                self.connection.inner.enter(cx.waker());
            }
            match self.poll_frame() {
                Poll::Pending => {
                    self.entered = false;
                    if !self.connection.inner.leave() {
                        return Poll::Pending;
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    // Trailers or an empty frame.
                    _ => {}
                },
            }
        }
    }

    fn poll_frame(&mut self) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // Everything the body waits for arrives through `drive`, so no waker is needed.
        let mut cx = Context::from_waker(Waker::noop());
        let frame = Pin::new(&mut self.body).poll_frame(&mut cx);
        if frame.is_ready() {
            return frame;
        }
        self.connection.drive();
        Pin::new(&mut self.body).poll_frame(&mut cx)
    }

    /// Reads the rest of the body as text: at most `bytes_max` bytes, and only what arrives
    /// within this time.
    pub(crate) async fn read_to_string(&mut self, bytes_max: usize, within: Duration) -> String {
        let mut body = Vec::new();
        let read = async {
            while let Some(Ok(chunk)) = poll_fn(|cx| self.poll_chunk(cx)).await {
                let room = bytes_max - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if body.len() == bytes_max {
                    break;
                }
            }
        };
        // Half of an error message is more useful than the fact that it was cut.
        let _ = timeout(within, read).await;
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Waits briefly for the end of the body, then keeps the connection for the next request.
    /// Call it when the rest of the body no longer matters.
    pub(crate) fn finish(mut self) {
        let cx = Context::from_waker(Waker::noop());
        match self.poll_end(&cx) {
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
    fn poll_end(&mut self, cx: &Context<'_>) -> Poll<bool> {
        self.poll_chunk(cx).map(|chunk| chunk.is_none())
    }

    fn give_back(self) {
        self.client.shared.pool.give_back(self.connection, &self.head.headers);
    }
}
