//! A client that waits for its answer to begin: for one in one piece, or for the first word of a stream.
//!
//! Nothing is written to it before the answer, and hyper does not read meanwhile. So the socket is
//! watched here: if no more data will come, the client may be gone, and only a write can tell. The
//! write is an interim response, which clients skip (RFC 9110, section 15.2).

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Version;
use hyper::http::request::Parts;
use tokio::time::{Instant, Sleep, sleep};

use super::silence::probe_delay;
use super::socket::Socket;
use super::stall::Watched;
use crate::limits::stream as limits;

/// What is known about the client's side of the connection.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Its socket is not watched: HTTP/2 itself reports a client that is gone, HTTP/1.0 knows no
    /// interim responses, and unread data hides the end of the stream.
    Unwatched,
    /// It may still send.
    Open(Watched<Socket>),
    /// It stopped sending at `at`; so many probes have been sent since.
    Ended { wire: Watched<Socket>, at: Instant, probes: usize, timer: Pin<Box<Sleep>> },
}

const PROBE: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

impl Waiting {
    /// Watches the client of a request.
    pub(super) fn new(request: &Parts) -> Self {
        match request.extensions.get::<Watched<Socket>>() {
            Some(wire) if request.version == Version::HTTP_11 => Self::Open(wire.clone()),
            _ => Self::Unwatched,
        }
    }

    /// Completes when the client is gone.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Open(wire) = self {
            *self = if ready!(wire.socket.poll_ended(cx)) {
                let (at, timer) =
                    (Instant::now(), Box::pin(sleep(probe_delay(0).unwrap_or_default())));
                Self::Ended { wire: wire.clone(), at, probes: 0, timer }
            } else {
                Self::Unwatched
            };
        }
        let Self::Ended { wire, at, probes, timer } = self else { return Poll::Pending };
        loop {
            ready!(timer.as_mut().poll(cx));
            if is_gone(wire) {
                return Poll::Ready(());
            }
            *probes += 1;
            // It may leave at any time after that.
            let after = probe_delay(*probes).map(|delay| *at + delay);
            timer.as_mut().reset(after.unwrap_or_else(|| Instant::now() + limits::KEEP_ALIVE));
        }
    }
}

/// Whether the client is gone, as far as a probe can tell. hyper may have begun this request while the answer before it
/// still waits for the client to read; a probe would land in the middle of that.
fn is_gone(wire: &Watched<Socket>) -> bool {
    !wire.pace.is_blocked() && wire.socket.probe(PROBE).is_err()
}
