//! The one shape that every tool comes back in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool's result, checked: [`clarification`](Self::clarification) stands
/// exactly where the next action asks for one, [`error`](Self::error) likewise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolResult {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// What it found or did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What follows from it for the turn.
    pub next_action: NextAction,
    /// The question to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clarification: Option<Clarification>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// One thing that the model should do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_for_ai: Option<String>,
}

/// What follows from a tool's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// The model goes on with it.
    Continue,
    /// The user must choose.
    ClarificationNeeded,
    /// The chain is done; the answer follows.
    Complete,
    /// The model is told what went wrong.
    Error,
}

/// A question that a tool could not decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clarification {
    /// The kind of question, in the tool's own words.
    pub r#type: String,
    /// The question as the user reads it.
    pub question: String,
    /// What can be chosen.
    #[serde(default)]
    pub options: Vec<ClarificationOption>,
}

/// One choice of a [`Clarification`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClarificationOption {
    /// The real id of the thing.
    pub id: String,
    /// What the user reads.
    pub title: String,
    /// A second line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    /// How sure the tool is, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Whatever else belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}
