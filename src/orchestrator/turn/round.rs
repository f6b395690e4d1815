//! A round: one message of the model, its calls, and what is known about both.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::tokens::Tokens;
use crate::conversation::{Note, Part, Step, Utterance, UtteranceKind};
use crate::event::TurnFinish;
use crate::orchestrator::call::{CallAt, Calls};
use crate::orchestrator::chain::MessageEnd;
use crate::parser::ParseError;
use crate::upstream::{ReasoningItem, RoundFinish};

/// Whether to keep reading a message.
pub(super) type Flow = ControlFlow<()>;

/// A message of the model. Its text is in the turn's script.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Message {
    /// Its tokens, until they are added to the turn's.
    pub(super) tokens: Tokens,
    /// What it consists of, in order.
    pieces: Vec<Piece>,
    /// Whether the driver has been told to ask for it. Input that comes earlier belongs to the
    /// previous round and is ignored.
    pub(super) is_asked_for: bool,
    // Each token needs the fields above.
    /// Whether it goes on with the last step, which was cut off.
    pub(super) goes_on: bool,
    /// Why the model stopped, once it has said so.
    pub(super) finish: Option<RoundFinish>,
    /// Its round, from 1; 0 for the lookups that waited for the user's answer.
    pub(super) round: u32,
    /// When the model was asked for it, in milliseconds since the Unix epoch.
    asked_at_ms: u64,
    /// Where its text begins in the turn's.
    text_from: usize,
    /// Notes to the model on its mistakes, besides the results of its calls.
    pub(super) notes: Vec<Note>,
}

/// A part of a message that is not yet history.
#[derive(Debug)]
enum Piece {
    Text(Range<usize>),
    Call(CallAt),
    Said(Utterance),
    Reasoning(ReasoningItem),
}

/// A message that may contain calls, and the state of those calls. What every token needs comes first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Round {
    /// The first of its calls, among those of the whole turn.
    pub(super) first_call: CallAt,
    /// The first call that has not been checked.
    pub(super) unchecked: CallAt,
    /// Whether words follow its last call; `None` if there is no call.
    pub(super) has_words_after_call: Option<bool>,
    /// Who has found its first call, and so finds all of them: calls of the other would have the same numbers.
    pub(super) finder: Option<Finder>,
    /// Whether it went on with something that is not read, and with what.
    pub(super) surplus: Option<Surplus>,
    /// Whether the next round is the closing one, without tools.
    pub(super) is_last_with_tools: bool,
    /// Whether one of its calls was refused.
    pub(super) has_refused: bool,
    pub(super) message: Message,
    /// What the parser could not read.
    pub(super) mistakes: Vec<Mistake>,
}

/// Who finds the calls in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finder {
    /// Our parser, in the text.
    Parser,
    /// The server.
    Server,
}

/// Why a round is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// Too many calls or mistakes.
    Excess,
    /// A call that this message has already made.
    Repeats,
    /// A block of results. The rest of the message is not read.
    Results,
    /// A text at which the client wants the answer to end. The rest of the message is not read.
    StopText,
}

/// A mistake that the parser found.
#[derive(Debug)]
pub(super) struct Mistake {
    /// The call, if it was taken for one.
    pub(super) call: Option<CallAt>,
    pub(super) error: ParseError,
}

impl Message {
    /// A message of this round. The turn's text has reached `text_from`.
    pub(super) fn new(round: u32, text_from: usize, now_ms: u64) -> Self {
        Self { round, asked_at_ms: now_ms, text_from, ..Self::default() }
    }

    /// The same, whose tokens are counted like this.
    pub(super) fn with_tokens(self, tokens: Tokens) -> Self {
        Self { tokens, ..self }
    }

    /// The same, which may go on with the last step.
    pub(super) fn that_goes_on(self, goes_on: bool) -> Self {
        Self { goes_on, ..self }
    }

    /// Whether it was cut off, by the token limit or by a filter.
    pub(super) fn is_cut(&self) -> bool {
        self.cut_by().is_some()
    }

