//! What a stream does while it has nothing to send: when a keep-alive is due, and whether the client is
//! still there.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::socket::Socket;
use crate::limits::stream as limits;

/// Watches the silences of one stream.
///
/// Nothing is read from an HTTP/1.1 connection while a response is written, because the client may have
/// closed its sending side and be waiting for the rest. So the socket is watched here. If no more data
/// will come, the client may be gone altogether; only a write can tell.
#[derive(Debug)]
pub(super) struct Silence {
    keep_alive: Duration,
    /// Made when there is nothing to send for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    client: Client,
}

/// What is known about the client's side of the connection.
#[derive(Debug)]
enum Client {
    /// Its socket is not watched: HTTP/2 itself reports a client that is gone, and unread data hides
    /// the end of the stream.
    Unwatched,
    /// It may still send.
    Open(Socket),
    /// It stopped sending at `at`; this many of [`limits::PROBES_MS`] have been sent since.
    Ended { at: Instant, probes: usize },
}

impl Client {
    /// Records that a keep-alive was sent. The client may have left since the last probe, so a
    /// keep-alive after the last probe starts another series.
    fn note_keep_alive(&mut self, now: Instant) {
        if let Self::Ended { at, probes } = self {
            if *probes == limits::PROBES_MS.len() {
                (*at, *probes) = (now, 1);
            } else {
                *probes += 1;
            }
        }
    }
}

impl Silence {
    /// For a stream that sends a keep-alive after every `keep_alive` of silence.
    pub(super) fn new(keep_alive: Duration) -> Self {
        Self { keep_alive, timer: None, client: Client::Unwatched }
    }

    /// Watches `socket` to find out whether the client has left.
    pub(super) fn watch(&mut self, socket: Socket) {
        self.client = Client::Open(socket);
    }

    /// Completes when a keep-alive is due, and counts it as sent. `sent_at` is when something was last
    /// sent; it is set to now then. The timer is not reset for everything that is sent: when it fires, it
    /// looks at `sent_at` and sleeps again if need be.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>, sent_at: &mut Instant) -> Poll<()> {
        let has_ended = self.watch_client(cx);
        let due = self.due(*sent_at);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if has_ended {
            timer.as_mut().reset(due);
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if due <= now {
                *sent_at = now;
                self.client.note_keep_alive(now);
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }

    /// Finds out whether the client has closed its sending side, unless that is already known.
    fn watch_client(&mut self, cx: &mut Context<'_>) -> bool {
        let Client::Open(socket) = &self.client else { return false };
        match socket.poll_ended(cx) {
            Poll::Pending => false,
            Poll::Ready(true) => {
                self.client = Client::Ended { at: Instant::now(), probes: 0 };
                true
            }
            // Unread data hides the end of the stream.
            Poll::Ready(false) => {
                self.client = Client::Unwatched;
                false
            }
        }
    }

    /// When the next keep-alive or probe is due.
    fn due(&self, sent_at: Instant) -> Instant {
        let keep_alive = sent_at + self.keep_alive;
        match self.client {
            Client::Ended { at, probes } => {
                probe_delay(probes).map_or(keep_alive, |delay| keep_alive.min(at + delay))
            }
            Client::Unwatched | Client::Open(_) => keep_alive,
        }
    }
}

/// How long after the end of its sending side a client is probed for the time with this number, from 0. `None` after
/// the last one.
pub(super) fn probe_delay(number: usize) -> Option<Duration> {
    limits::PROBES_MS.get(number).copied().map(Duration::from_millis)
}
