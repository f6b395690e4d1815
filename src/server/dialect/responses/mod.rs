//! Responses (`POST /v1/responses`), as `OpenAI`'s SDKs and Open Responses read it.
//!
//! A response is one turn. A chain of them is a session, which keeps each answer beside the turn,
//! so that clients can fetch it, join its stream again, and continue from it.
//!
//! ```text
//!   records -> answer -> items -> frames      the stream
//!                 '-----> object              whole, kept, fetched
//! ```

mod answer;
mod calls;
mod collector;
mod encoder;
mod end;
mod envelope;
mod frames;
mod history;
mod id;
mod items;
mod namespaces;
mod parts;
mod receipt;
mod replay;
mod request;
pub(in crate::server) mod schema;
mod server_items;
mod stored;
#[cfg(test)]
mod tests;
mod text;
mod tools;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;

use super::{Dialect, openai_error};
use crate::gateway::BeginError;
use crate::server::refusal::Refusal;

#[cfg(any(test, fuzzing))]
pub(super) use id::ItemId;
pub(in crate::server) use id::ResponseId;
pub(in crate::server) use replay::replay;
pub(in crate::server) use request::{Parent, Referents, Request, RequestContext};
pub(in crate::server) use server_items::Labels;
pub use server_items::ServerItems;
pub(in crate::server) use stored::{Page, Rendering, ResponseSerializer, StoredResponse};

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
        let (status, _) = openai_error::status_and_code(refusal);
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found",
            429 => "too_many_requests",
            500.. => "server_error",
            _ => "invalid_request",
        };
        let param = match refusal {
            Refusal::NoParent(_) | Refusal::ForeignParent(_) | Refusal::ParentRuns(_) => {
                Some("previous_response_id")
            }
            Refusal::Begin(BeginError::UnknownTool { .. }) => Some("tool_choice"),
            Refusal::Begin(BeginError::Answer(_)) => Some("input"),
            refusal => openai_error::param(refusal),
        };
        (status, openai_error::body(refusal, kind, param))
    }
}
