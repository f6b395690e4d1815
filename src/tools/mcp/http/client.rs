//! rmcp's requests over HTTP.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions as _, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::events::events;
use super::params::ParamHeaders;
use crate::limits::mcp::{ERROR_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::text::cut;
use crate::tools::mcp::auth::Authorized;
use crate::tools::mcp::end::End;
use crate::tools::mcp::message;
use crate::tools::oauth::SendError;
use crate::tools::outbound::{Body, Client, OutboundError};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Why a request got no answer.
pub(in crate::tools::mcp) type HttpError = StreamableHttpError<SendError>;

type Error = HttpError;
type Headers = HashMap<HeaderName, HeaderValue>;

/// Sends rmcp's requests.
#[derive(Debug, Clone)]
pub(in crate::tools::mcp) struct HttpClient {
    client: Client,
    auth: Option<Arc<Authorized>>,
    /// What the requests show to be over: HTTP has no connection whose end could be seen.
    end: End,
}

impl HttpClient {
    pub(in crate::tools::mcp) const fn new(
        client: Client,
        auth: Option<Arc<Authorized>>,
        end: End,
    ) -> Self {
        Self { client, auth, end }
    }

    /// Sends a request. If it is not authorized, it is sent once more with a new token.
    async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Body>, Error> {
        let request = request.header(
            USER_AGENT,
            HeaderValue::from_static(concat!("tether/", env!("CARGO_PKG_VERSION"))),
        );
        let invalid =
            |_| Error::UnexpectedServerResponse(Cow::Borrowed("the request cannot be sent"));
        let request = request.body(body).map_err(invalid)?;
        let sent = match &self.auth {
            Some(auth) => auth.send(&self.client, request).await,
            None => self.client.send(request).await.map_err(SendError::Outbound),
        };
        sent.map_err(|error| {
            if is_gone(&error) {
                self.end.note(error.to_string());
            }
            Error::Client(error)
        })
    }
}

/// Whether nobody is at the server's address.
const fn is_gone(error: &SendError) -> bool {
    matches!(
        error,
        SendError::Outbound(OutboundError::Connect { .. } | OutboundError::ConnectTimeout { .. })
    )
}

fn with_headers(mut request: Builder, session: Option<&str>, headers: Headers) -> Builder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match session {
        Some(session) => request.header(SESSION_ID, session),
        None => request,
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a `Content-Type` is this one, whatever its parameters are.
fn is_of(content_type: Option<&str>, kind: &str) -> bool {
    let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(kind)
}

impl StreamableHttpClient for HttpClient {
    type Error = SendError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let had_session = session.is_some();
        let mut request = Request::post(&*uri)
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, format!("{JSON}, {EVENTS}"));
        if let Some(ParamHeaders(params)) = param_headers(&message) {
            for (name, value) in params {
                request = request.header(name, value);
            }
        }
        let request = with_headers(request, session.as_deref(), headers);
        let body = serde_json::to_vec(&message)?;
        let response = self.send(request, body.into()).await?;
        let read = answer(response, &message, had_session).await;
        if let Err(Error::SessionExpired) = &read {
            // A new session may have other tools, so it is not for rmcp to begin one in silence.
            self.end.note("the server no longer knows the session");
        }
        read
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Error> {
        let request = Request::builder().method(Method::DELETE).uri(&*uri);
        let response =
            self.send(with_headers(request, Some(&session), headers), Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(status_error(status, response.headers())),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Error> {
        let mut request = Request::get(&*uri).header(ACCEPT, EVENTS);
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT_ID, id);
        }
        let request = with_headers(request, session.as_deref(), headers);
        let response = self.send(request, Bytes::new()).await?;
        let (status, headers) = (response.status(), response.headers());
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Error::ServerDoesNotSupportSse);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Error::SessionExpired);
        }
        if let Some(error) = auth_error(status, headers) {
            return Err(error);
        }
        if !status.is_success() {
            return Err(status_error(status, headers));
        }
        let content_type = header(headers, &CONTENT_TYPE);
        if !is_of(content_type, EVENTS) {
            return Err(Error::UnexpectedContentType(content_type.map(str::to_owned)));
        }
        // Whatever a resumed stream answers is the result of a call.
        Ok(events(response.into_body(), None, true))
    }
}

