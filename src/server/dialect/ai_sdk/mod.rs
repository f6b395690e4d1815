//! The UI message stream of the AI SDK (`POST /api/v1/ai-sdk/chat`), as `useChat` reads it.
//!
//! The client keeps the conversation and sends all of it with every request, with the tools that it
//! was shown. The id of its chat names the session, so that it can join a running turn again.

mod encoder;
mod history;
mod part;
mod request;
#[cfg(test)]
mod tests;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::{ClientRequest, Dialect, Encoder, ParsedRequest, Refused, RequestReader, openai_error};
use crate::server::refusal::Refusal;
use encoder::PartEncoder;

pub(in crate::server) use request::session_id;

/// The UI message stream.
#[derive(Debug)]
pub(in crate::server) struct AiSdk;

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw>()
}

/// Adds the schema of a part.
pub(in crate::server) fn add_schema(generator: &mut SchemaGenerator) {
    generator.subschema_for::<part::Part<'_>>();
}

impl RequestReader for AiSdk {
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
        request::read(request)
    }
}

impl Dialect for AiSdk {
    fn tool_choice(&self) -> &'static str {
        "toolChoice"
    }

    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, _) = openai_error::status_and_code(refusal);
        (status, refusal.message().into())
    }

    /// Chats show the body as it is.
    fn refused(&self, refusal: &Refusal) -> Refused {
        let (status, _) = openai_error::status_and_code(refusal);
        let body = refusal.message().into_bytes();
        Refused { status, media_type: "text/plain; charset=utf-8", body }
    }
}

/// The encoder for a client that joins a running turn again. The message has the id of its turn:
/// if the turn continues a message of the client, what follows becomes a message of its own,
/// because clients reset the message that they join.
pub(in crate::server) fn encoder() -> Box<dyn Encoder> {
    Box::new(PartEncoder::new(None))
}
