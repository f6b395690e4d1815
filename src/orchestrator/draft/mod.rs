//! What the running round has written so far, and what is to be said about it.

mod call;
mod entry;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::turn::Refusal;
use super::{feedback, references};
use crate::conversation::{Note, Outcome, Part, Step, Utterance, UtteranceKind};
use crate::event::AcknowledgementSource;
use crate::limits;
use crate::parser::{Call, ErrorCode, ParseError, Repair, Segment};
use crate::upstream::ReasoningItem;

pub(super) use call::{CallDraft, CallState, Progress};
pub(super) use entry::Entry;

/// What the user has heard before tools ran.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    pub(super) text: String,
    pub(super) source: AcknowledgementSource,
}

/// A mistake that the parser found in the running round.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) call: Option<usize>,
    pub(super) error: ParseError,
}

/// All that the turn has written, and the queue of what is to come out.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Text of the whole turn; text entries are ranges of it.
    pub(super) text: String,
    pub(super) reasoning: String,
    /// The message of the event that was polled last.
    pub(super) said: String,
    /// Raw arguments, where deltas of them are asked for.
    arguments: String,
    pub(super) calls: Vec<CallDraft>,
    pub(super) queue: VecDeque<Entry>,

    /// The running round, from 1, and when it was asked for.
    pub(super) round: u32,
    round_at_ms: u64,
    /// What the round wrote, in order.
    parts: Vec<DraftPart>,
    /// Where the round's calls begin in `calls`.
    first_call: usize,
    /// What the round said behind its last call.
    behind_call: Option<BehindCall>,
    pub(super) mistakes: Vec<Mistake>,
    /// Calls whose end was not written but mended.
    pub(super) mended_ends: Vec<usize>,
    /// Whether the round wrote a call where none are taken.
    pub(super) stray_marker: bool,
    /// Calls that the turn may make. One more is taken, to be told of.
    pub(super) calls_max: usize,
    /// Whether the round wrote more calls or mistakes than are taken.
    pub(super) overflows: bool,
}

/// The text behind a call.
#[derive(Debug)]
struct BehindCall {
    /// Where it begins in the turn's text.
    from: usize,
    /// Whether there is more to it than white space.
    has_words: bool,
}

impl BehindCall {
    const fn at(from: usize) -> Self {
        Self { from, has_words: false }
    }

    /// Looks at each piece once: a model may write any amount of white space.
    fn take(&mut self, text: &str) {
        self.has_words = self.has_words || !text.as_bytes().trim_ascii_start().is_empty();
    }
}

#[derive(Debug)]
enum DraftPart {
    Text(Range<usize>),
    Call(usize),
    Said(Utterance),
    Reasoning(ReasoningItem),
}

impl Draft {
    /// Of a turn that may make so many calls.
    pub(super) fn new(calls_max: usize) -> Self {
        Self { calls_max, ..Self::default() }
    }

    pub(super) fn begin_round(&mut self, now_ms: u64) {
        self.round += 1;
        self.round_at_ms = now_ms;
        self.parts.clear();
        self.mistakes.clear();
        self.mended_ends.clear();
        self.first_call = self.calls.len();
        self.behind_call = None;
        self.stray_marker = false;
        self.overflows = false;
    }

    /// The running round's calls.
    pub(super) fn round_calls(&self) -> Range<usize> {
        self.first_call..self.calls.len()
    }

    /// Takes what the parser found. Without `takes_calls`, calls are left unread.
    pub(super) fn take(&mut self, segment: Segment<'_>, takes_calls: bool) {
        match segment {
            Segment::Text(text) => self.push_text(text),
            Segment::Reasoning(text) => self.push_reasoning(text),
            Segment::CallStarted { .. } if !takes_calls => self.stray_marker = true,
            _ if !takes_calls => {}
            Segment::CallStarted { .. } => self.begin_call(),
            Segment::CallNamed { .. } | Segment::Span(_) => {}
            Segment::ArgumentsDelta { index, json } => self.push_arguments(index, json),
            Segment::CallCompleted(call) => {
                let Some(at) = self.position(call.index) else { return };
                let mended = [Repair::OpenBracket, Repair::OpenString];
                if mended.iter().any(|repair| call.repaired.contains(repair)) {
                    self.mended_ends.push(at);
                }
                let Call { name, arguments, .. } = call;
                self.calls[at].complete(name, arguments);
                self.parts.push(DraftPart::Call(at));
                self.behind_call = Some(BehindCall::at(self.text.len()));
            }
            Segment::Error(error) => self.push_mistake(error),
        }
    }

