//! How a turn's end is told.

use serde_json::{Value, json};

use super::parts::bytes;
use crate::event::Kind;
use crate::server::dialect::{ended, openai_error};

/// The end of an answer.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: &'static str,
    pub(super) incomplete: Option<&'static str>,
    pub(super) error: Option<Value>,
    /// Whether the same request would fail again.
    pub(super) is_final: bool,
    pub(super) usage: Value,
    /// The status of an answer in one piece, if it cannot be `200`.
    pub(super) http: Option<u16>,
}

/// The code of a failure that would come again. Codex repeats a request after any code that it does not know, but not
/// after this one.
const FINAL: &str = "invalid_prompt";

impl End {
    pub(super) fn of(kind: Kind, data: &Value) -> Self {
        let usage = usage(&data["usage"]);
        let (status, incomplete, http) = match (kind, data["finish_reason"].as_str()) {
            (Kind::TurnFailed, _) => ("failed", None, Some(ended::status(data))),
            (_, Some("length")) => ("incomplete", Some("max_output_tokens"), None),
            (_, Some("content_filter")) => ("incomplete", Some("content_filter"), None),
            (_, Some("cancelled")) => ("cancelled", None, Some(503)),
            _ => ("completed", None, None),
        };
        let error = (kind == Kind::TurnFailed)
            .then(|| json!({ "code": data["code"], "message": data["message"] }));
        let is_final = kind == Kind::TurnFailed && ended::is_final(data);
        Self { status, incomplete, error, is_final, usage, http }
    }

    /// The error as the response has it.
    pub(super) fn response_error(&self) -> Option<Value> {
        let mut error = self.error.clone()?;
        if self.is_final {
            error["code"] = FINAL.into();
        }
        Some(error)
    }

    /// The name of the last event.
    pub(super) fn event(&self) -> &'static str {
        match self.status {
            "completed" => "response.completed",
            "failed" => "response.failed",
            _ => "response.incomplete",
        }
    }
}

/// The members of an `error` event, from the error of its response. Some clients read them from the event, and others
/// from its `error`.
pub(super) fn error_members(error: &Value) -> Vec<u8> {
    let members = json!({
        "code": error["code"], "message": error["message"], "param": null,
        "error": openai_error::of_turn(error, error["code"] == FINAL),
    });
    let mut members = bytes(&members);
    members[0] = b',';
    members.pop();
    members
}

fn usage(usage: &Value) -> Value {
    json!({
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": { "cached_tokens": 0, "cache_write_tokens": 0 },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage["total_tokens"],
    })
}
