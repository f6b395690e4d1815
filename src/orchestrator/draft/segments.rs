//! What the parser finds, taken into the draft. None of it is copied twice: an event
//! of the queue is a range of the turn's text, and grows while nobody has polled it.

use super::entry::{Entry, EventDraft};
use super::round::{Mistake, Piece, Surplus};
use super::{CallDraft, CallState, Draft};
use crate::conversation::{self, Utterance, UtteranceKind};
use crate::limits;
use crate::parser::{Call, ErrorCode, ParseError, Repair, Segment};

impl Draft {
    /// Takes what the parser found. Without `takes_calls`, calls are left unread.
    pub(in crate::orchestrator) fn take(&mut self, segment: Segment<'_>, takes_calls: bool) {
        if !matches!(segment, Segment::Text(_)) {
            self.release_words();
        }
        match segment {
            _ if self.round.surplus == Some(Surplus::Results) => {}
            Segment::Text(text) => self.push_text(text),
            Segment::Reasoning(text) => self.push_reasoning(text),
            Segment::CallStarted { .. } if !takes_calls => self.round.has_stray_marker = true,
            _ if !takes_calls => {}
            Segment::CallStarted { .. } => self.begin_call(),
            Segment::CallNamed { .. } | Segment::Span(_) => {}
            Segment::ArgumentsDelta { index, json } => self.push_arguments(index, json),
            Segment::CallCompleted(call) => {
                self.guard.learn_tool(&call.name);
                self.guard.end_call();
                self.complete_call(call);
            }
            Segment::Error(error) => {
                self.guard.end_call();
                self.push_mistake(error);
            }
        }
    }

    fn push_text(&mut self, text: &str) {
        let start = self.text.len();
        if self.guard.push(text, &mut self.text) {
            self.round.surplus = Some(Surplus::Results);
        }
        self.say_words(start);
    }

    /// Lets go of words that were held as the beginning of a block of results: the message
    /// goes on otherwise, or is over.
    pub(in crate::orchestrator) fn release_words(&mut self) {
        let start = self.text.len();
        if self.guard.finish(&mut self.text) {
            self.round.surplus = Some(Surplus::Results);
        }
        self.say_words(start);
    }

    /// Says the turn's text from `start` on.
    fn say_words(&mut self, start: usize) {
        let end = self.text.len();
        if start == end {
            return;
        }
        self.round.push_text(start..end);
        if let Some(has_words) = &mut self.round.has_words_after_call {
            *has_words |= !self.text[start..].trim_ascii().is_empty();
        }
        match self.queue.back_mut() {
            Some(Entry::Say(EventDraft::Text(range))) => range.end = end,
            _ => self.say(EventDraft::Text(start..end)),
        }
    }

    /// Says an answer of the gateway's own. What tools have found is in it, so that it does
    /// not go into the history as the model's words.
    pub(in crate::orchestrator) fn say_answer(&mut self, text: String, at_ms: u64) {
        let start = self.text.len();
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&text);
        self.say(EventDraft::Text(start..self.text.len()));
        let (kind, tools) = (UtteranceKind::Response, Vec::new());
        self.round.pieces.push(Piece::Said(Utterance { kind, text, tools, at_ms }));
    }

    pub(in crate::orchestrator) fn push_reasoning(&mut self, text: &str) {
        let start = self.reasoning.len();
        self.reasoning.push_str(text);
        let end = self.reasoning.len();
        match self.queue.back_mut() {
            Some(Entry::Say(EventDraft::Reasoning(range))) => range.end = end,
            _ => self.say(EventDraft::Reasoning(start..end)),
        }
    }

    fn push_arguments(&mut self, index: u32, delta: &str) {
        let Some(at) = self.position(index) else { return };
        let start = self.arguments.len();
        self.arguments.push_str(delta);
        let end = self.arguments.len();
        match self.queue.back_mut() {
            Some(Entry::Say(EventDraft::ArgumentsDelta { call, delta })) if *call == at => {
                delta.end = end;
            }
            _ => self.say(EventDraft::ArgumentsDelta { call: at, delta: start..end }),
        }
    }

    fn begin_call(&mut self) {
        if self.calls.len() > self.calls_max {
            self.round.surplus = Some(Surplus::Excess);
            return;
        }
        let call = self.push_call();
        self.say(EventDraft::MarkerDetected { call });
    }

    /// Lets a deferred call be the first of what this turn does.
    pub(in crate::orchestrator) fn resume_call(&mut self, deferred: &conversation::Call) {
        let at = self.push_call();
        let arguments = deferred.taken_arguments().clone();
        self.calls[at].complete(deferred.name.clone(), arguments, false);
        self.round.pieces.push(Piece::Call(at));
    }

    fn push_call(&mut self) -> usize {
        let at = self.calls.len();
        self.calls.push(CallDraft::begin(self.call_ids + at + 1, self.round.number));
        at
    }

    fn complete_call(&mut self, call: Call) {
        let Some(at) = self.position(call.index) else { return };
        let mended = [Repair::OpenBracket, Repair::OpenString];
        let end_is_mended = mended.iter().any(|repair| call.repaired.contains(repair));
        self.calls[at].complete(call.name, call.arguments, end_is_mended);
        self.round.pieces.push(Piece::Call(at));
        self.round.has_words_after_call = Some(false);
    }

    fn push_mistake(&mut self, error: ParseError) {
        // Words about calls are no mistake; only a line that begins as a call is.
        if error.code == ErrorCode::MissingPayload && !error.at_line_start {
            return;
        }
        if self.round.mistakes.len() == limits::turn::MISTAKES_MAX {
            self.round.surplus = Some(Surplus::Excess);
            return;
        }
        let call = error.index.and_then(|index| self.position(index));
        if let Some(call) = call {
            self.calls[call].state = CallState::Malformed;
        }
        self.round.has_words_after_call = Some(false);
        self.round.mistakes.push(Mistake { call, error });
    }

    /// A call's position in the turn from its index in the round, if it was taken.
    fn position(&self, index: u32) -> Option<usize> {
        let at = self.round.first_call + index as usize;
        (at < self.calls.len()).then_some(at)
    }

    /// Nothing more comes of the calls that nobody has checked.
    pub(in crate::orchestrator) fn discard_unchecked(&mut self) {
        for call in &mut self.calls[self.round.checked..] {
            if matches!(call.state, CallState::Arriving | CallState::Complete) {
                call.state = CallState::Malformed;
            }
        }
    }

    /// Makes mistakes of the calls that nothing more comes of: they were cut.
    pub(in crate::orchestrator) fn fail_unfinished(&mut self) {
        for (at, index) in self.round_calls().zip(0..) {
            if matches!(self.calls[at].state, CallState::Arriving) {
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
}
