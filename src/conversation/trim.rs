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
///
/// The newest `needed` turns stay, if only with their prompts: the running one goes on
/// from them.
pub(super) fn kept(
    history: &Conversation,
    needed: usize,
    budget: usize,
    opening_tokens: impl Fn(&Turn) -> usize,
    step_tokens: impl Fn(&Step) -> usize,
) -> Vec<(&Arc<Turn>, usize)> {
    let reserved = history.turns().rev().take(needed).map(|turn| opening_tokens(turn));
    let mut left = budget.saturating_sub(reserved.sum());
    let mut kept = Vec::new();
    for (age, turn) in history.turns().rev().enumerate() {
        let is_needed = age < needed;
        let opening = if is_needed { 0 } else { opening_tokens(turn) };
        let Some(mut room) = left.checked_sub(opening) else { break };
        let mut first_step = turn.steps.len();
        for (index, step) in turn.steps.iter().enumerate().rev() {
            let Some(rest) = room.checked_sub(step_tokens(step)) else { break };
            room = rest;
            first_step = index;
        }
        if first_step == turn.steps.len() && !turn.steps.is_empty() && !is_needed {
            break;
        }
        kept.push((turn, first_step));
        // What is older than a turn that did not fit is left out, but for prompts.
        left = if first_step > 0 { 0 } else { room };
        if first_step > 0 && age + 1 >= needed {
            break;
        }
    }
    kept.reverse();
    kept
}
