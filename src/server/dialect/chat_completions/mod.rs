//! Chat Completions (`POST /v1/chat/completions`), as `OpenAI`'s SDKs read it.
//!
//! The client keeps the conversation and sends all of it with every request. A request is one turn
//! in a session of its own; the turns behind earlier answers are found again by what the client
//! could see of them.

mod collector;
mod encoder;
mod ended;
mod history;
mod request;
pub(in crate::server) mod schema;
#[cfg(test)]
mod tests;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::models::Models;
use super::server_tools::ServerTools;
use super::{ClientRequest, Dialect, ImageReader, ParsedRequest, RequestReader, openai_error};
use crate::conversation::claimed::NoTurns;
use crate::server::refusal::Refusal;

/// Chat Completions.
#[derive(Debug)]
pub(in crate::server) struct ChatCompletions {
    /// How much clients are shown of our tools.
    pub(in crate::server) shown: ServerTools,
}

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw<'_>>()
}

/// Reads a request and repairs its history, for a client without cached turns. Returns the number
/// of turns; `None` if the request is refused. Only for benchmarks.
#[doc(hidden)]
#[must_use]
pub fn turns_in_history(body: &[u8]) -> Option<usize> {
    let request = ClientRequest {
        accept: "",
        body,
        idempotency_key: None,
        owner: "",
        models: &Models::new(Vec::new(), Vec::new(), true),
        conversation: None,
        lookup: &NoTurns,
        images: ImageReader::new(true),
        now_sec: 0,
    };
    let parsed = request::read(&request, ServerTools::Off).ok()?;
    Some(parsed.turn.client_history?.history.turns().len())
}

impl RequestReader for ChatCompletions {
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
        request::read(request, self.shown)
    }
}

impl Dialect for ChatCompletions {
    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, _) = openai_error::status_and_code(refusal);
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        (status, openai_error::body(refusal, kind, openai_error::param(refusal)))
    }
}
