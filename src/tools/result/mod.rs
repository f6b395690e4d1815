//! The one shape in which every tool returns its result.
//!
//! A result is made by one of the constructors, or read from a tool's output with
//! [`ToolResult::from_value`]. This module knows neither how tools run nor what the model is told
//! about failures.

mod cap;
mod file;
mod shape;
mod shown;
#[cfg(test)]
mod tests;
mod told;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub(crate) use self::cap::shortened;
pub use self::file::{ListedFile, ToolFile};
use super::form;

/// A tool's result. In a valid one, [`clarification`](Self::clarification) and
/// [`error`](Self::error) are present exactly if the next action requires them.
///
/// It is stored as it is. Clients get it as [`shown`](Self::shown), and models as `told`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Whether the tool did what it was asked to do.
    pub success: bool,
    /// What it found or did.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// What the turn should do next.
    pub next_action: NextAction,
    /// The question to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarification: Option<Clarification>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// One thing that the model should do with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_for_ai: Option<String>,
    /// What models cannot read, until it is kept and listed.
    #[serde(skip)]
    pub files: Vec<ToolFile>,
    /// The files that it had. Clients find them in the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub artifacts: Vec<ListedFile>,
    /// What is for the user alone: models do not see it. Clients find it in the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub for_user: Vec<String>,
    /// Whether the call failed and may have taken effect anyway. Made again, it might do its work twice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub uncertain: bool,
}

impl ToolResult {
    /// A success: the model continues with `data`.
    #[must_use]
    pub const fn data(data: Value) -> Self {
        Self {
            success: true,
            data: Some(data),
            next_action: NextAction::Continue,
            clarification: None,
            error: None,
            instruction_for_ai: None,
            files: Vec::new(),
            artifacts: Vec::new(),
            for_user: Vec::new(),
            uncertain: false,
        }
    }

    /// A failure. `message` tells the model why, and what may help.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            success: false,
            data: None,
            next_action: NextAction::Error,
            clarification: None,
            error: Some(message.into()),
            instruction_for_ai: None,
            files: Vec::new(),
            artifacts: Vec::new(),
            for_user: Vec::new(),
            uncertain: false,
        }
    }

    /// A failure of a call that may have been made: what it returned cannot be read.
    #[must_use]
    pub(crate) fn unread(message: impl Into<String>) -> Self {
        Self::error(message).but_uncertain()
    }

    /// A question: the tool found more than one answer, and the user must choose.
    #[must_use]
    pub const fn clarification(clarification: Clarification) -> Self {
        Self {
            success: true,
            data: None,
            next_action: NextAction::ClarificationNeeded,
            clarification: Some(clarification),
            error: None,
            instruction_for_ai: None,
            files: Vec::new(),
            artifacts: Vec::new(),
            for_user: Vec::new(),
            uncertain: false,
        }
    }

    /// The same failure, of a call that may have changed something anyway.
    #[must_use]
    pub(crate) const fn but_uncertain(mut self) -> Self {
        self.uncertain = true;
        self
    }

    /// The same with one thing that the model should do with it.
    #[must_use]
    pub fn with_instruction(mut self, instruction: impl Into<String>) -> Self {
        self.instruction_for_ai = Some(instruction.into());
        self
    }

    /// Reads a tool's output.
    ///
    /// An object whose `success` is a boolean and whose `next_action` is one of the four must have the
    /// standard shape. If it does not, the result is an error that lists all violations. Anything else is
    /// plain data: many services say `"success": true` in shapes of their own. `null` counts as absent,
    /// except as data.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        match (shape::claim(&value), value) {
            (Some(claim), Value::Object(fields)) => {
                shape::read(claim, fields).unwrap_or_else(shape::Problems::into_result)
            }
            (_, plain) => Self::data(plain),
        }
    }

    /// Whether a tool's output says that it has the standard shape.
    pub(crate) fn is_claimed_by(value: &Value) -> bool {
        shape::claim(value).is_some()
    }

    /// The result itself if it has the standard shape, otherwise an error that lists all
    /// violations.
    #[must_use]
    pub fn checked(self) -> Self {
        match shape::check(&self) {
            Ok(()) => self,
            Err(problems) => problems.into_result(),
        }
    }

    /// The result itself if its JSON is at most `bytes_max` long, otherwise as much as fits, with
    /// a note for the model.
    ///
    /// Data keeps its shape: long strings lose their end, arrays their last elements, and objects
    /// part of their largest values. A question that does not fit becomes an error, because a
    /// missing option could not be chosen. `bytes_max` is raised to at least
    /// [`limits::tools::OUTPUT_BYTES_MIN`](crate::limits::tools::OUTPUT_BYTES_MIN).
    #[must_use]
    pub fn capped(self, bytes_max: usize) -> Self {
        cap::cap(self, bytes_max)
    }
}

/// Reads data that is present, even if it is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What a tool's result calls for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// The model continues with the result.
    Continue,
    /// The user must choose.
    ClarificationNeeded,
    /// The chain ends, and the model answers.
    Complete,
    /// The model is told what went wrong.
    Error,
}

/// A question to the user that the tool cannot decide.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clarification {
    /// The kind of question, in the tool's own words. The gateway understands `choice`, `text` and
    /// `choice_or_text`. Its own are `form`, `url` and `confirmation`.
    pub r#type: String,
    /// The question, as shown to the user.
    pub question: String,
    /// The options to choose from.
    #[serde(default)]
    pub options: Vec<ClarificationOption>,
    /// The JSON Schema of a form to fill in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A page to visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Clarification {
    /// The type of the gateway's own question whether a call may run.
    pub(crate) const CONFIRMATION: &str = "confirmation";
    /// The types of all of its own questions. Clients look for more in those than a tool can write as JSON.
    const OWN_TYPES: [&str; 3] = [Self::CONFIRMATION, "form", "url"];

    /// A form to fill in. If one choice fills it in, the question has that choice's options. Without fields, it
    /// asks for yes or no.
    #[must_use]
    pub fn form(question: impl Into<String>, schema: Value) -> Self {
        Self {
            r#type: "form".to_owned(),
            question: question.into(),
            options: form::options(&schema)
                .into_iter()
                .map(|(id, title)| ClarificationOption::new(id, title))
                .collect(),
            schema: Some(schema),
            url: None,
        }
    }

    /// A page to visit, such as one to sign in. The user says that they will, or declines; what
    /// they do there is between them and the page.
    #[must_use]
    pub fn page(question: impl Into<String>, url: impl Into<String>) -> Self {
        let options = [("accept", "I will"), ("deny", "No")];
        Self {
            r#type: "url".to_owned(),
            question: question.into(),
            options: options.map(|(id, title)| ClarificationOption::new(id, title)).to_vec(),
            schema: None,
            url: Some(url.into()),
        }
    }

    /// Whether it can be answered in words: it has no options, or its type is `text` or
    /// `choice_or_text`, or it is a form with a single field to fill in.
    #[must_use]
    pub fn takes_text(&self) -> bool {
        match &self.schema {
            Some(schema) => form::takes_text(schema),
            None if self.url.is_some() => false,
            None => self.options.is_empty() || matches!(&*self.r#type, "text" | "choice_or_text"),
        }
    }
}

/// One option of a [`Clarification`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClarificationOption {
    /// The actual id of what it stands for.
    pub id: String,
    /// The text shown to the user.
    pub title: String,
    /// A second line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    /// The tool's confidence, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Anything else about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl ClarificationOption {
    /// An option with nothing but an id and a title.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, subtitle: None, confidence: None, metadata: None }
    }
}
