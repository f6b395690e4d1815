//! How a connection takes a stream over from hyper.
//!
//! A handler returns a stream like any other reply. Instead of passing it to hyper, the service leaves it
//! here and never answers. hyper has written nothing of it by then. Once it has also sent the answer before,
//! the connection can take its socket back and write the response itself:
//!
//! ```text
//!   service:     expect(request) ─> handler ─> take_from(reply) ─> pending forever
//!                                                  v
//!   connection:  polls hyper ───────────────> take_begun() ─> direct::serve
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode, Version};
use parking_lot::Mutex;

use crate::http;
use crate::server::body::Events;
use crate::server::reply::Reply;

/// Where a connection's service leaves a stream for the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Handover(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Whether the body of the current request, if there is one, has been read to its end. Otherwise its rest would
    /// be read as the next request.
    is_read: bool,
    /// Whether the connection closes after the response.
    closes: bool,
    /// Boxed, so that a connection keeps no room for it while it streams.
    begun: Option<Box<Begun>>,
}

impl Default for State {
    fn default() -> Self {
        Self { is_read: true, closes: false, begun: None }
    }
}

/// A response that is written without hyper.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) head: Parts,
    /// Whether the client asked for the connection to be closed afterwards.
    pub(super) closes: bool,
    pub(super) events: Events,
}

impl Handover {
    /// Notes what the hand-over depends on. Returns whether it is possible: otherwise, hyper has to write the
    /// response whatever it is.
    pub(super) fn expect(&self, request: &Request<Incoming>) -> bool {
        let fields = request.headers().get_all(CONNECTION).iter();
        let fields = fields.filter_map(|field| field.to_str().ok());
        let closes = http::has_connection_option(fields, "close");
        let is_read = request.body().is_end_stream();
        *self.0.lock() = State { is_read, closes, begun: None };
        // HTTP/1.0 knows no chunks. A chunked body may have had a length, too: then the connection has to close after the
        // response (RFC 9112, section 6.1), and only hyper has seen it.
        let may_be_ambiguous = request.headers().contains_key(TRANSFER_ENCODING);
        // Nor does anything but hyper know that an answer to HEAD has no body.
        let has_body = request.method() != Method::HEAD;
        request.version() == Version::HTTP_11 && has_body && !may_be_ambiguous
    }

    /// Takes a stream that can be written without hyper. Returns any other reply.
    pub(super) fn take_from(&self, reply: Reply) -> Option<Reply> {
        let mut state = self.0.lock();
        if !state.is_read || reply.status() != StatusCode::OK || !reply.body().has_events() {
            return Some(reply);
        }
        let (head, body) = reply.into_parts();
        let closes = state.closes;
        state.begun = body.into_events().map(|events| Box::new(Begun { head, closes, events }));
        None
    }

    /// Whether the body of the last request has not been read to its end.
    pub(super) fn has_unread_body(&self) -> bool {
        !self.0.lock().is_read
    }

    /// Takes the stream that was left here, if there is one.
    pub(super) fn take_begun(&self) -> Option<Box<Begun>> {
        self.0.lock().begun.take()
    }
}

/// The body of a request. Its end is noted in the hand-over.
#[derive(Debug)]
pub(super) struct NotedBody {
    pub(super) body: Incoming,
    pub(super) handover: Handover,
}

impl Body for NotedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.handover.0.lock().is_read = true;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
