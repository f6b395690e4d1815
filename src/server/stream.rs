//! A turn's events as a response: where to start, and which headers to send.

use std::borrow::Cow;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use super::body::EventBody;
use super::dialect::Encoder;
use super::dialect::native::FrameId;
use super::refusal::Refusal;
use super::reply::{Reply, ReplyBody, empty};
use super::route::{CHAT_STREAM, LAST_EVENT_ID};
use super::{App, query};
use crate::session::LoggedTurn;

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Streams what follows the last frame that the client has seen.
pub(super) fn resume(
    session_id: &str,
    turn: &LoggedTurn,
    seen: Option<FrameId>,
    encoder: Box<dyn Encoder>,
    app: &App,
) -> Result<Reply, Refusal> {
    let log = &turn.log;
    // In this order: a log that ends in between has only grown.
    let (has_ended, last) = (log.has_ended(), log.last_sequence());
    let seen = match seen {
        None => 0,
        Some(id) if id.sequence <= last && id.epoch == log.epochs().at(id.sequence) => id.sequence,
        Some(_) => return Err(Refusal::EVENT_GONE),
    };
    if has_ended && seen == last {
        // An EventSource reconnects after every end; this response tells it to stop.
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    let mut reply = stream(session_id, turn, seen, encoder, app);
    if seen > 0 {
        reply.body_mut().greet();
    }
    Ok(reply)
}

/// The id of the last frame that the client has seen, if it sent one.
pub(super) fn last_event_id(request: &Parts) -> Result<Option<FrameId>, Refusal> {
    let header = single(&request.headers, &LAST_EVENT_ID, "Last-Event-ID")?;
    let id = header.or_else(|| query::value(request.uri.query(), "last_event_id"));
    match id.as_deref() {
        None | Some("") => Ok(None),
        Some(id) => FrameId::parse(id).map(Some).ok_or_else(|| {
            Refusal::invalid(
                "Last-Event-ID",
                "Last-Event-ID must be the id of an event, such as 1-42",
            )
        }),
    }
}

/// A header that may occur once. Of several, another server might choose another one.
pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    shown_as: &'static str,
) -> Result<Option<Cow<'a, str>>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| String::from_utf8_lossy(value.as_bytes()));
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Refusal::invalid(shown_as, format!("send {shown_as} only once"))),
    }
}

/// Tells proxies to pass a stream on as it comes.
pub(super) fn forbid_buffering(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

/// Streams a turn's events after `seen`.
pub(super) fn stream(
    session_id: &str,
    turn: &LoggedTurn,
    seen: u64,
    encoder: Box<dyn Encoder>,
    app: &App,
) -> Reply {
    let LoggedTurn { turn_id, log } = turn;
    let media_type = HeaderValue::from_static(encoder.media_type());
    let (can_be_joined, mark) = (encoder.can_be_joined(), encoder.mark());
    let body = EventBody::new(log.read_after(seen), encoder, app.keep_alive);
    let mut reply = Response::new(ReplyBody::events(body));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    forbid_buffering(headers);
    if let Some((name, value)) = mark {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let session = query::encode(session_id);
    let location = format!("{CHAT_STREAM}?session_id={session}&turn_id={turn_id}");
    if can_be_joined && let Ok(location) = HeaderValue::try_from(location) {
        headers.insert(LOCATION, location);
    }
    reply
}
