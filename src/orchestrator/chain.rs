//! The calls of one message: which may start now, and which never will.
//!
//! A tool whose policy says `may_clarify`, `mutates` or `sequential` is a barrier: later calls
//! wait for it, and do not run if it asks the user, fails or ends the chain. A mutating call also
//! waits for the end of the message and for every earlier call to succeed, and it is put off if a
//! lookup follows it. Otherwise a message could go to the wrong John because the send ran
//! alongside the lookup.

use serde::Serialize;

use super::call::{CallAt, Calls, Standing};

/// When calls run: `tools.execution`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// As soon as its payload is whole, while the model is still writing.
    #[default]
    Eager,
    /// When the model's message is over.
    AfterTurn,
}

/// How the model's message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// It is whole.
    Complete,
    /// It was cut off, by the token limit or by us.
    Cut,
}

/// What to do with a waiting call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Run it.
    Start(CallAt),
    /// Do not run it; the model is told why.
    Skip(CallAt, String),
    /// Do not run it now; the calls after it go ahead.
    PutOff(CallAt, String),
}

/// A message's calls, with everything that decides about them.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// All calls of the turn.
    pub(super) calls: &'a Calls,
    /// Where this message's calls begin.
    pub(super) first: CallAt,
    /// Whether everything meant as a call could be read as one.
    pub(super) is_readable: bool,
    pub(super) execution: Execution,
    /// `None` while the model is still writing.
    pub(super) message_end: Option<MessageEnd>,
    pub(super) max_parallel: usize,
}

/// Whether a call may start.
enum Gate {
    Open,
    /// An earlier call has not ended yet or, for a mutating call, the message has not.
    Closed,
    /// It will never open.
    Broken(String),
    /// It will not open now.
    PutOff(String),
}

impl Chain<'_> {
    /// The next move; `None` if everything has to wait, or nothing is waiting.
    pub(super) fn next_move(&self) -> Option<Move> {
        let running = self.calls.since(self.first).iter().filter(|call| call.is_running()).count();
        let may_start = running < self.max_parallel
            && (self.execution == Execution::Eager || self.message_end.is_some());
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
            None if policy.mutates => Gate::Closed,
            Some(MessageEnd::Cut) if policy.mutates => {
                Gate::Broken("your message was cut off".to_owned())
            }
            _ => Gate::Open,
        }
    }

    /// Whether a waiting call could start now.
    pub(super) fn is_ready(&self, at: CallAt) -> bool {
        matches!(self.gate(at), Gate::Open)
    }

    /// Why a mutating call does not run in this message. Models write the send before the lookup,
    /// with an id they made up. A call that refers to a lookup's result is exempt: its id comes
    /// from there.
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
                "{whose} comes later in your message and may change who it is for; call it again \
                 when you have that result"
            ));
        }
        let is_over = self.message_end.is_some();
        (is_over && !self.is_readable).then(|| {
            "not all of your message could be read; call it again once the rest is corrected"
                .to_owned()
        })
    }
}
