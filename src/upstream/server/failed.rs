//! Requests that fail.

use std::time::Duration;

use hyper::header::RETRY_AFTER;
use jiff::Timestamp;
use tokio::time::sleep;
use tracing::debug;

use crate::http;
use crate::limits::upstream as limits;
use crate::upstream::RoundFailure;
use crate::upstream::client::{Answer, ClientError};
use crate::upstream::image_support::ImageRefusal;
use crate::upstream::overflow::Overflow;
use crate::upstream::server_error::ServerError;

/// A failed request, and how long to wait before the next attempt, if one makes sense.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct Failed {
    pub(in crate::upstream) failure: RoundFailure,
    pub(in crate::upstream) wait: Option<Duration>,
    /// Whether a server was reached.
    pub(in crate::upstream) was_reached: bool,
    /// The status of the server's answer, if that was an error, or not what was asked for.
    pub(in crate::upstream) status: Option<u16>,
    /// What exceeded the model's context, if anything did.
    pub(super) overflow: Option<Overflow>,
    /// What may have been refused if the request had images.
    pub(in crate::upstream) image_refusal: Option<ImageRefusal>,
    /// What the server said if it refused the request as wrong.
    pub(in crate::upstream) rejection: Option<String>,
    /// The variant of the request, if the dialect has learnt from the refusal of it: see [`Dialect::unlearn`].
    ///
    /// [`Dialect::unlearn`]: crate::upstream::dialect::Dialect::unlearn
    pub(super) refused_variant: Option<u8>,
}

impl Failed {
    /// The server answered with an error.
    pub(in crate::upstream) fn refused(answer: &Answer, body: &str) -> Self {
        let status = answer.head.status.as_u16();
        let error = ServerError::from_body(body.as_bytes());
        let wait = if http::is_transient(status) { wait_asked_for(answer) } else { None };
        Self {
            wait,
            ..Self::of_status(status, body, &error, RoundFailure::refused(status, &error))
        }
    }

    /// The answer broke off before the model said anything. An error that the server reported in its stream counts
    /// like an answer with its status: vLLM sends the head of an answer before it knows whether it can make one.
    pub(super) fn before_the_answer(failure: RoundFailure) -> Self {
        let Some(error) = failure.reported.clone() else { return Self::permanent(failure) };
        let Some(status) = error.status else {
            let image_refusal = error.is_context_overflow().then_some(ImageRefusal::Size);
            return Self { image_refusal, overflow: error.overflow(), ..Self::permanent(failure) };
        };
        let wait = http::is_transient(status).then_some(Duration::ZERO);
        Self { wait, ..Self::of_status(status, &error.message, &error, failure) }
    }

    fn of_status(status: u16, body: &str, error: &ServerError, failure: RoundFailure) -> Self {
        let image_refusal = ImageRefusal::suspected(status, body, error);
        let is_rejection = is_rejection(status, error) && !failure.is_overflow();
        let (status, overflow) = (Some(status), error.overflow());
        let rejection = is_rejection.then(|| body.to_owned());
        Self { status, overflow, image_refusal, rejection, ..Self::permanent(failure) }
    }

    pub(in crate::upstream) const fn permanent(failure: RoundFailure) -> Self {
        Self {
            failure,
            wait: None,
            was_reached: true,
            status: None,
            overflow: None,
            image_refusal: None,
            rejection: None,
            refused_variant: None,
        }
    }
}

impl Failed {
    /// The server answered with something other than a list of its models.
    pub(super) fn not_a_list() -> Self {
        Self { status: Some(200), ..Self::permanent(RoundFailure::not_a_list()) }
    }

    /// Whether the server answers, and gives no list of its models.
    pub(super) const fn has_no_list(&self) -> bool {
        matches!(self.status, Some(200 | 404 | 405 | 410 | 501))
    }

    /// Whether a server was reached that did not answer in time.
    pub(in crate::upstream) fn is_silence(&self) -> bool {
        self.was_reached && self.failure.is_timeout()
    }

    /// Waits for another attempt, unless that is not worthwhile.
    pub(super) async fn waits_to_retry(&self, attempt: &mut u32) -> bool {
        let Some(wait) = self.wait.filter(|_| *attempt < limits::ATTEMPTS_MAX) else {
            return false;
        };
        debug!(attempt, reason = %self.failure.message, "retrying");
        sleep(wait.max(limits::RETRY_BACKOFF * *attempt)).await;
        *attempt += 1;
        true
    }

    /// Whether the server knows the request, and does not take what is in it. llama.cpp answers 500 if a
    /// chat template gives up.
    pub(in crate::upstream) const fn is_refusal(&self) -> bool {
        matches!(self.status, Some(400 | 422 | 500))
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        // A server that is starting up refuses connections for a moment. If the request may
        // have arrived, it is not sent again.
        let wait = matches!(error, ClientError::Connect { .. }).then_some(Duration::ZERO);
        let was_reached = !error.is_unreachable();
        Self { wait, was_reached, ..Self::permanent(error.into()) }
    }
}

/// Whether a server did not take what is in the request. llama-cpp-python answers 500 to a value that it does not know.
fn is_rejection(status: u16, error: &ServerError) -> bool {
    matches!(status, 400 | 422) || (status == 500 && error.message.contains("validation error"))
}

/// The wait that the server asks for, zero if it asks for none; `None` if it is too long.
fn wait_asked_for(answer: &Answer) -> Option<Duration> {
    let field = answer.head.headers.get(RETRY_AFTER).and_then(|field| field.to_str().ok());
    let asked = field.and_then(|field| http::retry_after(field, Timestamp::now()));
    Some(asked.unwrap_or_default()).filter(|wait| *wait <= limits::RETRY_AFTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_a_request_is_rejected() {
        let (grammar, value) = ("failed to parse grammar", "1 validation error");
        for (status, message, expected) in [
            (400, grammar, true),
            (422, grammar, true),
            (401, grammar, false),
            (404, grammar, false),
            (429, grammar, false),
            (500, grammar, false),
            (503, value, false),
            (500, value, true),
        ] {
            let error = ServerError::from_body(message.as_bytes());
            assert_eq!(is_rejection(status, &error), expected, "{status}: {message}");
        }
    }
}
