//! The history of a session: turns of steps, each call with its outcome.
//!
//! Model servers refuse a history in which a call lacks its result, or a result
//! its call. So the history is no list of messages: a [`Step`] owns its calls and
//! a [`Call`] owns its [`Outcome`], and what a server wants to read is rendered
//! from that ([`render`]). **A conversation cannot be malformed**: there is no
//! value of these types that renders to an invalid sequence.
//!
//! Not here: who decides what a call's outcome is (the orchestrator), and where
//! a conversation is kept (the session).

pub mod render;
pub mod trim;

use std::sync::Arc;

use serde::Serialize;

use crate::event::{FeedbackReason, TurnFinish};
use crate::parser::Arguments;
use crate::tools::ToolResult;

/// The turns of a session that are over, oldest first. Cloning is cheap.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct Conversation {
    turns: Vec<Arc<Turn>>,
}

impl Conversation {
    /// The turns, oldest first.
    #[must_use]
    pub fn turns(&self) -> &[Arc<Turn>] {
        &self.turns
    }

    /// Appends a turn that is over, and forgets the oldest beyond `turns_max`.
    pub fn push(&mut self, turn: Turn, turns_max: usize) {
        self.turns.push(Arc::new(turn));
        let over = self.turns.len().saturating_sub(turns_max);
        self.turns.drain(..over);
    }
}

/// One user message and all that followed from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Turn {
    /// The turn's id in its session.
    pub turn_id: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The user's words.
    pub prompt: String,
    /// What the model said and called, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub ending: Ending,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With `turn_completed`.
    Completed(TurnFinish),
    /// With `turn_failed`.
    Failed(crate::event::FailureCode),
    /// It still runs; only the history that a running turn renders has this.
    Running,
}

/// One message of the model, with what came of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    /// What the model wrote, in order.
    pub parts: Vec<Part>,
    /// What the model is told beside its calls' outcomes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Step {
    /// The calls, in the order of the message.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&**call),
            Part::Text(_) => None,
        })
    }

    /// Whether the model waits for something after this step.
    #[must_use]
    pub fn asks_for_more(&self) -> bool {
        !self.notes.is_empty() || self.calls().next().is_some()
    }
}

/// A piece of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(String),
    /// A call; shared with the turn that still speaks of it.
    Call(Arc<Call>),
}

/// A call and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// Unique in its turn.
    pub call_id: String,
    /// The tool's name as the model wrote it, which need not exist.
    pub name: String,
    /// A JSON object, as the model wrote it.
    pub arguments: Arguments,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool ran, well or not; or the call was refused and the result says why.
    Ended(ToolResult),
    /// It was not run, for this reason.
    Skipped(String),
    /// It was running or waiting when the turn ended.
    Cancelled,
}

/// Something that the model is told about its message as a whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// The kind of mistake.
    pub reason: FeedbackReason,
    /// What it is told.
    pub message: String,
}
