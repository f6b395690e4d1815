//! A client that waits for its answer to begin: for one in one piece, or for the first word of a stream.
//!
//! Nothing is written to it before the answer, and hyper does not read meanwhile. So the socket is
//! watched here: if no more data will come, the client may be gone, and only a write can tell. The
//! write is an interim response, which clients skip (RFC 9110, section 15.2). HTTP/1.0 knows none: such a client,
//! usually a proxy, counts as gone when it has stopped sending.
//!
//! ```text
//!   open --> ended: probes until one fails --> gone
//!     |        ^
//!     '--> overrun: more bytes than the request have come, and hide the end; looks for it now and then
//! ```

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

/// Watches the client of one request. `None`: HTTP/2 itself reports a client that is gone.
#[derive(Debug)]
pub(super) struct Waiting(Option<Watch>);

#[derive(Debug)]
struct Watch {
    wire: Watched<Socket>,
    /// Whether the client skips interim responses.
    may_probe: bool,
    client: Client,
}

/// What is known about the client's side of the connection.
#[derive(Debug)]
enum Client {
    /// It may still send.
    Open,
    /// It has sent more than its request. That hides the end, which is looked for whenever the timer fires.
    Overrun(Pin<Box<Sleep>>),
    /// It stopped sending at `at`; so many probes have been sent since.
    Ended { at: Instant, probes: usize, timer: Pin<Box<Sleep>> },
}

const PROBE: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

impl Waiting {
    /// Watches the client of a request.
    pub(super) fn new(request: &Parts) -> Self {
        let wire = request.extensions.get::<Watched<Socket>>();
        let may_probe = request.version == Version::HTTP_11;
        let watch =
            |wire: &Watched<_>| Watch { wire: wire.clone(), may_probe, client: Client::Open };
        Self(wire.filter(|_| request.version <= Version::HTTP_11).map(watch))
    }

    /// Completes when the client is gone.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Pending, |watch| watch.poll_gone(cx))
    }
}

impl Watch {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.client {
                Client::Open => {
                    self.client = if ready!(self.wire.socket.poll_ended(cx)) {
                        Client::ended()
                    } else {
                        Client::Overrun(Box::pin(sleep(limits::OVERRUN_LOOK)))
                    };
                }
                Client::Overrun(timer) => {
                    ready!(timer.as_mut().poll(cx));
                    if self.wire.socket.has_closed() {
                        self.client = Client::ended();
                    } else {
                        timer.as_mut().reset(Instant::now() + limits::OVERRUN_LOOK);
                    }
                }
                Client::Ended { at, probes, timer } => {
                    ready!(timer.as_mut().poll(cx));
                    if is_gone(&self.wire, self.may_probe) {
                        return Poll::Ready(());
                    }
                    *probes += 1;
                    // It may leave at any time after that.
                    let after = probe_delay(*probes).map(|delay| *at + delay);
                    timer
                        .as_mut()
                        .reset(after.unwrap_or_else(|| Instant::now() + limits::KEEP_ALIVE));
                }
            }
        }
    }
}

impl Client {
    /// It has stopped sending now.
    fn ended() -> Self {
        let timer = Box::pin(sleep(probe_delay(0).unwrap_or_default()));
        Self::Ended { at: Instant::now(), probes: 0, timer }
    }
}

/// Whether a client that has stopped sending is gone, as far as can be told. hyper may have begun this request while the
/// answer before it still waits for the client to read; a probe would land in the middle of that.
fn is_gone(wire: &Watched<Socket>, may_probe: bool) -> bool {
    if may_probe {
        !wire.pace.is_blocked() && wire.socket.probe(PROBE).is_err()
    } else {
        wire.socket.has_closed()
    }
}
