//! A call of the turn, from its first byte to its outcome.
//!
//! ```text
//!   Arriving ──> Whole ──> Waiting ──> Running
//!      │          │  │        │           │
//!      v          v  └────────┴─────┬─────┘
//!  Malformed  Dropped             Ended
//! ```
//! Each state owns only what it needs. A malformed or dropped call leaves nothing in the history;
//! an ended one is kept there with its outcome.

mod list;

use std::sync::Arc;

use serde_json::Value;

use super::rejection::Rejection;
use super::repeats;
use crate::conversation::{self, Outcome};
use crate::limits::tools::NAME_BYTES_MAX;
use crate::parser::Arguments;
use crate::text;
use crate::tools::reported::Reported;
use crate::tools::{Continuation, Given, NextAction, Policy, Resumption};

pub(super) use list::Calls;

/// Identifies a call of the turn by its place among all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallAt(u32);

impl CallAt {
    pub(super) fn new(place: usize) -> Self {
        Self(u32::try_from(place).expect("a turn makes at most `limits::turn::CALLS_MAX` calls"))
    }

    pub(super) const fn place(self) -> usize {
        self.0 as usize
    }

    /// The next call.
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A call whose tool runs, as others know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalledTool<'a> {
    pub(super) call: CallAt,
    pub(super) call_id: &'a str,
    /// The tool's name.
    pub(super) name: &'a str,
}

/// A call of the turn.
#[derive(Debug)]
pub(super) struct CallDraft {
    /// Unique in the session.
    pub(super) call_id: String,
    /// The round that wrote it; 0 for a call that an earlier turn left.
    pub(super) round: u32,
    pub(super) origin: Origin,
    /// What happens with the user's answer, if it asks.
    pub(super) continuation: Continuation,
    pub(super) state: CallState,
}

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Origin {
    /// The model wrote it in this turn.
    #[default]
    Model,
    /// A lookup that an earlier turn put off until the user had answered.
    Deferred,
    /// An earlier turn asked the user to approve it, and the user did.
    Approved {
        /// Whether the tool is still the one that the user approved.
        is_current: bool,
    },
    /// Its tool asked the user in an earlier turn, and wants to be called again with the answer.
    Again(Resumption),
    /// Its tool asked the user in an earlier turn, and waits for the answer.
    Open {
        /// Its id in that turn.
        parked_as: String,
        given: Given,
    },
    /// It was running when its gateway was stopped, and may run again. Clients know that it has begun.
    Interrupted {
        /// The answer with which it was called again, if it was.
        resumption: Option<Resumption>,
    },
}

impl Origin {
    /// Whether the call has been checked before: it continues with the user's answer, or was interrupted.
    pub(super) const fn was_checked(&self) -> bool {
        matches!(
            self,
            Self::Approved { .. } | Self::Again(_) | Self::Open { .. } | Self::Interrupted { .. }
        )
    }

    /// Its origin after its gateway was stopped.
    pub(super) fn interrupted(self) -> Self {
        let resumption = match self {
            Self::Again(resumption) => Some(resumption),
            _ => None,
        };
        Self::Interrupted { resumption }
    }

    /// The answer with which its tool is called again, if it is.
    pub(super) const fn resumption(&self) -> Option<&Resumption> {
        match self {
            Self::Again(resumption) | Self::Interrupted { resumption: Some(resumption) } => {
                Some(resumption)
            }
            _ => None,
        }
    }
}

/// The state of a call.
#[derive(Debug)]
pub(super) enum CallState {
    /// Its payload is arriving.
    Arriving,
    /// Its payload could not be read, or was abandoned before it was complete.
    Malformed,
    /// It was read, but has not been checked yet.
    Whole(Written),
    /// It was read but is ignored: it repeats another call of its message, was cut off, or comes
    /// after the last call that is read.
    Dropped { written: Written, tool: Option<Policy> },
    /// It has been checked.
    Checked { facts: Facts, stage: Stage },
}

/// What the model wrote.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) arguments: Arguments,
    /// Whether the parser had to add the closing brackets or quotes.
    pub(super) end_is_repaired: bool,
}

