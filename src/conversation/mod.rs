//! The history of a session: turns of steps, each call with its outcome.
//!
//! Model servers refuse a history in which a call lacks its result, or a result
//! its call. So the history is no list of messages: a [`Step`] owns its calls and
//! a [`Call`] owns its [`Outcome`], and what a server wants to read is rendered
//! from that ([`render`]). **A conversation cannot be malformed**: there is no
//! value of these types that renders to an invalid sequence.
//!
//! All of it can be written down and read back, for a session that goes on elsewhere.
//!
//! Not here: who decides what a call's outcome is (the orchestrator), and where
//! a conversation is kept (the session).

mod clarification;
pub mod render;
mod shorten;
mod size;
pub mod trim;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::{AcknowledgementSource, FeedbackReason, TurnFinish, TurnState};
use crate::limits::session as limits;
use crate::parser::Arguments;
use crate::tools::{Clarification, ToolResult};
use crate::upstream::ReasoningItem;

pub use clarification::{Answer, AnswerError, Ask, Choice, Given, Opening, Question};

/// The turns of a session that are over, oldest first. Cloning is cheap: what is
/// cloned shares its turns until one of the two grows.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    kept: Arc<VecDeque<Kept>>,
    bytes: usize,
    dropped: u64,
    call_ids: usize,
}

/// A turn and what it takes in memory.
#[derive(Debug, Clone)]
struct Kept {
    turn: Arc<Turn>,
    bytes: usize,
}

impl Conversation {
    /// The turns, oldest first.
    #[must_use]
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &Arc<Turn>> + ExactSizeIterator {
        self.kept.iter().map(|kept| &kept.turn)
    }

    /// What the turns take in memory, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many turns came before the first that is still here.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many ids its calls were given: they count over the whole session, so that
    /// none names two calls.
    #[must_use]
    pub const fn call_ids(&self) -> usize {
        self.call_ids
    }

    /// Appends a turn that is over, and drops the oldest beyond
    /// [`TURNS_MAX`](limits::TURNS_MAX) and
    /// [`CONVERSATION_BYTES_MAX`](limits::CONVERSATION_BYTES_MAX). The new one
    /// stays, whatever its size: a user goes on from there.
    pub fn push(&mut self, turn: Turn) {
        let bytes = size::of_turn(&turn);
        self.call_ids += turn.call_ids;
        let kept = Arc::make_mut(&mut self.kept);
        kept.push_back(Kept { turn: Arc::new(turn), bytes });
        self.bytes += bytes;
        while kept.len() > limits::TURNS_MAX
            || (self.bytes > limits::CONVERSATION_BYTES_MAX && kept.len() > 1)
        {
            let Some(oldest) = kept.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.dropped += 1;
        }
    }

    /// How often in a row the model has answered with nothing, up to now.
    #[must_use]
    pub fn empty_answers(&self) -> u32 {
        let steps = self.turns().rev().flat_map(|turn| turn.steps.iter().rev());
        let empty = steps.take_while(|step| step.is_empty_answer()).count();
        u32::try_from(empty).unwrap_or(u32::MAX)
    }
}

/// A conversation as it is written down. What it takes in memory is counted when it is read.
#[derive(Serialize, Deserialize)]
struct Written<T> {
    turns: Vec<T>,
    dropped: u64,
    call_ids: usize,
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (dropped, call_ids) = (self.dropped, self.call_ids);
        Written { turns: self.turns().collect(), dropped, call_ids }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { turns, dropped, call_ids } = Written::deserialize(deserializer)?;
        let mut conversation = Self { dropped, ..Self::default() };
        for turn in turns {
            conversation.push(turn);
        }
        conversation.call_ids = call_ids;
        Ok(conversation)
    }
}

/// One user message and all that followed from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The turn's id in its session.
    pub turn_id: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The user's words; of a chosen option, its title.
    pub prompt: String,
    /// What the turn answers, where it was opened by an answer.
    pub answer: Option<Box<Answer>>,
    /// The question that was open when the user said something else instead.
    pub dropped: Option<String>,
    /// What the model said and called, in order.
    pub steps: Vec<Step>,
    /// What it asks the user at its end; further ones wait their turn.
    pub questions: Vec<Question>,
    /// Lookups that were not run since one before them had to ask the user. They are
    /// run when that is answered.
    pub deferred: Vec<Arc<Call>>,
    /// How many ids its calls were given, those that could not be read included.
    pub call_ids: usize,
    /// How it ended.
    pub ending: Ending,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With `turn_completed`.
    Completed(TurnFinish),
    /// With `turn_failed`.
    Failed(crate::event::FailureCode),
    /// It still runs; only the history that a running turn renders has this.
    #[default]
    Running,
}

