//! The one place that decides what a client sees of an error, before a stream has
//! begun. What goes wrong later is the turn's last event.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::json;

use super::body::EventBody;
use crate::gateway::BeginError;

/// A response.
pub(super) type Reply = Response<ReplyBody>;

/// A response's body: whole, or a stream of events.
#[derive(Debug)]
pub(super) enum ReplyBody {
    Whole(Full<Bytes>),
    Events(EventBody),
}

impl Default for ReplyBody {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(body) => body.size_hint(),
        }
    }
}

/// Why a request is not done.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Nothing is at this address.
    NoSuchPath,
    /// Something is, but not for this method.
    Method(&'static str),
    /// The body is no JSON of the expected shape.
    BadJson(String),
    /// A field has a value that it cannot have.
    Invalid { param: &'static str, message: String },
    /// The body is too long.
    BodyTooLarge { bytes_max: usize },
    /// The body did not come in time.
    BodyTimeout(Duration),
    /// The body broke off.
    BodyBroken(String),
    /// Not JSON, from a page of a browser.
    MediaType,
    /// No key, or a wrong one.
    Unauthorized,
    /// A page of another origin.
    Origin(String),
    /// A name that this server does not go by.
    Host(String),
    /// No such session, or turn of it.
    Unknown(&'static str),
    /// It was here once.
    Gone(&'static str),
    /// No turn begins.
    Begin(BeginError),
}

impl Refusal {
    pub(super) fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { param, message: message.into() }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchPath | Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadJson(_) | Self::Invalid { .. } | Self::BodyBroken(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::Host(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::Gone(_) => StatusCode::GONE,
            Self::Begin(error) => match error {
                BeginError::TurnInProgress(_) => StatusCode::CONFLICT,
                BeginError::TurnGone => StatusCode::GONE,
                BeginError::UnknownModel { .. } | BeginError::UnknownTool { .. } => {
                    StatusCode::BAD_REQUEST
                }
                BeginError::Full(_) | BeginError::Draining => StatusCode::SERVICE_UNAVAILABLE,
                BeginError::Settings(_) => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchPath | Self::Unknown(_) => "not_found",
            Self::Method(_) => "method_not_allowed",
            Self::BadJson(_) | Self::Invalid { .. } | Self::BodyBroken(_) => "invalid_request",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout(_) => "body_timeout",
            Self::MediaType => "unsupported_media_type",
            Self::Unauthorized => "unauthorized",
            Self::Origin(_) => "origin_not_allowed",
            Self::Host(_) => "host_not_allowed",
            Self::Gone(_) => "gone",
            Self::Begin(error) => match error {
                BeginError::TurnInProgress(_) => "turn_in_progress",
                BeginError::TurnGone => "gone",
                BeginError::UnknownModel { .. } | BeginError::UnknownTool { .. } => {
                    "invalid_request"
                }
                BeginError::Full(_) => "too_many_turns",
                BeginError::Draining => "draining",
                BeginError::Settings(_) => "internal",
            },
        }
    }

    fn param(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { param, .. } => Some(param),
            Self::Begin(BeginError::UnknownModel { .. }) => Some("model"),
            Self::Begin(BeginError::UnknownTool { .. }) => Some("tools"),
            _ => None,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::NoSuchPath => "nothing is at this address; see GET /".into(),
            Self::Method(allowed) => format!("this address takes {allowed}"),
            Self::BadJson(error) => format!("the body is not the JSON expected here: {error}"),
            Self::Invalid { message, .. } => message.clone(),
            Self::BodyTooLarge { bytes_max } => {
                format!("the body is longer than {bytes_max} bytes (server.max_body_bytes)")
            }
            Self::BodyTimeout(after) => {
                format!("the body did not arrive within {} s", after.as_secs())
            }
            Self::BodyBroken(error) => format!("the body broke off: {error}"),
            Self::MediaType => "a page must send Content-Type: application/json".into(),
            Self::Unauthorized => {
                "send Authorization: Bearer KEY with one of server.api_keys".into()
            }
            Self::Origin(origin) => {
                format!("pages of {origin} are not allowed; see server.cors_origins")
            }
            Self::Host(host) => format!(
                "this server does not go by the name {host:?}; put its origin into \
                 server.cors_origins, or set server.api_keys"
            ),
            Self::Unknown(what) => format!("there is no such {what}"),
            Self::Gone(what) => format!("this {what} is no longer held"),
            Self::Begin(error) => error.to_string(),
        }
    }

    /// The refusal as the client gets it.
    pub(super) fn into_reply(self) -> Reply {
        let mut error = json!({ "code": self.code(), "message": self.message() });
        if let Some(param) = self.param() {
            error["param"] = param.into();
        }
        let mut reply = json_reply(self.status(), &json!({ "error": error }));
        let headers = reply.headers_mut();
        match self {
            Self::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::Method(allowed) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::Begin(BeginError::Full(_) | BeginError::Draining) => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
            }
            _ => {}
        }
        reply
    }
}

/// A whole response of JSON.
pub(super) fn json_reply(status: StatusCode, body: &impl serde::Serialize) -> Reply {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut reply = whole(status, body);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// A whole response.
pub(super) fn whole(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::new(body.into())));
    *reply.status_mut() = status;
    reply
}
