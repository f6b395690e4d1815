//! What a request's headers say, whatever it asks for.

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN};

use super::refusal::Refusal;
use super::request_body;
use super::route::REQUEST_ID;
use crate::http;
use crate::limits::server::{CONVERSATION_NAME_BYTES_MAX, REQUEST_ID_BYTES_MAX};
use crate::random;
use crate::trace_context::TraceContext;

/// The client's own request id, if it can be logged; otherwise a new one.
pub(super) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    });
    given.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(random::uuid_text()).expect("a UUID is hex and dashes")
    })
}

/// The trace that a request belongs to (W3C Trace Context): several `traceparent` fields count
/// as none, and several `tracestate` fields are one list.
pub(super) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?.to_str().ok()?;
    let states = headers.get_all("tracestate").iter();
    let states: Option<Vec<_>> = states.map(|state| state.to_str().ok()).collect();
    TraceContext::parse(parent, &states.unwrap_or_default().join(","))
}

/// The name that the client gives to a conversation, in the first of these headers that it sends.
pub(super) fn conversation_name<'h>(
    headers: &'h HeaderMap,
    names: &[HeaderName],
) -> Option<&'h str> {
    let mut values = names.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    values.find(|value| (1..=CONVERSATION_NAME_BYTES_MAX).contains(&value.len()))
}

/// The media types that a client accepts. Several lines are one list (RFC 9110, section 5.3).
pub(super) fn accept(headers: &HeaderMap) -> String {
    let lines: Vec<_> = headers.get_all(ACCEPT).iter().flat_map(HeaderValue::to_str).collect();
    lines.join(", ")
}

/// Refuses a compressed body, and one from a web page that does not say it is JSON, so that the browser sends a
/// preflight.
pub(super) fn check_body_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    request_body::check_content_encoding(headers)?;
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_json = media_type.is_some_and(|field| http::is_media_type(field, "application/json"));
    if is_json || !headers.contains_key(ORIGIN) { Ok(()) } else { Err(Refusal::MediaType) }
}
