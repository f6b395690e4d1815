//! The calls of one message: which of them may begin now, and which never will.
//!
//! A tool whose policy says `may_clarify`, `mutates` or `sequential` is a barrier:
//! calls behind it wait for it, and are not run where it asks the user, fails or ends
//! the chain. A mutating call waits for more: for the end of the message, and for
//! the success of every call before it, and it is put off where a lookup stands behind
//! it. So nothing is sent to the wrong John because the sending ran beside the looking up.

use serde::Serialize;

use super::call::{CallAt, Calls, Standing};

/// When calls run: `tools.execution`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// The moment its payload is whole, while the model still speaks.
    #[default]
    Eager,
    /// When the model's message is over.
    AfterTurn,
}

/// How the model's message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// The model still speaks.
    NotYet,
    /// It said all that it wanted to.
    Well,
    /// It was cut off.
    Cut,
}

/// What is to be done with a waiting call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It may run.
    Start(CallAt),
    /// It is not run; the reason goes to the model.
    Skip(CallAt, String),
    /// It is not run now, and what stands behind it goes on.
    PutOff(CallAt, String),
}

/// A message's calls, with what decides about them.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// All calls of the turn.
    pub(super) calls: &'a Calls,
    /// Where the message's calls begin.
    pub(super) first: CallAt,
    /// Whether all of the message that was meant as a call was read as one.
    pub(super) is_readable: bool,
    pub(super) execution: Execution,
    pub(super) message_end: MessageEnd,
    pub(super) max_parallel: usize,
}

/// Whether a call can go on.
enum Gate {
    Open,
    /// Something before it has not ended yet.
    Closed,
    /// It will never open.
    Broken(String),
    /// It will not open now.
    PutOff(String),
}

impl Chain<'_> {
    /// What to do next; `None` while everything waits, or nothing does.
    pub(super) fn next_move(&self) -> Option<Move> {
        let running = self.calls.since(self.first).iter().filter(|call| call.is_running()).count();
        let may_start = running < self.max_parallel
            && (self.execution == Execution::Eager || self.message_end != MessageEnd::NotYet);
        let waiting = |at: &CallAt| self.calls[*at].waiting().is_some();
        self.calls.places(self.first).filter(waiting).find_map(|at| match self.gate(at) {
            Gate::Open => may_start.then_some(Move::Start(at)),
            Gate::Closed => None,
            Gate::Broken(reason) => Some(Move::Skip(at, reason)),
            Gate::PutOff(reason) => Some(Move::PutOff(at, reason)),
        })
    }

    fn gate(&self, at: CallAt) -> Gate {
        let call = &self.calls[at];
        let policy = call.policy();
        let waits_for_all = policy.mutates || policy.sequential;
        let mut is_open = true;
        for before in self.calls.places(self.first).take_while(|before| *before < at) {
            let earlier = &self.calls[before];
            let needed =
                earlier.policy().is_barrier() || policy.mutates || call.needs().contains(&before);
            let whose = earlier.title();
            match earlier.standing() {
                Standing::Open => {
                    is_open &= !(needed || waits_for_all || call.duplicate_of() == Some(before));
                }
                Standing::Asked => {
                    return Gate::Broken(format!("{whose} needs the user's answer first"));
                }
                Standing::Completed => return Gate::Broken(format!("{whose} ended the chain")),
                Standing::Failed(how) if needed => {
                    return Gate::Broken(format!("{whose}, which comes first, {how}"));
                }
                Standing::PutOff if policy.mutates || call.needs().contains(&before) => {
                    return Gate::PutOff(format!("{whose}, which comes first, was put off"));
                }
                Standing::PutOff | Standing::Failed(_) | Standing::Done => {}
            }
        }
        if let Some(reason) = self.puts_off(at) {
            return Gate::PutOff(reason);
        }
        match self.message_end {
            _ if !is_open => Gate::Closed,
            MessageEnd::NotYet if policy.mutates => Gate::Closed,
            MessageEnd::Cut if policy.mutates => {
                Gate::Broken("your message was cut off before its end".to_owned())
            }
            _ => Gate::Open,
        }
    }

    /// Whether a waiting call could run now.
    pub(super) fn is_ready(&self, at: CallAt) -> bool {
        matches!(self.gate(at), Gate::Open)
    }

    /// Why a call that changes the world does not run in this message: models write the
    /// sending before the looking up, with an id that they have made up. One that names
    /// what a lookup finds has its id from there.
    fn puts_off(&self, at: CallAt) -> Option<String> {
        let call = &self.calls[at];
        let is_found = call.needs().iter().any(|named| self.calls[*named].policy().is_lookup());
        if !call.policy().mutates || is_found {
            return None;
        }
        if let Some(behind) = self.calls.since(at.next()).iter().find(|behind| behind.may_look_up())
        {
            let whose = behind.title();
            return Some(format!(
                "{whose} stands behind it and may change whom it is for; call it again when you \
                 have that result"
            ));
        }
        let is_over = self.message_end != MessageEnd::NotYet;
        (is_over && !self.is_readable).then(|| {
            "not all of your message could be read; call it again when the rest is mended"
                .to_owned()
        })
    }
}
