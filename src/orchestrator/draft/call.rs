//! A call, from its marker to its outcome.

use std::sync::Arc;

use serde_json::Value;

use crate::conversation::{self, Outcome};
use crate::limits::tools::NAME_BYTES_MAX;
use crate::orchestrator::repeats;
use crate::orchestrator::turn::Refusal;
use crate::parser::Arguments;
use crate::tools::{NextAction, Policy, words};

/// A call of the turn. It is kept for the whole turn.
#[derive(Debug)]
pub(in crate::orchestrator) struct CallDraft {
    pub(in crate::orchestrator) call_id: String,
    /// The round that wrote it.
    pub(in crate::orchestrator) round: u32,
    pub(in crate::orchestrator) state: CallState,
    /// How its tool is to be treated, once that is known.
    pub(in crate::orchestrator) policy: Policy,
    /// Calls whose results its arguments name, by position.
    pub(in crate::orchestrator) needs: Vec<usize>,
    /// An earlier call of its message that asks the same, by position. It waits for that
    /// one's result.
    pub(in crate::orchestrator) duplicate_of: Option<usize>,
    /// Whether its end was not written but mended.
    pub(in crate::orchestrator) end_is_mended: bool,
    /// Whether there is no such tool.
    pub(in crate::orchestrator) is_unknown: bool,
    /// Whether it is put off: a lookup stands behind it.
    pub(in crate::orchestrator) is_put_off: bool,
    /// Its arguments with the results that they name.
    resolved: Option<Arguments>,
    /// What the model wrote, from when it is whole until it has ended.
    written: Option<Written>,
}

/// What a call means for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::orchestrator) enum Progress {
    /// It has not ended yet.
    Open,
    /// It did what it was asked, and the chain goes on.
    Done,
    /// Its tool asks the user.
    Asked,
    /// Its tool says that the chain is done.
    Completed,
    /// It is not run now, which is nobody's failure.
    PutOff,
    /// Nothing came of it; how, in words.
    Failed(&'static str),
}

/// A whole call's name and arguments.
#[derive(Debug)]
struct Written {
    name: String,
    arguments: Arguments,
}

/// How far a call is.
#[derive(Debug)]
pub(in crate::orchestrator) enum CallState {
    /// Its payload is arriving.
    Arriving,
    /// Its payload was no call, or repeats another call of its message. It leaves no call in
    /// the history.
    Malformed,
    /// It is whole; nobody has looked at it yet.
    Complete,
    /// It is valid and waits for its turn, with its arguments as the tool takes them.
    Waiting(Value),
    /// Its tool runs.
    Running,
    /// Something came of it.
    Ended(Arc<conversation::Call>),
}

impl CallDraft {
    /// The session's call of this number, whose marker has just been seen.
    pub(super) fn begin(number: usize, round: u32) -> Self {
        Self {
            call_id: format!("call_{number}"),
            round,
            state: CallState::Arriving,
            policy: Policy::default(),
            needs: Vec::new(),
            duplicate_of: None,
            end_is_mended: false,
            is_unknown: false,
            is_put_off: false,
            resolved: None,
            written: None,
        }
    }

    /// Its payload is whole, and this is what it says.
    pub(super) fn complete(&mut self, name: String, arguments: Arguments, end_is_mended: bool) {
        self.end_is_mended = end_is_mended;
        self.written = Some(Written { name, arguments });
        self.state = CallState::Complete;
    }

    /// Name, and arguments as the tool takes them, once the call is whole.
    pub(in crate::orchestrator) fn whole(&self) -> Option<(&str, &Arguments)> {
        match (&self.state, &self.written) {
            (CallState::Ended(call), _) => Some((&call.name, call.taken_arguments())),
            (_, Some(Written { name, arguments })) => {
                Some((name, self.resolved.as_ref().unwrap_or(arguments)))
            }
            (_, None) => None,
        }
    }

