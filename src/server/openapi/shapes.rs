//! The schemas of answers that are no dialect's.

#![expect(dead_code, reason = "only the schemas of these structs are used")]

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Adds the schemas.
pub(super) fn add(generator: &mut SchemaGenerator) {
    generator.subschema_for::<Status>();
    generator.subschema_for::<Description>();
}

#[derive(JsonSchema)]
struct Status {
    status: String,
    /// Why the gateway is not ready, for those with a key.
    #[serde(skip_serializing_if = "absent")]
    message: String,
}

/// An `OpenAPI` document.
#[derive(JsonSchema)]
struct Description {
    openapi: String,
    info: Map<String, Value>,
    paths: Map<String, Value>,
    components: Map<String, Value>,
}
