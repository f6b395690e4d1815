//! Fits a history into a context by dropping whole steps, oldest first.

use std::sync::Arc;

use super::{Conversation, Step, Turn};
use crate::limits::tools::OUTPUT_BYTES_MIN;
use crate::limits::turn::TOLD_SHARE;

/// A rough count of the tokens in a text. Tokenizers differ; three bytes per token overestimates
/// for English, code and JSON, which is the safe side.
#[must_use]
pub(crate) const fn tokens(text: &str) -> usize {
    tokens_of_bytes(text.len())
}

/// The same for a text of this length, in bytes.
#[must_use]
pub(crate) const fn tokens_of_bytes(bytes: usize) -> usize {
    bytes.div_ceil(BYTES_PER_TOKEN) + MESSAGE_TOKENS
}

/// See [`tokens`].
pub(crate) const BYTES_PER_TOKEN: usize = 3;

/// How long one result may be for a model with a context of `budget` tokens, in bytes.
#[must_use]
pub(crate) fn result_bytes(budget: usize) -> usize {
    (budget / TOLD_SHARE).saturating_mul(BYTES_PER_TOKEN).max(OUTPUT_BYTES_MIN)
}

/// Tokens that a chat template adds around a message.
const MESSAGE_TOKENS: usize = 4;

/// The turns that fit into `budget` tokens, oldest first, each with its first step that fits. A
/// turn is left out if no step fits. If only its later steps fit, it keeps its prompt, since an
/// answer without its question misleads.
///
/// The newest `needed` turns are kept in any case, even if only with their prompts: the running
/// turn continues them.
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
        // Of anything older than steps that did not fit, only prompts remain.
        room = if first_step > 0 { 0 } else { left };
    }
    for turn in newest().skip(needed) {
        let Some(after_prompt) = room.checked_sub(opening_tokens(turn)) else { break };
        let (first_step, left) = steps_that_fit(turn, after_prompt, &step_tokens);
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

/// The first step of a turn that has gone on from its client's results, so that it fits into
/// `budget` tokens with its prompt, and the tokens that it then takes. The newest step stays in any
/// case: the model continues from it.
pub(super) fn going_on(
    turn: &Turn,
    budget: usize,
    opening_tokens: impl Fn(&Turn) -> usize,
    step_tokens: impl Fn(&Step) -> usize,
) -> (usize, usize) {
    let opening = opening_tokens(turn);
    let (fitting, _) = steps_that_fit(turn, budget.saturating_sub(opening), &step_tokens);
    let first_step = fitting.min(turn.steps.len().saturating_sub(1));
    let steps = turn.steps[first_step..].iter().map(&step_tokens);
    (first_step, opening + steps.sum::<usize>())
}

/// The index of the first step from which all later ones fit, and the room left.
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