    /// A call's position in the turn from its index in the round, if it was taken.
    fn position(&self, index: u32) -> Option<usize> {
        let at = self.first_call + index as usize;
        (at < self.calls.len()).then_some(at)
    }

    fn push_text(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        let end = self.text.len();
        if let Some(behind) = &mut self.behind_call {
            behind.take(text);
        }
        match self.parts.last_mut() {
            Some(DraftPart::Text(range)) => range.end = end,
            _ => self.parts.push(DraftPart::Text(start..end)),
        }
        match self.queue.back_mut() {
            Some(Entry::Text(range)) => range.end = end,
            _ => self.queue.push_back(Entry::Text(start..end)),
        }
    }

    pub(super) fn push_reasoning(&mut self, text: &str) {
        let start = self.reasoning.len();
        self.reasoning.push_str(text);
        let end = self.reasoning.len();
        match self.queue.back_mut() {
            Some(Entry::Reasoning(range)) => range.end = end,
            _ => self.queue.push_back(Entry::Reasoning(start..end)),
        }
    }

    /// Keeps what the server wants back beside what it was thought for.
    pub(super) fn keep_reasoning(&mut self, item: ReasoningItem) {
        self.parts.push(DraftPart::Reasoning(item));
    }

    fn push_arguments(&mut self, index: u32, delta: &str) {
        let Some(call) = self.position(index) else { return };
        let start = self.arguments.len();
        self.arguments.push_str(delta);
        let end = self.arguments.len();
        match self.queue.back_mut() {
            Some(Entry::ArgumentsDelta { call: last, delta }) if *last == call => delta.end = end,
            _ => self.queue.push_back(Entry::ArgumentsDelta { call, delta: start..end }),
        }
    }

    pub(super) fn arguments(&self, range: Range<usize>) -> &str {
        &self.arguments[range]
    }

    fn begin_call(&mut self) {
        if self.calls.len() > self.calls_max {
            self.overflows = true;
            return;
        }
        let call = self.calls.len();
        self.calls.push(CallDraft::begin(call, self.round));
        self.queue.push_back(Entry::MarkerDetected { call });
    }

    fn push_mistake(&mut self, error: ParseError) {
        // Words about calls are no mistake; only a line that begins as a call is.
        if error.code == ErrorCode::MissingPayload && !error.at_line_start {
            return;
        }
        if self.mistakes.len() == limits::turn::MISTAKES_MAX {
            self.overflows = true;
            return;
        }
        let call = error.index.and_then(|index| self.position(index));
        if let Some(call) = call {
            self.calls[call].state = CallState::Malformed;
        }
        self.behind_call = Some(BehindCall::at(self.text.len()));
        self.mistakes.push(Mistake { call, error });
    }

