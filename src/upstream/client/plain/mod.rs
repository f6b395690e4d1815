//! A connection without TLS, read by hand.
//!
//! Nearly every model server is one of these, on the same machine or next to it, and every token
//! comes through here. hyper's client passes each chunk through a buffer, a channel and two wakers
//! of its own, and keeps 40 KiB for a connection. Here the socket is read into one buffer per thread,
//! and the body's bytes are handed on as parts of that buffer before the poll returns:
//!
//! ```text
//!   socket --recv--> scratch of this thread: | 5f CRLF data: {...} LF LF CRLF 61 CRLF data: ...
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
use super::wire_error::WireError;
use crate::limits::upstream as limits;

/// A connection to a model server. It makes progress only while it is polled.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    /// What is left to send of the request: its head, then its body.
    unsent: Chain<Bytes, Bytes>,
    /// Bytes of the answer that arrived with its head, or before all of the head.
    early: Vec<u8>,
    framing: Framing,
    has_heard: bool,
    is_kept: bool,
}

const NOTHING: Bytes = Bytes::new();

/// How far an answer's body has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    More,
    /// That was all.
    End,
}

impl Connection {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            unsent: NOTHING.chain(NOTHING),
            early: Vec::new(),
            framing: Framing::Complete,
            has_heard: false,
            is_kept: true,
        }
    }

    /// Whether the connection can carry another request. This is where a close by the server is
    /// noticed, and bytes that nobody asked for.
    pub(super) fn is_usable(&self) -> bool {
        let is_idle = self.framing.is_complete() && !self.unsent.has_remaining();
        let is_silent = || {
            let read = self.socket.try_read(&mut [0]);
            read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        self.is_kept && is_idle && self.early.is_empty() && is_silent()
    }

    /// Whether any byte of an answer has arrived since the last request.
    pub(super) const fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Sends a request and waits for the head of the answer. A server may answer before it has read all of
    /// the request; the rest is sent while the body is read.
    pub(super) async fn exchange(
        &mut self,
        request: &Request<Bytes>,
    ) -> Result<hyper::http::response::Parts, WireError> {
        let body = request.body().clone();
        self.unsent = head::write_request(request, body.len()).freeze().chain(body);
        (self.has_heard, self.is_kept) = (false, true);
        let mut searched = 0;
        let Head { parts, framing, is_kept } = poll_fn(|cx| {
            let sent = self.poll_send(cx);
            match self.poll_head(cx, &mut searched) {
                // A server that refuses a request may close before it has read all of it.
                Poll::Pending => match sent {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(WireError::Io(error))),
                    _ => Poll::Pending,
                },
                head @ Poll::Ready(_) => head,
            }
        })
        .await?;
        (self.framing, self.is_kept) = (framing, is_kept);
        Ok(parts)
    }

    /// Sends what is left of the request.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent.has_remaining() {
            let mut slices = [io::IoSlice::new(&[]); 2];
            let count = self.unsent.chunks_vectored(&mut slices);
            let socket = Pin::new(&mut self.socket);
            match ready!(socket.poll_write_vectored(cx, &slices[..count])) {
                Ok(sent) => self.unsent.advance(sent),
                Err(error) => {
                    // The server's answer can still be read.
                    self.unsent = NOTHING.chain(NOTHING);
                    self.is_kept = false;
                    return Poll::Ready(Err(error));
                }
            }
        }
        // Even when it has been sent, a request keeps its memory.
        self.unsent = NOTHING.chain(NOTHING);
        Poll::Ready(Ok(()))
    }

    /// Reads up to the end of the head of the answer; passes over interim answers.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        searched: &mut usize,
    ) -> Poll<Result<Head, WireError>> {
        loop {
            while let Some(end) = head::end_of_head(&self.early, *searched) {
                let read = head::read_answer(&self.early[..end]).map_err(WireError::Head)?;
                self.early.drain(..end);
                *searched = 0;
                if let Some(head) = read {
                    return Poll::Ready(Ok(head));
                }
            }
            *searched = self.early.len();
            if self.early.len() > limits::HEAD_BYTES_MAX {
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
        if self.unsent.has_remaining() {
            // An error shows when reading, too.
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

    fn take(&mut self, bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Result<Progress, WireError> {
        let taken = self.framing.push(bytes, sink).map_err(WireError::Framing)?;
        // Nobody asked for more.
        self.is_kept &= taken == bytes.len();
        Ok(if self.framing.is_complete() { Progress::End } else { Progress::More })
    }
}
