//! A turn whose gateway was stopped while it ran, as far as its journal and its log tell.
//!
//! ```text
//!   journal   steps that are whole, and what the turn has counted with them
//!   log       ... | "Let me "  tool_started  tool_completed  "It " ]   killed
//!                 '----------- the step that was under way -------'
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Call, Ending, Outcome, Part, Step, Turn};
use crate::event::{AcknowledgementSource, FailureCode, FeedbackReason, TurnFinish, Usage};
use crate::limits::session::RECORD_DEPTH_MAX;
use crate::parser::Arguments;
use crate::text::read_deep;
use crate::tools::ToolResult;

/// What a running turn has counted, beside its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tally {
    /// How many call ids it has used, beside those of the turn that it continues.
    pub(crate) call_ids: usize,
    /// How many calls the model has written in full.
    pub(crate) calls: u32,
    /// How many rounds have been requested.
    pub(crate) rounds: u32,
    /// The tokens of the rounds that are over.
    pub(crate) usage: Usage,
    /// Bytes that the model has written.
    pub(crate) bytes: usize,
    /// Whether the model has made the call that was required.
    pub(crate) has_called: bool,
    /// How the turn completes, if its closing round is under way.
    pub(crate) closes: Option<TurnFinish>,
    /// Whether the message under way goes on with the last step, which was cut off before.
    pub(crate) is_cut: bool,
    /// The tools that the model has learned about since the turn began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) learned: Vec<String>,
    /// How many calls do not count against the turn's limits.
    pub(crate) free_calls: usize,
    /// How many rounds do not count against them.
    pub(crate) free_rounds: u32,
    /// How many times in a row the model has answered with nothing, including in earlier turns.
    pub(crate) empty_answers: u32,
    /// The kinds of mistakes that the model has made, and in how many rounds each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) mistakes: Vec<(FeedbackReason, u32)>,
    /// In how many rounds it has made any.
    pub(crate) mistaken_rounds: u32,
    /// Whether it answered without a required call and was told so.
    pub(crate) was_reminded_to_call: bool,
    /// How many of its messages repeated a call of an earlier one.
    pub(crate) repeats: u32,
}

/// See the module docs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interrupted {
    /// The turn with its whole steps.
    pub(crate) turn: Turn,
    pub(crate) tally: Tally,
    /// The last event that belongs to them.
    pub(crate) after: u64,
    /// The step that was under way. A call without a result is [cancelled](super::Outcome::Cancelled):
    /// nobody knows what it has done.
    pub(crate) step: Step,
    /// How many call ids that step has used.
    pub(crate) step_call_ids: usize,
    /// Whether the client knows that the turn has begun.
    pub(crate) is_begun: bool,
    /// All words that the client has seen.
    pub(crate) said: String,
    /// The acknowledgement that the client has seen.
    pub(crate) heard: Option<(AcknowledgementSource, String)>,
}

/// What becomes of calls that were under way, each as its id and its tool.
#[derive(Debug)]
pub(crate) struct CallFates {
    pub(crate) kept: String,
    pub(crate) run_again: String,
    pub(crate) unknown: String,
}

/// An event.
#[derive(Deserialize)]
struct Line<'l> {
    r#type: &'l str,
    #[serde(borrow)]
    data: Told<'l>,
}

/// What counts of an event here.
#[derive(Deserialize)]
struct Told<'l> {
    #[serde(default)]
    text: String,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    tool_name: String,
    #[serde(borrow)]
    tool_args: Option<&'l RawValue>,
    tool_result: Option<ToolResult>,
    source: Option<AcknowledgementSource>,
}

