//! The body of an event stream: reads from the log, and sends a keep-alive when there is
//! nothing to say.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::dialect::Encoder;
use super::socket::Socket;
use crate::limits::stream as limits;
use crate::session::Reader;

/// A stream of events to one client, in its dialect. It ends when the log ends. A client that
/// leaves drops it, which is how the turn finds out.
///
/// hyper does not read while it writes a response, because the client may have closed its
/// sending side and be waiting for the rest. So the body watches the socket itself. If no more data
/// will come, the client may be gone altogether; only a write can tell.
#[derive(Debug)]
pub(super) struct EventBody {
    reader: Reader,
    encoder: Box<dyn Encoder>,
    /// Bytes to send. The buffer is reused once they have been taken, unless it grew beyond a
    /// few events.
    out: BytesMut,
    keep_alive: Duration,
    /// When something was last sent to the client.
    sent_at: Instant,
    timer: Pin<Box<Sleep>>,
    client: Client,
    /// Whether a keep-alive is sent as soon as there is nothing to read.
    greets: bool,
}

/// The answer was cut off, and its dialect cannot say so: the connection breaks off instead of
/// ending properly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the turn was cancelled")]
pub(super) struct Cut;

/// What is known about the client's side of the connection.
#[derive(Debug)]
enum Client {
    /// Its socket is not watched: HTTP/2 itself reports a client that is gone, and unread data hides
    /// the end of the stream.
    Unwatched,
    /// It may still send.
    Open(Socket),
    /// It stopped sending at `at`; this many of [`limits::PROBES`] have been sent since.
    Ended { at: Instant, probes: usize },
}

impl Client {
    /// Records that a keep-alive was sent. The client may have left since the last probe, so a
    /// keep-alive after the last probe starts another series.
    fn note_keep_alive(&mut self, now: Instant) {
        if let Self::Ended { at, probes } = self {
            if *probes == limits::PROBES.len() {
                (*at, *probes) = (now, 1);
            } else {
                *probes += 1;
            }
        }
    }
}

impl EventBody {
    /// Streams the records of `reader`, with a keep-alive after every `keep_alive` of silence.
    #[must_use]
    pub(super) fn new(reader: Reader, encoder: Box<dyn Encoder>, keep_alive: Duration) -> Self {
        let (timer, out) = (Box::pin(sleep(keep_alive)), BytesMut::new());
        let (sent_at, client) = (Instant::now(), Client::Unwatched);
        Self { reader, encoder, out, keep_alive, sent_at, timer, client, greets: false }
    }

    /// Sends something at once, even if no event is ready: the client has joined a turn that may be quiet for
    /// long. Some proxies hold the head of an answer until its body begins.
    pub(super) fn greet(&mut self) {
        self.greets = true;
    }

    /// Watches `socket` to find out whether the client has left.
    pub(super) fn watch(&mut self, socket: Socket) {
        self.client = Client::Open(socket);
    }

    /// Checks whether the client has closed its sending side, unless that is already known.
    fn watch_client(&mut self, cx: &mut Context<'_>) {
        let Client::Open(socket) = &self.client else { return };
        match socket.poll_ended(cx) {
            Poll::Pending => {}
            Poll::Ready(true) => {
                let at = Instant::now();
                self.client = Client::Ended { at, probes: 0 };
                self.timer.as_mut().reset(at);
            }
            // Unread data hides the end of the stream.
            Poll::Ready(false) => self.client = Client::Unwatched,
        }
    }

    /// When the next keep-alive is due.
    fn due(&self) -> Instant {
        let keep_alive = self.sent_at + self.keep_alive;
        match self.client {
            Client::Ended { at, probes } if probes < limits::PROBES.len() => {
                keep_alive.min(at + limits::PROBES[probes])
            }
            _ => keep_alive,
        }
    }

    /// Waits until a keep-alive is due. The timer is not reset for every frame: when it fires,
    /// it checks when the last frame was sent and sleeps again if need be.
    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        self.watch_client(cx);
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.due();
            let now = Instant::now();
            if due <= now {
                self.sent_at = now;
                self.client.note_keep_alive(now);
                return Poll::Ready(self.encoder.keep_alive());
            }
            self.timer.as_mut().reset(due);
        }
        Poll::Pending
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
            let Self { reader, encoder, out, .. } = &mut *this;
            // Read the log first: a keep-alive must not come before records that are already there.
            let bytes = match reader.poll_read(cx, |record| encoder.encode(&record, out)) {
                Poll::Ready(Some(())) => {
                    let bytes = this.out.split().freeze();
                    // The dialect has no words for these events.
                    if bytes.is_empty() {
                        continue;
                    }
                    this.sent_at = Instant::now();
                    if bytes.len() > limits::WRITE_ROOM_BYTES {
                        this.out = BytesMut::new();
                    }
                    bytes
                }
                Poll::Ready(None) => return Poll::Ready(encoder.is_cut().then_some(Err(Cut))),
                Poll::Pending if this.greets => {
                    this.sent_at = Instant::now();
                    this.encoder.keep_alive()
                }
                Poll::Pending => ready!(this.poll_keep_alive(cx)),
            };
            this.greets = false;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
    }
}
