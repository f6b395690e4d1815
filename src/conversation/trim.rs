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
    let newest = || history.turns().rev();
    let reserved = newest().take(needed).map(|turn| opening_tokens(turn)).sum();
    let mut room = budget.saturating_sub(reserved);
    let mut kept = Vec::new();
    for turn in newest().take(needed) {
        let (first_step, left) = steps_that_fit(turn, room, &step_tokens);
        kept.push((turn, first_step));
        // What is older than steps that did not fit is left out, but for prompts.
        room = if first_step > 0 { 0 } else { left };
    }
    for turn in newest().skip(needed) {
        let Some(behind_prompt) = room.checked_sub(opening_tokens(turn)) else { break };
        let (first_step, left) = steps_that_fit(turn, behind_prompt, &step_tokens);
        if first_step == turn.steps.len() && !turn.steps.is_empty() {
            break;
        }
        kept.push((turn, first_step));
        if first_step > 0 {
            break;
        }
        room = left;
    }
    kept.reverse();
    kept
}

/// The first of a turn's steps from which on they fit, and the room that they leave.
fn steps_that_fit(
    turn: &Turn,
    mut room: usize,
    step_tokens: impl Fn(&Step) -> usize,
) -> (usize, usize) {
    let mut first_step = turn.steps.len();
    for (index, step) in turn.steps.iter().enumerate().rev() {
        let Some(left) = room.checked_sub(step_tokens(step)) else { break };
        (first_step, room) = (index, left);
    }
    (first_step, room)
}
