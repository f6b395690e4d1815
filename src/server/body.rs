//! The body of an event stream: a log's reader, with a sign of life while nothing
//! is to be said.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::dialect::Encoder;
use crate::limits::stream as limits;
use crate::session::Reader;

/// A stream of events to one client, in its dialect. It ends when the log ends; a client that
/// goes away drops it, which is how the turn learns of it.
#[derive(Debug)]
pub(super) struct EventBody {
    reader: Reader,
    encoder: Box<dyn Encoder>,
    /// What is written for the client; its room is used again once that was taken, unless it
    /// was for more than a few events.
    out: BytesMut,
    keep_alive: Duration,
    /// When the client was last sent something.
    sent_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl EventBody {
    /// Streams what `reader` reads, with a sign of life every `keep_alive` of silence.
    #[must_use]
    pub(super) fn new(reader: Reader, encoder: Box<dyn Encoder>, keep_alive: Duration) -> Self {
        let (timer, out) = (Box::pin(sleep(keep_alive)), BytesMut::new());
        Self { reader, encoder, out, keep_alive, sent_at: Instant::now(), timer }
    }

    /// The timer is not moved with every frame: when it fires, it looks at when
    /// the last one went out, and sleeps on.
    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.sent_at + self.keep_alive;
            let now = Instant::now();
            if due <= now {
                self.sent_at = now;
                return Poll::Ready(self.encoder.keep_alive());
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let Self { reader, encoder, out, .. } = &mut *this;
        // The log first: a sign of life must not come before what is there already.
        let bytes = match reader.poll_read(cx, |record| encoder.encode(&record, out)) {
            Poll::Ready(Some(())) => {
                this.sent_at = Instant::now();
                let bytes = this.out.split().freeze();
                if bytes.len() > limits::WRITE_ROOM_BYTES {
                    this.out = BytesMut::new();
                }
                bytes
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => ready!(this.poll_keep_alive(cx)),
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
