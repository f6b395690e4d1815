//! What the ends of turns and calls are in Chat Completions.

use serde_json::Value;

use crate::server::dialect::call_id;

/// The id of a turn's answer.
pub(super) fn answer_id(turn_id: &str) -> String {
    format!("chatcmpl-{}", turn_id.replace('-', ""))
}

/// How a turn ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) finish_reason: &'static str,
    pub(super) usage: Value,
}

impl Ended {
    /// `None` if it was cancelled.
    pub(super) fn of(completed: &Value) -> Option<Self> {
        let finish_reason = match completed["finish_reason"].as_str() {
            Some("cancelled") => return None,
            Some("length") => "length",
            Some("content_filter") => "content_filter",
            Some("client_tool_calls") => "tool_calls",
            _ => "stop",
        };
        Some(Self { finish_reason, usage: completed["usage"].clone() })
    }
}

/// A call for the client to run.
#[derive(Debug)]
pub(super) struct ClientCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON as text.
    pub(super) arguments: String,
}

impl ClientCall {
    pub(super) fn of(turn_id: &str, data: &Value) -> Self {
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        Self {
            id: call_id::for_client(turn_id, &text("call_id")),
            name: text("tool_name"),
            arguments: data["tool_args"].to_string(),
        }
    }
}
