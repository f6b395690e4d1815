//! Calls to tools that the model knows by name only: they do not run, and the model is told what
//! their tools take.
//!
//! That is free, up to a bound: the model could not have known better, and the call that it makes
//! next must still be allowed.

use super::NotRun;
use super::core::Core;
use super::state::OpenRound;
use crate::conversation::Outcome;
use crate::limits::turn::UNTOLD_CALLS_FREE;
use crate::orchestrator::call::{CallAt, CallDraft, Origin};
use crate::orchestrator::feedback;

impl Core {
    /// How many of the calls up to `at` count as calls.
    pub(super) fn counted_calls(&self, at: CallAt) -> usize {
        (at.place() + self.calls.made_before()).saturating_sub(self.free_calls.calls())
    }

    /// How many rounds count as rounds with tools.
    pub(super) const fn counted_rounds(&self) -> u32 {
        self.rounds.saturating_sub(self.free_calls.rounds())
    }

    /// How many calls the turn may begin, checked or not. Whether one is free is known once it is
    /// whole.
    pub(super) fn begun_calls_max(&self) -> usize {
        let may_be_free = self.known.offered.len() < self.setup.tools().specs().len();
        let free = if may_be_free { UNTOLD_CALLS_FREE } else { self.free_calls.calls() };
        (self.setup.max_calls as usize + free).saturating_sub(self.calls.made_before())
    }
}

impl OpenRound<'_> {
    /// Whether the model calls a tool that it knows by name only. A call that an earlier turn left
    /// has been checked before.
    pub(super) fn is_untold(&self, at: CallAt, name: &str) -> bool {
        let is_new = self.core.calls[at].origin == Origin::Model;
        is_new && self.core.setup.tools().get(name).is_some() && !self.core.known.has(name)
    }

    /// Tells the model about a tool that it has called by its bare name. This does not count as a
    /// mistake.
    pub(super) fn tell_tool(&mut self, at: CallAt) {
        let Some(spec) = self.core.setup.spec(self.core.calls[at].name()) else { return };
        let (name, result) = (spec.name.clone(), feedback::untold(spec));
        self.core.note_learned(std::iter::once(&*name));
        self.say_of_call(format!("the model is told what {name} takes before it can call it"));
        self.end_without_run(at, NotRun::Untold, Outcome::NotRun(result));
        self.round.has_refused = true;
        self.core.free_calls.add();
    }

    /// Decides whether the round, now over, counts.
    pub(super) fn count_round(&mut self) {
        let calls = self.calls().iter().filter_map(CallDraft::ended).count();
        self.core.free_calls.end_round(calls, self.round.message.notes.is_empty());
    }
}