fn param_headers(message: &ClientJsonRpcMessage) -> Option<&ParamHeaders> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &request.request else { return None };
    call.extensions().get::<ParamHeaders>()
}

/// Reads the answer to a message.
async fn answer(
    response: Response<Body>,
    message: &ClientJsonRpcMessage,
    had_session: bool,
) -> Result<StreamableHttpPostResponse, Error> {
    let read = read(response, message, had_session).await;
    let ClientJsonRpcMessage::Request(request) = message else { return read };
    let error = match &read {
        Err(Error::Client(SendError::Outbound(OutboundError::TooLarge { .. }))) => {
            message::too_long()
        }
        read if is_probe(&request.request) && is_of_the_old_protocol(read) => {
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
    message: &ClientJsonRpcMessage,
    had_session: bool,
) -> Result<StreamableHttpPostResponse, Error> {
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status, &head.headers);
    if let Some(error) = auth_error(status, headers) {
        return Err(error);
    }
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if status == StatusCode::NOT_FOUND && had_session {
        return Err(Error::SessionExpired);
    }
    let session = header(headers, &SESSION_ID).map(str::to_owned);
    let content_type = header(headers, &CONTENT_TYPE).map(str::to_owned);
    let is_json = is_of(content_type.as_deref(), JSON);
    if !status.is_success() {
        return failure(status, headers, is_json, body, message).await;
    }
    let ClientJsonRpcMessage::Request(request) = message else {
        // Nobody has asked, so whatever it says is ignored.
        return Ok(StreamableHttpPostResponse::Accepted);
    };
    let is_raw = message::is_raw(message);
    if is_of(content_type.as_deref(), EVENTS) {
        let events = events(body, Some(request.id.clone()), is_raw);
        return Ok(StreamableHttpPostResponse::Sse(events, session));
    }
    if !is_json {
        return Err(Error::UnexpectedContentType(content_type));
    }
    let body = body.collect(MESSAGE_BYTES_MAX).await;
    let body = body.map_err(|error| Error::Client(error.into()))?;
    let read = message::read(&String::from_utf8_lossy(&body), is_raw)?;
    Ok(StreamableHttpPostResponse::Json(read, session))
}

/// Reads an answer that is not a success. A protocol error in it is the server's answer.
async fn failure(
    status: StatusCode,
    headers: &HeaderMap,
    is_json: bool,
    body: Body,
    message: &ClientJsonRpcMessage,
) -> Result<StreamableHttpPostResponse, Error> {
    let transient = status_error(status, headers);
    let body = body.collect(ERROR_BYTES_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let read = is_json.then(|| serde_json::from_str::<ServerJsonRpcMessage>(&text)).transpose();
    let told = match read {
        Ok(Some(ServerJsonRpcMessage::Error(error))) => Some(error.error),
        _ => None,
    };
    let ClientJsonRpcMessage::Request(request) = message else { return Err(transient) };
    let error = match told {
        Some(error) => error,
        None if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(transient);
        }
        None => {
            let (status, told) = (status.as_u16(), cut(text.trim(), 200));
            let message = format!("the server answered with HTTP status {status}: {told}");
            return Err(Error::UnexpectedServerResponse(message.into()));
        }
    };
    let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    Ok(StreamableHttpPostResponse::Json(answer, None))
}

fn status_error(status: StatusCode, headers: &HeaderMap) -> Error {
    let retry_after = header(headers, &hyper::header::RETRY_AFTER).map(str::to_owned);
    HttpStatusError::new(status.as_u16(), retry_after).into()
}

fn auth_error(status: StatusCode, headers: &HeaderMap) -> Option<Error> {
    let challenge = header(headers, &WWW_AUTHENTICATE).unwrap_or_default().to_owned();
    match status {
        StatusCode::UNAUTHORIZED => Some(Error::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            Some(Error::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => None,
    }
}
