//! AG-UI 1.0 (`POST /api/v1/ag-ui`), as front ends for agents speak it.
//!
//! The client keeps the conversation and sends all of it with every run, with the tools that it was
//! shown. A question interrupts the run; the next run resumes it with the user's answer.

mod call_events;
mod calls;
mod encoder;
mod event;
mod history;
mod interrupt;
mod request;
mod resume;
mod snapshot;
#[cfg(test)]
mod tests;

use bytes::BytesMut;
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::native::Native;
use super::{ClientRequest, Dialect, ParsedRequest, Refused, RequestReader, sse};
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

/// AG-UI.
#[derive(Debug)]
pub(in crate::server) struct AgUi;

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw>()
}

/// Adds the schema of an event.
pub(in crate::server) fn add_schema(generator: &mut SchemaGenerator) {
    generator.subschema_for::<event::RunEvent<'_>>();
}

impl RequestReader for AgUi {
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
        request::read(request)
    }
}

impl Dialect for AgUi {
    fn tool_choice(&self) -> &'static str {
        request::TOOL_CHOICE
    }

    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        Native.error(refusal)
    }

    /// A refused answer is a run that fails, as the protocol has it. Anything else is no run.
    fn refused(&self, refusal: &Refusal) -> Refused {
        let is_answer = matches!(
            refusal,
            Refusal::Invalid { param: resume::PARAM, .. } | Refusal::Begin(BeginError::Answer(_))
        );
        if is_answer {
            let mut body = BytesMut::new();
            let (message, code) = (&*refusal.message(), refusal.kind().1);
            sse::push(&mut body, &event::RunEvent::RunError { message, code });
            return Refused { status: 200, media_type: sse::MEDIA_TYPE, body: body.into() };
        }
        Native.refused(refusal)
    }
}
