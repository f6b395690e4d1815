//! The states of a turn. Each owns only what it needs.

use super::closing::Closing;
use super::core::Core;
use super::round::{Message, Round};
use crate::conversation::Ending;
use crate::event::{TurnFinish, TurnState};
use crate::orchestrator::call::CallDraft;
use crate::orchestrator::chain::{Chain, MessageEnd};

/// The state of a turn.
#[derive(Debug)]
pub(super) enum State {
    /// The model is writing a message, and may call tools in it.
    Planning(Round),
    /// The message is over, but its calls are not.
    Executing { round: Round, message_end: MessageEnd },
    /// The model is writing its last message, in which it can make no calls.
    Synthesizing(Closing),
    /// The turn has ended.
    Over(Ending),
}

impl State {
    /// The state's public name.
    pub(super) const fn name(&self) -> TurnState {
        match self {
            Self::Planning(_) => TurnState::Planning,
            Self::Executing { .. } => TurnState::Executing,
            Self::Synthesizing(_) => TurnState::Synthesizing,
            Self::Over(ending) => ending.state(),
        }
    }

    /// How the turn completes, if its closing round is under way.
    pub(super) const fn closes(&self) -> Option<TurnFinish> {
        match self {
            Self::Synthesizing(closing) => Some(closing.finish),
            Self::Planning(_) | Self::Executing { .. } | Self::Over(_) => None,
        }
    }

    /// Whether the message of the last round goes on with the last step.
    pub(super) const fn goes_on(&self) -> bool {
        match self {
            Self::Planning(round) | Self::Executing { round, .. } => round.message.goes_on,
            Self::Synthesizing(closing) => closing.message.goes_on,
            Self::Over(_) => false,
        }
    }

    /// The message being written, once the driver has been told to ask for it.
    pub(super) fn arriving(&mut self) -> Option<&mut Message> {
        self.unread().filter(|message| message.is_asked_for)
    }

    /// The message being written, or requested but not yet begun.
    pub(super) const fn unread(&mut self) -> Option<&mut Message> {
        match self {
            Self::Planning(_) | Self::Synthesizing(_) => self.message(),
            Self::Executing { .. } | Self::Over(_) => None,
        }
    }

    /// The message of the last round.
    pub(super) const fn message(&mut self) -> Option<&mut Message> {
        match self {
            Self::Planning(round) | Self::Executing { round, .. } => Some(&mut round.message),
            Self::Synthesizing(closing) => Some(&mut closing.message),
            Self::Over(_) => None,
        }
    }

    /// The round whose calls may still change something.
    pub(super) const fn open_round<'t>(&'t mut self, core: &'t mut Core) -> Option<OpenRound<'t>> {
        match self {
            Self::Planning(round) => Some(OpenRound { round, core, end: None }),
            Self::Executing { round, message_end } => {
                Some(OpenRound { round, core, end: Some(*message_end) })
            }
            Self::Synthesizing(_) | Self::Over(_) => None,
        }
    }
}

/// The current round together with the rest of the turn: decisions about calls need both.
#[derive(Debug)]
pub(super) struct OpenRound<'t> {
    pub(super) round: &'t mut Round,
    pub(super) core: &'t mut Core,
    /// `None` while the model is still writing.
    pub(super) end: Option<MessageEnd>,
}

impl OpenRound<'_> {
    /// Whether the model is still writing.
    pub(super) fn is_arriving(&self) -> bool {
        self.end.is_none()
    }

    /// The calls of the round's message.
    pub(super) fn calls(&self) -> &[CallDraft] {
        self.core.calls.since(self.round.first_call)
    }

    pub(super) fn chain(&self) -> Chain<'_> {
        let rules = self.core.setup.rules();
        Chain {
            calls: &self.core.calls,
            first: self.round.first_call,
            is_readable: self.round.mistakes.is_empty(),
            execution: rules.execution,
            message_end: self.end,
            max_parallel: rules.max_parallel,
        }
    }
}
