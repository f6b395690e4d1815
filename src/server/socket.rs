//! A connection's socket, shared between hyper, which reads and writes, a stream that writes by itself,
//! and whoever watches whether the client is still sending.

use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::server::{DISCARD_TIMEOUT, UNWANTED_BYTES_MAX};

/// A socket. **Only one task may read from it**: the last task that polled for bytes or for
/// their end is woken, and no other.
#[derive(Debug, Clone)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    /// Whether it carries TLS. Its bytes cannot be interpreted here then; only their end can.
    is_under_tls: bool,
}

impl Socket {
    /// Shares `stream`.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), is_under_tls: false }
    }

    /// Shares `stream`, which carries TLS.
    pub(super) fn under_tls(stream: TcpStream) -> Self {
        Self { stream: Arc::new(stream), is_under_tls: true }
    }

    /// Completes with true when the client will send no more, and with false if there is unread
    /// data.
    ///
    /// The client may have closed only its sending side, or it may be gone. Only a write can
    /// tell. Under TLS, unread data is taken for the `close_notify` alert with which a client announces
    /// its end.
    pub(super) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut byte = [0];
        let peeked = ready!(self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)));
        Poll::Ready(self.is_under_tls || !matches!(peeked, Ok(1..)))
    }

    /// Writes as much of two pieces as the system takes now. Returns the number of bytes.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if the system takes nothing now; anything else if the
    /// client is gone.
    pub(super) fn try_write(&self, pieces: [IoSlice<'_>; 2]) -> io::Result<usize> {
        match pieces {
            [first, second] if first.is_empty() => self.stream.try_write(&second),
            [first, second] if second.is_empty() => self.stream.try_write(&first),
            pieces => self.stream.try_write_vectored(&pieces),
        }
    }

    /// Reads what has arrived. If that does not fill `buf`, nothing is left, and the next poll waits without
    /// asking the system.
    fn try_read(&self, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
        let room = buf.remaining();
        let mut read = Err(ErrorKind::WouldBlock.into());
        // What arrives meanwhile makes the socket readable again, whatever is returned here.
        let _ = self.stream.try_io(Interest::READABLE, || {
            read = self.stream.try_read_buf(buf);
            let has_more = read.as_ref().is_ok_and(|read| *read == 0 || *read == room);
            if has_more { Ok(()) } else { Err(io::Error::from(ErrorKind::WouldBlock)) }
        });
        read
    }

    /// Closes the connection in stages (RFC 9112, section 9.6): tells the client that nothing more will come, then
    /// reads on, within bounds. The system answers unread bytes with a reset, which can overtake what the
    /// client has not read yet.
    pub(super) async fn close(self) {
        self.close_after(UNWANTED_BYTES_MAX).await;
    }

    /// The same, but reads this much if that is more.
    pub(super) async fn close_after(mut self, bytes_max: usize) {
        self.shut_down();
        let (mut scratch, mut left) = ([0; 8 * 1024], bytes_max.max(UNWANTED_BYTES_MAX));
        let reading = async {
            while let Ok(read @ 1..) = self.read(&mut scratch).await {
                left = left.saturating_sub(read);
                if left == 0 {
                    return;
                }
            }
        };
        let _ = timeout(DISCARD_TIMEOUT, reading).await;
    }

    /// Tells the client that nothing more will come.
    pub(super) fn shut_down(&self) {
        // This fails only if the client is gone.
        let _ = socket2::SockRef::from(&*self.stream).shutdown(Shutdown::Write);
    }

    /// Waits until the system may take more.
    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(cx)
    }

    /// Whether the client has closed its sending side or the whole connection, even if there is unread data.
    pub(super) fn has_closed(&self) -> bool {
        #[cfg(target_os = "linux")]
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        #[cfg(not(target_os = "linux"))]
        let closed = PollFlags::HUP | PollFlags::ERR;
        let mut polled = [PollFd::new(&*self.stream, closed)];
        poll(&mut polled, Some(&Timespec::default())).is_err()
            || polled[0].revents().intersects(closed)
    }

    /// Finds out whether the client is still there by writing `bytes`; call it only while nobody else
    /// writes. If the system has no room for them, they are not sent, and the client counts as present; if it has room for
    /// some, the connection cannot be used any more.
    /// Under TLS, nothing can be written here, and a client that has closed its sending side counts as gone.
    ///
    /// # Errors
    /// If the client is gone.
    pub(super) fn probe(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_under_tls {
            return if self.has_closed() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) };
        }
        match self.stream.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            // The next answer would follow in the middle of it.
            Ok(written) if written < bytes.len() => Err(ErrorKind::WriteZero.into()),
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
            ready!(self.stream.poll_read_ready(cx))?;
            match self.try_read(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
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
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    /// The system's own buffer is the only one.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    async fn connected() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(listener.accept(), TcpStream::connect(address));
        (Socket::new(ours.unwrap().0), theirs.unwrap())
    }

    fn seems_readable(socket: &Socket) -> bool {
        socket.stream.poll_read_ready(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test]
    async fn a_read_that_does_not_fill_its_buffer_is_the_last_until_more_arrives() {
        let (mut socket, mut client) = connected().await;
        let mut buffer = [0; 4];
        for piece in [b"abc", b"def", b"ghi"] {
            client.write_all(piece).await.unwrap();
            assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
            assert_eq!(&buffer[..3], piece);
            assert!(!seems_readable(&socket));
            assert_eq!(
                socket.try_read(&mut ReadBuf::new(&mut buffer)).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
        }
        // The end is noticed, too.
        client.shutdown().await.unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
        assert!(seems_readable(&socket));
    }

    #[tokio::test]
    async fn after_a_read_that_fills_its_buffer_there_may_be_more() {
        let (mut socket, mut client) = connected().await;
        client.write_all(b"abcdef").await.unwrap();
        client.shutdown().await.unwrap();
        let mut buffer = [0; 3];
        for piece in [b"abc", b"def"] {
            assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
            assert_eq!(&buffer, piece);
            assert!(seems_readable(&socket));
        }
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
    }

    /// A partial read marks the socket as not readable. What arrives next has to undo that.
    #[tokio::test]
    async fn a_waiting_reader_is_woken_after_a_partial_read() {
        let (mut socket, mut client) = connected().await;
        client.write_all(b"abc").await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        let reading = tokio::spawn(async move { socket.read(&mut buffer).await });
        tokio::task::yield_now().await;
        client.write_all(b"def").await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 3);
    }

    /// Unread bytes would make the system reset the connection, and the client lose what is on its way.
    #[tokio::test]
    async fn a_connection_closes_in_stages() {
        let (socket, mut client) = connected().await;
        client.write_all(&[b'x'; 3000]).await.unwrap();
        poll_fn(|cx| socket.poll_ended(cx)).await;
        let closing = tokio::spawn(socket.close());
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it ends first");
        client.write_all(b"more").await.unwrap();
        client.shutdown().await.unwrap();
        closing.await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it was not reset");
    }
}
