//! The one place that decides what a client sees of an error before a stream begins. Later
//! errors become the turn's last event.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use tracing::debug;

use super::dialect::native::Native;
use super::dialect::{Dialect, Refused};
use super::direct;
use super::refusal::{Limit, Refusal};
use super::reply::{Reply, whole_reply};
use super::request_headers::request_id;
use super::route::{REQUEST_ID, Route, SHOULD_RETRY};
use crate::gateway::BeginError;
use crate::limits;
use crate::telemetry::metrics;

/// Whether the same request would be refused again. Unless told so, Claude Code retries for minutes.
fn is_final(status: StatusCode) -> bool {
    let may_pass =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];
    status == StatusCode::NOT_IMPLEMENTED || status.is_client_error() && !may_pass.contains(&status)
}

impl Refusal {
    /// Converts the refusal into the response that the client gets, in its dialect.
    pub(super) fn into_reply(self, dialect: &dyn Dialect) -> Reply {
        let refusal = self.naming_fields_of(dialect);
        refusal.count();
        let Refused { status, media_type, body } = dialect.refused(&refusal);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        let mut reply = whole_reply(status, body, media_type);
        let headers = reply.headers_mut();
        if is_final(status) {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        if refusal.closes() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match refusal {
            Self::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // What it could be sent in (RFC 9110, section 12.5.3).
            Self::ContentEncoding(_) => {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            Self::Method(allowed) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::OverLimit { limit: Limit::Requests | Limit::KeyRequests, wait } => {
                headers.insert(RETRY_AFTER, whole_seconds(wait).into());
            }
            _ if matches!(
                status,
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
            ) =>
            {
                headers.insert(RETRY_AFTER, limits::server::RETRY_AFTER_SEC.into());
            }
            _ => {}
        }
        reply
    }

    /// Counts the refusal by its code, which is the same in all dialects.
    fn count(&self) {
        let (status, code) = self.kind();
        metrics::refusal(code, status.as_u16());
    }

    /// The refusal with the names of fields that the dialect's clients write.
    fn naming_fields_of(self, dialect: &dyn Dialect) -> Self {
        match self {
            Self::Begin(
                error @ (BeginError::NoToolToCall { .. } | BeginError::UnknownChoice { .. }),
            ) => {
                let param = dialect.tool_choice();
                Self::invalid(param, format!("{param}: {error}"))
            }
            refusal => refusal,
        }
    }
}

/// The answer to a head that hyper refuses by itself, instead of `answered`, which is what hyper would send. `None` if
/// that is something else. The API is not known, so the answer is in Tether's own form.
pub(super) fn refused_head(answered: &[u8]) -> Option<Bytes> {
    // hyper answers in the version of the request before.
    let answered = [b"HTTP/1.1 ", b"HTTP/1.0 "].iter().find_map(|it| answered.strip_prefix(*it))?;
    let refusal = match answered.first_chunk()? {
        b"400" => Refusal::BadHead,
        b"431" => Refusal::HeadTooLarge,
        _ => return None,
    };
    refusal.count();
    let Refused { status, media_type, body } = Native.refused(&refusal);
    let id = request_id(&HeaderMap::new());
    debug!(id = %id.to_str().unwrap_or_default(), status, "a head was refused");
    metrics::request(Route::None.name(), status);
    let reply = Response::builder().status(status);
    let reply = reply.header(CONTENT_TYPE, media_type).header(REQUEST_ID, id).body(()).ok()?;
    Some(direct::write_last(&reply.into_parts().0, &body))
}

/// A wait in whole seconds, rounded up, for `Retry-After`.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
