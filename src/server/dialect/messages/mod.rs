//! Messages (`POST /v1/messages`), as Anthropic's SDKs and programs like Claude Code speak it.
//!
//! As in Chat Completions, the client keeps the conversation and sends all of it with every request.
//! Most of these clients are agents with tools of their own, so ours are not offered unless the
//! configuration says so.

mod blocks;
mod collector;
mod encoder;
mod history;
mod request;
pub(in crate::server) mod schema;
mod server_tools;
#[cfg(test)]
mod tests;
mod tools;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{ClientRequest, Dialect, ParsedRequest, RequestReader, openai_error};
use crate::gateway::NewTurn;
use crate::server::refusal::Refusal;

pub use server_tools::MessagesServerTools;

/// Messages.
#[derive(Debug)]
pub(in crate::server) struct Messages {
    /// What becomes of our tools.
    pub(in crate::server) server_tools: MessagesServerTools,
}

/// A request whose tokens are to be counted.
#[derive(Debug)]
pub(in crate::server) struct Counting {
    /// The turn that it would begin.
    pub(in crate::server) turn: NewTurn,
    /// About how many tokens its messages take.
    pub(in crate::server) message_tokens: usize,
}

impl Messages {
    /// Reads a request whose tokens are to be counted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in crate::server) fn read_to_count(
        &self,
        request: &ClientRequest<'_>,
    ) -> Result<Counting, Refusal> {
        request::read_to_count(request, self.server_tools)
    }
}

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw<'_>>()
}

impl RequestReader for Messages {
    fn read(&self, request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
        request::read(request, self.server_tools)
    }
}

impl Dialect for Messages {
    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, _) = openai_error::status_and_code(refusal);
        (status, error(error_kind(status), &refusal.message()))
    }
}

/// An error, as a body and as an event's data.
fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

/// Anthropic's name for the errors with this status.
const fn error_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
