//! Tether's own API: a turn's events as an event stream or as lines of JSON.

mod event_stream;
mod frame_id;
mod ndjson;
pub(in crate::server) mod request;
pub(in crate::server) mod transcript;

use serde_json::{Value, json};

use super::{ClientRequest, Dialect, Encoder, Form, ParsedRequest, RequestReader, openai_error};
use crate::conversation::AnswerError;
use crate::conversation::claimed::Repairs;
use crate::gateway::BeginError;
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

impl RequestReader for Native {
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
        let key = request.idempotency_key.map(str::to_owned);
        let turn = request::parse(request.body, key)?;
        let form = Form::Stream(encoder(request.accept));
        Ok(ParsedRequest { turn, form, repairs: Repairs::default() })
    }
}

impl Dialect for Native {
    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, code) = refusal.kind();
        let mut error = json!({ "code": code, "message": refusal.message() });
        if let Some(param) = param(refusal) {
            error["param"] = cut(param, REFUSAL_BYTES_MAX).into();
        }
        (status.as_u16(), json!({ "error": error }))
    }
}

/// The encoder for a client that accepts these media types: an event stream, unless it prefers
/// lines.
pub(in crate::server) fn encoder(accept: &str) -> Box<dyn Encoder> {
    match http::preferred(accept, &[event_stream::MEDIA_TYPE, ndjson::MEDIA_TYPE]) {
        Some(ndjson::MEDIA_TYPE) => Box::new(Ndjson),
        _ => Box::new(EventStream),
    }
}

/// The field at fault, under the name that the client used.
fn param(refusal: &Refusal) -> Option<&str> {
    match refusal {
        Refusal::Begin(BeginError::UnknownTool { .. }) => Some("tools"),
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
        refusal => openai_error::param(refusal),
    }
}
