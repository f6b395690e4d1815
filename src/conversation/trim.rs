//! Fitting a history into a context: whole steps, oldest first.

use std::sync::Arc;

use super::{Conversation, Step, Turn};

/// Tokens that a text takes, about: model servers do not agree on a tokenizer,
/// and three bytes a token errs on the safe side for English, code and JSON.
#[must_use]
pub const fn tokens(text: &str) -> usize {
    text.len().div_ceil(3) + MESSAGE_TOKENS
}

/// What a chat template adds around a message.
const MESSAGE_TOKENS: usize = 4;

/// The turns that fit into `budget` tokens, oldest first, each with the first of
/// its steps that does. A turn of which no step fits is left out whole; one whose
/// later steps fit keeps its prompt, since an answer without its question misleads.
pub(super) fn kept(
    history: &Conversation,
    budget: usize,
    opening_tokens: impl Fn(&Turn) -> usize,
    step_tokens: impl Fn(&Step) -> usize,
) -> Vec<(&Arc<Turn>, usize)> {
    let mut kept = Vec::new();
    let mut left = budget;
    for turn in history.turns().rev() {
        let Some(mut room) = left.checked_sub(opening_tokens(turn)) else { break };
        let mut first_step = turn.steps.len();
        for (index, step) in turn.steps.iter().enumerate().rev() {
            let Some(rest) = room.checked_sub(step_tokens(step)) else { break };
            room = rest;
            first_step = index;
        }
        if first_step == turn.steps.len() && !turn.steps.is_empty() {
            break;
        }
        kept.push((turn, first_step));
        if first_step > 0 {
            break;
        }
        left = room;
    }
    kept.reverse();
    kept
}
