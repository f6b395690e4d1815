//! The messages of a request, as what the client claims was said.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage};

/// A message as it was written. Whatever else it has is skipped.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatMessage")]
pub(super) struct RawMessage {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<RawCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatToolCall")]
struct RawCall {
    #[serde(default)]
    id: String,
    #[serde(default)]
    function: RawFunction,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ChatFunctionCall")]
struct RawFunction {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl RawMessage {
    pub(super) fn claimed(self) -> ClaimedMessage {
        let text = text_of(&self.content);
        match &*self.role {
            "system" | "developer" => ClaimedMessage::System(text),
            "assistant" => {
                let calls = self.tool_calls.unwrap_or_default();
                ClaimedMessage::Assistant {
                    text,
                    calls: calls.into_iter().map(RawCall::claimed).collect(),
                }
            }
            "tool" | "function" => ClaimedMessage::Result {
                call_id: self.tool_call_id.unwrap_or_default(),
                output: text,
                is_error: false,
            },
            _ => ClaimedMessage::User(text),
        }
    }
}

impl RawCall {
    fn claimed(self) -> ClaimedCall {
        let Self { id, function: RawFunction { name, arguments } } = self;
        let arguments = match arguments {
            Value::String(json) => json,
            other => other.to_string(),
        };
        ClaimedCall { id, name, arguments }
    }
}

/// The text of a message: a string, or parts. What is no text is named.
pub(in crate::server::dialect) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| match part["type"].as_str() {
                Some("text" | "input_text" | "output_text") => {
                    part["text"].as_str().map(str::to_owned)
                }
                Some("refusal") => part["refusal"].as_str().map(str::to_owned),
                Some("image_url" | "input_image") => Some("[an image, which is not shown]".into()),
                Some("input_audio") => Some("[a sound, which is not played]".into()),
                Some("file" | "input_file") => Some("[a file, which is not shown]".into()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
