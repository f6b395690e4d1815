//! The schemas of answers that are no dialect's.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Adds the schemas.
pub(super) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Status>();
    generator.subschema_for::<Description>();
}

#[expect(clippy::struct_field_names, reason = "clients read this name")]
#[derive(JsonSchema)]
struct Status {
    status: String,
    /// Why the gateway is not ready, for those with a key.
    #[serde(skip_serializing_if = "absent")]
    message: String,
    /// The upstreams, for those with a key.
    #[serde(skip_serializing_if = "absent")]
    upstreams: Vec<UpstreamContract>,
}

#[derive(JsonSchema)]
struct UpstreamContract {
    name: String,
    /// How its model makes calls, as in `tools.call_contract`; null if that is not known yet.
    call_contract: Option<String>,
    /// What that was recognised by.
    because: Option<String>,
}

/// An `OpenAPI` document.
#[derive(JsonSchema)]
struct Description {
    openapi: String,
    info: Map<String, Value>,
    paths: Map<String, Value>,
    components: Map<String, Value>,
}
