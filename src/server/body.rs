//! The body of an event stream: a log's reader, with a sign of life while nothing
//! is to be said.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use crate::session::{Reader, frame};

/// A stream of frames to one client. It ends when the log ends; a client that
/// goes away drops it, which is how the turn learns of it.
#[derive(Debug)]
pub(super) struct EventBody {
    reader: Reader,
    keep_alive: Duration,
    /// When the client was last sent something.
    sent_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl EventBody {
    /// Streams what `reader` reads, with a comment every `keep_alive` of silence.
    #[must_use]
    pub(super) fn new(reader: Reader, keep_alive: Duration) -> Self {
        let timer = Box::pin(sleep(keep_alive));
        Self { reader, keep_alive, sent_at: Instant::now(), timer }
    }

    /// The timer is not moved with every frame: when it fires, it looks at when
    /// the last one went out, and sleeps on.
    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.sent_at + self.keep_alive;
            let now = Instant::now();
            if due <= now {
                self.sent_at = now;
                return Poll::Ready(Bytes::from_static(frame::KEEP_ALIVE));
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
        // The log first: a comment must not stand before what is there already.
        let bytes = match this.reader.poll_read(cx) {
            Poll::Ready(Some(bytes)) => {
                this.sent_at = Instant::now();
                bytes
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => ready!(this.poll_keep_alive(cx)),
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
