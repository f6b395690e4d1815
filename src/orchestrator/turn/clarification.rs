//! Clarification: a tool cannot decide, so the turn ends with a question to the user.

use std::sync::Arc;

use super::state::OpenRound;
use crate::conversation::{self, Outcome, Question};
use crate::orchestrator::call::{CallDraft, Standing};

impl OpenRound<'_> {
    /// The questions that the message's calls came back with, in the order of the
    /// calls: the first is asked, the others wait their turn.
    pub(super) fn questions(&self) -> Vec<Question> {
        let ended = self.calls().iter().filter_map(CallDraft::ended);
        let asked = ended.filter_map(|call| Some((call, call.asks()?)));
        asked
            .zip(1..)
            .map(|((call, clarification), number)| Question {
                clarification_id: format!("{}.{number}", self.core.setup.request.turn_id),
                call_id: call.call_id.clone(),
                tool_name: call.name.clone(),
                clarification: clarification.clone(),
            })
            .collect()
    }

    /// The message's lookups that were not run since one before them asks: they have
    /// changed nothing, and get their turn when that is answered. What the same lookup
    /// has asked is not asked again.
    pub(super) fn deferred_calls(&self) -> Vec<Arc<conversation::Call>> {
        let calls = self.calls();
        let Some(first) = calls.iter().position(|call| call.standing() == Standing::Asked) else {
            return Vec::new();
        };
        let mut deferred = Vec::new();
        for (at, call) in calls.iter().enumerate().skip(first) {
            let Some(ended) = call.ended() else { continue };
            let is_new = calls[first..at].iter().all(|before| !call.repeats(before));
            let waits = matches!(ended.outcome, Outcome::Skipped(_))
                && call.policy().is_lookup()
                && call.needs().is_empty();
            if waits && is_new {
                deferred.push(Arc::clone(ended));
            }
        }
        deferred
    }
}
