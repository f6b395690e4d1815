//! Finds clients that take nothing, or say nothing, so that they can be cut.
//!
//! hyper has no write timeout. A connection makes no progress if its socket takes no bytes
//! ([`Pace`]). An HTTP/2 stream makes none if its own window stays shut while its connection
//! works ([`Flow`]). Neither delays the turn, but each ties up a socket and a log. Only the
//! part that is stuck is cut: the connection, or the single stream with a `RST_STREAM`. The
//! client can rejoin.

mod flow;
mod streams;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::telemetry::millis;

pub(super) use flow::{Flow, Piece, StreamExecutor};
pub(super) use streams::Streams;

/// No such time yet.
const NEVER: u64 = 0;

/// What a connection knows about its client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// The origin of the times below, which are in milliseconds and start at 1.
    epoch: Instant,
    /// Since when the socket has taken nothing; [`NEVER`] if it takes data.
    blocked_at: AtomicU64,
    /// When it last started to take data again.
    freed_at: AtomicU64,
}

impl Pace {
    /// Creates the state of a new connection.
    #[must_use]
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            blocked_at: AtomicU64::new(NEVER),
            freed_at: AtomicU64::new(NEVER),
        })
    }

    fn now(&self) -> u64 {
        millis(self.epoch.elapsed()).saturating_add(1)
    }

    fn time(&self, of: &AtomicU64) -> Option<Instant> {
        let at = of.load(Ordering::Relaxed);
        (at != NEVER).then(|| self.epoch + Duration::from_millis(at - 1))
    }

    /// Completes when the socket has had data to take but has taken nothing for `longest`.
    pub(super) async fn stalled(&self, longest: Duration) {
        wait_for_stall(longest, || self.time(&self.blocked_at)).await;
    }

    /// Whether the socket has data to take and takes nothing.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_at.load(Ordering::Relaxed) != NEVER
    }

    /// When the socket last held up data: now, if it still does.
    fn held_up_at(&self) -> Option<Instant> {
        match self.time(&self.blocked_at) {
            Some(_) => Some(Instant::now()),
            None => self.time(&self.freed_at),
        }
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        let was_moving = self.blocked_at.load(Ordering::Relaxed) == NEVER;
        match &written {
            Poll::Pending if was_moving => self.blocked_at.store(self.now(), Ordering::Relaxed),
            Poll::Ready(_) if !was_moving => {
                self.freed_at.store(self.now(), Ordering::Relaxed);
                self.blocked_at.store(NEVER, Ordering::Relaxed);
            }
            _ => {}
        }
        written
    }
}

/// Completes when something has made no progress for `longest`; see [`poll_stalled`].
async fn wait_for_stall(longest: Duration, since: impl Fn() -> Option<Instant>) {
    let mut timer = pin!(sleep_until(stall_due(longest, since())));
    poll_fn(|cx| poll_stalled(timer.as_mut(), longest, &since, cx)).await;
}

/// Completes when something has made no progress for `longest`. `since` says since when; `None` if it makes
/// progress. `timer` first fires at [`stall_due`]. It is not reset at each progress: when it fires, it sleeps again
/// if need be, so it wakes no more often than a stall can become due.
pub(super) fn poll_stalled(
    mut timer: Pin<&mut Sleep>,
    longest: Duration,
    since: impl Fn() -> Option<Instant>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        ready!(timer.as_mut().poll(cx));
        let due = stall_due(longest, since());
        if due <= Instant::now() {
            return Poll::Ready(());
        }
        timer.as_mut().reset(due);
    }
}

/// When a stall is due: `longest` after the last progress, or after now if there is some.
pub(super) fn stall_due(longest: Duration, since: Option<Instant>) -> Instant {
    since.unwrap_or_else(Instant::now) + longest
}

/// A socket that reports to its [`Pace`] whether writes get through. Under TLS, it is the one underneath: the layer above
/// takes some data even while the socket takes none.
#[derive(Debug, Clone)]
pub(super) struct Watched<S> {
    pub(super) socket: S,
    pub(super) pace: Arc<Pace>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.pace.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
