//! Clarification: a tool cannot decide, so the turn ends with a question to the user.

use std::sync::Arc;

use super::state::OpenRound;
use crate::conversation::{self, Outcome, Question};
use crate::orchestrator::call::Standing;
use crate::tools::Continuation;

impl OpenRound<'_> {
    /// The questions that the message's calls ask, in call order: the first is asked now, the
    /// others wait.
    pub(super) fn questions(&self) -> Vec<Question> {
        let turn_id = &self.core.setup.request.turn_id;
        let asking = self.calls().iter().filter_map(|draft| {
            let call = draft.ended()?;
            Some((call, call.asks()?, &draft.continuation))
        });
        let asking = asking.zip(1..).map(|((call, clarification, continuation), number)| {
            let goes_on = *continuation != Continuation::Model;
            let spec = self.core.setup.spec(&call.name);
            Question {
                clarification_id: format!("{turn_id}.{number}"),
                call_id: call.call_id.clone(),
                tool_name: call.name.clone(),
                source: spec.map(|spec| spec.source.clone()).unwrap_or_default(),
                clarification: clarification.clone(),
                arguments: goes_on.then(|| call.taken_arguments().clone()),
                continuation: continuation.clone(),
            }
        });
        asking.collect()
    }

    /// The lookups that were not run because an earlier call of the message asks the user. They
    /// have changed nothing, and run once that is answered. A repeat of a lookup that asks is left
    /// out, so that its question is not asked twice.
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