/// What checking a call revealed.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// How to treat its tool; `None` if there is no such tool.
    pub(super) tool: Option<Policy>,
    /// The calls whose results its arguments name.
    pub(super) needs: Vec<CallAt>,
    /// An earlier, identical call of the same message. This one waits for its result.
    pub(super) duplicate_of: Option<CallAt>,
    /// The [fingerprint](repeats::fingerprint) of its arguments, references resolved.
    pub(super) fingerprint: u64,
}

/// The stage of a checked call.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits until it may start.
    Waiting(Ready),
    /// Its tool runs.
    Running { written: Written, resolved: Option<Arguments>, reported: Reported },
    /// It is over.
    Ended {
        call: Arc<conversation::Call>,
        /// Whether it was put off because a lookup comes after it.
        is_put_off: bool,
    },
}

/// A call that is ready to run, with the arguments its tool will receive.
#[derive(Debug)]
pub(super) struct Ready {
    written: Written,
    /// The arguments as the tool takes them, if they are not as the model wrote them.
    resolved: Option<Arguments>,
    pub(super) arguments: Value,
}

/// What a call means for the ones after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not ended yet.
    Open,
    /// It succeeded, and the chain continues.
    Done,
    /// Its tool asks the user.
    Asked,
    /// Its tool ended the chain.
    Completed,
    /// It does not run now, through no fault of its own.
    PutOff,
    /// The client has to run it, after the message.
    HandedOut,
    /// It failed or did not run; the words say how.
    Failed(&'static str),
}

impl CallDraft {
    /// Its name and the arguments its tool takes, once the call is whole.
    pub(super) fn whole(&self) -> Option<(&str, &Arguments)> {
        let (written, resolved) = match &self.state {
            CallState::Arriving | CallState::Malformed => return None,
            CallState::Whole(written) | CallState::Dropped { written, .. } => (written, &None),
            CallState::Checked { stage, .. } => match stage {
                Stage::Waiting(Ready { written, resolved, .. })
                | Stage::Running { written, resolved, .. } => (written, resolved),
                Stage::Ended { call, .. } => return Some((&call.name, call.taken_arguments())),
            },
        };
        Some((&written.name, resolved.as_ref().unwrap_or(&written.arguments)))
    }

    /// The name of a whole call, or an empty string.
    pub(super) fn name(&self) -> &str {
        self.whole().map_or("", |(name, _)| name)
    }

    const fn stage(&self) -> Option<&Stage> {
        match &self.state {
            CallState::Checked { stage, .. } => Some(stage),
            _ => None,
        }
    }

    const fn facts(&self) -> Option<&Facts> {
        match &self.state {
            CallState::Checked { facts, .. } => Some(facts),
            _ => None,
        }
    }

    /// Its tool's policy, or the default if it is not known.
    pub(super) fn policy(&self) -> Policy {
        let tool = match &self.state {
            CallState::Dropped { tool, .. } => *tool,
            _ => self.facts().and_then(|facts| facts.tool),
        };
        tool.unwrap_or_default()
    }

    /// The calls whose results its arguments name.
    pub(super) fn needs(&self) -> &[CallAt] {
        self.facts().map_or(&[], |facts| &facts.needs)
    }

    /// An earlier, identical call of the same message.
    pub(super) fn duplicate_of(&self) -> Option<CallAt> {
        self.facts()?.duplicate_of
    }

    /// The call as history, once it has ended.
    pub(super) const fn ended(&self) -> Option<&Arc<conversation::Call>> {
        match self.stage() {
            Some(Stage::Ended { call, .. }) => Some(call),
            _ => None,
        }
    }

    /// The call, while it waits.
    pub(super) const fn waiting(&self) -> Option<&Ready> {
        match self.stage() {
            Some(Stage::Waiting(ready)) => Some(ready),
            _ => None,
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.stage(), Some(Stage::Running { .. }))
    }

    /// What its tool has reported, while it runs.
    pub(super) const fn reported(&self) -> Option<&Reported> {
        match self.stage() {
            Some(Stage::Running { reported, .. }) => Some(reported),
            _ => None,
        }
    }

