//! A socket that records whether its peer has sent anything.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether a byte has arrived since the last reset. Shared with the socket, which hyper's
/// connection owns. It sits above TLS, so handshake messages do not count.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Written and read by the one task that drives the connection.
    pub(super) fn anything(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A socket and its [`Heard`] flag.
#[derive(Debug)]
pub(super) struct HeardSocket<S> {
    socket: S,
    heard: Heard,
}

impl<S> HeardSocket<S> {
    pub(super) const fn new(socket: S, heard: Heard) -> Self {
        Self { socket, heard }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeardSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.socket).poll_read(cx, buffer));
        if buffer.filled().len() > before {
            this.heard.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeardSocket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
