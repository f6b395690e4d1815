//! The running round, or the last that ran: what it wrote, and what is known of it.

use std::ops::Range;

use crate::conversation::{Note, Utterance};
use crate::event::Usage;
use crate::parser::ParseError;
use crate::upstream::{ReasoningItem, RoundFinish};

/// A round. The text of its pieces lies in the turn's.
#[derive(Debug, Default)]
pub(in crate::orchestrator) struct RoundDraft {
    /// Its place in the turn, from 1.
    pub(in crate::orchestrator) number: u32,
    /// When it was asked for, in milliseconds since the Unix epoch.
    pub(super) asked_at_ms: u64,
    /// Where its calls begin in the turn's.
    pub(super) first_call: usize,
    /// Where its text begins in the turn's.
    pub(super) text_from: usize,
    /// What it wrote, in order.
    pub(super) pieces: Vec<Piece>,
    /// Whether it has said something after its last call; `None` without a call.
    pub(super) has_words_after_call: Option<bool>,
    /// What the parser could not read.
    pub(in crate::orchestrator) mistakes: Vec<Mistake>,
    /// What the model is told of its mistakes, beside the results of its calls.
    pub(in crate::orchestrator) notes: Vec<Note>,
    /// The turn's calls before this one have been checked.
    pub(in crate::orchestrator) checked: usize,
    /// Whether one of its calls was refused.
    pub(in crate::orchestrator) has_refused: bool,
    /// Whether it wrote a call where none are taken.
    pub(in crate::orchestrator) has_stray_marker: bool,
    /// Whether it goes on with what nobody takes.
    pub(in crate::orchestrator) surplus: Option<Surplus>,
    /// Whether the gateway stopped it before its end.
    pub(in crate::orchestrator) was_stopped: bool,
    /// Why the model stopped, once it has said so.
    pub(in crate::orchestrator) finish: Option<RoundFinish>,
    /// Its tokens, until they are added to the turn's.
    pub(in crate::orchestrator) usage: Usage,
}

/// What a round is stopped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::orchestrator) enum Surplus {
    /// More calls or mistakes than are taken.
    Excess,
    /// A call that it has already made in this message.
    Repeats,
    /// A block of results. The rest of the message is not read.
    Results,
}

/// A part of a round that is not yet one of the history.
#[derive(Debug)]
pub(super) enum Piece {
    Text(Range<usize>),
    Call(usize),
    Said(Utterance),
    Reasoning(ReasoningItem),
}

/// A mistake that the parser found.
#[derive(Debug)]
pub(in crate::orchestrator) struct Mistake {
    /// The call, where it was taken for one.
    pub(in crate::orchestrator) call: Option<usize>,
    pub(in crate::orchestrator) error: ParseError,
}

impl RoundDraft {
    /// The one that follows this, where the turn has made so many calls and said so much
    /// by now.
    pub(super) fn next(&self, calls: usize, text: usize, now_ms: u64) -> Self {
        Self {
            number: self.number + 1,
            asked_at_ms: now_ms,
            first_call: calls,
            text_from: text,
            checked: calls,
            ..Self::default()
        }
    }

    /// Whether the model could not say all that it wanted to.
    pub(in crate::orchestrator) fn ran_into_token_limit(&self) -> bool {
        self.finish == Some(RoundFinish::Length)
    }

    /// Adds text that ends where the turn's does.
    pub(super) fn push_text(&mut self, range: Range<usize>) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.end = range.end,
            _ => self.pieces.push(Piece::Text(range)),
        }
    }

    /// Its texts, up to a call where one is given.
    pub(super) fn texts(&self, before: Option<usize>) -> impl Iterator<Item = Range<usize>> {
        let is_call =
            move |piece: &&Piece| matches!(piece, Piece::Call(call) if Some(*call) == before);
        self.pieces.iter().take_while(move |piece| !is_call(piece)).filter_map(
            |piece| match piece {
                Piece::Text(range) => Some(range.clone()),
                Piece::Call(_) | Piece::Said(_) | Piece::Reasoning(_) => None,
            },
        )
    }

    /// Puts something that was said in front of its calls.
    pub(super) fn say_before_calls(&mut self, said: Utterance) {
        let is_call = |piece: &Piece| matches!(piece, Piece::Call(_));
        let at = self.pieces.iter().position(is_call).unwrap_or(self.pieces.len());
        self.pieces.insert(at, Piece::Said(said));
    }
}