    pub(super) const fn reported_mut(&mut self) -> Option<&mut Reported> {
        match &mut self.state {
            CallState::Checked { stage: Stage::Running { reported, .. }, .. } => Some(reported),
            _ => None,
        }
    }

    pub(super) const fn is_malformed(&self) -> bool {
        matches!(self.state, CallState::Malformed | CallState::Dropped { .. })
    }

    /// Whether the turn is still waiting for it.
    pub(super) const fn is_open(&self) -> bool {
        match &self.state {
            CallState::Arriving | CallState::Malformed | CallState::Dropped { .. } => false,
            CallState::Whole(_) => true,
            CallState::Checked { stage, .. } => !matches!(stage, Stage::Ended { .. }),
        }
    }

    /// Whether it was refused as invalid.
    pub(super) fn is_refused(&self) -> bool {
        let outcome = self.ended().map(|call| &call.outcome);
        matches!(outcome, Some(Outcome::NotRun(result)) if !result.success)
    }

    /// Whether it is a valid call.
    pub(super) fn is_taken(&self) -> bool {
        !self.is_malformed() && !self.is_refused()
    }

    /// Its current standing.
    pub(super) fn standing(&self) -> Standing {
        if self.is_malformed() {
            return Standing::Failed("could not be read");
        }
        let Some(Stage::Ended { call, is_put_off }) = self.stage() else { return Standing::Open };
        match &call.outcome {
            // It repeats a question that the user has already seen.
            Outcome::NotRun(result) if result.clarification.is_some() => {
                Standing::Failed("was not run again")
            }
            Outcome::Ended(result) | Outcome::NotRun(result) => match result.next_action {
                NextAction::ClarificationNeeded => Standing::Asked,
                NextAction::Complete => Standing::Completed,
                NextAction::Continue if result.success => Standing::Done,
                NextAction::Continue | NextAction::Error => Standing::Failed("has failed"),
            },
            Outcome::Unapproved(_) => Standing::Asked,
            Outcome::Skipped(_) if *is_put_off => Standing::PutOff,
            Outcome::Skipped(_) => Standing::Failed("was not run"),
            Outcome::Cancelled => Standing::Failed("was interrupted"),
            Outcome::HandedOut => Standing::HandedOut,
            // No call of this turn ends so.
            Outcome::Claimed(_) => Standing::Done,
        }
    }

    /// Whether both calls use the same tool with the same arguments.
    pub(super) fn repeats(&self, other: &Self) -> bool {
        other.whole().is_some_and(|(name, arguments)| {
            let arguments = arguments.to_value();
            self.is_same(name, &arguments, repeats::fingerprint(&arguments))
        })
    }

    /// Whether it is a call of this tool with these arguments, which have this
    /// [fingerprint](repeats::fingerprint).
    pub(super) fn is_same(&self, name: &str, arguments: &Value, fingerprint: u64) -> bool {
        let differs = self.facts().is_some_and(|facts| facts.fingerprint != fingerprint);
        let is_same = |(own_name, own): (&str, &Arguments)| {
            own_name == name && repeats::is_same(&own.to_value(), arguments)
        };
        !differs && self.whole().is_some_and(is_same)
    }

    /// Whether it looks something up, or may have been meant to.
    pub(super) fn may_look_up(&self) -> bool {
        let is_lookup = |tool: Option<Policy>| tool.is_none_or(|policy| policy.is_lookup());
        self.is_malformed() || self.facts().is_some_and(|facts| is_lookup(facts.tool))
    }

    /// Its tool and id, as shown to the model.
    pub(super) fn title(&self) -> String {
        match self.whole() {
            Some((name, _)) => format!("{} ({})", text::cut(name, NAME_BYTES_MAX), self.call_id),
            None => self.call_id.clone(),
        }
    }

    /// Its payload is whole and says this.
    pub(super) fn complete(&mut self, written: Written) {
        self.state = CallState::Whole(written);
    }

