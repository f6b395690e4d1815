//! Chat Completions (`POST /v1/chat/completions`), as `OpenAI`'s SDKs read it.
//!
//! The client keeps the conversation and sends all of it with every request. A request is one turn
//! in a session of its own; the turns behind earlier answers are found again by what the client
//! could see of them.

mod chunk;
mod ended;
pub(super) mod messages;
mod request;
mod server_tools;
#[cfg(test)]
mod tests;
mod whole;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{Asked, Asking, Dialect};
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

pub use server_tools::ServerTools;

/// Chat Completions.
#[derive(Debug)]
pub(in crate::server) struct ChatCompletions {
    /// How much clients are shown of our tools.
    pub(in crate::server) shown: ServerTools,
}

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw>()
}

impl Dialect for ChatCompletions {
    fn read(&self, asked: &Asked<'_>) -> Result<Asking, Refusal> {
        request::read(asked, self.shown)
    }

    /// All four keys are always there: some SDKs insist on each.
    fn error(&self, refusal: &Refusal) -> (u16, Value) {
        let (status, code) = match refusal {
            Refusal::Begin(BeginError::UnknownModel { .. }) => (404, "model_not_found"),
            refusal => {
                let (status, code) = refusal.kind();
                (status.as_u16(), code)
            }
        };
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let param = match refusal {
            Refusal::BadJson { param, .. } => param.as_deref(),
            Refusal::Invalid { param, .. } => Some(*param),
            Refusal::Begin(BeginError::UnknownModel { .. }) => Some("model"),
            Refusal::Begin(BeginError::NoToolToCall | BeginError::UnknownChoice { .. }) => {
                Some("tool_choice")
            }
            _ => None,
        };
        let error = json!({
            "message": refusal.message(), "type": kind, "param": param, "code": code,
        });
        (status, json!({ "error": error }))
    }
}
