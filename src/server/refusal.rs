//! Why a request is refused, whatever its dialect.

use std::time::Duration;

use hyper::StatusCode;

use crate::conversation::AnswerError;
use crate::gateway::BeginError;
use crate::limits::server::{HEAD_BYTES_MAX, HEADERS_MAX, REFUSAL_BYTES_MAX};
use crate::session::SessionError;
use crate::session::store::StoreError;
use crate::text::cut;

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is nothing at this address.
    NoSuchPath,
    /// The address exists but does not accept this method.
    Method(&'static str),
    /// The head is not HTTP.
    BadHead,
    /// The head is too long or has too many fields.
    HeadTooLarge,
    /// The body is not JSON of the expected shape. `param` is the field at fault, if there is
    /// one.
    BadJson { param: Option<String>, message: String },
    /// A field has an invalid value.
    Invalid { param: &'static str, message: String },
    /// The body is too long.
    BodyTooLarge { bytes_max: usize },
    /// The body did not arrive in time.
    BodyTimeout(Duration),
    /// The body broke off.
    BodyBroken(String),
    /// The body is in an unknown transfer coding.
    TransferEncoding(String),
    /// The body is in a content coding, such as gzip.
    ContentEncoding(String),
    /// A body from a browser page that is not JSON.
    MediaType,
    /// The key is missing or wrong.
    Unauthorized,
    /// The client is over a limit. It should wait this long before it tries again.
    OverLimit { limit: Limit, wait: Duration },
    /// The request comes from a page of another origin.
    Origin(String),
    /// The host name is not one of this server's.
    Host(String),
    /// No such session, or no such turn in it; holds the message.
    Unknown(&'static str),
    /// No response with this id can be continued.
    NoParent(String),
    /// The response to continue has an id that no response of this gateway has.
    ForeignParent(String),
    /// The response to continue still runs.
    ParentRuns(String),
    /// It existed once; holds the message.
    Gone(&'static str),
    /// The turn cannot begin.
    Begin(BeginError),
    /// Too many long answers have not been taken yet.
    LongAnswers,
    /// The session cannot be used.
    Session(SessionError),
}

/// A limit by address or key, on connections or requests. Those on turns are the gateway's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Connections of one address, which has this many.
    Connections(usize),
    /// Requests per second of one address.
    Requests,
    /// Requests per second with one key.
    KeyRequests,
}

impl Limit {
    /// One of each kind.
    pub(super) const ALL: [Self; 3] = [Self::Connections(0), Self::Requests, Self::KeyRequests];

    /// The limit's key in the configuration.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Connections(_) => "connections_per_address",
            Self::Requests => "head_rate_per_address",
            Self::KeyRequests => "head_rate_per_key",
        }
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl Refusal {
    pub(super) const NO_SESSION: Self =
        Self::Unknown("no such session; a session begins with its first turn");
    pub(super) const NO_RESPONSE: Self =
        Self::Unknown("no such response: it was not stored, it was deleted, or it is too old");
    pub(super) const FOREIGN_RESPONSE: Self = Self::Unknown(
        "no such response: the id is not from this gateway; its ids are \"resp_\" and 64 \
         hexadecimal digits",
    );
    pub(super) const NO_COMPACTION: Self = Self::Unknown(
        "compaction is not supported: what does not fit into the model's context is left out \
         automatically; send the whole conversation, or previous_response_id",
    );
    pub(super) const NO_TURN: Self =
        Self::Unknown("no such turn in this session; leave turn_id out to get the latest");
    pub(super) const NO_ARTIFACT: Self = Self::Unknown(
        "no such file: it never existed, its session is gone, or newer files have replaced it",
    );
    pub(super) const NOTHING_RUNS: Self = Self::Unknown("no turn is running in this session");
    pub(super) const TURN_GONE: Self =
        Self::Gone("the events of this turn are no longer kept; read its outcome from the session");
    pub(super) const EVENT_GONE: Self = Self::Gone(
        "this turn has no event with this id; omit Last-Event-ID to read the turn from the start",
    );

    /// A field with an invalid value.
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { param, message: message.into() }
    }

    /// Whether the connection closes after this refusal.
    pub(super) const fn closes(&self) -> bool {
        let is_over = matches!(self, Self::OverLimit { limit: Limit::Connections(_), .. });
        // Whoever tries again should come to another gateway.
        is_over || matches!(self, Self::Begin(BeginError::Draining))
    }

    /// The status, and the code that programs recognise the refusal by.
    pub(super) const fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath | Self::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::NoParent(_) | Self::ForeignParent(_) => {
                (StatusCode::NOT_FOUND, "previous_response_not_found")
            }
            Self::ParentRuns(_) => (StatusCode::CONFLICT, "turn_in_progress"),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::BadHead | Self::BadJson { .. } | Self::Invalid { .. } | Self::BodyBroken(_) => {
                (StatusCode::BAD_REQUEST, "invalid_request")
            }
            Self::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large"),
            Self::BodyTooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::BodyTimeout(_) => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::TransferEncoding(_) => {
                (StatusCode::NOT_IMPLEMENTED, "unsupported_transfer_encoding")
            }
            Self::ContentEncoding(_) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_content_encoding")
            }
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::OverLimit { limit: Limit::Connections(_), .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_connections")
            }
            Self::OverLimit { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_requests"),
            Self::Origin(_) => (StatusCode::FORBIDDEN, "origin_not_allowed"),
            Self::Host(_) => (StatusCode::MISDIRECTED_REQUEST, "host_not_allowed"),
            Self::Gone(_) => (StatusCode::GONE, "gone"),
            Self::Begin(error) => match error {
                BeginError::TurnInProgress(_) => (StatusCode::CONFLICT, "turn_in_progress"),
                BeginError::Answer(AnswerError::Stale(_)) => {
                    (StatusCode::CONFLICT, "clarification_stale")
                }
                BeginError::Answer(AnswerError::Expired(_)) => {
                    (StatusCode::CONFLICT, "clarification_expired")
                }
                BeginError::NoRoom { .. } => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
                BeginError::TurnGone => (StatusCode::GONE, "gone"),
                BeginError::UnknownModel { .. }
                | BeginError::UnknownTool { .. }
                | BeginError::NoToolToCall { .. }
                | BeginError::UnknownChoice { .. }
                | BeginError::Answer(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
                BeginError::OverLimit(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_turns"),
                BeginError::Full(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_turns"),
                BeginError::ToolsUnavailable(_) => {
                    (StatusCode::SERVICE_UNAVAILABLE, "tools_unavailable")
                }
                BeginError::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
                BeginError::Session(error) => session_kind(error),
            },
            Self::LongAnswers => (StatusCode::SERVICE_UNAVAILABLE, "too_many_answers"),
            Self::Session(error) => session_kind(error),
        }
    }

    /// What went wrong and how to fix it, at most [`REFUSAL_BYTES_MAX`] long.
    pub(super) fn message(&self) -> String {
        cut(&self.whole_message(), REFUSAL_BYTES_MAX)
    }

    fn whole_message(&self) -> String {
        match self {
            Self::NoSuchPath => {
                "there is nothing at this path; base URLs end in /v1 for OpenAI clients and without \
                 it for Anthropic clients, and GET /openapi.json lists all paths"
                    .into()
            }
            Self::Method(allowed) => format!("this path accepts {allowed}"),
            Self::BadHead => "the head of the request is not valid HTTP/1.1".into(),
            Self::HeadTooLarge => format!(
                "the head of the request is longer than {HEAD_BYTES_MAX} bytes or has more than \
                 {HEADERS_MAX} fields; send less, for example fewer cookies"
            ),
            Self::BadJson { message, .. } | Self::Invalid { message, .. } => message.clone(),
            Self::BodyTooLarge { bytes_max } => {
                format!(
                    "the body is longer than {bytes_max} bytes; send less, or raise \
                     server.max_body_bytes"
                )
            }
            Self::BodyTimeout(after) => {
                format!(
                    "the body did not arrive within {} s; send it without delay",
                    after.as_secs()
                )
            }
            Self::BodyBroken(error) => format!("the body is incomplete: {error}; send it again"),
            Self::TransferEncoding(coding) => format!(
                "the transfer coding {coding:?} is not supported; send the body plain or chunked"
            ),
            Self::ContentEncoding(coding) => {
                format!(
                    "the content coding {coding:?} is not supported; send the body uncompressed"
                )
            }
            Self::MediaType => {
                "requests from web pages must have Content-Type: application/json".into()
            }
            Self::Unauthorized => {
                "the key is missing or wrong; send Authorization: Bearer KEY with one of \
                 server.api_keys"
                    .into()
            }
            Self::OverLimit { limit: limit @ Limit::Connections(open), .. } => format!(
                "{open} connections from this address are already open (server.limits.{}); close \
                 some, or use HTTP/2. If this is a proxy's address, add it to server.trusted_proxies",
                limit.name()
            ),
            Self::OverLimit { limit, .. } => {
                format!("too many requests (server.limits.{}); try again later", limit.name())
            }
            Self::Origin(origin) => {
                format!(
                    "pages from {origin:?} are not allowed; add this origin to server.cors_origins"
                )
            }
            Self::Host(host) if host.is_empty() => {
                "the Host header is missing, empty or not unique; send exactly one".into()
            }
            Self::Host(host) => format!(
                "the host {host:?} is not allowed; add its origin to server.cors_origins, or set \
                 server.api_keys"
            ),
            Self::NoParent(id) => format!(
                "there is no response {id:?}: it was not stored, it was deleted, or it is too old; \
                 send the whole conversation as input instead"
            ),
            Self::ForeignParent(id) => format!(
                "{id:?} is not the id of a response from this gateway; send the id that a \
                 response of it has, or the whole conversation as input instead"
            ),
            Self::ParentRuns(id) => {
                format!("response {id:?} is still running; wait for its end, or cancel it")
            }
            Self::Unknown(message) | Self::Gone(message) => (*message).to_owned(),
            Self::LongAnswers => {
                "too many long answers are being sent; try again in a moment".into()
            }
            Self::Begin(error) => error.to_string(),
            Self::Session(error) => error.to_string(),
        }
    }
}

const fn session_kind(error: &SessionError) -> (StatusCode, &'static str) {
    match error {
        SessionError::Store(StoreError::Damaged(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "session_unreadable")
        }
        SessionError::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
        SessionError::Record(_) => (StatusCode::INTERNAL_SERVER_ERROR, "session_unreadable"),
    }
}
