//! A round: one message of the model, what it calls, and what is known of both.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use crate::conversation::{Note, Part, Step, Utterance, UtteranceKind};
use crate::event::Usage;
use crate::orchestrator::call::{CallAt, Calls};
use crate::orchestrator::chain::MessageEnd;
use crate::parser::ParseError;
use crate::upstream::{ReasoningItem, RoundFinish};

/// Whether a message is read on.
pub(super) type Flow = ControlFlow<()>;

/// A message of the model. Its text is in the turn's script.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Its round, from 1; 0 for the lookups that had waited for an answer of the user.
    pub(super) round: u32,
    /// When the model was asked for it, in milliseconds since the Unix epoch.
    asked_at_ms: u64,
    /// Whether the driver knows that it is asked for. What comes in before that belongs to
    /// the round before, and is nobody's any more.
    pub(super) is_asked_for: bool,
    /// Where its text begins in the turn's.
    text_from: usize,
    /// What it holds, in order.
    pieces: Vec<Piece>,
    /// What the model is told of its mistakes, besides the results of its calls.
    pub(super) notes: Vec<Note>,
    /// Why the model stopped, once it has said so.
    pub(super) finish: Option<RoundFinish>,
    /// Its tokens, until they are added to the turn's.
    pub(super) usage: Usage,
}

/// A part of a message that is not history yet.
#[derive(Debug)]
enum Piece {
    Text(Range<usize>),
    Call(CallAt),
    Said(Utterance),
    Reasoning(ReasoningItem),
}

/// A message that may call, and where it stands with its calls.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) message: Message,
    /// The first of its calls, of those of the whole turn.
    pub(super) first_call: CallAt,
    /// The first call that nobody has checked.
    pub(super) unchecked: CallAt,
    /// Whether it has said something after its last call; `None` without a call.
    pub(super) has_words_after_call: Option<bool>,
    /// What the parser could not read.
    pub(super) mistakes: Vec<Mistake>,
    /// Whether one of its calls was refused.
    pub(super) has_refused: bool,
    /// Whether it goes on with what nobody takes.
    pub(super) surplus: Option<Surplus>,
    /// Whether the next round is the closing one: no more tools.
    pub(super) is_last_with_tools: bool,
}

/// What a round is stopped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// More calls or mistakes than are taken.
    Excess,
    /// A call that it has already made in this message.
    Repeats,
    /// A block of results. The rest of the message is not read.
    Results,
}

/// A mistake that the parser found.
#[derive(Debug)]
pub(super) struct Mistake {
    /// The call, where it was taken for one.
    pub(super) call: Option<CallAt>,
    pub(super) error: ParseError,
}

impl Message {
    /// The message of this round, in a turn that has said so much by now.
    pub(super) fn new(round: u32, text_from: usize, now_ms: u64) -> Self {
        Self { round, asked_at_ms: now_ms, text_from, ..Self::default() }
    }

    /// Whether the model could not say all that it wanted to.
    pub(super) fn ran_into_token_limit(&self) -> bool {
        self.finish == Some(RoundFinish::Length)
    }

    /// Adds text that ends where the turn's does.
    pub(super) fn push_text(&mut self, range: Range<usize>) {
        match self.pieces.last_mut() {
            _ if range.is_empty() => {}
            Some(Piece::Text(last)) => last.end = range.end,
            _ => self.pieces.push(Piece::Text(range)),
        }
    }

    pub(super) fn push_call(&mut self, at: CallAt) {
        self.pieces.push(Piece::Call(at));
    }

    /// Keeps what the server wants back beside what was thought for it.
    pub(super) fn push_reasoning(&mut self, item: ReasoningItem) {
        self.pieces.push(Piece::Reasoning(item));
    }

    /// Keeps what the gateway has said, for the transcript.
    pub(super) fn push_said(&mut self, kind: UtteranceKind, text: String, at_ms: u64) {
        self.pieces.push(Piece::Said(Utterance { kind, text, tools: Vec::new(), at_ms }));
    }

    /// Keeps something that was said before its calls.
    pub(super) fn say_before_calls(&mut self, said: Utterance) {
        let is_call = |piece: &Piece| matches!(piece, Piece::Call(_));
        let at = self.pieces.iter().position(is_call).unwrap_or(self.pieces.len());
        self.pieces.insert(at, Piece::Said(said));
    }

    /// Whether it says anything. `text` is the turn's.
    pub(super) fn has_words(&self, text: &str) -> bool {
        texts(&self.pieces).any(|range| !text[range].trim().is_empty())
    }

    /// The words that the turn said before a call of this message: those of the message, or
    /// else what was said before that. `text` is the turn's.
    pub(super) fn words_before<'t>(&self, at: CallAt, text: &'t str) -> &'t str {
        let is_call = |piece: &Piece| matches!(piece, Piece::Call(call) if *call == at);
        let end = self.pieces.iter().position(is_call).unwrap_or(self.pieces.len());
        let end = texts(&self.pieces[..end]).last().map_or(self.text_from, |text| text.end);
        let (before, own) = text[..end].split_at(self.text_from);
        match own.trim() {
            "" => before.trim(),
            words => words,
        }
    }

    /// The message as a step of the history. `text` and `calls` are the turn's.
    pub(super) fn take_step(&mut self, text: &str, calls: &Calls) -> Step {
        let part = |piece| match piece {
            Piece::Text(range) => Some(Part::Text(text[range].to_owned())),
            Piece::Said(said) => Some(Part::Said(said)),
            Piece::Reasoning(item) => Some(Part::Reasoning(Arc::new(item))),
            Piece::Call(at) => calls[at].ended().map(|call| Part::Call(Arc::clone(call))),
        };
        Step {
            at_ms: self.asked_at_ms,
            parts: std::mem::take(&mut self.pieces).into_iter().filter_map(part).collect(),
            notes: std::mem::take(&mut self.notes),
            retry: None,
        }
    }
}

/// The texts among some pieces, as ranges of the turn's.
fn texts(pieces: &[Piece]) -> impl Iterator<Item = Range<usize>> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Text(range) => Some(range.clone()),
        Piece::Call(_) | Piece::Said(_) | Piece::Reasoning(_) => None,
    })
}

impl Round {
    /// A round whose message has just been asked for. Its calls come after those that the
    /// turn has made.
    pub(super) fn new(message: Message, first_call: CallAt) -> Self {
        Self { message, first_call, unchecked: first_call, ..Self::default() }
    }

    /// How a message has ended of which no more is read.
    pub(super) fn message_end(&self, was_stopped: bool) -> MessageEnd {
        match self.message.finish {
            Some(RoundFinish::Length | RoundFinish::ContentFilter) => MessageEnd::Cut,
            // A model that goes on with results was done with its calls.
            _ if self.surplus == Some(Surplus::Results) => MessageEnd::Well,
            _ if was_stopped => MessageEnd::Cut,
            _ => MessageEnd::Well,
        }
    }
}
