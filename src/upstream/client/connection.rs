//! One connection and the future that does its I/O.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::heard::{Heard, HeardSocket};
use super::waker::InnerWaker;
use crate::limits::upstream as limits;

/// The stream that the connector returns.
type Socket = MaybeHttpsStream<TokioIo<TcpStream>>;
/// The future that does a connection's I/O.
type Io = http1::Connection<TokioIo<HeardSocket<TokioIo<Socket>>>, Full<Bytes>>;

/// A connection to a model server. It makes progress only while it is driven.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    io: Pin<Box<Io>>,
    over: bool,
    heard: Heard,
    pub(super) inner: Arc<InnerWaker>,
    /// `inner` as a waker.
    waker: Waker,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) async fn new(socket: Socket) -> hyper::Result<Self> {
        let heard = Heard::default();
        let socket = HeardSocket::new(TokioIo::new(socket), heard.clone());
        let (sender, io) = http1::Builder::new()
            // hyper's default grows to 408 KiB, but a frame with one token is about 250 bytes.
            .read_buf_exact_size(Some(limits::READ_BUFFER_BYTES))
            .handshake(TokioIo::new(socket))
            .await?;
        let inner = InnerWaker::new();
        let waker = Waker::from(Arc::clone(&inner));
        Ok(Self { sender, io: Box::pin(io), over: false, heard, inner, waker })
    }

    /// Reads and writes as much as is possible now.
    pub(super) fn drive(&mut self) {
        if !self.over {
            let mut cx = Context::from_waker(&self.waker);
            self.over = self.io.as_mut().poll(&mut cx).is_ready();
        }
    }

    /// Whether the connection can carry another request. This is where a close by the server is
    /// noticed.
    pub(super) fn is_usable(&mut self) -> bool {
        self.inner.enter(Waker::noop());
        self.drive();
        self.inner.leave();
        !self.over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        self.heard.reset();
        let mut response = std::pin::pin!(self.sender.send_request(request));
        let (io, over) = (&mut self.io, &mut self.over);
        poll_fn(|cx| {
            // Poll the answer first: it may be complete even though the connection has closed.
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            if !*over {
                *over = io.as_mut().poll(cx).is_ready();
            }
            response.as_mut().poll(cx)
        })
        .await
    }

    /// Whether any byte of an answer has arrived since the last request.
    pub(super) fn has_heard(&self) -> bool {
        self.heard.anything()
    }
}
