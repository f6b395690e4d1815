//! The answers to messages that were posted.

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Response, StatusCode};
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcError, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpPostResponse,
};
use url::Url;

use super::events::events;
use super::fields::{EVENTS, Error, JSON, SESSION_ID, header, is_of, why_unreadable};
use crate::http::is_transient;
use crate::limits::mcp::{ERROR_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::text::cut;
use crate::tools::mcp::message;
use crate::tools::oauth::SendError;
use crate::tools::outbound::{Body, OutboundError};
use crate::tools::throttle::Throttle;

/// A message that was posted.
#[derive(Clone, Copy)]
pub(super) struct Asked<'m> {
    pub(super) uri: &'m str,
    pub(super) message: &'m ClientJsonRpcMessage,
    pub(super) had_session: bool,
    pub(super) throttle: &'m Arc<Mutex<Throttle>>,
}

/// Reads the answer to a message.
pub(super) async fn answer(
    response: Response<Body>,
    asked: Asked<'_>,
) -> Result<StreamableHttpPostResponse, Error> {
    let read = read(response, asked).await;
    let ClientJsonRpcMessage::Request(request) = asked.message else { return read };
    let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
    let unreadable = read.as_ref().err().filter(|_| is_call).and_then(why_unreadable);
    let error = match (&read, unreadable) {
        // The server may have made the call.
        (_, Some(why)) => message::unread(format!("the server's answer cannot be read: {why}")),
        (Err(Error::Client(SendError::Outbound(OutboundError::TooLarge { .. }))), None) => {
            message::too_long()
        }
        (read, None) if is_probe(&request.request) && is_of_the_old_protocol(read) => {
            ErrorData::invalid_request("the server does not know this request", None)
        }
        _ => return read,
    };
    let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    Ok(StreamableHttpPostResponse::Json(answer, None))
}

const fn is_probe(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::DiscoverRequest(_))
}

/// Whether the answer to a probe says that the server was written before 2026-07-28. Such servers
/// answer in many ways; only silence, no connection and no permission say nothing of its age.
const fn is_of_the_old_protocol(answer: &Result<StreamableHttpPostResponse, Error>) -> bool {
    match answer {
        Ok(StreamableHttpPostResponse::Accepted) => true,
        Ok(_) => false,
        Err(error) => !matches!(
            error,
            Error::AuthRequired(_) | Error::InsufficientScope(_) | Error::Client(_)
        ),
    }
}

async fn read(
    response: Response<Body>,
    asked: Asked<'_>,
) -> Result<StreamableHttpPostResponse, Error> {
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status, &head.headers);
    if let Some(error) = auth_error(status, headers) {
        return Err(error);
    }
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && asked.had_session {
        return Err(Error::SessionExpired);
    }
    let session = header(headers, &SESSION_ID).map(str::to_owned);
    let content_type = header(headers, &CONTENT_TYPE).map(str::to_owned);
    let is_json = is_of(content_type.as_deref(), JSON);
    if status.is_redirection() {
        return Err(Error::UnexpectedServerResponse(redirect(status, headers, asked.uri).into()));
    }
    if !status.is_success() {
        return failure(status, headers, is_json, body, asked).await;
    }
    let ClientJsonRpcMessage::Request(request) = asked.message else {
        // That was no request, so whatever the server says is ignored.
        return Ok(StreamableHttpPostResponse::Accepted);
    };
    let is_raw = message::is_raw(asked.message);
    if is_of(content_type.as_deref(), EVENTS) {
        let events = events(body, Some(request.id.clone()), is_raw, Arc::clone(asked.throttle));
        return Ok(StreamableHttpPostResponse::Sse(events, session));
    }
    if !is_json {
        return Err(Error::UnexpectedContentType(content_type));
    }
    let body = body.collect(MESSAGE_BYTES_MAX).await;
    let body = body.map_err(|error| Error::Client(error.into()))?;
    let mut read = message::read(&String::from_utf8_lossy(&body), is_raw)?;
    // A whole body answers its own request, even if an error in it has no id.
    match &mut read {
        ServerJsonRpcMessage::Response(answer) => answer.id = request.id.clone(),
        ServerJsonRpcMessage::Error(answer) => answer.id = Some(request.id.clone()),
        _ => {}
    }
    Ok(StreamableHttpPostResponse::Json(read, session))
}

/// Reads an answer that is not a success. A protocol error in it is the server's answer.
async fn failure(
    status: StatusCode,
    headers: &HeaderMap,
    is_json: bool,
    body: Body,
    asked: Asked<'_>,
) -> Result<StreamableHttpPostResponse, Error> {
    let transient = status_error(status, headers);
    let body = body.collect(ERROR_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let told = error_in(&text);
    let is_answered = told.as_ref().is_some_and(|told| answers(told, asked.message));
    let told = told.filter(|_| is_json).map(|told| told.error);
    if asked.had_session
        && status == StatusCode::BAD_REQUEST
        && !is_answered
        && says_session_lost(told.as_ref(), &text)
    {
        return Err(Error::SessionExpired);
    }
    let ClientJsonRpcMessage::Request(request) = asked.message else { return Err(transient) };
    let error = match told {
        // Busy is busy, in whatever words, and `Retry-After` says for how long.
        _ if is_transient(status.as_u16()) => return Err(transient),
        Some(error) => error,
        None if status.is_server_error() => return Err(transient),
        None => {
            return Err(Error::UnexpectedServerResponse(refusal(status, &text, asked.uri).into()));
        }
    };
    let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    Ok(StreamableHttpPostResponse::Json(answer, None))
}

/// What an operator reads of a refusal without a protocol error.
fn refusal(status: StatusCode, text: &str, uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let is_old = matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
    let status = status.as_u16();
    if is_old && path.ends_with("/sse") {
        return format!(
            "the server answered with HTTP status {status}: this seems to be an address for HTTP+SSE, which MCP has \
             replaced; use the one for streamable HTTP, which often ends in /mcp"
        );
    }
    match text.trim() {
        page if page.is_empty() || page.starts_with('<') => {
            format!("the server answered with HTTP status {status}; check the `url`")
        }
        told => format!("the server answered with HTTP status {status}: {}", cut(told, 200)),
    }
}

fn error_in(text: &str) -> Option<JsonRpcError> {
    match serde_json::from_str(text) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    }
}

