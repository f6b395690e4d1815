//! The schemas of answers that are no turn's, and of what several dialects share.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::tools::{SourceReport, ToolSpec};

/// Adds the schemas.
pub(in crate::server) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Error>();
    generator.subschema_for::<OpenAiError>();
    generator.subschema_for::<Tools>();
    generator.subschema_for::<Models>();
}

/// Why a request was refused.
#[derive(JsonSchema)]
struct Error {
    error: NativeError,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct NativeError {
    /// For programs.
    code: String,
    /// For people.
    message: String,
    /// The field at fault, if there is one.
    #[serde(skip_serializing_if = "absent")]
    param: String,
}

/// Why a request was refused, or failed.
#[derive(JsonSchema)]
pub(super) struct OpenAiError {
    error: OpenAiErrorBody,
}

#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct OpenAiErrorBody {
    /// For people.
    message: String,
    /// The kind of error.
    r#type: String,
    /// The field at fault, if there is one.
    param: Option<String>,
    /// For programs.
    code: String,
}

#[derive(JsonSchema)]
struct Tools {
    /// The tools that can be offered.
    tools: Vec<ToolSpec>,
    /// Where they come from.
    servers: Vec<SourceReport>,
}

#[derive(JsonSchema)]
struct Models {
    #[schemars(extend("const" = "list"))]
    object: String,
    /// Each upstream and each name for one, with and without tools.
    data: Vec<Model>,
    /// Always empty: some clients insist on it.
    #[serde(rename = "models")]
    more: [Value; 0],
    /// Always false: the list is whole.
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

#[derive(JsonSchema)]
struct Model {
    id: String,
    #[schemars(extend("const" = "model"))]
    object: String,
    /// When the gateway was started, in seconds since the Unix epoch.
    created: u64,
    #[schemars(extend("const" = "tether"))]
    owned_by: String,
    /// The same as `object`, for Anthropic's clients.
    #[serde(rename = "type")]
    #[schemars(extend("const" = "model"))]
    kind: String,
    /// The same as `id`.
    display_name: String,
    /// The same as `created`, as in RFC 3339.
    created_at: String,
}
