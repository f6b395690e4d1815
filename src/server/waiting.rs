//! A client that waits for its answer to begin: for one in one piece, or for the first word of a stream.
//!
//! Nothing is written to it before the answer, and hyper does not read meanwhile. So a client that stops sending is
//! probed with interim responses, which clients skip (RFC 9110, section 15.2). HTTP/1.0 knows none: such a client,
//! usually a proxy, counts as gone when it has stopped sending.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Version;
use hyper::http::request::Parts;
use tokio::time::{Instant, Sleep, sleep_until};

use super::departure::Departure;
use super::socket::Socket;
use super::stall::Watched;
use crate::limits::stream as limits;

/// Watches the client of one request. `None`: HTTP/2 itself reports a client that is gone.
#[derive(Debug)]
pub(super) struct Waiting(Option<Watch>);

#[derive(Debug)]
struct Watch {
    wire: Watched<Socket>,
    /// Whether the client skips interim responses.
    may_probe: bool,
    departure: Departure,
    /// Until the next probe, once the client has stopped sending.
    timer: Option<Pin<Box<Sleep>>>,
}

const PROBE: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

impl Waiting {
    /// Watches the client of a request.
    pub(super) fn new(request: &Parts) -> Self {
        let wire = request.extensions.get::<Watched<Socket>>();
        let may_probe = request.version == Version::HTTP_11;
        let watch = |wire: &Watched<Socket>| Watch {
            wire: wire.clone(),
            may_probe,
            departure: Departure::new(wire.socket.clone()),
            timer: None,
        };
        Self(wire.filter(|_| request.version <= Version::HTTP_11).map(watch))
    }

    /// Completes when the client is gone.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Pending, |watch| watch.poll_gone(cx))
    }
}

impl Watch {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.departure.poll_ended(cx));
        loop {
            let departure = &self.departure;
            let due =
                || departure.probe_at().unwrap_or_else(|| Instant::now() + limits::KEEP_ALIVE);
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due())));
            ready!(timer.as_mut().poll(cx));
            if self.is_gone() {
                return Poll::Ready(());
            }
            self.departure.note_probe(Instant::now());
            self.timer = None;
        }
    }

    /// Whether a client that has stopped sending is gone, as far as can be told. hyper may have begun this request while
    /// the answer before it still waits for the client to read; a probe would land in the middle of that.
    fn is_gone(&self) -> bool {
        if self.may_probe {
            !self.wire.pace.is_blocked() && self.wire.socket.probe(PROBE).is_err()
        } else {
            self.wire.socket.has_closed()
        }
    }
}
