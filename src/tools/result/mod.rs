//! The one shape that every tool comes back in.
//!
//! A result is made by one of the constructors, or read from what a tool
//! returned with [`ToolResult::from_value`]. This module knows neither how tools
//! run nor what the model is told of a failure.

mod cap;
mod shape;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A tool's result, checked: [`clarification`](Self::clarification) stands
/// exactly where the next action asks for one, [`error`](Self::error) likewise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// What it found or did.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What follows from it for the turn.
    pub next_action: NextAction,
    /// The question to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarification: Option<Clarification>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// One thing that the model should do with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_for_ai: Option<String>,
}

impl ToolResult {
    /// The tool did what it was asked, and the model goes on with `data`.
    #[must_use]
    pub const fn data(data: Value) -> Self {
        Self {
            success: true,
            data: Some(data),
            next_action: NextAction::Continue,
            clarification: None,
            error: None,
            instruction_for_ai: None,
        }
    }

    /// The tool failed; `message` says why, and what may help, to the model.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            success: false,
            data: None,
            next_action: NextAction::Error,
            clarification: None,
            error: Some(message.into()),
            instruction_for_ai: None,
        }
    }

    /// The tool worked and found more than one answer: the user must choose.
    #[must_use]
    pub const fn clarification(clarification: Clarification) -> Self {
        Self {
            success: true,
            data: None,
            next_action: NextAction::ClarificationNeeded,
            clarification: Some(clarification),
            error: None,
            instruction_for_ai: None,
        }
    }

    /// The same with one thing that the model should do with it.
    #[must_use]
    pub fn with_instruction(mut self, instruction: impl Into<String>) -> Self {
        self.instruction_for_ai = Some(instruction.into());
        self
    }

    /// Reads what a tool returned.
    ///
    /// An object that has `success` or `next_action` claims the standard shape;
    /// where it breaks it, the result is an error that names every way in which
    /// it does. Anything else is plain data. `null` counts as absent, except as data.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(fields)
                if fields.contains_key("success") || fields.contains_key("next_action") =>
            {
                shape::read(fields).unwrap_or_else(shape::Problems::into_result)
            }
            plain => Self::data(plain),
        }
    }

    /// Itself where it keeps the standard shape, otherwise an error result that
    /// names every way in which it breaks it.
    #[must_use]
    pub fn checked(self) -> Self {
        match shape::check(&self) {
            Ok(()) => self,
            Err(problems) => problems.into_result(),
        }
    }

    /// Itself where its JSON text is at most `bytes_max` long, otherwise what
    /// fits, with a note for the model.
    ///
    /// Data is cut so that its shape survives: long strings lose their end,
    /// arrays their last elements, objects their largest values. A question
    /// that does not fit becomes an error, because an option that was left out
    /// could not be chosen. `bytes_max` is at least
    /// [`limits::tools::OUTPUT_BYTES_MIN`](crate::limits::tools::OUTPUT_BYTES_MIN).
    #[must_use]
    pub fn capped(self, bytes_max: usize) -> Self {
        cap::cap(self, bytes_max)
    }
}

/// Data that is there, be it null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
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
    /// The kind of question, in the tool's own words; `choice`, `text` and
    /// `choice_or_text` are understood.
    pub r#type: String,
    /// The question as the user reads it.
    pub question: String,
    /// What can be chosen.
    #[serde(default)]
    pub options: Vec<ClarificationOption>,
}

impl Clarification {
    /// Whether it can be answered in words: where there is nothing to choose from, or
    /// the tool says so by the type `text` or `choice_or_text`.
    #[must_use]
    pub fn takes_text(&self) -> bool {
        self.options.is_empty() || matches!(&*self.r#type, "text" | "choice_or_text")
    }
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
