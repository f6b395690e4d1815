//! What clients send as their history. Their messages are read from any JSON, and what cannot be read
//! is repaired or skipped, so that the structs that read them say little; this says what to send.

use serde_json::{Map, Value, json};

/// Describes the messages of requests.
pub(super) fn describe(schemas: &mut Map<String, Value>) {
    schemas.insert("ChatMessage".to_owned(), chat_message());
    schemas.insert("MessagesMessage".to_owned(), messages_message());
    schemas.insert("AiSdkMessage".to_owned(), ui_message());
    schemas.insert("AgUiMessage".to_owned(), ag_ui_message());
    schemas.insert("ResponseItem".to_owned(), response_item());
    let list_of = |name: &str| {
        let reference = format!("#/components/schemas/{name}");
        json!({ "type": "array", "items": { "$ref": reference } })
    };
    schemas["AgUiRunRequest"]["properties"]["messages"] = list_of("AgUiMessage");
    let input = json!({ "anyOf": [{ "type": "string" }, list_of("ResponseItem")] });
    schemas["ResponseRequest"]["properties"]["input"] = input;
}

/// Words, or a list of parts, each with its type.
fn content() -> Value {
    let part = json!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "text": { "type": "string" } },
    });
    json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": part }] })
}

fn calls() -> Value {
    let function = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "arguments": { "type": "string", "description": "JSON as text." },
        },
    });
    let call = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "type": { "type": "string" },
            "function": function,
        },
    });
    json!({ "type": "array", "items": call })
}

/// A message with these members, and perhaps others.
fn message(description: &str, members: Value) -> Value {
    let mut message = json!({ "type": "object", "description": description });
    message["properties"] = members;
    message
}

fn chat_message() -> Value {
    let members = json!({
        "role": {
            "type": "string",
            "description": "`system`, `developer`, `user`, `assistant`, `tool` or `function`.",
        },
        "content": { "anyOf": [content(), { "type": "null" }] },
        "tool_calls": calls(),
        "tool_call_id": { "type": "string", "description": "The call that a `tool` answers." },
    });
    message("A message. What cannot be read is skipped.", members)
}

fn messages_message() -> Value {
    let members = json!({
        "role": { "type": "string", "description": "`user` or `assistant`." },
        "content": content(),
    });
    message("A message. What cannot be read is skipped.", members)
}

fn ui_message() -> Value {
    let part = json!({
        "type": "object",
        "properties": {
            "type": {
                "type": "string",
                "description": "`text`, `file`, `step-start`, `dynamic-tool`, `tool-NAME` ..",
            },
            "text": { "type": "string" },
            "toolCallId": { "type": "string" },
            "state": { "type": "string" },
        },
    });
    let members = json!({
        "id": { "type": "string" },
        "role": { "type": "string", "description": "`system`, `user` or `assistant`." },
        "parts": { "type": "array", "items": part },
        "content": {
            "type": "string",
            "description": "What older versions have instead of parts.",
        },
    });
    message("A message as `useChat` keeps it. What cannot be read is skipped.", members)
}

fn ag_ui_message() -> Value {
    let members = json!({
        "id": { "type": "string" },
        "role": {
            "type": "string",
            "description": "`system`, `developer`, `user`, `assistant`, `tool`, `reasoning` or `activity`.",
        },
        "content": content(),
        "toolCalls": calls(),
        "toolCallId": { "type": "string", "description": "The call that a `tool` answers." },
        "error": { "type": "string", "description": "Why the call failed." },
    });
    message("A message. What cannot be read is skipped.", members)
}

fn response_item() -> Value {
    let members = json!({
        "type": {
            "type": "string",
            "description": "`message` if absent, `function_call`, `function_call_output`, \
                            `item_reference`, `mcp_approval_response` ..",
        },
        "id": { "type": "string" },
        "role": { "type": "string" },
        "content": content(),
        "call_id": { "type": "string" },
        "name": { "type": "string" },
        "arguments": { "type": "string", "description": "JSON as text." },
        "output": content(),
    });
    message("An item. Those that are not known are skipped.", members)
}
