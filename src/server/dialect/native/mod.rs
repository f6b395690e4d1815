//! Tether's own API: a turn's events as an event stream or as lines of JSON.

mod event_stream;
mod frame_id;
mod ndjson;
pub(in crate::server) mod request;
pub(in crate::server) mod transcript;
mod type_mismatch;

use serde_json::{Value, json};

use super::{Dialect, Encoder};
use crate::conversation::AnswerError;
use crate::gateway::{BeginError, NewTurn};
use crate::http;
use crate::limits::server::REFUSAL_BYTES_MAX;
use crate::server::refusal::Refusal;
use crate::text::cut;
use event_stream::EventStream;
use ndjson::Ndjson;

pub(in crate::server) use frame_id::FrameId;

/// Tether's own API.
#[derive(Debug)]
pub(in crate::server) struct Native;

impl Dialect for Native {
    fn read(&self, body: &[u8], idempotency_key: Option<String>) -> Result<NewTurn, Refusal> {
        request::parse(body, idempotency_key)
    }

    /// An event stream, unless the client prefers lines.
    fn encoder(&self, accept: &str) -> Box<dyn Encoder> {
        match http::preferred(accept, &[event_stream::MEDIA_TYPE, ndjson::MEDIA_TYPE]) {
            Some(ndjson::MEDIA_TYPE) => Box::new(Ndjson),
            _ => Box::new(EventStream),
        }
    }

    fn error(&self, refusal: &Refusal) -> Value {
        let (_, code) = refusal.kind();
        let mut error = json!({ "code": code, "message": refusal.message() });
        if let Some(param) = param(refusal) {
            error["param"] = cut(param, REFUSAL_BYTES_MAX).into();
        }
        json!({ "error": error })
    }
}

/// The field at fault, under the name that the client used.
fn param(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::BadJson { param, .. } => param.as_deref(),
        Refusal::Invalid { param, .. } => Some(param),
        Refusal::Begin(BeginError::UnknownModel { .. }) => Some("model"),
        Refusal::Begin(BeginError::UnknownTool { .. }) => Some("tools"),
        Refusal::Begin(BeginError::NoToolToCall | BeginError::UnknownChoice { .. }) => {
            Some("tool_choice")
        }
        Refusal::Begin(BeginError::Answer(error)) => Some(match error {
            AnswerError::UnknownQuestion { .. }
            | AnswerError::Stale(_)
            | AnswerError::Expired(_) => "clarification_response.clarification_id",
            AnswerError::ContentNotTaken(_) | AnswerError::InvalidContent(_) => {
                "clarification_response.content"
            }
            AnswerError::UnknownOption { .. } => "clarification_response.selected_option.id",
            AnswerError::Results(_) => "tool_results",
            AnswerError::TextNotTaken(_) | AnswerError::EmptyText => "clarification_response.text",
        }),
        _ => None,
    }
}
