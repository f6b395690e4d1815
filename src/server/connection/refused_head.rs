//! Heads that hyper refuses by itself, before there is a request to handle. Its answer is a status without a body;
//! the client gets ours instead.
//!
//! If the answer to the request before is still being sent, hyper's goes out as it is: see [`Progress`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::server::answering::Progress;
use crate::server::rescue;

/// A connection's socket, to which our answer is written in place of hyper's.
#[derive(Debug)]
pub(super) struct Refusing<S> {
    socket: S,
    progress: Progress,
    /// What is left of our answer.
    answer: Bytes,
}

impl<S> Refusing<S> {
    pub(super) const fn new(socket: S, progress: Progress) -> Self {
        Self { socket, progress, answer: Bytes::new() }
    }

    pub(super) fn into_inner(self) -> S {
        self.socket
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Refusing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refusing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.progress.is_between()
            && let Some(answer) = rescue::refused_head(bytes)
        {
            this.progress.note_refused();
            this.answer = answer;
        }
        if this.answer.is_empty() {
            return Pin::new(&mut this.socket).poll_write(cx, bytes);
        }
        // hyper offers the same bytes until they are taken.
        while !this.answer.is_empty() {
            let written = ready!(Pin::new(&mut this.socket).poll_write(cx, &this.answer))?;
            if written == 0 {
                return Poll::Ready(Ok(0));
            }
            this.answer.advance(written);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    /// hyper flushes when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.progress.note_flushed();
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
