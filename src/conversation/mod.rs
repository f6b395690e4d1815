//! The history of a session: turns of steps, each call with its outcome.
//!
//! Model servers reject a history in which a call lacks its result, or a result its call. The
//! history is therefore not a list of messages: a [`Step`] owns its calls, a [`Call`] owns its
//! [`Outcome`], and [`render`] turns them into the messages that a server expects. **A
//! conversation cannot be malformed**: no value of these types renders to an invalid sequence.
//!
//! A conversation can be saved and restored, so that a session can continue elsewhere.
//!
//! The orchestrator decides a call's outcome, and the session stores the conversation; neither is
//! done here.

mod answer_error;
mod answer_in_words;
pub mod claimed;
mod clarification;
mod client_results;
mod interrupted;
pub(crate) mod reference;
pub(crate) mod render;
mod shorten;
mod size;
pub(crate) mod trim;
mod words;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::event::{AcknowledgementSource, FeedbackReason, TurnFinish, TurnState};
use crate::limits::session as limits;
use crate::parser::Arguments;
use crate::tools::{Clarification, Continuation, ToolResult};
use crate::upstream::ReasoningItem;

pub use answer_error::{AnswerError, ResultsError, Ways};
pub(crate) use clarification::approval;
pub use clarification::{Answer, Choice, ClientInput, Opening, Question};
pub use client_results::ClientResult;
pub(crate) use interrupted::{CallFates, Interrupted, Tally};
pub use words::{PlacedImage, Words};

pub use crate::tools::Given;

/// The finished turns of a session, oldest first. Cloning is cheap: clones share their turns until
/// one of them grows.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    kept: Arc<VecDeque<Kept>>,
    bytes: usize,
    dropped: u64,
    call_ids: usize,
    approvals: Arc<Vec<Approval>>,
}

/// A tool whose calls need no further approval in this session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The tool's name.
    pub tool_name: String,
    /// The [digest](crate::tools::ToolSpec::digest) of the tool that was approved. If the tool
    /// changes, the approval lapses.
    pub definition: String,
}

/// A turn and its size in memory.
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

    /// The size of the turns in memory, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many older turns have been dropped.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many call ids have been used. They are counted over the whole session, so no two calls
    /// share an id.
    #[must_use]
    pub(crate) const fn call_ids(&self) -> usize {
        self.call_ids
    }

    /// Appends a finished turn, and drops the oldest ones beyond [`TURNS_MAX`](limits::TURNS_MAX)
    /// and [`CONVERSATION_BYTES_MAX`](limits::CONVERSATION_BYTES_MAX). The new turn is kept
    /// whatever its size, because the user continues from there.
    pub(crate) fn push(&mut self, mut turn: Turn) {
        let approval = turn.answer.as_deref().and_then(|answer| self.approval(answer));
        if let Some(approval) = approval {
            let approvals = Arc::make_mut(&mut self.approvals);
            approvals.retain(|earlier| earlier.tool_name != approval.tool_name);
            approvals.push(approval);
            let surplus = approvals.len().saturating_sub(limits::APPROVALS_MAX);
            approvals.drain(..surplus);
        }
        if std::mem::take(&mut turn.continues) {
            self.pop();
        }
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

    /// The latest turn's id.
    #[must_use]
    pub(crate) fn last_turn_id(&self) -> Option<&str> {
        self.turns().next_back().map(|turn| &*turn.turn_id)
    }

    /// The first `turns` turns, counting those that were dropped, and then this one. What the user
    /// has approved for the session does not carry over: it may have been approved later.
    #[must_use]
    pub(crate) fn branch(mut self, turns: u64, next: Option<Arc<Turn>>) -> Self {
        while self.dropped + self.kept.len() as u64 > turns && !self.kept.is_empty() {
            self.pop();
        }
        self.approvals = Arc::default();
        if let Some(next) = next {
            self.push(Turn::clone(&next));
        }
        self
    }

    /// Removes the latest turn.
    fn pop(&mut self) {
        if let Some(Kept { turn, bytes }) = Arc::make_mut(&mut self.kept).pop_back() {
            self.bytes -= bytes;
            self.call_ids -= turn.call_ids;
        }
    }

    /// Puts a turn that goes on from the latest in its place. Its client has left it off.
    pub(crate) fn replace(&mut self, turn: Turn) {
        self.push(Turn { continues: true, ending: None, ..turn });
    }

    /// The tools whose calls need no further approval.
    #[must_use]
    pub(crate) fn approvals(&self) -> &[Approval] {
        &self.approvals
    }

    /// The approval that an answer to the open question gives for the whole session, if any.
    pub(crate) fn approval(&self, answer: &Answer) -> Option<Approval> {
        let Given::Approved { for_session: true } = answer.given else { return None };
        let Question { tool_name, continuation, .. } = self.open_questions().first()?;
        let Continuation::Approval { definition } = continuation else { return None };
        Some(Approval { tool_name: tool_name.clone(), definition: definition.clone() })
    }

    /// How many times in a row the model has now answered with nothing.
    #[must_use]
    pub(crate) fn empty_answers(&self) -> u32 {
        let steps = self.turns().rev().flat_map(|turn| turn.steps.iter().rev());
        let empty = steps.take_while(|step| step.is_empty_answer()).count();
        u32::try_from(empty).unwrap_or(u32::MAX)
    }
}

