//! How much a client of Chat Completions is shown of the gateway's own tools: `chat.server_tools`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Kind;

/// See the module docs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerTools {
    /// Nothing.
    #[default]
    Off,
    /// A line for each as reasoning, which many chat UIs fold away.
    Reasoning,
    /// Their events, under a key of our own beside `choices`.
    Extension,
}

impl ServerTools {
    /// All, with their names in the configuration.
    pub const ALL: [(&'static str, Self); 3] =
        [("off", Self::Off), ("reasoning", Self::Reasoning), ("extension", Self::Extension)];

    /// Whether an event repeats what the client has been sent: the model's own words.
    pub(super) fn is_sent(kind: Kind, data: &Value) -> bool {
        kind == Kind::Acknowledgement && data["source"] == "model"
    }

    /// An event in one line of reasoning.
    pub(super) fn line(kind: Kind, data: &Value) -> Option<String> {
        let name = data["tool_name"].as_str().unwrap_or_default();
        match kind {
            Kind::ToolStarted => Some(format!("Calling {name}.\n")),
            Kind::ToolCompleted if data["tool_result"]["success"] == false => {
                Some(format!("{name} failed.\n"))
            }
            Kind::Acknowledgement => {
                Some(format!("{}\n", data["text"].as_str().unwrap_or_default()))
            }
            Kind::Status => Some(format!("{}\n", data["message"].as_str().unwrap_or_default())),
            _ => None,
        }
    }
}
