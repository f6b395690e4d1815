//! The messages of a run, as what the client claims was said.

use std::collections::HashSet;

use serde_json::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage};

/// What a message says. Reasoning, and what a page shows of an activity, are left out: nobody said
/// them.
pub(super) fn claimed(message: &Value) -> Option<ClaimedMessage> {
    let text = text_of(&message["content"]);
    Some(match message["role"].as_str() {
        Some("reasoning" | "activity") => return None,
        Some("system" | "developer") => ClaimedMessage::System(text),
        Some("assistant") => {
            ClaimedMessage::Assistant { text, calls: calls(message).map(claimed_call).collect() }
        }
        Some("tool") => {
            let error = message["error"].as_str();
            ClaimedMessage::Result {
                call_id: written(&message["toolCallId"]),
                output: if text.is_empty() { error.unwrap_or_default().to_owned() } else { text },
                is_error: error.is_some(),
            }
        }
        _ => ClaimedMessage::User(text),
    })
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["toolCalls"].as_array().into_iter().flatten()
}

fn claimed_call(call: &Value) -> ClaimedCall {
    let function = &call["function"];
    ClaimedCall {
        id: written(&call["id"]),
        name: written(&function["name"]),
        arguments: written(&function["arguments"]),
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The text of a message: a string, or parts. What is no text is named.
fn text_of(content: &Value) -> String {
    let part = |part: &Value| match part["type"].as_str()? {
        "text" => part["text"].as_str().map(str::to_owned),
        kind @ ("image" | "audio" | "video" | "document") => {
            Some(format!("[{kind}, which is not shown]"))
        }
        "binary" => Some("[a file, which is not shown]".to_owned()),
        _ => None,
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) name: String,
}

/// The calls since the user last spoke that have no result, oldest first.
pub(super) fn open_calls(messages: &[Value]) -> Vec<OpenCall> {
    let is_users = |message: &&Value| message["role"] == "user";
    let recent = messages.iter().rev().skip_while(is_users).take_while(|it| !is_users(it));
    let (mut open, mut returned) = (Vec::new(), HashSet::new());
    for message in recent {
        if message["role"] == "tool" {
            returned.insert(written(&message["toolCallId"]));
        }
        let calls = calls(message).map(|call| OpenCall {
            id: written(&call["id"]),
            name: written(&call["function"]["name"]),
        });
        open.extend(calls.filter(|call| !returned.contains(&call.id)));
    }
    open.reverse();
    open
}