/// The serialized form of a conversation. Sizes in memory are computed on reading.
#[derive(Serialize, Deserialize)]
struct Written<T> {
    turns: Vec<T>,
    dropped: u64,
    call_ids: usize,
    #[serde(default)]
    approvals: Arc<Vec<Approval>>,
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (dropped, call_ids) = (self.dropped, self.call_ids);
        let (turns, approvals) = (self.turns().collect(), Arc::clone(&self.approvals));
        Written { turns, dropped, call_ids, approvals }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { turns, dropped, call_ids, approvals } = Written::deserialize(deserializer)?;
        let mut conversation = Self { dropped, ..Self::default() };
        for turn in turns {
            conversation.push(turn);
        }
        (conversation.call_ids, conversation.approvals) = (call_ids, approvals);
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
    /// The user's words; for a chosen option, its title.
    pub prompt: String,
    /// The images in the prompt, or in what the user said beside an answer. Those in the words of an
    /// answer follow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<PlacedImage>,
    /// The answer that opened the turn, if any.
    pub answer: Option<Box<Answer>>,
    /// The open question, if the user said something else instead of answering it.
    pub dropped: Option<String>,
    /// Whether it begins with the turn before it, and takes its place: the client has returned the
    /// results of that turn's calls. Stored turns already have.
    #[serde(skip)]
    pub continues: bool,
    /// The ids of the turns that it has gone on from, oldest first: it begins with their steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<String>,
    /// What the model said and called, in order.
    pub steps: Vec<Step>,
    /// The question that it ends with, and those still waiting to be asked.
    pub questions: Vec<Question>,
    /// Lookups that were not run because an earlier one had to ask the user. They run once that is
    /// answered.
    pub deferred: Vec<Arc<Call>>,
    /// How many call ids it has used, including those of unreadable calls.
    pub call_ids: usize,
    /// How it ended; `None` while it runs, or if its client has left off after results. Stored
    /// turns of sessions have ended.
    pub ending: Option<Ending>,
}

impl Turn {
    /// Its size in memory, in bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        size::of_turn(self)
    }

    /// Whether its tools have returned files. Those that a client says its tools returned do not
    /// count: the client has them.
    #[must_use]
    pub(crate) fn has_files(&self) -> bool {
        let is_claimed = |call: &&Call| matches!(call.outcome, Outcome::Claimed(_));
        let calls = self.steps.iter().flat_map(Step::calls).filter(|call| !is_claimed(call));
        calls.map(Call::result).any(|result| !result.artifacts.is_empty())
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With `turn_completed`.
    Completed(TurnFinish),
    /// With `turn_failed`.
    Failed(crate::event::FailureCode),
}

impl Ending {
    /// The state that a turn with this ending is in.
    #[must_use]
    pub(crate) const fn state(self) -> TurnState {
        match self {
            Self::Completed(TurnFinish::ClarificationNeeded) => TurnState::AwaitingClarification,
            Self::Completed(_) => TurnState::Completed,
            Self::Failed(_) => TurnState::Failed,
        }
    }
}

/// One message of the model, with the outcomes of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When the model was asked for it, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What the model wrote, in order.
    pub parts: Vec<Part>,
    /// The user's words beside the results of its calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub aside: String,
    /// The images in these words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside_images: Vec<PlacedImage>,
    /// What the model is told besides its calls' outcomes.
    pub notes: Vec<Note>,
    /// A call that failed because it lacked something that these results, or earlier ones,
    /// contain. The model is asked to make it again.
    pub retry: Option<Retry>,
}

/// A call to make again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The tool's name.
    pub tool: String,
    /// The argument that was wrong and the values found for it, if it is safe to suggest them.
    pub argument: Option<Found>,
}

/// The values that results contain under an argument's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The argument's name.
    pub name: String,
    /// The values as JSON: at least one, and few enough to choose from.
    pub values: Vec<String>,
}

impl Step {
    /// The step of a message that was cut off after these parts, and then went on.
    pub(crate) fn continued_by(mut self, rest: Self) -> Self {
        let mut parts = rest.parts.into_iter();
        let first = parts.next();
        match (self.parts.last_mut(), first) {
            (Some(Part::Text(text)), Some(Part::Text(more))) => text.push_str(&more),
            (_, first) => self.parts.extend(first),
        }
        self.parts.extend(parts);
        Self { parts: self.parts, at_ms: self.at_ms, ..rest }
    }

