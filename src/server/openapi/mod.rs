//! `GET /openapi.json`: the HTTP API described for programs (`OpenAPI` 3.1).
//!
//! Schemas of requests are made from the structs that read them. To add a dialect, add its
//! operations to [`operations`], and the schemas of its answers to [`answers`]; the tests then hold
//! its routes, methods, statuses and errors to what is said here.

mod answers;
mod operation;
mod operations;
#[cfg(test)]
mod tests;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use operation::{Operation, Parameter};
use operations::OPERATIONS;

/// The description.
pub(super) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation, &mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.extend(answers::schemas());
    let keys = json!({
        "bearer": { "type": "http", "scheme": "bearer" },
        "api_key": { "type": "apiKey", "in": "header", "name": "X-Api-Key" },
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tether",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "paths": paths,
        "components": { "schemas": schemas, "securitySchemes": keys },
    })
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let Operation { id, summary, parameters, body, answers, errors, .. } = operation;
    let mut responses = Map::new();
    for answer in *answers {
        let described = describe_answer(answer.description, answer.content);
        responses.insert(answer.status.to_string(), described);
    }
    for status in errors.statuses.iter().copied().flatten() {
        let content = [(errors.media_type, errors.schema)];
        // Not ready is no error.
        let described = || describe_answer(reason(*status), &content);
        responses.entry(status.to_string()).or_insert_with(described);
    }
    let mut described = json!({ "operationId": id, "summary": summary });
    if !parameters.is_empty() {
        described["parameters"] = parameters.iter().map(describe_parameter).collect();
    }
    if let Some(schema) = body {
        let content = json!({ "application/json": { "schema": schema(generator) } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described["responses"] = responses.into();
    if !operation.is_open() {
        // Without `server.api_keys`, none is needed.
        described["security"] = json!([{ "bearer": [] }, { "api_key": [] }, {}]);
    }
    described
}

/// An answer with content of these media types, each with the name of its schema unless it is text.
fn describe_answer(description: &str, content: &[(&str, Option<&str>)]) -> Value {
    let mut described = json!({ "description": description });
    for (media_type, schema) in content {
        let schema = schema.map_or_else(
            || json!({ "type": "string" }),
            |name| json!({ "$ref": format!("#/components/schemas/{name}") }),
        );
        described["content"][*media_type] = json!({ "schema": schema });
    }
    described
}

fn describe_parameter(parameter: &Parameter) -> Value {
    let Parameter { place, name, description, pattern } = parameter;
    let mut schema = json!({ "type": "string" });
    if let Some(pattern) = pattern {
        schema["pattern"] = (*pattern).into();
    }
    json!({
        "name": name,
        "in": place,
        "description": description,
        "required": *place == "path",
        "schema": schema,
    })
}

/// What a status means here.
const fn reason(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid; the message says why.",
        401 => "The key is missing or wrong.",
        403 => "The page's origin is not allowed.",
        404 => "There is no such thing.",
        408 => "The body did not arrive in time.",
        409 => "The session's state does not allow it now.",
        410 => "It is no longer kept.",
        413 => "The body is too long.",
        415 => "A page's body must be JSON.",
        421 => "The host name is not allowed.",
        501 => "The transfer coding is not supported.",
        502 => "The model server failed.",
        503 => "Not now; try again later.",
        504 => "The model server is silent.",
        _ => "Something is wrong with the gateway.",
    }
}
