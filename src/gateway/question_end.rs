//! What becomes of the open question when the next turn of its session begins.

use tracing::debug;

use super::Gateway;
use crate::conversation::{Conversation, Opening};
use crate::telemetry::metrics;

impl Gateway {
    /// Tells tools that still wait for an answer to a dropped question that none will come.
    pub(super) fn cancel_parked(&self, parked_in: &str, opening: &Opening, history: &Conversation) {
        if let Opening::Prompt(_) = opening {
            for question in history.open_questions() {
                self.parked.cancel(parked_in, &question.clarification_id);
            }
        }
    }
}

/// Counts and logs what became of the open question, if there was one.
pub(super) fn record(opening: &Opening, history: &Conversation) {
    let Some(question) = history.open_questions().first() else { return };
    let outcome = match opening {
        Opening::Answer(answer) if answer.given.is_no() => "declined",
        Opening::Answer(_) => "answered",
        Opening::Prompt(_) | Opening::Results(_) => "dropped",
    };
    debug!(outcome, tool = question.tool_name, "clarification closed");
    metrics::clarification(outcome);
}