    /// The calls, in message order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&**call),
            Part::Text(_) | Part::Said(_) | Part::Reasoning(_) => None,
        })
    }

    /// Whether the model answered with nothing: no words and no call.
    fn is_empty_answer(&self) -> bool {
        self.notes.iter().any(|note| note.reason == FeedbackReason::EmptyResponse)
    }

    /// Whether the model must be asked again after this step.
    #[must_use]
    pub(crate) fn asks_for_more(&self) -> bool {
        !self.notes.is_empty() || self.calls().next().is_some()
    }
}

/// A piece of a model's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(String),
    /// Reasoning that the server wants sent back. Only the running turn has it: servers want none
    /// from finished turns.
    Reasoning(Arc<ReasoningItem>),
    /// A call, shared with the turn that still refers to it.
    Call(Arc<Call>),
    /// Something that the gateway said in between.
    Said(Utterance),
}

/// Something said on the model's behalf, or words of the model that served the same purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Utterance {
    /// Its purpose.
    pub kind: UtteranceKind,
    /// The sentence.
    pub text: String,
    /// The tools being called at the time.
    pub tools: Vec<String>,
    /// When it was said, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// The purpose of an [`Utterance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UtteranceKind {
    /// Work has begun. If the model said so itself, its words are also there as text.
    Acknowledgement(AcknowledgementSource),
    /// A status for the waiting user, which models never see.
    Status,
    /// An answer made from the tools' results, for a model that gave none.
    Response,
}

impl Utterance {
    /// Whether models see it as something that the assistant said.
    ///
    /// They never see an acknowledgement. It is either the model's own words, which are there
    /// already, or a sentence before a call that the model did not write. Small models imitate
    /// that: they write the sentence and no call (`docs/prompting.md`).
    fn is_told(&self) -> bool {
        self.kind == UtteranceKind::Response
    }

    /// Whether the same words are there as text.
    pub(crate) fn is_text_again(&self) -> bool {
        self.kind == UtteranceKind::Acknowledgement(AcknowledgementSource::Model)
    }
}

/// A call and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Unique in its session.
    pub call_id: String,
    /// The tool's name as the model wrote it. There may be no such tool.
    pub name: String,
    /// A JSON object, as the model wrote it.
    pub arguments: Arguments,
    /// The arguments with references replaced by results, as the tool received them.
    pub resolved_arguments: Option<Arguments>,
    /// Its outcome.
    pub outcome: Outcome,
}

impl Call {
    /// The arguments as the tool receives them.
    #[must_use]
    pub(crate) const fn taken_arguments(&self) -> &Arguments {
        match &self.resolved_arguments {
            Some(resolved) => resolved,
            None => &self.arguments,
        }
    }

    /// The question to the user that it ended with, if any.
    #[must_use]
    pub(crate) fn asks(&self) -> Option<&Clarification> {
        match &self.outcome {
            Outcome::Ended(result) => result.clarification.as_ref(),
            Outcome::Unapproved(clarification) => Some(clarification),
            Outcome::NotRun(_)
            | Outcome::Skipped(_)
            | Outcome::Cancelled
            | Outcome::HandedOut
            | Outcome::Claimed(_) => None,
        }
    }

    /// Whether it was not run because it repeats an earlier call.
    fn is_repeat(&self) -> bool {
        matches!(&self.outcome, Outcome::NotRun(result) if result.success)
    }

    /// Its result in the standard shape, whether or not its tool ran.
    #[must_use]
    pub fn result(&self) -> Cow<'_, ToolResult> {
        match &self.outcome {
            Outcome::Ended(result) | Outcome::NotRun(result) | Outcome::Claimed(result) => {
                Cow::Borrowed(result)
            }
            Outcome::HandedOut => {
                Cow::Owned(ToolResult::error("no result: the conversation went on without it"))
            }
            Outcome::Skipped(reason) => Cow::Owned(ToolResult::error(format!("not run: {reason}"))),
            Outcome::Cancelled => {
                let error = "interrupted before it ended; outcome unknown";
                Cow::Owned(ToolResult::error(error))
            }
            Outcome::Unapproved(_) => {
                Cow::Owned(ToolResult::error("not run yet: it needs the user's approval"))
            }
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The tool ran, successfully or not.
    Ended(ToolResult),
    /// The call was refused, and this says why, or it repeats an earlier one, and this is its
    /// result.
    NotRun(ToolResult),
    /// It was not run, for this reason.
    Skipped(String),
    /// It was running when the turn ended.
    Cancelled,
    /// It was not run, because the user has to approve it first. This is what the user is asked.
    Unapproved(Clarification),
    /// The client has to run it, and has not returned its result.
    HandedOut,
    /// What the client says that it returned. **Nothing follows from it**: it only tells the model
    /// something. It fills no reference, allows no recipient, and no call counts as made.
    Claimed(ToolResult),
}

/// Something that the model is told about its whole message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The kind of mistake.
    pub reason: FeedbackReason,
    /// The text.
    pub message: String,
}

#[cfg(test)]
mod tests;
