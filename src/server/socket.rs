//! A connection's socket, shared between hyper, which reads and writes, and a body that watches
//! whether its client is still sending.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket. **Only one task may read from it**: the last task that polled for bytes or for
/// their end is woken, and no other.
#[derive(Debug, Clone)]
pub(super) struct Socket(Arc<TcpStream>);

impl Socket {
    /// Shares `stream`.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Completes with true when the client will send no more, and with false if there is unread
    /// data.
    ///
    /// The client may have closed only its sending side, or it may be gone. Only a write can
    /// tell.
    pub(super) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut byte = [0];
        let peeked = ready!(self.0.poll_peek(cx, &mut ReadBuf::new(&mut byte)));
        Poll::Ready(!matches!(peeked, Ok(1..)))
    }

    /// Writes as much of two pieces of bytes as the system takes now; returns how much.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it takes nothing now; anything else if the client
    /// is gone.
    pub(super) fn try_write(&self, pieces: [IoSlice<'_>; 2]) -> io::Result<usize> {
        match pieces {
            [first, second] if first.is_empty() => self.0.try_write(&second),
            [first, second] if second.is_empty() => self.0.try_write(&first),
            pieces => self.0.try_write_vectored(&pieces),
        }
    }

    /// Tells the client that nothing more will come.
    pub(super) fn shut_down(&self) {
        // A client that is gone need not be told.
        let _ = socket2::SockRef::from(&*self.0).shutdown(Shutdown::Write);
    }

    /// Waits until the system may take more.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx)
    }

    /// Writes these bytes while nothing else is written. Without room for them, the client reads
    /// none of them now.
    ///
    /// # Errors
    /// If the client is gone.
    pub(super) fn probe(&self, bytes: &[u8]) -> io::Result<()> {
        match self.0.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.map(|_| ()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// The system's own buffer is the only one.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}
