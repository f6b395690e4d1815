//! The native API of a running gateway, as a client.

use std::time::Duration;

use bytes::Bytes;
use form_urlencoded::Serializer;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use super::args::KEY_VARIABLE;
use super::clean;
use super::event::{Position, Transcript};
use crate::http;
use crate::limits::chat::{ANSWER_BYTES_MAX, ERROR_BYTES_MAX, HEAD_TIMEOUT, LINE_CHARS_MAX};
use crate::tls::ConnectFault;
use crate::tools::outbound::{Addresses, Body, Client, ClientOptions, OutboundError};

/// A running gateway.
#[derive(Debug, Clone)]
pub(super) struct Gateway {
    base: Url,
    key: Option<HeaderValue>,
    client: Client,
}

/// Why the gateway did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// There was no answer, or it broke off.
    #[error("{}", unreachable(.base, .source))]
    Unreachable { base: String, source: Box<OutboundError> },
    #[error("{base} did not answer within {} s", HEAD_TIMEOUT.as_secs())]
    Late { base: String },
    /// It refused.
    #[error("{}", refused(*.status, .code, .message, *.retry_after))]
    Refused { status: StatusCode, code: String, message: String, retry_after: Option<Duration> },
    /// It knows neither the turn nor its session.
    #[error(
        "the gateway no longer has this conversation: it was deleted or has expired, or the \
         gateway was restarted and kept it only in memory; the next prompt begins a new conversation"
    )]
    Forgotten,
    /// The key is missing or wrong.
    #[error("{}", unauthorized(*.has_key))]
    Unauthorized { has_key: bool },
    /// Something else answered.
    #[error("there is no Tether gateway at {base} ({what}); give its address with --url")]
    Stranger { base: String, what: String },
}

impl ApiError {
    /// Whether the same request may succeed in a moment: the connection, or a gateway that is
    /// starting or stopping.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => fault(source) == ConnectFault::Other,
            Self::Late { .. } => true,
            Self::Refused { status, .. } => http::is_transient(status.as_u16()),
            Self::Forgotten | Self::Unauthorized { .. } | Self::Stranger { .. } => false,
        }
    }

    /// Whether the request may have arrived although its answer did not.
    pub(super) fn may_have_arrived(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => {
                // What speaks TLS on a plain address has understood nothing.
                let is_malformed = matches!(**source, OutboundError::Malformed { .. });
                !source.is_unsent() && !is_malformed
            }
            Self::Late { .. } => true,
            _ => false,
        }
    }

    /// Whether the gateway has this code for its refusal.
    pub(super) fn has_code(&self, expected: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == expected)
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.as_u16()),
            _ => None,
        }
    }
}

