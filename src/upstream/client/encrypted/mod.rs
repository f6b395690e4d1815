//! A connection with TLS, read by hyper.
//!
//! hyper keeps a connection in two halves, which wake each other: a future that does the I/O, and
//! the body that it fills. Here both belong to the task that reads the answer.

mod heard;
mod waker;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::response::Parts;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use self::heard::{Heard, HeardSocket};
use self::waker::InnerWaker;
use super::progress::Progress;
use super::wire_error::WireError;
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
    /// The body of the answer.
    body: Option<Incoming>,
    inner: Arc<InnerWaker>,
    /// `inner` as a waker.
    waker: Waker,
    /// Whether wake-ups are only noted, because the task is already reading.
    entered: bool,
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
        let (io, body) = (Box::pin(io), None);
        Ok(Self { sender, io, over: false, heard, body, inner, waker, entered: false })
    }

    /// Reads and writes as much as is possible now.
    fn drive(&mut self) {
        if !self.over {
            let mut cx = Context::from_waker(&self.waker);
            self.over = self.io.as_mut().poll(&mut cx).is_ready();
        }
    }

    /// Whether the connection can carry another request. This is where a close by the server is
    /// noticed.
    pub(super) fn is_usable(&mut self) -> bool {
        self.body = None;
        self.inner.enter(Waker::noop());
        self.drive();
        self.inner.leave();
        !self.over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn exchange(&mut self, request: Request<Bytes>) -> Result<Parts, WireError> {
        self.heard.reset();
        let mut response = std::pin::pin!(self.sender.send_request(request.map(Full::new)));
        let (io, over) = (&mut self.io, &mut self.over);
        let response = poll_fn(|cx| {
            // Poll the answer first: it may be complete even though the connection has closed.
            if let Poll::Ready(response) = response.as_mut().poll(cx) {
                return Poll::Ready(response);
            }
            if !*over {
                *over = io.as_mut().poll(cx).is_ready();
            }
            response.as_mut().poll(cx)
        })
        .await?;
        let (head, body) = response.into_parts();
        (self.body, self.entered) = (Some(body), false);
        Ok(head)
    }

    /// Whether any byte of an answer has arrived since the last request.
    pub(super) fn has_heard(&self) -> bool {
        self.heard.anything()
    }

    /// Passes the next piece of the body to `sink`.
    ///
    /// **After [`Progress::More`], poll again**: the task is woken for more data only after a poll
    /// has returned pending.
    pub(super) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        mut sink: impl FnMut(&[u8]),
    ) -> Poll<Result<Progress, WireError>> {
        loop {
            if !std::mem::replace(&mut self.entered, true) {
                self.inner.enter(cx.waker());
            }
            match self.poll_frame() {
                Poll::Pending => {
                    self.entered = false;
                    if !self.inner.leave() {
                        return Poll::Pending;
                    }
                }
                Poll::Ready(None) => return Poll::Ready(Ok(Progress::End)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        sink(&data);
                        return Poll::Ready(Ok(Progress::More));
                    }
                    // Trailers or an empty frame.
                    _ => {}
                },
            }
        }
    }

    fn poll_frame(&mut self) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // Everything the body waits for arrives through `drive`, so no waker is needed.
        let mut cx = Context::from_waker(Waker::noop());
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(&mut cx);
        if frame.is_ready() {
            return frame;
        }
        self.drive();
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        Pin::new(body).poll_frame(&mut cx)
    }
}
