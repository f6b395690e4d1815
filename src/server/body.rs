//! The body of an event stream: reads from the log, and sends a keep-alive when there is
//! nothing to say.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::Instant;

use super::dialect::Encoder;
use super::silence::Silence;
use super::socket::Socket;
use crate::limits::stream as limits;
use crate::session::Reader;

/// A stream of events to one client, in its dialect. It ends when the log ends. A client that
/// leaves drops it, which is how the turn finds out.
#[derive(Debug)]
pub(super) struct EventBody {
    pub(super) events: Events,
    /// Bytes to send. The buffer is reused once they have been taken, unless it grew beyond a
    /// few events.
    out: BytesMut,
    /// When something was last sent to the client.
    sent_at: Instant,
    silence: Silence,
}

/// A turn's events as they go into a response: where they are read, and how they are encoded.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) reader: Reader,
    pub(super) encoder: Box<dyn Encoder>,
    /// The silence after which a keep-alive is sent.
    pub(super) keep_alive: Duration,
    /// Whether a keep-alive is sent as soon as there is nothing to read.
    pub(super) greets: bool,
}

/// The answer was cut off, and its dialect cannot say so: the connection breaks off instead of
/// ending properly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the turn was cancelled")]
pub(super) struct Cut;

impl EventBody {
    /// Streams the records of `reader`, with a keep-alive after every `keep_alive` of silence.
    #[must_use]
    pub(super) fn new(reader: Reader, encoder: Box<dyn Encoder>, keep_alive: Duration) -> Self {
        let events = Events { reader, encoder, keep_alive, greets: false };
        let (sent_at, silence) = (Instant::now(), Silence::new(keep_alive));
        Self { events, out: BytesMut::new(), sent_at, silence }
    }

    /// Sends something at once, even if no event is ready: the client has joined a turn that may be quiet for
    /// long. Some proxies hold the head of an answer until its body begins.
    pub(super) fn greet(&mut self) {
        self.events.greets = true;
    }

    /// Watches `socket` to find out whether the client has left.
    pub(super) fn watch(&mut self, socket: Socket) {
        self.silence.watch(socket);
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        loop {
            let Self { events, out, sent_at, silence } = &mut *this;
            let Events { reader, encoder, greets, .. } = events;
            // Read the log first: a keep-alive must not come before records that are already there.
            let bytes = match reader.poll_read(cx, |record| encoder.encode(&record, out)) {
                Poll::Ready(Some(())) => {
                    let bytes = out.split().freeze();
                    // The dialect has no words for these events.
                    if bytes.is_empty() {
                        continue;
                    }
                    *sent_at = Instant::now();
                    if bytes.len() > limits::WRITE_ROOM_BYTES {
                        *out = BytesMut::new();
                    }
                    bytes
                }
                Poll::Ready(None) => return Poll::Ready(encoder.is_cut().then_some(Err(Cut))),
                Poll::Pending if *greets => {
                    *sent_at = Instant::now();
                    encoder.keep_alive()
                }
                Poll::Pending => {
                    ready!(silence.poll_due(cx, sent_at));
                    encoder.keep_alive()
                }
            };
            *greets = false;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
    }
}