impl Gateway {
    /// The gateway at this address. It has to be used inside a runtime.
    ///
    /// # Errors
    /// If the key cannot be sent in a header.
    pub(super) fn new(base: Url, key: Option<&str>) -> Result<Self, String> {
        let key = key.filter(|key| !key.is_empty()).map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| {
                format!("{KEY_VARIABLE} contains characters that a header cannot carry")
            })?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        let client = Client::new(ClientOptions::new(Addresses::Of(base.clone())));
        Ok(Self { base, key: key.transpose()?, client })
    }

    /// Its address, as people write it.
    pub(super) fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Begins a turn; the same key begins no other.
    pub(super) async fn begin(&self, body: &Value, key: &str) -> Result<Body, ApiError> {
        let key = HeaderValue::try_from(key).ok();
        let key = key.map(|key| (HeaderName::from_static("idempotency-key"), key));
        let response = self.send(Method::POST, STREAM, Some(body), key).await?;
        self.stream(response)
    }

    /// Joins a turn after this event; `None` if nothing is left of it.
    pub(super) async fn join(
        &self,
        session: &str,
        turn: &str,
        after: Option<Position>,
    ) -> Result<Option<Body>, ApiError> {
        let path = joined(session, turn);
        let after = after.and_then(|after| HeaderValue::try_from(after.to_string()).ok());
        let after = after.map(|after| (HeaderName::from_static("last-event-id"), after));
        let response = self.send(Method::GET, &path, None, after).await.map_err(|error| {
            if error.status() == Some(404) { ApiError::Forgotten } else { error }
        })?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        self.stream(response).map(Some)
    }

    /// Cancels the running turn; false if none is running.
    pub(super) async fn cancel(&self, session: &str) -> Result<bool, ApiError> {
        let body = serde_json::json!({ "session_id": session });
        match self.send(Method::POST, "api/v1/chat/cancel", Some(&body), None).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The session; `None` if there is none with this id.
    pub(super) async fn session(&self, id: &str) -> Result<Option<Transcript>, ApiError> {
        let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
        match self.get(&format!("api/v1/sessions/{id}")).await {
            Ok(transcript) => Ok(Some(transcript)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names and descriptions of the tools.
    pub(super) async fn tools(&self) -> Result<Vec<ListedTool>, ApiError> {
        #[derive(Deserialize)]
        struct Listed {
            tools: Vec<ListedTool>,
        }
        Ok(self.get::<Listed>("api/v1/tools").await?.tools)
    }

    async fn get<T: for<'de> Deserialize<'de>>(&self, path: &str) -> Result<T, ApiError> {
        let response = self.send(Method::GET, path, None, None).await?;
        let body = response.into_body().collect(ANSWER_BYTES_MAX);
        let body = timeout(HEAD_TIMEOUT, body).await.map_err(|_| self.late())?;
        let body = body.map_err(|source| self.unreachable(source))?;
        serde_json::from_slice(&body)
            .map_err(|_| self.stranger(&format!("{path} did not return the expected JSON")))
    }

    /// The body of an answer that has to be an event stream.
    fn stream(&self, response: Response<Body>) -> Result<Body, ApiError> {
        let is_stream = text(response.headers(), &CONTENT_TYPE)
            .is_some_and(|field| http::is_media_type(field, EVENT_STREAM));
        if is_stream {
            Ok(response.into_body())
        } else {
            Err(self.stranger("its answer is not an event stream"))
        }
    }

    /// Sends a request, and waits for an answer that says yes.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Response<Body>, ApiError> {
        let address =
            self.base.join(path).map_err(|_| self.stranger("the address is not valid"))?;
        let mut request = Request::new(body.map(Value::to_string).unwrap_or_default().into());
        *request.method_mut() = method;
        *request.uri_mut() =
            address.as_str().parse().map_err(|_| self.stranger("the address is not valid"))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(self.key.clone().map(|key| (AUTHORIZATION, key)));
        headers.extend(header);
        let answer = timeout(HEAD_TIMEOUT, self.client.send(request));
        let response = answer.await.map_err(|_| self.late())?;
        let response = response.map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let body = timeout(HEAD_TIMEOUT, response.into_body().collect(ERROR_BYTES_MAX)).await;
        Err(self.refusal(status, retry_after, &body.ok().and_then(Result::ok).unwrap_or_default()))
    }

    fn refusal(&self, status: StatusCode, retry_after: Option<Duration>, body: &Bytes) -> ApiError {
        #[derive(Deserialize)]
        struct Refusal {
            error: Described,
        }
        #[derive(Deserialize)]
        struct Described {
            code: String,
            message: String,
        }
        if status == StatusCode::UNAUTHORIZED {
            return ApiError::Unauthorized { has_key: self.key.is_some() };
        }
        match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error: Described { code, message } }) => {
                let message = clean::line(&message, LINE_CHARS_MAX);
                ApiError::Refused { status, code, message, retry_after }
            }
            // A proxy in front of a gateway that is away answers like this.
            Err(_) if http::is_transient(status.as_u16()) => ApiError::Refused {
                status,
                code: String::new(),
                message: format!("{} answered with {status}", self.base()),
                retry_after,
            },
            Err(_) => self.stranger(&format!("it answered with {status}")),
        }
    }

    fn unreachable(&self, source: OutboundError) -> ApiError {
        ApiError::Unreachable { base: self.base().to_owned(), source: Box::new(source) }
    }

    fn late(&self) -> ApiError {
        ApiError::Late { base: self.base().to_owned() }
    }

    fn stranger(&self, what: &str) -> ApiError {
        ApiError::Stranger { base: self.base().to_owned(), what: what.to_owned() }
    }
}

/// A tool of the gateway.
#[derive(Debug, Deserialize)]
pub(super) struct ListedTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
}

const STREAM: &str = "api/v1/chat/stream";
const EVENT_STREAM: &str = "text/event-stream";
const ACCEPTED: &str = "text/event-stream, application/json;q=0.9";

/// The address of a turn's stream.
fn joined(session: &str, turn: &str) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("session_id", session).append_pair("turn_id", turn);
    format!("{STREAM}?{}", query.finish())
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    http::retry_after(text(headers, &RETRY_AFTER)?, Timestamp::now())
}

/// What is wrong with the gateway's TLS, if anything is: that does not pass by itself.
fn fault(source: &OutboundError) -> ConnectFault {
    match source {
        OutboundError::Connect { source, .. } => ConnectFault::of(source),
        _ => ConnectFault::Other,
    }
}

fn unreachable(base: &str, source: &OutboundError) -> String {
    match source {
        malformed @ OutboundError::Malformed { .. } if base.starts_with("http:") => {
            format!("{malformed}; the address of a gateway with TLS begins with https://")
        }
        OutboundError::Connect { source: reason, .. } => {
            let advice = match fault(source) {
                ConnectFault::Certificate => {
                    "check its certificate, or name that of your own CA in SSL_CERT_FILE"
                }
                ConnectFault::NotTls => "the address of a gateway without TLS begins with http://",
                ConnectFault::Other => {
                    "start the gateway with `tether`, or give its address with --url"
                }
            };
            format!("cannot connect to {base}: {reason}; {advice}")
        }
        OutboundError::ConnectTimeout { .. } => {
            format!("{source}; check the address given with --url ({base})")
        }
        other => other.to_string(),
    }
}

fn unauthorized(has_key: bool) -> String {
    if has_key {
        format!("the gateway does not accept the key in {KEY_VARIABLE}")
    } else {
        format!("the gateway requires an API key; set {KEY_VARIABLE}")
    }
}

fn refused(status: StatusCode, code: &str, message: &str, wait: Option<Duration>) -> String {
    let again = wait.map(|wait| format!("; try again in {} s", wait.as_secs().max(1)));
    let again = again.unwrap_or_default();
    match (code, status.as_u16()) {
        ("turn_in_progress", _) => {
            format!("{message}; wait until it ends, or use another session")
        }
        ("not_found", _) => format!("{message}; check the address given with --url"),
        (_, 429) => format!("the gateway's limit is reached: {message}{again}"),
        (_, 503) => format!("the gateway is not available: {message}{again}"),
        _ => format!("{message}{again}"),
    }
}
