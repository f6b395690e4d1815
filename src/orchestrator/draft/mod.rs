//! What a turn has written so far, and what is to be said about it.

mod call;
mod entry;
mod round;
mod segments;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::result_guard::ResultGuard;
use super::turn::Refusal;
use super::{feedback, references};
use crate::conversation::{self, Outcome, Part, Step, Utterance, UtteranceKind};
use crate::event::AcknowledgementSource;
use crate::upstream::ReasoningItem;

pub(super) use call::{CallDraft, CallState, Progress};
pub(super) use entry::{Action, Entry, EventDraft};
pub(super) use round::{Mistake, RoundDraft, Surplus};

use round::Piece;

/// What the user has heard before tools ran.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    pub(super) text: String,
    pub(super) source: AcknowledgementSource,
}

/// All that the turn has written, and the queue of what is to come out.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Text of the whole turn; text events are ranges of it.
    pub(super) text: String,
    pub(super) reasoning: String,
    /// Raw arguments, where deltas of them are asked for.
    pub(super) arguments: String,
    /// The message of the event that was polled last.
    pub(super) said: String,
    /// The calls of the whole turn: their position is their identity.
    pub(super) calls: Vec<CallDraft>,
    /// How many ids the calls of the turns before were given.
    call_ids: usize,
    /// Calls that the turn may make. One more is taken, to be told of.
    calls_max: usize,
    pub(super) round: RoundDraft,
    /// Keeps blocks of results out of the model's words.
    pub(super) guard: ResultGuard,
    pub(super) queue: VecDeque<Entry>,
}

impl Draft {
    /// Of a turn that may make so many calls, behind turns that gave them so many ids.
    pub(super) fn new(calls_max: usize, call_ids: usize, guard: ResultGuard, now_ms: u64) -> Self {
        let round = RoundDraft { asked_at_ms: now_ms, ..RoundDraft::default() };
        Self { call_ids, calls_max, round, guard, ..Self::default() }
    }

    pub(super) fn begin_round(&mut self, now_ms: u64) {
        self.round = self.round.next(self.calls.len(), self.text.len(), now_ms);
        self.guard.begin_message();
    }

    pub(super) fn say(&mut self, event: EventDraft) {
        self.queue.push_back(Entry::Say(event));
    }

    pub(super) fn act(&mut self, action: Action) {
        self.queue.push_back(Entry::Do(action));
    }

    /// Says a status, and keeps it for the transcript.
    pub(super) fn say_status(&mut self, text: String, at_ms: u64) {
        self.keep_status(text.clone(), at_ms);
        self.say(EventDraft::Status(text));
    }

    /// Keeps a status that is said otherwise.
    pub(super) fn keep_status(&mut self, text: String, at_ms: u64) {
        let said = Utterance { kind: UtteranceKind::Status, text, tools: Vec::new(), at_ms };
        self.round.pieces.push(Piece::Said(said));
    }

    /// Keeps something that was said in front of the round's calls.
    pub(super) fn say_before_calls(&mut self, said: Utterance) {
        self.round.say_before_calls(said);
    }

    /// Keeps what the server wants back beside what it was thought for.
    pub(super) fn keep_reasoning(&mut self, item: ReasoningItem) {
        self.round.pieces.push(Piece::Reasoning(item));
    }

    /// The running round's calls.
    pub(super) fn round_calls(&self) -> Range<usize> {
        self.round.first_call..self.calls.len()
    }

    /// A whole call's name.
    pub(super) fn name_of(&self, at: usize) -> &str {
        self.calls[at].whole().map_or("", |(name, _)| name)
    }

