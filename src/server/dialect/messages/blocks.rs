//! The pieces of an answer, which are the same streamed and whole.

use serde_json::{Map, Value, json};

use super::{error, error_kind};
use crate::event::Kind;
use crate::server::dialect::call_id::{self, MCP_TOOL_USE, TOOL_USE};
use crate::server::dialect::{ended, shown};

/// The MCP server that server tools appear to be on.
const SERVER: &str = "tether";

/// What follows reasoning. Clients take reasoning without a signature for incomplete, and send the
/// signature back; nothing depends on it here.
pub(super) const SIGNATURE: &str = "dGV0aGVy";

/// A message at its start.
pub(super) fn message(turn_id: &str, model: &str) -> Value {
    json!({
        "id": format!("msg_{}", turn_id.replace('-', "")),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "stop_details": null,
        "container": null,
        "usage": usage(&Value::Null),
    })
}

/// The usage of a turn. Nothing is known before its end. Anthropic's schema insists on each key.
pub(super) fn usage(usage: &Value) -> Value {
    let count = |key: &str| usage[key].as_u64().unwrap_or_default();
    json!({
        "input_tokens": count("prompt_tokens"),
        "output_tokens": count("completion_tokens"),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": null,
        "output_tokens_details": null,
        "server_tool_use": null,
        "service_tier": null,
        "inference_geo": null,
    })
}

/// Why an answer ended, as the members of a message or of its last delta. `None` if the turn was
/// cancelled.
pub(super) fn stop(completed: &Value) -> Option<Map<String, Value>> {
    let stop_sequence = &completed["stop_text"];
    let stop_reason = match completed["finish_reason"].as_str() {
        Some("cancelled") => return None,
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        Some("client_tool_calls") => "tool_use",
        _ if stop_sequence.is_string() => "stop_sequence",
        _ => "end_turn",
    };
    Some(Map::from_iter([
        ("stop_reason".to_owned(), stop_reason.into()),
        ("stop_sequence".to_owned(), stop_sequence.clone()),
    ]))
}

/// A call that the client runs.
pub(super) fn tool_use(turn_id: &str, call: &Value, input: &Value) -> Value {
    let id = id(TOOL_USE, turn_id, call);
    json!({
        "type": "tool_use",
        "id": id,
        "name": call["tool_name"],
        "input": input,
        "caller": { "type": "direct" },
    })
}

/// A block of text. Anthropic's schema insists on `citations`, and the AI SDK refuses null.
pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text, "citations": [] })
}

/// The block of an event of one of our tools, if it has one.
pub(super) fn server_tool(turn_id: &str, kind: Kind, event: &Value) -> Option<Value> {
    let id = || id(MCP_TOOL_USE, turn_id, event);
    match kind {
        Kind::ToolStarted => Some(json!({
            "type": "mcp_tool_use",
            "id": id(),
            "name": event["tool_name"],
            "server_name": SERVER,
            "input": event["tool_args"],
        })),
        Kind::ToolCompleted => {
            let output = shown::output_text(&event["tool_result"]);
            let is_error = output.is_err();
            let text = output.unwrap_or_else(|error| error);
            let content = json!([{ "type": "text", "text": text }]);
            Some(json!({
                "type": "mcp_tool_result",
                "tool_use_id": id(),
                "is_error": is_error,
                "content": content,
            }))
        }
        _ => None,
    }
}

fn id(prefix: &str, turn_id: &str, event: &Value) -> String {
    call_id::with_prefix(prefix, turn_id, event["call_id"].as_str().unwrap_or_default())
}

/// The status and the error of a turn that failed.
pub(super) fn failure(failed: &Value) -> (u16, Value) {
    let status = ended::status(failed);
    (status, error(error_kind(status), failed["message"].as_str().unwrap_or_default()))
}
