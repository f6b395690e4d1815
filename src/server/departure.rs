//! Whether an HTTP/1 client may still send, and when to probe one that has stopped: it may have left.
//!
//! Nothing is read from a connection while its answer is made or written, so its socket is watched here. A client that
//! has closed its sending side may be waiting for the rest, or be gone; only a write can tell.
//!
//! ```text
//!   open --> ended: probed until a probe fails or the answer is over
//!     |        ^
//!     '--> overrun: bytes after the request hide the end, so the system is asked for it now and then
//! ```

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::socket::Socket;
use crate::limits::stream as limits;

/// Watches one client. The probes themselves are up to its owner.
#[derive(Debug)]
pub(super) struct Departure {
    socket: Socket,
    client: Client,
}

/// What is known about the client's side of the connection.
#[derive(Debug)]
enum Client {
    /// It may still send.
    Open,
    /// It has sent more than its request. That hides the end, which is looked for whenever the timer fires.
    Overrun(Pin<Box<Sleep>>),
    /// It stopped sending at `at`; this many of [`limits::PROBES_MS`] have been sent since.
    Ended { at: Instant, probes: usize },
}

impl Departure {
    /// Watches the client behind `socket`.
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, client: Client::Open }
    }

    /// Completes when the client has stopped sending.
    pub(super) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let has_ended = match &mut self.client {
                Client::Open => ready!(self.socket.poll_ended(cx)),
                Client::Overrun(timer) => {
                    ready!(timer.as_mut().poll(cx));
                    self.socket.has_closed()
                }
                Client::Ended { .. } => return Poll::Ready(()),
            };
            self.client = if has_ended {
                Client::Ended { at: Instant::now(), probes: 0 }
            } else {
                Client::Overrun(Box::pin(sleep(limits::OVERRUN_LOOK)))
            };
        }
    }

    /// When the client is to be probed next. `None` if it still sends, or the series is over.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        let Client::Ended { at, probes } = self.client else { return None };
        let delay = limits::PROBES_MS.get(probes).copied().map(Duration::from_millis);
        delay.map(|delay| at + delay)
    }

    /// Records that something was sent to the client. It may have left since the last probe, so what is sent after a
    /// series starts another one.
    pub(super) fn note_probe(&mut self, now: Instant) {
        if let Client::Ended { at, probes } = &mut self.client {
            if *probes == limits::PROBES_MS.len() {
                (*at, *probes) = (now, 1);
            } else {
                *probes += 1;
            }
        }
    }
}