impl Ending {
    /// The state that a turn with this ending is in.
    #[must_use]
    pub const fn state(self) -> TurnState {
        match self {
            Self::Completed(TurnFinish::ClarificationNeeded) => TurnState::AwaitingClarification,
            Self::Completed(_) => TurnState::Completed,
            Self::Failed(_) => TurnState::Failed,
            Self::Running => TurnState::Planning,
        }
    }
}

/// One message of the model, with what came of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When the model was asked for it, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What the model wrote, in order.
    pub parts: Vec<Part>,
    /// What the model is told beside its calls' outcomes.
    pub notes: Vec<Note>,
    /// The call that failed for want of what these results, or earlier ones, bring: the model
    /// is asked to make it again.
    pub retry: Option<Retry>,
}

/// A call to make again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The tool's name.
    pub tool: String,
    /// The argument that it was wrong in, and what was found for it, if that can be told.
    pub argument: Option<Found>,
}

/// Values that results have under the name of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The argument's name.
    pub name: String,
    /// As JSON: one at least, few enough to choose from.
    pub values: Vec<String>,
}

impl Step {
    /// The calls, in the order of the message.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&**call),
            Part::Text(_) | Part::Said(_) | Part::Reasoning(_) => None,
        })
    }

    /// Whether the model gave nothing: no words and no call.
    fn is_empty_answer(&self) -> bool {
        self.notes.iter().any(|note| note.reason == FeedbackReason::EmptyResponse)
    }

    /// Whether the model waits for something after this step.
    #[must_use]
    pub fn asks_for_more(&self) -> bool {
        !self.notes.is_empty() || self.calls().next().is_some()
    }
}

/// A piece of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(String),
    /// What the model thought and its server wants back. It stands in the running turn
    /// alone: of a turn that is over, servers want none.
    Reasoning(Arc<ReasoningItem>),
    /// A call; shared with the turn that still speaks of it.
    Call(Arc<Call>),
    /// Something that the gateway said in between.
    Said(Utterance),
}

/// What a user was told on the model's behalf, or which of its words served as that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Utterance {
    /// What it was for.
    pub kind: UtteranceKind,
    /// The sentence.
    pub text: String,
    /// The tools that were being called.
    pub tools: Vec<String>,
    /// When it was said, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// What an [`Utterance`] was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UtteranceKind {
    /// Work has begun. The model's own words stand beside it as text.
    Acknowledgement(AcknowledgementSource),
    /// Something to know while waiting; models are not told of it.
    Status,
    /// An answer made of the tools' results, for a model that gave none.
    Response,
}

impl Utterance {
    /// Whether it goes to models as something that the assistant has said.
    ///
    /// An acknowledgement does not. It is the model's own words, which it has anyway, or a
    /// sentence before a call that it has not written: small models then write the sentence
    /// and no call (`docs/prompting.md`).
    fn is_told(&self) -> bool {
        self.kind == UtteranceKind::Response
    }
}

/// A call and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Unique in its session.
    pub call_id: String,
    /// The tool's name as the model wrote it, which need not exist.
    pub name: String,
    /// A JSON object, as the model wrote it.
    pub arguments: Arguments,
    /// The same with the results that it names in place, as the tool took it.
    pub resolved_arguments: Option<Arguments>,
    /// What came of it.
    pub outcome: Outcome,
}

impl Call {
    /// The arguments as the tool takes them.
    #[must_use]
    pub const fn taken_arguments(&self) -> &Arguments {
        match &self.resolved_arguments {
            Some(resolved) => resolved,
            None => &self.arguments,
        }
    }

    /// The question that it came back with.
    #[must_use]
    pub fn asks(&self) -> Option<&Clarification> {
        match &self.outcome {
            Outcome::Ended(result) => result.clarification.as_ref(),
            Outcome::NotRun(_) | Outcome::Skipped(_) | Outcome::Cancelled => None,
        }
    }

    /// Whether it was not run because its result is that of an earlier call.
    fn is_repeat(&self) -> bool {
        matches!(&self.outcome, Outcome::NotRun(result) if result.success)
    }

    /// What came of it in the standard shape, whether its tool ran or not.
    #[must_use]
    pub fn result(&self) -> Cow<'_, ToolResult> {
        match &self.outcome {
            Outcome::Ended(result) | Outcome::NotRun(result) => Cow::Borrowed(result),
            Outcome::Skipped(reason) => Cow::Owned(ToolResult::error(format!("not run: {reason}"))),
            Outcome::Cancelled => {
                let error = "interrupted before it ended; outcome unknown";
                Cow::Owned(ToolResult::error(error))
            }
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool ran, well or not.
    Ended(ToolResult),
    /// The call was refused, with the reason, or repeats an earlier one, with its result.
    NotRun(ToolResult),
    /// It was not run, for this reason.
    Skipped(String),
    /// It was running when the turn ended.
    Cancelled,
}

/// Something that the model is told about its message as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The kind of mistake.
    pub reason: FeedbackReason,
    /// What it is told.
    pub message: String,
}

#[cfg(test)]
mod tests;
