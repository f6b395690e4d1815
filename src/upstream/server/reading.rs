//! Answers that are no event streams: read whole, and errors without the key that was sent.

use std::time::Duration;

use hyper::header::{CONTENT_ENCODING, HeaderValue};

use super::Server;
use super::failed::Failed;
use crate::http;
use crate::limits::upstream as limits;
use crate::upstream::RoundFailure;
use crate::upstream::client::{Answer, Extent, ReadText};

impl Server {
    /// The body of an answer that is an error. A server that never ends it does not delay the turn's own end for long.
    pub(super) async fn read_error(&self, answer: &mut Answer) -> String {
        let within = self.idle_timeout.min(limits::ERROR_BODY_TIMEOUT);
        self.without_key(read_body(answer, limits::ERROR_BODY_BYTES_MAX, within).await.text)
    }

    /// What the server says, without the key that it was sent.
    pub(super) fn without_key(&self, told: String) -> String {
        match &self.hidden_key {
            Some(key) => key.hide(told),
            None => told,
        }
    }

    /// The body of an answer, which has to be whole, unless it is an error.
    pub(super) async fn read_whole(
        &self,
        mut answer: Answer,
        bytes_max: usize,
        within: Duration,
    ) -> Result<String, Failed> {
        let body = read_body(&mut answer, bytes_max, within).await;
        if !answer.head.status.is_success() {
            return Err(Failed::refused(&answer, &self.without_key(body.text)));
        }
        match body.extent {
            Extent::Whole => {
                answer.body.finish();
                Ok(body.text)
            }
            Extent::Longer => Err(Failed {
                status: Some(answer.head.status.as_u16()),
                ..Failed::permanent(RoundFailure::too_long(bytes_max))
            }),
            Extent::Cut => Err(Failed {
                wait: Some(Duration::ZERO),
                ..Failed::permanent(RoundFailure::cut_short())
            }),
            Extent::Late => Err(Failed::permanent(RoundFailure::late())),
        }
    }
}

/// The coding of an answer's body, if it has one. Such a body cannot be read.
pub(super) fn coding(answer: &Answer) -> Option<&str> {
    let fields = answer.head.headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::to_str);
    let coding = http::unknown_coding(fields.map(|field| field.unwrap_or("?")), "identity")?;
    Some(coding.get(..limits::CODING_BYTES_MAX).unwrap_or(coding))
}

/// The body of an answer that is not an event stream: at most `bytes_max` bytes, and only what
/// arrives within this time.
async fn read_body(answer: &mut Answer, bytes_max: usize, within: Duration) -> ReadText {
    match coding(answer) {
        Some(coding) => {
            let text = format!("(unreadable, Content-Encoding: {coding})");
            ReadText { text, extent: Extent::Whole }
        }
        None => answer.body.read_to_string(bytes_max, within).await,
    }
}
