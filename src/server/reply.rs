//! Responses to clients: complete, or as a stream of events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode, Version};

use super::answering::AnswerEnd;
use super::body::{Cut, EventBody, Events};
use super::socket::Socket;
use super::stall::{Flow, Piece};

/// A response.
pub(super) type Reply = Response<ReplyBody>;

/// The body of a response. On HTTP/2 it ends only when all of it has been taken, so that the
/// stream can still be reset while data is waiting.
#[derive(Debug, Default)]
pub(super) struct ReplyBody {
    content: Content,
    flow: Option<Arc<Flow>>,
    /// Dropped with the body, on HTTP/1.
    end: Option<AnswerEnd>,
}

#[derive(Debug)]
enum Content {
    Whole(Full<Bytes>),
    Events(EventBody),
}

impl Default for Content {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl ReplyBody {
    /// Creates a complete body.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(Full::new(bytes.into())), flow: Flow::current(), end: None }
    }

    /// Creates a stream of events.
    pub(super) fn events(events: EventBody) -> Self {
        Self { content: Content::Events(events), flow: Flow::current(), end: None }
    }

    /// Whether this is a stream of events.
    pub(super) const fn has_events(&self) -> bool {
        matches!(self.content, Content::Events(_))
    }

    /// What is streamed, if anything is.
    pub(super) fn into_events(self) -> Option<Events> {
        match self.content {
            Content::Events(body) => Some(body.events),
            Content::Whole(_) => None,
        }
    }

    /// Sends something at once, even if no event is ready.
    pub(super) fn greet(&mut self) {
        match &mut self.content {
            Content::Events(events) => events.greet(),
            Content::Whole(_) => {}
        }
    }

    /// Drops `end` with the body.
    pub(super) fn note_end(&mut self, end: AnswerEnd) {
        self.end = Some(end);
    }

    /// Watches `socket` to find out whether the client leaves during a silence.
    pub(super) fn watch(&mut self, socket: Socket) {
        match &mut self.content {
            Content::Events(events) => events.watch(socket),
            Content::Whole(_) => {}
        }
    }
}

impl Body for ReplyBody {
    type Data = Piece;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Cut>>> {
        let Self { content, flow, .. } = self.get_mut();
        let frame = match content {
            Content::Whole(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                frame.map(|frame| frame.map_err(|never| match never {}))
            }
            Content::Events(body) => ready!(Pin::new(body).poll_frame(cx)),
        };
        match frame {
            Some(Ok(frame)) => {
                let piece = frame.map_data(|bytes| Piece::new(bytes, flow.as_ref()));
                return Poll::Ready(Some(Ok(piece)));
            }
            Some(Err(cut)) => return Poll::Ready(Some(Err(cut))),
            None => {}
        }
        if let Some(flow) = flow {
            ready!(flow.poll_taken(cx.waker()));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        let has_ended = match &self.content {
            Content::Whole(body) => body.is_end_stream(),
            Content::Events(body) => body.is_end_stream(),
        };
        has_ended && self.flow.as_ref().is_none_or(|flow| flow.is_taken())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(body) => body.size_hint(),
            Content::Events(body) => body.size_hint(),
        }
    }
}

/// A complete JSON response.
pub(super) fn json_reply(status: StatusCode, body: &impl serde::Serialize) -> Reply {
    whole_reply(status, json_text(body), "application/json")
}

/// A value as JSON.
pub(super) fn json_text(body: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// A complete response of the given media type. Make it on the task that answers, which knows its HTTP/2 stream.
pub(super) fn whole_reply(
    status: StatusCode,
    body: impl Into<Bytes>,
    media_type: &'static str,
) -> Reply {
    let mut reply = Response::new(ReplyBody::whole(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

/// What GET would be answered with, for HEAD. hyper leaves the body out by itself on HTTP/1, but not on HTTP/2.
pub(super) fn without_body(reply: Reply, version: Version) -> Reply {
    if version != Version::HTTP_2 {
        return reply;
    }
    let (mut head, body) = reply.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Reply::from_parts(head, ReplyBody::default())
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Reply::default();
    *reply.status_mut() = status;
    reply
}
