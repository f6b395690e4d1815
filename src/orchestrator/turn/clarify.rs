//! Clarification: a tool cannot decide, so the turn ends with a question to the user.

use std::sync::Arc;

use super::Turn;
use crate::conversation::{self, Outcome, Question};
use crate::event::TurnFinish;
use crate::orchestrator::draft::{CallState, EventDraft, Progress};

impl Turn {
    /// The questions that the message's calls came back with, in the order of the
    /// calls: the first is asked, the others wait their turn.
    pub(super) fn questions(&self) -> Vec<Question> {
        let ended = self.draft.round_calls().filter_map(|at| self.draft.ended(at));
        let asked = ended.filter_map(|call| Some((call, call.asks()?)));
        asked
            .zip(1..)
            .map(|((call, clarification), number)| Question {
                clarification_id: format!("{}.{number}", self.request.turn_id),
                call_id: call.call_id.clone(),
                tool_name: call.name.clone(),
                clarification: clarification.clone(),
            })
            .collect()
    }

    /// The questions that waited for the one that this turn answers.
    pub(super) fn waiting_questions(&self) -> Option<Vec<Question>> {
        let (_, waiting) = self.request.history.open_questions().split_first()?;
        (self.record.answer.is_some() && !waiting.is_empty()).then(|| waiting.to_vec())
    }

    /// Runs the lookups that waited for the answer.
    pub(super) fn resume_calls(&mut self) {
        for call in std::mem::take(&mut self.record.deferred) {
            self.draft.resume_call(&call);
        }
        self.run_calls();
    }

    /// The message's lookups that were not run since one before them asks: they have
    /// changed nothing, and get their turn when that is answered. What the same lookup
    /// has asked is not asked again.
    pub(super) fn deferred_calls(&self) -> Vec<Arc<conversation::Call>> {
        let calls = &self.draft.calls[self.draft.round_calls()];
        let Some(first) = calls.iter().position(|call| call.progress() == Progress::Asked) else {
            return Vec::new();
        };
        let mut deferred = Vec::new();
        for (at, call) in calls.iter().enumerate().skip(first) {
            let CallState::Ended(ended) = &call.state else { continue };
            let is_new = |at: usize| calls[first..at].iter().all(|before| !call.repeats(before));
            let waits = matches!(ended.outcome, Outcome::Skipped(_))
                && call.policy.is_lookup()
                && call.needs.is_empty();
            if waits && is_new(at) {
                deferred.push(Arc::clone(ended));
            }
        }
        deferred
    }

    /// Ends the turn with the first of these questions.
    pub(super) fn ask_user(&mut self, questions: Vec<Question>) {
        self.record.questions = questions;
        self.draft.say(EventDraft::Clarification);
        self.finish_turn(TurnFinish::ClarificationNeeded);
    }
}
