//! Clients that take nothing, or say nothing: found, so that they can be cut.
//!
//! hyper has no write timeout. A connection makes no progress when its socket takes
//! no bytes ([`Pace`]); an HTTP/2 stream makes none when its own window stays shut
//! while its connection is well ([`Flow`]). Either way nothing of the turn is held up,
//! but a socket and a log are. Only the one that does not move is cut: the connection,
//! or the one stream with a `RST_STREAM`. Its client can re-join.

mod flow;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

use crate::telemetry::millis;

pub(super) use flow::{Flow, Piece, StreamExecutor};

/// No such time yet.
const NEVER: u64 = 0;

/// The HTTP/2 preface, in bytes; no HTTP/1.1 request is shorter.
const PREFACE_BYTES: usize = 24;

/// What a connection knows about its client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// The zero of the times below, which are in milliseconds from 1.
    epoch: Instant,
    /// Since when the socket has taken nothing; [`NEVER`] while it does.
    blocked_at: AtomicU64,
    /// When it last took something after it had not.
    freed_at: AtomicU64,
    /// Bytes that came, counted up to [`PREFACE_BYTES`].
    received: AtomicUsize,
}

impl Pace {
    /// For a connection that has just been opened.
    #[must_use]
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            blocked_at: AtomicU64::new(NEVER),
            freed_at: AtomicU64::new(NEVER),
            received: AtomicUsize::new(0),
        })
    }

    fn now(&self) -> u64 {
        millis(self.epoch.elapsed()).saturating_add(1)
    }

    fn time(&self, of: &AtomicU64) -> Option<Instant> {
        let at = of.load(Ordering::Relaxed);
        (at != NEVER).then(|| self.epoch + Duration::from_millis(at - 1))
    }

    /// Ends when the socket has taken nothing for `longest` although there was
    /// something to take.
    pub(super) async fn stalled(&self, longest: Duration) {
        wait_for_stall(longest, || self.time(&self.blocked_at)).await;
    }

    /// When the socket last held up what was to be sent: now, where it still does.
    fn held_up_at(&self) -> Option<Instant> {
        match self.time(&self.blocked_at) {
            Some(_) => Some(Instant::now()),
            None => self.time(&self.freed_at),
        }
    }

    /// Whether the client has sent enough to be told which protocol it speaks.
    /// Until then hyper has no timeout either.
    pub(super) fn has_spoken(&self) -> bool {
        self.received.load(Ordering::Relaxed) >= PREFACE_BYTES
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

/// Ends when something has stood still for `longest`; `since` says since when it does.
/// It looks no more often than that: a stall cannot become due any earlier.
async fn wait_for_stall(longest: Duration, since: impl Fn() -> Option<Instant>) {
    loop {
        let now = Instant::now();
        let due = since().unwrap_or(now) + longest;
        if due <= now {
            return;
        }
        sleep_until(due).await;
    }
}

/// A socket that tells its [`Pace`] whether writes get through, and whether
/// anything has come at all.
#[derive(Debug)]
pub(super) struct Watched<S> {
    socket: S,
    pace: Arc<Pace>,
}

impl<S> Watched<S> {
    /// Watches `socket`.
    pub(super) const fn new(socket: S, pace: Arc<Pace>) -> Self {
        Self { socket, pace }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if !self.pace.has_spoken() {
            let received = buf.filled().len() - before;
            self.pace.received.fetch_add(received, Ordering::Relaxed);
        }
        read
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.pace.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
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