    /// How it went so far.
    pub(in crate::orchestrator) fn progress(&self) -> Progress {
        let call = match &self.state {
            CallState::Arriving
            | CallState::Complete
            | CallState::Waiting(_)
            | CallState::Running => return Progress::Open,
            CallState::Malformed => return Progress::Failed("could not be read"),
            CallState::Ended(call) => call,
        };
        match &call.outcome {
            // What the user was asked before is not asked again.
            Outcome::NotRun(result) if result.clarification.is_some() => {
                Progress::Failed("was not run again")
            }
            Outcome::Ended(result) | Outcome::NotRun(result) => match result.next_action {
                NextAction::ClarificationNeeded => Progress::Asked,
                NextAction::Complete => Progress::Completed,
                NextAction::Continue if result.success => Progress::Done,
                NextAction::Continue | NextAction::Error => Progress::Failed("has failed"),
            },
            Outcome::Skipped(_) if self.is_put_off => Progress::PutOff,
            Outcome::Skipped(_) => Progress::Failed("was not run"),
            Outcome::Cancelled => Progress::Failed("was interrupted"),
        }
    }

    /// Whether it asks the same of the same tool.
    pub(in crate::orchestrator) fn repeats(&self, other: &Self) -> bool {
        let (Some((name, arguments)), Some((other_name, others))) = (self.whole(), other.whole())
        else {
            return false;
        };
        name == other_name && repeats::is_same(&arguments.to_value(), &others.to_value())
    }

    /// Whether it looks something up, or may have been meant to.
    pub(in crate::orchestrator) const fn may_look_up(&self) -> bool {
        self.policy.is_lookup() || self.is_unknown || matches!(self.state, CallState::Malformed)
    }

    /// Its tool and its id, for the model.
    pub(in crate::orchestrator) fn title(&self) -> String {
        match self.whole() {
            Some((name, _)) => format!("{} ({})", words::cut(name, NAME_BYTES_MAX), self.call_id),
            None => self.call_id.clone(),
        }
    }

    /// Whether it was wrong, and is not run.
    pub(in crate::orchestrator) fn is_refused(&self) -> bool {
        let CallState::Ended(call) = &self.state else { return false };
        matches!(&call.outcome, Outcome::NotRun(result) if !result.success)
    }

    /// Whether it was a call, and nothing was wrong with it.
    pub(in crate::orchestrator) fn is_taken(&self) -> bool {
        !matches!(self.state, CallState::Malformed) && !self.is_refused()
    }

    pub(in crate::orchestrator) const fn is_running(&self) -> bool {
        matches!(self.state, CallState::Running)
    }

    pub(in crate::orchestrator) const fn is_waiting(&self) -> bool {
        matches!(self.state, CallState::Waiting(_))
    }

    /// Whether the turn still waits for it.
    pub(in crate::orchestrator) const fn is_open(&self) -> bool {
        matches!(self.state, CallState::Complete | CallState::Waiting(_) | CallState::Running)
    }

    /// Puts what was referred to in place of the references.
    pub(in crate::orchestrator) fn resolve(&mut self, resolved: Value) -> Result<(), Refusal> {
        let arguments =
            Arguments::parse(&resolved.to_string()).map_err(|_| Refusal::ResolvedTooDeep)?;
        self.resolved = Some(arguments);
        self.state = CallState::Waiting(resolved);
        Ok(())
    }

    /// Lets a waiting call run, with these arguments.
    pub(in crate::orchestrator) fn start(&mut self) -> Option<Value> {
        match std::mem::replace(&mut self.state, CallState::Running) {
            CallState::Waiting(arguments) => Some(arguments),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Gives it its outcome. Nothing comes any more of a call that has ended or was
    /// never whole.
    pub(in crate::orchestrator) fn end(&mut self, outcome: Outcome) {
        let Some(Written { name, arguments }) = self.written.take() else { return };
        let call_id = self.call_id.clone();
        let resolved_arguments = self.resolved.take();
        let call = conversation::Call { call_id, name, arguments, resolved_arguments, outcome };
        self.state = CallState::Ended(Arc::new(call));
    }
}
