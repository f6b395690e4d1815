//! A connection to a model server, with or without TLS.

use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Request;
use hyper::http::response::Parts;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::progress::Progress;
use super::wire_error::WireError;
use super::{encrypted, plain};

/// A connection to a model server. It makes progress only while it is polled.
#[derive(Debug)]
pub(super) enum Connection {
    Plain(plain::Connection),
    Encrypted(Box<encrypted::Connection>),
}

impl Connection {
    pub(super) async fn new(
        socket: MaybeHttpsStream<TokioIo<TcpStream>>,
    ) -> Result<Self, WireError> {
        Ok(match socket {
            MaybeHttpsStream::Http(socket) => {
                Self::Plain(plain::Connection::new(socket.into_inner()))
            }
            socket @ MaybeHttpsStream::Https(_) => {
                Self::Encrypted(Box::new(encrypted::Connection::new(socket).await?))
            }
        })
    }

    /// Whether the connection can carry another request. This is where a close by the server is
    /// noticed.
    pub(super) fn is_usable(&mut self) -> bool {
        match self {
            Self::Plain(connection) => connection.is_usable(),
            Self::Encrypted(connection) => connection.is_usable(),
        }
    }

    /// Whether any byte of an answer has arrived since the last request.
    pub(super) fn has_heard(&self) -> bool {
        match self {
            Self::Plain(connection) => connection.has_heard(),
            Self::Encrypted(connection) => connection.has_heard(),
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn exchange(&mut self, request: &Request<Bytes>) -> Result<Parts, WireError> {
        match self {
            Self::Plain(connection) => connection.exchange(request).await,
            Self::Encrypted(connection) => connection.exchange(request.clone()).await,
        }
    }

    /// Reads what has arrived and passes the pieces of the body in it to `sink`.
    ///
    /// **After [`Progress::More`], poll again**: the task is woken for more data only after a poll
    /// has returned pending.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        sink: impl FnMut(&[u8]),
    ) -> Poll<Result<Progress, WireError>> {
        match self {
            Self::Plain(connection) => connection.poll_read(cx, sink),
            Self::Encrypted(connection) => connection.poll_read(cx, sink),
        }
    }
}
