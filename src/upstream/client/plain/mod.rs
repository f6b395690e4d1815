//! A connection without TLS, read by hand.
//!
//! Nearly every model server is one of these, on the same machine or next to it, and every token
//! comes through here. hyper's client passes each chunk through a buffer, a channel and two wakers
//! of its own, and keeps 40 KiB for each connection. Here each thread has one buffer into which all
//! of its sockets are read, and the pieces of the body are passed on as slices of it within the same
//! poll:
//!
//! ```text
//!   socket --recv--> this thread's scratch:  | 5f CRLF data: {...} LF LF CRLF 61 CRLF data: ...
//!                                                      '- a piece ----'            '- a piece
//! ```
//! docs/ARCHITECTURE.md has the numbers.

mod scratch;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use hyper::Request;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use super::framing::Framing;
use super::head::{self, Head, HeadError};
use super::progress::Progress;
use super::wire_error::WireError;
use crate::limits::upstream as limits;

/// A connection to a model server. It makes progress only while it is polled.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    /// What is left to send of the request, if anything: its head, then its body.
    unsent: Option<Box<Chain<Bytes, Bytes>>>,
    /// The head of the answer so far, then whatever of the body arrived with the end of the head.
    early: Vec<u8>,
    framing: Framing,
    /// Whether any byte of an answer has arrived since the last request.
    has_heard: bool,
    /// Whether another request may follow this one, as far as is known.
    is_reusable: bool,
}

impl Connection {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            unsent: None,
            early: Vec::new(),
            framing: Framing::Complete,
            has_heard: false,
            is_reusable: true,
        }
    }

    /// Whether the connection can carry another request. This is where a close by the server is
    /// noticed, as are bytes that belong to no answer.
    pub(super) fn is_usable(&self) -> bool {
        let is_idle = self.framing.is_complete() && self.unsent.is_none();
        let is_silent = || {
            let read = self.socket.try_read(&mut [0]);
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        self.is_reusable && is_idle && self.early.is_empty() && is_silent()
    }

    /// Whether any byte of an answer has arrived since the last request.
    pub(super) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Sends a request and waits for the head of the answer. A server may answer before it has
    /// read the whole request; the rest of it is sent while the body is read.
    pub(super) async fn exchange(
        &mut self,
        request: &Request<Bytes>,
    ) -> Result<hyper::http::response::Parts, WireError> {
        let body = request.body().clone();
        let head = head::write_request(request, body.len()).freeze();
        self.unsent = Some(Box::new(head.chain(body)));
        (self.has_heard, self.is_reusable) = (false, true);
        let (mut searched, mut interim) = (0, 0);
        // A server that refuses a request may answer and close before it has read all of it. Sending fails then, perhaps
        // before the runtime has heard that there is an answer to read, or that the connection is closed.
        let mut unsent_for = None;
        let read = poll_fn(|cx| {
            if let Poll::Ready(Err(error)) = self.poll_send(cx) {
                unsent_for = Some(error);
            }
            self.poll_head(cx, &mut searched, &mut interim)
        });
        let read = read.await;
        let is_sent = unsent_for.is_none();
        let Head { parts, framing, is_reusable } = match (read, unsent_for) {
            (Err(WireError::Closed | WireError::Io(_)), Some(error)) => {
                return Err(WireError::Io(error));
            }
            (read, _) => read?,
        };
        (self.framing, self.is_reusable) = (framing, is_reusable && is_sent);
        Ok(parts)
    }

    /// Sends what is left of the request.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(unsent) = &mut self.unsent {
            let mut slices = [io::IoSlice::new(&[]); 2];
            let count = unsent.chunks_vectored(&mut slices);
            let socket = Pin::new(&mut self.socket);
            match ready!(socket.poll_write_vectored(cx, &slices[..count])) {
                Ok(sent) => unsent.advance(sent),
                Err(error) => {
                    // The server's answer can still be read.
                    self.unsent = None;
                    self.is_reusable = false;
                    return Poll::Ready(Err(error));
                }
            }
            if !unsent.has_remaining() {
                self.unsent = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads up to the end of the answer's head, skipping interim answers. The first `searched`
    /// bytes of `early` hold no end of a head; so many bytes of `interim` answers came before them.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        searched: &mut usize,
        interim: &mut usize,
    ) -> Poll<Result<Head, WireError>> {
        loop {
            while let Some(end) = head::end_of_head(&self.early, *searched) {
                let read = head::read_answer(&self.early[..end]).map_err(WireError::Head)?;
                self.early.drain(..end);
                *searched = 0;
                if let Some(head) = read {
                    return Poll::Ready(Ok(head));
                }
                *interim += end;
            }
            *searched = self.early.len();
            if *interim + self.early.len() > limits::HEAD_BYTES_MAX {
                return Poll::Ready(Err(WireError::Head(HeadError::TooLarge)));
            }
            let (socket, early) = (&mut self.socket, &mut self.early);
            let read = scratch::with(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
                early.extend_from_slice(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            });
            if ready!(read).map_err(WireError::Io)? == 0 {
                return Poll::Ready(Err(WireError::Closed));
            }
            self.has_heard = true;
        }
    }

    /// Reads what has arrived and passes the pieces of the body in it to `sink`.
    ///
    /// **After [`Progress::More`], poll again**: the task is woken for more data only after a poll
    /// has returned pending.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut sink: impl FnMut(&[u8]),
    ) -> Poll<Result<Progress, WireError>> {
        if self.unsent.is_some() {
            // If this fails, so does reading.
            let _ = self.poll_send(cx);
        }
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            return Poll::Ready(self.take(&early, &mut sink));
        }
        if self.framing.is_complete() {
            return Poll::Ready(Ok(Progress::End));
        }
        scratch::with(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let read = ready!(Pin::new(&mut self.socket).poll_read(cx, &mut buffer));
            read.map_err(WireError::Io)?;
            Poll::Ready(match buffer.filled() {
                [] if self.framing.may_end_here() => Ok(Progress::End),
                [] => Err(WireError::Closed),
                filled => self.take(filled, &mut sink),
            })
        })
    }

    /// Passes on the pieces of the body in `bytes`.
    fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<Progress, WireError> {
        let taken = self.framing.push(bytes, sink).map_err(WireError::Framing)?;
        // Whatever comes after the answer would be read as the answer to the next request.
        self.is_reusable &= taken == bytes.len();
        Ok(if self.framing.is_complete() { Progress::End } else { Progress::More })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    /// Sending fails before the runtime has heard that there is an answer.
    #[tokio::test]
    async fn the_answer_of_a_server_that_does_not_read_the_request_arrives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().unwrap();
        // What is left unread makes the close a reset.
        socket.try_write(b"unread").unwrap();
        server.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n").unwrap();
        drop(server);
        let mut connection = Connection::new(socket);
        let request = Request::new(Bytes::from("{}"));
        assert_eq!(connection.exchange(&request).await.unwrap().status, 413);
        assert!(!connection.is_usable());
        let other = connection.exchange(&request).await;
        assert!(matches!(other, Err(WireError::Io(_))), "there is no other answer");
    }
}
