//! Clients that take nothing, or say nothing: found, so that their connections can
//! be cut.
//!
//! hyper has no write timeout. A connection makes no progress when its socket
//! takes no bytes, or when one of its streams has been given data that it does not
//! ask for (an HTTP/2 window that stays shut). Either way nothing of the turn is
//! held up, but a socket and a log are; the client can re-join.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// No stall.
const MOVING: u64 = 0;

/// The HTTP/2 preface, in bytes; no HTTP/1.1 request is shorter.
const PREFACE_BYTES: usize = 24;

/// What a connection knows about its client's pace.
#[derive(Debug)]
pub(super) struct Pace {
    /// The zero of the times below.
    epoch: Instant,
    /// Since when the socket has taken nothing.
    blocked_at: AtomicU64,
    /// Bytes that came, counted up to [`PREFACE_BYTES`].
    received: AtomicUsize,
    /// Those that are gone are let go of with the next look, or with the connection.
    readers: Mutex<Vec<Weak<ReaderProgress>>>,
}

impl Pace {
    /// For a connection that has just been opened.
    #[must_use]
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Instant::now(),
            blocked_at: AtomicU64::new(MOVING),
            received: AtomicUsize::new(0),
            readers: Mutex::default(),
        })
    }

    /// Milliseconds since the connection was opened, from 1.
    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Whether the socket, or one of the streams on it, has taken nothing for
    /// `longest` although there was something to take.
    pub(super) fn is_stalled(&self, longest: Duration) -> bool {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let now = self.now();
        let stalled = |since: &AtomicU64| {
            let since = since.load(Ordering::Relaxed);
            since != MOVING && now.saturating_sub(since) >= longest
        };
        if stalled(&self.blocked_at) {
            return true;
        }
        let mut readers = self.readers.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.iter().filter_map(Weak::upgrade).any(|reader| stalled(&reader.given_at))
    }

    /// Whether the client has sent enough to be told which protocol it speaks.
    /// Until then hyper has no timeout either.
    pub(super) fn has_spoken(&self) -> bool {
        self.received.load(Ordering::Relaxed) >= PREFACE_BYTES
    }

    /// The progress of one more stream on this connection.
    pub(super) fn reader(self: &Arc<Self>) -> Arc<ReaderProgress> {
        let progress =
            Arc::new(ReaderProgress { pace: Arc::clone(self), given_at: AtomicU64::new(MOVING) });
        self.readers.lock().push(Arc::downgrade(&progress));
        progress
    }
}

/// The progress of one stream.
#[derive(Debug)]
pub(super) struct ReaderProgress {
    pace: Arc<Pace>,
    /// When it was last given data and has not asked for more since.
    given_at: AtomicU64,
}

impl ReaderProgress {
    /// The stream was given data. Until it asks again, it is being sent.
    pub(super) fn given(&self) {
        self.given_at.store(self.pace.now(), Ordering::Relaxed);
    }

    /// The stream has asked for more and there is none.
    pub(super) fn caught_up(&self) {
        self.given_at.store(MOVING, Ordering::Relaxed);
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

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        let blocked_at = &self.pace.blocked_at;
        let was_moving = blocked_at.load(Ordering::Relaxed) == MOVING;
        match &written {
            Poll::Pending if was_moving => blocked_at.store(self.pace.now(), Ordering::Relaxed),
            Poll::Ready(_) if !was_moving => blocked_at.store(MOVING, Ordering::Relaxed),
            _ => {}
        }
        written
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
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.note(written)
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