    /// How a turn completes whose answer was cut off there.
    pub(super) const fn cut_by(&self) -> Option<TurnFinish> {
        match self.finish {
            Some(RoundFinish::Length) => Some(TurnFinish::Length),
            Some(RoundFinish::ContentFilter) => Some(TurnFinish::ContentFilter),
            _ => None,
        }
    }

    /// Adds text from the end of the turn's text.
    pub(super) fn push_text(&mut self, range: Range<usize>) {
        match self.pieces.last_mut() {
            _ if range.is_empty() => {}
            Some(Piece::Text(last)) => last.end = range.end,
            _ => {
                if self.pieces.is_empty() {
                    // Most messages have no more than this one.
                    self.pieces.reserve_exact(1);
                }
                self.pieces.push(Piece::Text(range));
            }
        }
    }

    pub(super) fn push_call(&mut self, at: CallAt) {
        self.pieces.push(Piece::Call(at));
    }

    /// Keeps a reasoning item, which the server wants sent back with the message.
    pub(super) fn push_reasoning(&mut self, item: ReasoningItem) {
        self.pieces.push(Piece::Reasoning(item));
    }

    /// Keeps what the gateway said, for the transcript.
    pub(super) fn push_said(&mut self, kind: UtteranceKind, text: String, at_ms: u64) {
        self.pieces.push(Piece::Said(Utterance { kind, text, tools: Vec::new(), at_ms }));
    }

    /// Inserts something that was said before the message's calls.
    pub(super) fn say_before_calls(&mut self, said: Utterance) {
        let is_call = |piece: &Piece| matches!(piece, Piece::Call(_));
        let at = self.pieces.iter().position(is_call).unwrap_or(self.pieces.len());
        self.pieces.insert(at, Piece::Said(said));
    }

    /// Where its words are in the turn's text, which it is the last to have added to. If it has
    /// calls, the words around them are one range.
    pub(super) const fn words(&self, text: &str) -> Range<usize> {
        self.text_from..text.len()
    }

    /// Whether it has any words, or goes on with some. `text` is the turn's.
    pub(super) fn has_words(&self, text: &str) -> bool {
        self.goes_on || texts(&self.pieces).any(|range| !text[range].trim().is_empty())
    }

    /// The words before a call of this message, or, if there are none, all that the turn said
    /// before the message. `text` is the turn's.
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
            aside: String::new(),
            aside_images: Vec::new(),
            at_ms: self.asked_at_ms,
            parts: std::mem::take(&mut self.pieces).into_iter().filter_map(part).collect(),
            notes: std::mem::take(&mut self.notes),
            retry: None,
        }
    }
}

/// The text among these pieces, as ranges of the turn's.
fn texts(pieces: &[Piece]) -> impl Iterator<Item = Range<usize>> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Text(range) => Some(range.clone()),
        Piece::Call(_) | Piece::Said(_) | Piece::Reasoning(_) => None,
    })
}

impl Round {
    /// A round whose message has just been requested. Its calls come after those the turn has
    /// already made.
    pub(super) fn new(message: Message, first_call: CallAt) -> Self {
        Self { message, first_call, unchecked: first_call, ..Self::default() }
    }

    /// Whether the message's calls are this one's: whoever claims the first has them all.
    pub(super) fn claim(&mut self, finder: Finder) -> bool {
        *self.finder.get_or_insert(finder) == finder
    }

    /// Whether the rest of the message is not read.
    pub(super) const fn ends_early(&self) -> bool {
        matches!(self.surplus, Some(Surplus::Results | Surplus::StopText))
    }

    /// Whether the client wants the message to end here.
    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self.surplus, Some(Surplus::StopText))
    }

    /// How a message ended, once no more of it is read.
    pub(super) fn message_end(&self, was_stopped: bool) -> MessageEnd {
        // A model that moves on to other words is done with its calls.
        let is_unfinished = was_stopped && !self.ends_early();
        if self.message.is_cut() || is_unfinished { MessageEnd::Cut } else { MessageEnd::Complete }
    }
}
