//! Why a round failed, in words for whoever can fix it.

use super::client::{ClientError, WireError};
use super::patience::TimedOut;
use super::server_error::ServerError;
use crate::event::FailureCode;
use crate::http;
use crate::limits::{MIB, upstream as limits};
use crate::tls::ConnectFault;

/// A round that could not start or that broke off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundFailure {
    /// What it means for the turn.
    pub(crate) code: FailureCode,
    /// What happened and what to do about it.
    pub(crate) message: String,
    /// Whether the same request may succeed later.
    pub(crate) retryable: bool,
    /// Whether no connection was made, so that no server has read the request.
    pub(crate) is_unreachable: bool,
    /// Whether a server has refused the request itself, as others would.
    pub(crate) is_refusal: bool,
    /// What the server reported in its stream.
    pub(super) reported: Option<Box<ServerError>>,
}

impl RoundFailure {
    /// Whether the server was absent or overloaded. This says something about the server and
    /// nothing about the request.
    pub(super) const fn is_unavailable(&self) -> bool {
        matches!(self.code, FailureCode::UpstreamUnavailable | FailureCode::UpstreamTimeout)
    }

    fn new(code: FailureCode, retryable: bool, message: String) -> Self {
        Self { code, message, retryable, is_unreachable: false, is_refusal: false, reported: None }
    }

    /// The connection broke during the answer, or what came over it is not HTTP.
    pub(super) fn broken(error: &WireError) -> Self {
        let message = if error.is_malformed() {
            format!(
                "cannot read the model server's answer: {error}; check the server and any proxy before it"
            )
        } else {
            format!("the model server closed the connection mid-answer: {error}")
        };
        Self::new(FailureCode::UpstreamError, true, message)
    }

