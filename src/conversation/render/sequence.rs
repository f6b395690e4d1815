//! The rules of strict servers for a list of messages, at least as strict as `OpenAI`'s. For tests and
//! fuzz targets.

use std::collections::HashSet;

use crate::upstream::{Message, Role};

/// Checks a sequence of messages by the rules of strict servers.
pub(crate) fn check_sequence(messages: &[Message]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let wrong = |what: &str| Err(format!("message {at}: {what}"));
        if (message.role == Role::System) != (at == 0) {
            return wrong("system is first and nowhere else");
        }
        if message.role == Role::Tool {
            let Some(id) = message.answered_call_id() else { return wrong("no tool_call_id") };
            if open.first() != Some(&id) {
                return wrong("a tool message out of place, or without its call");
            }
            open.remove(0);
            continue;
        }
        if !open.is_empty() {
            return wrong("calls before it lack their results");
        }
        if message.text_content().is_none() && message.calls().next().is_none() {
            return wrong("neither content nor calls");
        }
        if message.text_content().as_deref() == Some("") {
            return wrong("empty content");
        }
        if message.role != Role::Assistant && message.calls().next().is_some() {
            return wrong("calls by someone other than the assistant");
        }
        let previous = at.checked_sub(1).map(|before| messages[before].role);
        let has_images = message.images().next().is_some();
        if message.role == Role::User && previous == Some(Role::Tool) && !has_images {
            return wrong("a user after a tool, which Mistral's templates refuse");
        }
        if message.role != Role::System && previous == Some(message.role) {
            return wrong("the same speaker twice");
        }
        for call in message.calls() {
            let is_allowed = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
            if !(1..=64).contains(&call.name.len()) || !call.name.chars().all(is_allowed) {
                return wrong("a name that OpenAI's API refuses");
            }
            if !seen.insert(call.id.as_str()) {
                return wrong("a call id that was used before");
            }
            let arguments: Result<serde_json::Map<String, serde_json::Value>, _> =
                serde_json::from_str(&call.arguments);
            if arguments.is_err() {
                return wrong("arguments are not a JSON object");
            }
            open.push(&call.id);
        }
    }
    if messages.last().is_none_or(|last| last.role == Role::Assistant) || !open.is_empty() {
        return Err("the sequence does not end with something to answer".into());
    }
    Ok(())
}
