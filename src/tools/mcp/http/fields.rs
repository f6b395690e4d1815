//! Fields of requests and answers, and why there is no answer.

use hyper::HeaderMap;
use hyper::header::HeaderName;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::text::quote;
use crate::tools::oauth::SendError;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// Why a request got no answer.
pub(in crate::tools::mcp) type HttpError = StreamableHttpError<SendError>;

pub(super) type Error = HttpError;

pub(super) fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a `Content-Type` is this one, whatever its parameters are.
pub(super) fn is_of(content_type: Option<&str>, kind: &str) -> bool {
    let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(kind)
}

/// Why an answer cannot be read, in words; `None` if that is not what is wrong.
pub(in crate::tools::mcp) fn why_unreadable(error: &Error) -> Option<String> {
    match error {
        Error::UnexpectedContentType(Some(kind)) => {
            Some(format!("it answered with {} instead of JSON", quote(kind)))
        }
        Error::UnexpectedContentType(None) => Some("it answered without JSON".to_owned()),
        Error::Deserialize(_) => {
            Some("it answered with something that is not a message of the protocol".to_owned())
        }
        _ => None,
    }
}