    /// The answer is not an event stream.
    pub(super) fn unreadable(error: impl std::error::Error) -> Self {
        let message = format!("cannot read the model server's answer: {error}");
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// The answer ended before the model finished.
    pub(super) fn ended_early() -> Self {
        let message = "the model server ended its stream without a finish reason; its log may say \
                       why";
        Self::new(FailureCode::UpstreamError, true, message.to_owned())
    }

    /// The wait for the server is over.
    pub(super) fn timed_out(end: TimedOut) -> Self {
        match end {
            TimedOut::Silent(longest) => {
                let seconds = longest.as_secs_f32();
                let message = format!(
                    "the model server sent nothing for {seconds} s; if it is still reading a long \
                     prompt, raise idle_timeout_sec"
                );
                Self::new(FailureCode::UpstreamTimeout, true, message)
            }
            TimedOut::Wordless(longest) => {
                let message = format!(
                    "the model server sent only keep-alives for {} s ({} times idle_timeout_sec); \
                     if it is still reading a long prompt, raise idle_timeout_sec",
                    longest.as_secs_f32(),
                    limits::WORDLESS_IDLE_TIMEOUTS_MAX
                );
                Self::new(FailureCode::UpstreamTimeout, true, message)
            }
            TimedOut::Busy(longest) => {
                let message = format!(
                    "the model server answered other requests for {} s ({} times \
                     idle_timeout_sec), but not this one; let it answer more at a time, or raise \
                     idle_timeout_sec",
                    longest.as_secs_f32(),
                    limits::WORDLESS_IDLE_TIMEOUTS_MAX
                );
                Self::new(FailureCode::UpstreamTimeout, true, message)
            }
            TimedOut::WordlessBytes(bytes_max) => {
                let message = format!(
                    "the model server sent more than {} MiB without any content; check what it \
                     sends, and whether base_url is right",
                    bytes_max / MIB
                );
                Self::new(FailureCode::UpstreamError, false, message)
            }
        }
    }

    /// The server refused the request.
    pub(super) fn refused(status: u16, error: &ServerError) -> Self {
        let said = format!("the model server answered {status}: {error}");
        let advice = match status {
            401 | 403 => "; check this upstream's api_key",
            404 if error.is_about_address() => {
                "; check base_url (it usually ends in /v1) and model"
            }
            // mlx-lm answers 404 to whatever goes wrong.
            404 => return Self::of_status(500, error, &said, ""),
            _ => "",
        };
        Self::of_status(status, error, &said, advice)
    }

    /// What the server said, with this status, and what to do about it.
    fn of_status(status: u16, error: &ServerError, said: &str, advice: &str) -> Self {
        if error.is_long_prompt() {
            let is_refusal = matches!(status, 400..=499);
            return Self { is_refusal, ..Self::too_long_for_model(said) };
        }
        let message = format!("{said}{advice}");
        let retryable = matches!(status, 408 | 429 | 500..=599);
        let code = if http::is_transient(status) {
            FailureCode::UpstreamUnavailable
        } else {
            FailureCode::UpstreamError
        };
        let is_refusal = matches!(status, 400..=499) && !retryable;
        Self { is_refusal, ..Self::new(code, retryable, message) }
    }

    /// The model's context cannot hold the request. Programs know the first words, which are Anthropic's, and shorten
    /// the conversation.
    fn too_long_for_model(said: &str) -> Self {
        let message = format!(
            "prompt is too long: {said}; lower model.context_budget_tokens or give the server a larger context"
        );
        Self::new(FailureCode::ContextLengthExceeded, false, message)
    }

    /// Whether a shorter request may succeed.
    pub(super) fn is_overflow(&self) -> bool {
        self.code == FailureCode::ContextLengthExceeded
    }

    /// Whether the model's chat template takes no instructions, in the words of Gemma 2's and many others'.
    pub(super) fn is_about_system_role(&self) -> bool {
        let said = self.message.to_ascii_lowercase();
        self.code == FailureCode::UpstreamError
            && said.contains("system role")
            && said.contains("support")
    }

    /// Whether the server has no model of the name that it was asked for.
    pub(super) fn misses_model(&self) -> bool {
        let said = self.message.to_ascii_lowercase();
        said.contains("model") && (said.contains("not found") || said.contains("does not exist"))
    }

    /// The server answered with a redirect. It is not followed: the address comes from the server, not the operator.
    pub(super) fn redirected(location: Option<&str>) -> Self {
        let message = match location {
            Some(location) => format!(
                "the model server redirects to {location}; set base_url to that address (it usually ends in /v1)"
            ),
            None => "the model server redirects without saying where; check base_url".to_owned(),
        };
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// The server sent something other than an event stream.
    pub(super) fn not_a_stream(content_type: &str, said: &ServerError) -> Self {
        let what = if content_type.is_empty() { "no content type" } else { content_type };
        let advice = if http::is_media_type(content_type, "text/html") {
            "; check base_url (it usually ends in /v1)"
        } else {
            ""
        };
        let message = format!(
            "the model server answered with {what} instead of an event stream: {said}{advice}"
        );
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// The server sent something other than a list of its models.
    pub(super) fn not_a_list() -> Self {
        let message = "the model server answered GET /models with something other than a list of models; check \
                       base_url (it usually ends in /v1); if the server has no such list, set this upstream's model";
        Self::new(FailureCode::UpstreamError, false, message.to_owned())
    }

    /// The server answered with something other than a chat completion.
    pub(super) fn not_a_completion() -> Self {
        let message = "the model server answered with something other than a chat completion";
        Self::new(FailureCode::UpstreamError, false, message.to_owned())
    }

    /// The server has no model, as far as it tells.
    pub(super) fn no_model() -> Self {
        let message = "the model server lists no model; load one there, or name one with this \
                       upstream's model";
        Self::new(FailureCode::UpstreamError, false, message.to_owned())
    }

    /// The server sent something other than a rendered chat template.
    pub(super) fn not_a_prompt(said: &ServerError) -> Self {
        let message = format!(
            "the model server rendered no prompt: {said}; kind `llama_completion` needs llama.cpp's \
             own server"
        );
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// An answer in one piece broke off.
    pub(super) fn cut_short() -> Self {
        let message = "the model server did not finish its answer; its log may say why";
        Self::new(FailureCode::UpstreamError, true, message.to_owned())
    }

    /// The same of a server that took too long.
    pub(super) fn late() -> Self {
        Self { code: FailureCode::UpstreamTimeout, ..Self::cut_short() }
    }

    /// Whether a server took too long.
    pub(super) fn is_timeout(&self) -> bool {
        self.code == FailureCode::UpstreamTimeout
    }

    /// An answer in one piece is longer than this many bytes.
    pub(super) fn too_long(bytes_max: usize) -> Self {
        let message = format!(
            "the model server's answer has more than {bytes_max} bytes; check whether base_url is right"
        );
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// The event stream is compressed.
    pub(super) fn compressed(coding: &str) -> Self {
        let message = format!(
            "the model server compressed its answer (Content-Encoding: {coding}) although it was \
             asked not to; turn off compression in the server or its proxy"
        );
        Self::new(FailureCode::UpstreamError, false, message)
    }

    /// The server reported an error inside its stream.
    pub(super) fn reported(error: ServerError) -> Self {
        let said = format!("the model server reported an error: {error}");
        // Without a status, it may be temporary.
        let status = error.status.unwrap_or(500);
        let failure = Self::of_status(status, &error, &said, "");
        Self { reported: Some(Box::new(error)), ..failure }
    }

    /// With all that the server said passed through `hide`: it may repeat the key that it was sent.
    pub(super) fn hidden(mut self, hide: impl Fn(String) -> String) -> Self {
        self.message = hide(self.message);
        if let Some(error) = &mut self.reported {
            error.message = hide(std::mem::take(&mut error.message));
            error.code = error.code.take().map(&hide);
        }
        self
    }
}

impl From<ClientError> for RoundFailure {
    fn from(error: ClientError) -> Self {
        let (code, advice) = match &error {
            ClientError::Connect { fault, .. } => {
                (FailureCode::UpstreamUnavailable, advice_on_connecting(*fault))
            }
            ClientError::ConnectTimeout { .. } => {
                (FailureCode::UpstreamUnavailable, "; is the model server running?")
            }
            ClientError::AnswerTimeout { after } if *after > limits::CHECK_TIMEOUT => (
                FailureCode::UpstreamTimeout,
                "; if it needs that long to load the model or to read the prompt, raise idle_timeout_sec",
            ),
            ClientError::AnswerTimeout { .. } => (FailureCode::UpstreamTimeout, ""),
            ClientError::Busy { after } => return Self::timed_out(TimedOut::Busy(*after)),
            ClientError::Broken { source, .. } if source.is_malformed() => (
                FailureCode::UpstreamError,
                "; the server does not speak HTTP/1.1: check base_url, and whether it needs http or https",
            ),
            ClientError::Broken { .. } => (FailureCode::UpstreamError, ""),
        };
        let is_unreachable = error.is_unreachable();
        Self { is_unreachable, ..Self::new(code, true, format!("{error}{advice}")) }
    }
}

/// What to do if no connection can be made.
const fn advice_on_connecting(fault: ConnectFault) -> &'static str {
    match fault {
        ConnectFault::Certificate => {
            "; renew the server's certificate, or make this machine trust whoever issued it"
        }
        ConnectFault::NotTls => "; if the server has no TLS, base_url begins with http://",
        ConnectFault::Other => "; is the model server running?",
    }
}
