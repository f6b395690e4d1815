//! Responses (`POST /v1/responses`), as `OpenAI`'s SDKs and Open Responses read it.
//!
//! A response is one turn. A chain of them is a session, which keeps each answer beside the turn,
//! so that clients can fetch it, join its stream again, and continue from it.
//!
//! ```text
//!   records -> answer -> items -> frames      the stream
//!                 '-----> object              whole, kept, fetched
//! ```

mod about;
mod answer;
mod calls;
mod end;
mod frames;
mod id;
mod input;
mod items;
mod kept;
mod parts;
mod replay;
mod request;
mod server_items;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod whole;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::Dialect;
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

pub(in crate::server) use id::ResponseId;
pub(in crate::server) use kept::{Kept, Means, Page};
pub(in crate::server) use replay::replay;
pub(in crate::server) use request::{Found, Parent, Request, Surroundings};
pub(in crate::server) use server_items::Labels;
pub use server_items::ServerItems;

/// The schema of a request's body.
pub(in crate::server) fn request_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<request::Raw>()
}

/// Responses.
#[derive(Debug)]
pub(in crate::server) struct Responses {
    /// How clients see our tools.
    pub(in crate::server) shown: ServerItems,
}

impl Dialect for Responses {
    /// Types as Open Responses names them; `OpenAI`'s SDKs go by the status.
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
            404 => "not_found",
            429 => "too_many_requests",
            500.. => "server_error",
            _ => "invalid_request",
        };
        let param = match refusal {
            Refusal::BadJson { param, .. } => param.as_deref(),
            Refusal::Invalid { param, .. } => Some(*param),
            Refusal::NoParent(_) => Some("previous_response_id"),
            Refusal::Begin(BeginError::UnknownModel { .. }) => Some("model"),
            Refusal::Begin(
                BeginError::NoToolToCall
                | BeginError::UnknownTool { .. }
                | BeginError::UnknownChoice { .. },
            ) => Some("tool_choice"),
            Refusal::Begin(BeginError::Answer(_)) => Some("input"),
            _ => None,
        };
        let error = json!({
            "message": refusal.message(), "type": kind, "param": param, "code": code,
        });
        (status, json!({ "error": error }))
    }
}
