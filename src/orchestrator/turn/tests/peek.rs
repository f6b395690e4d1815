use super::*;
use crate::orchestrator::turn::round::Round;

/// Access for tests only.
impl TurnMachine {
    pub(super) fn rules(&self) -> &Rules {
        self.core.setup.rules()
    }

    pub(super) fn contract(&self) -> CallContract {
        self.core.contract()
    }

    pub(super) fn format(&self) -> &CallFormat {
        self.core.format()
    }

    pub(super) fn request(&self) -> &TurnRequest {
        &self.core.setup.request
    }

    pub(super) fn record(&self) -> &conversation::Turn {
        &self.core.record
    }

    pub(super) fn text(&self) -> &str {
        &self.core.script.text
    }

    /// The round whose calls may still change something.
    pub(super) fn round(&self) -> Option<&Round> {
        match &self.state {
            State::Planning(round) | State::Executing { round, .. } => Some(round),
            State::Synthesizing(_) | State::Over(_) => None,
        }
    }

    /// Whether a round has been requested that the driver does not know about yet.
    pub(super) fn is_between_rounds(&self) -> bool {
        match &self.state {
            State::Planning(round) => !round.message.is_asked_for,
            State::Synthesizing(closing) => !closing.message.is_asked_for,
            State::Executing { .. } | State::Over(_) => false,
        }
    }

    /// Whether no further round may call tools.
    pub(super) fn has_lost_tools(&self) -> bool {
        let is_last = self.round().is_some_and(|round| round.is_last_with_tools);
        is_last || matches!(self.state, State::Synthesizing(_))
    }

    /// Whether the last message has a call that waits for approval.
    pub(super) fn asks_approval(&self) -> bool {
        let calls = self.core.calls.iter().filter_map(CallDraft::ended);
        calls.into_iter().any(|call| matches!(call.outcome, Outcome::Unapproved(_)))
    }
}
