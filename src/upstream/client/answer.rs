//! An answer's body, read off the connection that its reader drives.

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

/// An answer whose body is still arriving. Dropping it drops the connection,
/// unless [`finish`](Self::finish) has seen the body's end.
#[derive(Debug)]
pub struct Answer {
    /// Status and headers.
    pub head: hyper::http::response::Parts,
    body: Incoming,
    connection: Connection,
    client: Client,
    /// Whether wake-ups are only noted, since the task is reading.
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

    /// The next piece of the body as it came from the socket; `None` at its end.
    ///
    /// **After a piece, poll again, now or in the same task's next turn**: the task
    /// is woken for more only once this has been pending.
    ///
    /// # Errors
    /// When the connection broke before the body's end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
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
                    // Trailers, or nothing at all.
                    _ => {}
                },
            }
        }
    }

    fn poll_frame(&mut self) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // Whatever the body waits for comes through `drive`, so it wakes nobody.
        let mut cx = Context::from_waker(Waker::noop());
        let frame = Pin::new(&mut self.body).poll_frame(&mut cx);
        if frame.is_ready() {
            return frame;
        }
        self.connection.drive();
        Pin::new(&mut self.body).poll_frame(&mut cx)
    }

    /// Reads what is left of the body as text: at most `bytes_max` of it, and what
    /// comes within this time.
    pub async fn read_to_string(&mut self, bytes_max: usize, within: Duration) -> String {
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
        // Half of an error says more than the news that it did not end.
        let _ = timeout(within, read).await;
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Waits a moment for the body's end and keeps the connection for the next
    /// request. Nothing more that matters is in it.
    pub fn finish(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        match self.poll_end(&mut cx) {
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

    /// Whether the body ended where it was expected to.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_chunk(cx).map(|chunk| chunk.is_none())
    }

    fn give_back(self) {
        self.client.shared.pool.give_back(self.connection, &self.head.headers);
    }
}
