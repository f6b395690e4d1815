//! `GET /openapi.json`: the HTTP API described for programs (`OpenAPI` 3.1).
//!
//! Schemas are made from the structs that read requests and write answers. Answers that are spliced
//! by hand have structs of their own, to which tests hold what is sent, field by field. To add a
//! dialect, add its operations to [`operations`], the schemas of its answers to [`answers`], and what
//! its clients send as history to [`histories`]; the tests then hold its routes, methods, statuses,
//! errors and streams to what is said here.

mod answers;
mod histories;
mod operation;
mod operations;
mod shapes;
#[cfg(test)]
pub(super) mod tests;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use operation::{Operation, Parameter};
use operations::{OPERATIONS, SESSION};

/// The description. In these headers, clients can name a conversation.
pub(super) fn document(session_headers: &[&str]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.clone().into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = describe(operation, session_headers, &mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    for (name, schema) in answers::schemas(settings) {
        let other = schemas.insert(name, schema);
        debug_assert!(
            other.is_none(),
            "a request and an answer have a schema of one name: {other:?}"
        );
    }
    histories::describe(&mut schemas);
    schemas.values_mut().for_each(tidy);
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

/// Adds the maximum of 32-bit integers. Makes descriptions of what comments say to
/// readers of the code: one paragraph a line, and links as the names that they show.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(description)) = members.get_mut("description") {
                let paragraphs = description.split("\n\n").map(|it| it.replace('\n', " "));
                *description = without_links(&paragraphs.collect::<Vec<_>>().join("\n\n"));
            }
            if members.get("format").is_some_and(|format| format == "uint32") {
                // Not every reader knows what the format means.
                members.entry("maximum").or_insert_with(|| u32::MAX.into());
            }
            members.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once("[`") {
        let Some((name, after)) = link.split_once("`]") else { break };
        plain.extend([before, "`", name, "`"]);
        let target = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    plain + rest
}

fn describe(
    operation: &Operation,
    session_headers: &[&str],
    generator: &mut SchemaGenerator,
) -> Value {
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
        let all = parameters.iter().flat_map(|parameter| {
            let is_other = |name: &&&str| !name.eq_ignore_ascii_case(parameter.name);
            let more = if parameter.name == SESSION.name { session_headers } else { &[] };
            let more = more.iter().filter(is_other).map(|name| Parameter { name, ..*parameter });
            [*parameter].into_iter().chain(more)
        });
        let all = all.map(|parameter| describe_parameter(&parameter));
        described["parameters"] = all.collect();
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

fn describe_parameter(parameter: &Parameter<'_>) -> Value {
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
        404 => "Nothing was found.",
        408 => "The body did not arrive in time.",
        409 => "The session's state does not allow it now.",
        410 => "It is no longer kept.",
        413 => "The body is too long.",
        415 => "The body is compressed, or a page's body is not JSON.",
        421 => "The host name is not allowed.",
        429 => "The client has or asks too much; `Retry-After` says when to try again.",
        501 => "The transfer coding is not supported.",
        502 => "The model server failed.",
        503 => "Not now; try again later.",
        504 => "The model server did not answer in time.",
        _ => "Something is wrong with the gateway.",
    }
}