/// Whether an error has the id of this request. Then it is the answer, whatever it says of sessions: the call may have
/// been made, and must not be made again. Servers that do not know a session refuse its requests unread, with no id,
/// `null` or (Python SDK) `server-error`.
fn answers(told: &JsonRpcError, message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    told.id.clone().is_some_and(|id| message::as_sent(id) == request.id)
}

/// Whether a refusal to open a stream says that the server does not know its session.
pub(super) async fn has_lost_session(status: StatusCode, body: Body) -> bool {
    if status != StatusCode::BAD_REQUEST {
        return status == StatusCode::NOT_FOUND;
    }
    let body = body.collect(ERROR_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    says_session_lost(error_in(&text).map(|told| told.error).as_ref(), &text)
}

/// Whether a refusal says that the server does not know the session. Many servers, written after an
/// example of the TypeScript SDK, say so with status 400 instead of 404. A call is made again then, so
/// what a tool says of sessions of its own must not be taken for it.
fn says_session_lost(told: Option<&ErrorData>, text: &str) -> bool {
    const SESSION_CODES: &[ErrorCode] =
        &[ErrorCode(-32000), ErrorCode(-32001), ErrorCode::INVALID_REQUEST];
    let said = match told {
        Some(error) if SESSION_CODES.contains(&error.code) => &*error.message,
        Some(_) => return false,
        None => text,
    };
    // Not an argument of this name.
    let said = cut(said, 200).to_ascii_lowercase().replace("session_id", "");
    said.contains("session") && SESSION_LOST.iter().any(|words| said.contains(words))
        || said.contains("server not initialized")
}

/// What servers say of a session that they do not know, in lower case.
const SESSION_LOST: &[&str] = &[
    "expired",
    "invalid",
    "missing",
    "no active",
    "no session",
    "no valid",
    "not exist",
    "not found",
    "not initialized",
    "required",
    "terminated",
    "unknown",
];

/// What an operator has to know about a redirect, which is never followed: the operator vouches for
/// one address.
fn redirect(status: StatusCode, headers: &HeaderMap, uri: &str) -> String {
    let status = status.as_u16();
    let url = Url::parse(uri).ok();
    let to = url.as_ref().zip(header(headers, &LOCATION)).and_then(|(url, location)| {
        // Whatever another host writes there is not for models.
        url.join(location).ok().filter(|to| to.origin() == url.origin())
    });
    let whither = to.map_or_else(
        || "; `url` has to be the address that it leads to".to_owned(),
        |to| format!(" to {}; `url` has to be that address", cut(to.path(), 200)),
    );
    format!("the server answered with HTTP status {status}, a redirect{whither}")
}

pub(super) fn status_error(status: StatusCode, headers: &HeaderMap) -> Error {
    let retry_after = header(headers, &hyper::header::RETRY_AFTER).map(str::to_owned);
    HttpStatusError::new(status.as_u16(), retry_after).into()
}

pub(super) fn auth_error(status: StatusCode, headers: &HeaderMap) -> Option<Error> {
    let challenge = header(headers, &WWW_AUTHENTICATE).unwrap_or_default().to_owned();
    match status {
        StatusCode::UNAUTHORIZED => Some(Error::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            Some(Error::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_may_say_that_the_session_is_lost() {
        let error = |code, message: &'static str| ErrorData::new(ErrorCode(code), message, None);
        for (told, text, is_lost) in [
            (Some(error(-32000, "Bad Request: No valid session ID provided")), "", true),
            (Some(error(-32000, "Bad Request: Server not initialized")), "", true),
            (Some(error(-32600, "Invalid session")), "", true),
            (None, "Invalid or missing session ID", true),
            (None, r#"{"error":"Session not found"}"#, true),
            (None, "Session 3f2a-77 not found", true),
            (None, "Mcp-Session-Id header is required", true),
            (None, "Invalid or expired session", true),
            (Some(error(-32000, "the disk is full")), "", false),
            (Some(error(-32000, "could not save: the database session is closed")), "", false),
            (None, r#"{"detail":"unknown session_id foo"}"#, false),
            (Some(error(-32602, "`session` must be a number")), "", false),
            (None, "what?", false),
        ] {
            assert_eq!(says_session_lost(told.as_ref(), text), is_lost, "{told:?} {text}");
        }
    }

    #[test]
    fn a_redirect_is_told_with_its_path_on_the_same_host() {
        let told = |location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().unwrap());
            redirect(StatusCode::TEMPORARY_REDIRECT, &headers, "https://a.example/mcp?key=S")
        };
        let begin = "the server answered with HTTP status 307, a redirect";
        for location in ["/mcp/", "https://a.example/mcp/?key=S"] {
            assert_eq!(told(location), format!("{begin} to /mcp/; `url` has to be that address"));
        }
        let other = format!("{begin}; `url` has to be the address that it leads to");
        assert_eq!(told("https://b.example/mcp/"), other);
        assert_eq!(told("http://a.example/mcp"), other);
    }
}