    /// How many calls the model has written whole in the turn.
    pub(super) fn calls_made(&self) -> u32 {
        let whole = self.calls.iter().filter(|call| call.whole().is_some()).count();
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Whether the round said anything.
    pub(super) fn has_words(&self) -> bool {
        self.round.texts(None).any(|range| !self.text[range].trim().is_empty())
    }

    /// Whether those words are an answer: what leads to a block of results, which is not
    /// shown, is none.
    pub(super) fn has_answer(&self) -> bool {
        let is_cut = self.round.surplus == Some(Surplus::Results);
        self.has_words() && !(is_cut && self.text.trim_ascii_end().ends_with(':'))
    }

    /// The words that the turn said before a call: those of its round, or else what was
    /// said before that.
    pub(super) fn words_before(&self, at: usize) -> &str {
        let end = self.round.texts(Some(at)).last().map_or(self.round.text_from, |text| text.end);
        let (before, in_round) = self.text[..end].split_at(self.round.text_from);
        match in_round.trim() {
            "" => before.trim(),
            words => words,
        }
    }

    /// Takes the last words out of the queue, if nothing stands behind them there.
    pub(super) fn take_back_words(&mut self) -> Option<Entry> {
        let is_words = matches!(self.queue.back(), Some(Entry::Say(EventDraft::Text(_))));
        if is_words { self.queue.pop_back() } else { None }
    }

    /// Whether the round has said something after its last call.
    pub(super) fn has_words_after_call(&self) -> bool {
        self.round.has_words_after_call == Some(true)
    }

    /// The calls whose results some arguments name.
    pub(super) fn named_calls(&self, at: usize, arguments: &Value) -> Result<Vec<usize>, Refusal> {
        let target = |reference: &str| {
            let place = references::target(reference, self.ids_before(at));
            let bad = || Refusal::Reference(reference.to_owned());
            place.map(|place| self.round.first_call + place).ok_or_else(bad)
        };
        references::find(arguments).into_iter().map(target).collect()
    }

    /// A waiting call's arguments with what they name in other calls' results.
    pub(super) fn resolved(&self, at: usize) -> Result<Value, Refusal> {
        let CallState::Waiting(arguments) = &self.calls[at].state else { return Ok(Value::Null) };
        let result_of = |reference: &str| {
            let place = references::target(reference, self.ids_before(at))?;
            let call = self.ended(self.round.first_call + place)?;
            serde_json::to_value(call.result()).ok()
        };
        references::resolve(arguments, &result_of)
            .map_err(|reference| Refusal::Reference(reference.to_owned()))
    }

    /// The ids of the calls before one in its message.
    fn ids_before(&self, at: usize) -> impl Iterator<Item = &str> {
        self.calls[self.round.first_call..at].iter().map(|call| call.call_id.as_str())
    }

    /// A call that something has come of.
    pub(super) fn ended(&self, at: usize) -> Option<&conversation::Call> {
        match &self.calls[at].state {
            CallState::Ended(call) => Some(call),
            _ => None,
        }
    }

    /// What the model is told of a call whose tool failed.
    pub(super) fn failure_of(&self, at: usize) -> Option<String> {
        let call = self.ended(at)?;
        feedback::tool_failed(&call.name, &call.result())
    }

    /// The round as a step of the history. Calls that still run are cancelled; others
    /// never begin.
    pub(super) fn take_step(&mut self) -> Step {
        for call in &mut self.calls[self.round.first_call..] {
            if call.is_running() {
                call.end(Outcome::Cancelled);
            } else if call.is_open() {
                call.end(Outcome::Skipped("the turn ended before it could begin".to_owned()));
            }
        }
        let part = |piece| match piece {
            Piece::Text(range) => Some(Part::Text(self.text[range].to_owned())),
            Piece::Said(said) => Some(Part::Said(said)),
            Piece::Reasoning(item) => Some(Part::Reasoning(Arc::new(item))),
            Piece::Call(at) => match &self.calls[at].state {
                CallState::Ended(call) => Some(Part::Call(Arc::clone(call))),
                _ => None,
            },
        };
        Step {
            at_ms: self.round.asked_at_ms,
            parts: std::mem::take(&mut self.round.pieces).into_iter().filter_map(part).collect(),
            notes: std::mem::take(&mut self.round.notes),
            retry: None,
        }
    }
}