    /// Ignores the call. `tool` is its policy, if known: even an ignored barrier blocks the
    /// calls after it.
    pub(super) fn discard(&mut self, tool: Option<Policy>) {
        self.state = match self.take_state() {
            CallState::Whole(written) => CallState::Dropped { written, tool },
            CallState::Arriving | CallState::Malformed => CallState::Malformed,
            other @ (CallState::Dropped { .. } | CallState::Checked { .. }) => other,
        };
    }

    /// It has been checked and waits with these arguments. They may have changed since the model
    /// wrote them.
    pub(super) fn wait(&mut self, mut facts: Facts, arguments: Value, is_changed: bool) {
        facts.fingerprint = repeats::fingerprint(&arguments);
        self.state = match self.take_state() {
            CallState::Whole(written) => {
                // They are no deeper than what was written.
                let changed = is_changed.then(|| Arguments::parse(&arguments.to_string()).ok());
                let resolved = changed.flatten();
                let stage = Stage::Waiting(Ready { written, resolved, arguments });
                CallState::Checked { facts, stage }
            }
            other => other,
        };
    }

    /// Stores the arguments with references replaced by results.
    pub(super) fn resolve(&mut self, arguments: Value) -> Result<(), Rejection> {
        let resolved =
            Arguments::parse(&arguments.to_string()).map_err(|_| Rejection::ResolvedTooDeep)?;
        if let CallState::Checked { stage: Stage::Waiting(ready), facts } = &mut self.state {
            facts.fingerprint = repeats::fingerprint(&arguments);
            (ready.resolved, ready.arguments) = (Some(resolved), arguments);
        }
        Ok(())
    }

    /// Starts a waiting call and returns its arguments.
    pub(super) fn start(&mut self) -> Option<Value> {
        match self.take_state() {
            CallState::Checked { facts, stage: Stage::Waiting(ready) } => {
                let Ready { written, resolved, arguments } = ready;
                let stage = Stage::Running { written, resolved, reported: Reported::default() };
                self.state = CallState::Checked { facts, stage };
                Some(arguments)
            }
            other => {
                self.state = other;
                None
            }
        }
    }

    /// It ended before its turn was interrupted.
    pub(super) fn resume_ended(&mut self, call: conversation::Call, tool: Option<Policy>) {
        let fingerprint = repeats::fingerprint(&call.taken_arguments().to_value());
        let facts = Facts { tool, fingerprint, ..Facts::default() };
        let (call, is_put_off) = (Arc::new(call), false);
        self.state = CallState::Checked { facts, stage: Stage::Ended { call, is_put_off } };
    }

    /// Sets its outcome. Does nothing if the call has already ended or was never whole.
    pub(super) fn end(&mut self, outcome: Outcome) {
        self.end_as(outcome, false);
    }

    /// Ends it without a run, because a lookup comes after it in its message.
    pub(super) fn put_off(&mut self, outcome: Outcome) {
        self.end_as(outcome, true);
    }

    /// Gives a call that was handed out another outcome.
    pub(super) fn take_back(&mut self, outcome: Outcome) {
        if let CallState::Checked { stage: Stage::Ended { call, .. }, .. } = &mut self.state {
            Arc::make_mut(call).outcome = outcome;
        }
    }

    fn end_as(&mut self, outcome: Outcome, is_put_off: bool) {
        let (facts, written, resolved_arguments) = match self.take_state() {
            CallState::Whole(written) => (Facts::default(), written, None),
            CallState::Checked { facts, stage: Stage::Waiting(ready) } => {
                (facts, ready.written, ready.resolved)
            }
            CallState::Checked { facts, stage: Stage::Running { written, resolved, .. } } => {
                (facts, written, resolved)
            }
            other => {
                self.state = other;
                return;
            }
        };
        let Written { name, arguments, .. } = written;
        let call_id = self.call_id.clone();
        let call = conversation::Call { call_id, name, arguments, resolved_arguments, outcome };
        let stage = Stage::Ended { call: Arc::new(call), is_put_off };
        self.state = CallState::Checked { facts, stage };
    }

    /// Takes the state out, to turn it into the next.
    const fn take_state(&mut self) -> CallState {
        std::mem::replace(&mut self.state, CallState::Arriving)
    }
}
