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
use super::socket::Socket;
use crate::limits::stream as limits;
use crate::session::Reader;

/// A stream of events to one client, in its dialect. It ends when the log ends; a client that
/// goes away drops it, which is how the turn learns of it.
///
/// hyper does not read while it writes a response: a client may have ended its sending side,
/// and wait for the rest. So the body looks at the socket itself. Where nothing more will come,
/// the client may be gone as well, which only a write can tell.
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
    client: Client,
}

/// What is known of the client's side of the connection.
#[derive(Debug)]
enum Client {
    /// The protocol tells when it is gone.
    Told,
    /// It may send more.
    Open(Socket),
    /// It sends no more since then; so many of [`limits::PROBES`] were sent.
    Ended { at: Instant, probes: usize },
}

impl Client {
    /// It was sent a sign of life. It may have gone since the last probe: where this is not
    /// one, others follow it.
    fn was_sent_sign(&mut self, now: Instant) {
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
    /// Streams what `reader` reads, with a sign of life every `keep_alive` of silence.
    #[must_use]
    pub(super) fn new(reader: Reader, encoder: Box<dyn Encoder>, keep_alive: Duration) -> Self {
        let (timer, out) = (Box::pin(sleep(keep_alive)), BytesMut::new());
        let (sent_at, client) = (Instant::now(), Client::Told);
        Self { reader, encoder, out, keep_alive, sent_at, timer, client }
    }

    /// Finds out from `socket` whether the client has gone.
    pub(super) fn watch(&mut self, socket: Socket) {
        self.client = Client::Open(socket);
    }

    /// Looks whether the client has ended its side, until it has.
    fn watch_client(&mut self, cx: &mut Context<'_>) {
        let Client::Open(socket) = &self.client else { return };
        match socket.poll_ended(cx) {
            Poll::Pending => {}
            Poll::Ready(true) => {
                let at = Instant::now();
                self.client = Client::Ended { at, probes: 0 };
                self.timer.as_mut().reset(at);
            }
            // What stands before its end hides it.
            Poll::Ready(false) => self.client = Client::Told,
        }
    }

    /// When the next sign of life is due.
    fn due(&self) -> Instant {
        let keep_alive = self.sent_at + self.keep_alive;
        match self.client {
            Client::Ended { at, probes } if probes < limits::PROBES.len() => {
                keep_alive.min(at + limits::PROBES[probes])
            }
            _ => keep_alive,
        }
    }

    /// The timer is not moved with every frame: when it fires, it looks at when
    /// the last one went out, and sleeps on.
    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        self.watch_client(cx);
        while self.timer.as_mut().poll(cx).is_ready() {
            let due = self.due();
            let now = Instant::now();
            if due <= now {
                self.sent_at = now;
                self.client.was_sent_sign(now);
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