    /// How many calls the model has written whole in the turn.
    pub(super) fn calls_made(&self) -> u32 {
        let whole = self.calls.iter().filter(|call| call.whole().is_some()).count();
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    /// Nothing more comes of calls that are still being written.
    pub(super) fn forget_arriving(&mut self) {
        for call in &mut self.calls[self.first_call..] {
            if matches!(call.state, CallState::Arriving) {
                call.state = CallState::Malformed;
            }
        }
    }

    /// Leaves the calls that nothing more comes of: they were cut.
    pub(super) fn leave_unfinished(&mut self) {
        for index in 0..u32::try_from(self.round_calls().len()).unwrap_or(u32::MAX) {
            let call = &self.calls[self.first_call + index as usize];
            if matches!(call.state, CallState::Arriving) {
                self.push_mistake(ParseError {
                    code: ErrorCode::IncompletePayload,
                    message: "the answer ended inside the call".to_owned(),
                    offset: 0,
                    raw: String::new(),
                    index: Some(index),
                    at_line_start: true,
                });
            }
        }
    }

    /// The text that the round wrote behind its last call.
    pub(super) fn text_behind_call(&self) -> Option<&str> {
        self.behind_call.as_ref().map(|behind| &self.text[behind.from..])
    }

    /// Whether the round said anything.
    pub(super) fn has_words(&self) -> bool {
        self.parts.iter().any(|part| match part {
            DraftPart::Text(range) => !self.text[range.clone()].trim().is_empty(),
            DraftPart::Call(_) | DraftPart::Said(_) | DraftPart::Reasoning(_) => false,
        })
    }

    /// The words that the round said before a call.
    pub(super) fn words_before(&self, at: usize) -> String {
        let before = self
            .parts
            .iter()
            .take_while(|part| !matches!(part, DraftPart::Call(call) if *call == at));
        let words = before.filter_map(|part| match part {
            DraftPart::Text(range) => Some(&self.text[range.clone()]),
            DraftPart::Call(_) | DraftPart::Said(_) | DraftPart::Reasoning(_) => None,
        });
        words.collect::<String>().trim().to_owned()
    }

    /// Whether the round said more words behind its last call.
    pub(super) fn has_words_behind_call(&self) -> bool {
        self.behind_call.as_ref().is_some_and(|behind| behind.has_words)
    }

    /// Puts something that was said in front of the round's calls.
    pub(super) fn say_before_calls(&mut self, said: Utterance) {
        let is_call = |part: &DraftPart| matches!(part, DraftPart::Call(_));
        let at = self.parts.iter().position(is_call).unwrap_or(self.parts.len());
        self.parts.insert(at, DraftPart::Said(said));
    }

    /// Says a status, and keeps it for the transcript.
    pub(super) fn say_status(&mut self, text: String, at_ms: u64) {
        let kind = UtteranceKind::Status;
        let said = Utterance { kind, text: text.clone(), tools: Vec::new(), at_ms };
        self.parts.push(DraftPart::Said(said));
        self.queue.push_back(Entry::Status(text));
    }

    /// The calls whose results some arguments name.
    pub(super) fn named_calls(&self, at: usize, arguments: &Value) -> Result<Vec<usize>, Refusal> {
        let target = |reference: &str| {
            let place = references::target(reference, self.ids_before(at));
            let bad = || Refusal::Reference(reference.to_owned());
            place.map(|place| self.first_call + place).ok_or_else(bad)
        };
        references::find(arguments).into_iter().map(target).collect()
    }

    /// A waiting call's arguments with what they name in other calls' results.
    pub(super) fn resolved(&self, at: usize) -> Result<Value, Refusal> {
        let CallState::Waiting(arguments) = &self.calls[at].state else { return Ok(Value::Null) };
        let result_of = |reference: &str| {
            let place = references::target(reference, self.ids_before(at))?;
            let CallState::Ended(call) = &self.calls[self.first_call + place].state else {
                return None;
            };
            serde_json::to_value(call.result()).ok()
        };
        references::resolve(arguments, &result_of)
            .map_err(|reference| Refusal::Reference(reference.to_owned()))
    }

    /// The ids of the calls before one in its message.
    fn ids_before(&self, at: usize) -> impl ExactSizeIterator<Item = &str> {
        self.calls[self.first_call..at].iter().map(|call| call.call_id.as_str())
    }

    /// What the model is told of a call whose tool failed.
    pub(super) fn failure_of(&self, at: usize) -> Option<String> {
        let CallState::Ended(call) = &self.calls[at].state else { return None };
        feedback::tool_failed(&call.name, &call.result())
    }

    /// The round as a step of the history. Calls that are still open are cancelled.
    pub(super) fn take_step(&mut self, notes: Vec<Note>) -> Step {
        for at in self.round_calls() {
            if self.calls[at].is_open() {
                self.calls[at].end(Outcome::Cancelled);
            }
        }
        let parts = std::mem::take(&mut self.parts)
            .into_iter()
            .filter_map(|part| match part {
                DraftPart::Text(range) => Some(Part::Text(self.text[range].to_owned())),
                DraftPart::Said(said) => Some(Part::Said(said)),
                DraftPart::Reasoning(item) => Some(Part::Reasoning(Arc::new(item))),
                DraftPart::Call(at) => match &self.calls[at].state {
                    CallState::Ended(call) => Some(Part::Call(Arc::clone(call))),
                    _ => None,
                },
            })
            .collect();
        Step { at_ms: self.round_at_ms, parts, notes }
    }
}
