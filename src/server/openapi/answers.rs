//! The schemas of answers. They say what clients can rely on; an answer may have more.

use serde_json::{Map, Value, json};

use crate::event::Kind;

/// All of them, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let all = [native(), chat_completions(), responses(), messages()];
    all.into_iter().flatten().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

type Named = (&'static str, Value);

fn native() -> Vec<Named> {
    let kinds = Kind::ALL.map(Kind::name);
    let error = object(&[("code", text()), ("message", text())]);
    let event = [("id", text()), ("event", one_of(&kinds)), ("data", text())];
    let transcript = [
        ("session_id", text()),
        ("state", nullable("string")),
        ("running_turn_id", nullable("string")),
        ("clarification", nullable("object")),
        ("dropped_turns", count()),
        ("turns", list(any_object())),
    ];
    let description = [("openapi", text()), ("info", any_object()), ("paths", any_object())];
    vec![
        ("Error", object(&[("error", error)])),
        ("Event", object(&event)),
        ("DataEvent", object(&[("data", text())])),
        ("Status", object(&[("status", text())])),
        ("Transcript", object(&transcript)),
        ("Tools", object(&[("tools", list(any_object())), ("servers", list(any_object()))])),
        ("Description", object(&description)),
    ]
}

fn chat_completions() -> Vec<Named> {
    let error = [
        ("message", text()),
        ("type", text()),
        ("param", nullable("string")),
        ("code", nullable("string")),
    ];
    let usage =
        [("prompt_tokens", count()), ("completion_tokens", count()), ("total_tokens", count())];
    let message = [
        ("role", one_of(&["assistant"])),
        ("content", nullable("string")),
        ("refusal", json!({ "type": "null" })),
        ("annotations", list(any_object())),
    ];
    let choice = [
        ("index", count()),
        ("message", object(&message)),
        ("finish_reason", one_of(&["stop", "length", "tool_calls"])),
        ("logprobs", json!({ "type": "null" })),
    ];
    let completion = [
        ("id", text()),
        ("object", one_of(&["chat.completion"])),
        ("created", count()),
        ("model", text()),
        ("choices", list(object(&choice))),
        ("usage", object(&usage)),
    ];
    let model = [
        ("id", text()),
        ("object", one_of(&["model"])),
        ("created", count()),
        ("owned_by", text()),
    ];
    let models = json!({ "$ref": "#/components/schemas/Model" });
    vec![
        ("OpenAiError", object(&[("error", object(&error))])),
        ("ChatCompletion", object(&completion)),
        ("Models", object(&[("object", one_of(&["list"])), ("data", list(models))])),
        ("Model", object(&model)),
    ]
}

fn responses() -> Vec<Named> {
    let statuses = ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"];
    let item = object(&[("type", text()), ("id", text())]);
    let response = [
        ("id", text()),
        ("object", one_of(&["response"])),
        ("created_at", count()),
        ("status", one_of(&statuses)),
        ("model", text()),
        ("output", list(item.clone())),
        ("error", nullable("object")),
        ("incomplete_details", nullable("object")),
        ("previous_response_id", nullable("string")),
        ("usage", nullable("object")),
    ];
    let deleted =
        [("id", text()), ("object", one_of(&["response"])), ("deleted", json!({ "const": true }))];
    let items = [
        ("object", one_of(&["list"])),
        ("data", list(item)),
        ("first_id", nullable("string")),
        ("last_id", nullable("string")),
        ("has_more", json!({ "type": "boolean" })),
    ];
    vec![
        ("Response", object(&response)),
        ("DeletedResponse", object(&deleted)),
        ("InputItems", object(&items)),
    ]
}

fn messages() -> Vec<Named> {
    let error = object(&[("type", text()), ("message", text())]);
    let events = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    ];
    let message = [
        ("id", text()),
        ("type", one_of(&["message"])),
        ("role", one_of(&["assistant"])),
        ("model", text()),
        ("content", list(object(&[("type", text())]))),
        ("stop_reason", one_of(&["end_turn", "max_tokens", "tool_use"])),
        ("stop_sequence", nullable("string")),
        ("usage", object(&[("input_tokens", count()), ("output_tokens", count())])),
    ];
    vec![
        ("AnthropicError", object(&[("type", one_of(&["error"])), ("error", error)])),
        ("MessagesEvent", object(&[("event", one_of(&events)), ("data", text())])),
        ("Message", object(&message)),
        ("TokenCount", object(&[("input_tokens", count())])),
    ]
}

/// An object that has these members, and perhaps others.
fn object(members: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn any_object() -> Value {
    json!({ "type": "object" })
}

fn nullable(kind: &str) -> Value {
    json!({ "type": [kind, "null"] })
}

fn one_of(values: &[&str]) -> Value {
    json!({ "enum": values })
}

fn list(items: Value) -> Value {
    let mut schema = json!({ "type": "array" });
    schema["items"] = items;
    schema
}