impl Interrupted {
    /// A turn whose whole steps end with event `after`, and that has counted this. `events` are all that its log
    /// has: sequences and lines of JSON.
    pub(crate) fn new<'e>(
        turn: Turn,
        tally: Tally,
        after: u64,
        events: impl Iterator<Item = (u64, &'e [u8])>,
    ) -> Self {
        let step = Step { at_ms: turn.started_at_ms, ..Step::default() };
        let mut interrupted = Self { turn, tally, after, step, ..Self::default() };
        let mut call_ids = HashSet::new();
        for (sequence, line) in events {
            // One that a later version tells.
            let Ok(line) = read_deep::<Line<'_>>(line, RECORD_DEPTH_MAX) else { continue };
            interrupted.note(&line);
            if sequence > after {
                if !line.data.call_id.is_empty() {
                    call_ids.insert(line.data.call_id.clone());
                }
                interrupted.step.take(line);
            }
        }
        interrupted.step_call_ids = call_ids.len();
        // At calls, the message is over, and goes on with nothing.
        if interrupted.tally.is_cut
            && interrupted.step.calls().next().is_none()
            && let Some(cut) = interrupted.turn.steps.pop()
        {
            interrupted.step = cut.continued_by(interrupted.step);
        }
        interrupted
    }

    /// Notes what an event tells of the whole turn.
    fn note(&mut self, Line { r#type, data }: &Line<'_>) {
        match *r#type {
            "turn_started" => self.is_begun = true,
            "text_delta" => self.said.push_str(&data.text),
            "acknowledgement" => self.heard = data.source.map(|source| (source, data.text.clone())),
            _ => {}
        }
    }

    /// What was under way, for the log.
    pub(crate) fn under_way(&self) -> &'static str {
        match (self.step.calls().next(), self.step.parts.is_empty(), self.tally.rounds) {
            (Some(_), ..) => "calls",
            (None, false, _) => "words",
            (None, true, 0) => "nothing",
            (None, true, _) => "a request to the model",
        }
    }

    /// Those calls of the step under way that `matches` picks, each as its id and its tool, for the log.
    pub(crate) fn describe_calls(&self, matches: impl Fn(&Call) -> bool) -> String {
        let calls = self.step.calls().filter(|call| matches(call));
        let calls = calls.map(|call| format!("{} {}", call.call_id, call.name));
        calls.collect::<Vec<_>>().join(", ")
    }

    /// How many calls and how many ids were counted before the step under way. A turn that begins with calls counts
    /// those in advance.
    const fn counted(&self) -> (u32, usize) {
        match self.tally.rounds {
            0 => (0, 0),
            _ => (self.tally.calls, self.tally.call_ids),
        }
    }

    /// How many calls the turn has made.
    pub(crate) fn calls_made(&self) -> u32 {
        let calls = u32::try_from(self.step.calls().count()).unwrap_or(u32::MAX);
        self.counted().0.saturating_add(calls)
    }

    /// The turn as history, if it does not go on.
    pub(crate) fn into_ended(self) -> Turn {
        let (_, ids) = self.counted();
        let mut turn = self.turn;
        turn.call_ids += ids + self.step_call_ids;
        if !self.step.parts.is_empty() {
            turn.steps.push(self.step);
        }
        for step in &mut turn.steps {
            step.parts.retain(|part| !matches!(part, Part::Reasoning(_)));
        }
        turn.ending = Some(Ending::Failed(FailureCode::Internal));
        turn
    }
}

impl Step {
    /// Adds what an event tells of it.
    fn take(&mut self, Line { r#type, data }: Line<'_>) {
        match r#type {
            "text_delta" => match self.parts.last_mut() {
                Some(Part::Text(text)) => text.push_str(&data.text),
                _ => self.parts.push(Part::Text(data.text)),
            },
            "tool_started" => {
                let arguments = data.tool_args.map_or("{}", RawValue::get);
                let Ok(arguments) = Arguments::parse(arguments) else { return };
                let (call_id, name) = (data.call_id, data.tool_name);
                let (resolved_arguments, outcome) = (None, Outcome::Cancelled);
                let call = Call { call_id, name, arguments, resolved_arguments, outcome };
                self.parts.push(Part::Call(Arc::new(call)));
            }
            "tool_completed" => {
                let Some(result) = data.tool_result else { return };
                let call = self.parts.iter_mut().find_map(|part| match part {
                    Part::Call(call) if call.call_id == data.call_id => Some(call),
                    _ => None,
                });
                if let Some(call) = call {
                    Arc::make_mut(call).outcome = Outcome::Ended(result);
                }
            }
            _ => {}
        }
    }
}
