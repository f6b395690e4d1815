//! The calls of one message: which may start now, and which never will.
//!
//! A tool whose policy says `may_clarify`, `mutates` or `sequential` is a barrier: later calls
//! wait for it, and do not run if it asks the user, fails or ends the chain. A mutating call also
//! waits for the end of the message and for every earlier call to succeed, and it is put off if a
//! lookup follows it. Otherwise a message could go to the wrong John because the send ran
//! alongside the lookup.

#[cfg(test)]
mod reference;

use serde::Serialize;

use super::call::{CallAt, CallDraft, Calls, Standing};

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

/// What a message's earlier calls mean for the next one. It is kept while going through the calls,
/// so that a move takes time linear in their number, not quadratic.
#[derive(Default)]
struct Before {
    has_open: bool,
    has_open_barrier: bool,
    /// The first that asks the user or ends the chain. Nothing runs after it.
    stop: Option<CallAt>,
    failed: Option<CallAt>,
    failed_barrier: Option<CallAt>,
    put_off: Option<CallAt>,
}

impl Before {
    fn add(&mut self, at: CallAt, call: &CallDraft) {
        let is_barrier = call.policy().is_barrier();
        match call.standing() {
            Standing::Open => {
                self.has_open = true;
                self.has_open_barrier |= is_barrier;
            }
            Standing::Asked | Standing::Completed => _ = self.stop.get_or_insert(at),
            Standing::Failed(_) => {
                self.failed.get_or_insert(at);
                if is_barrier {
                    self.failed_barrier.get_or_insert(at);
                }
            }
            Standing::PutOff | Standing::HandedOut => _ = self.put_off.get_or_insert(at),
            Standing::Done => {}
        }
    }
}

impl Chain<'_> {
    /// The next move; `None` if everything has to wait, or nothing is waiting.
    pub(super) fn next_move(&self) -> Option<Move> {
        let next = self.find_move();
        #[cfg(test)]
        assert_eq!(next, self.reference_move());
        next
    }

    fn find_move(&self) -> Option<Move> {
        let running = self.calls.since(self.first).iter().filter(|call| call.is_running()).count();
        let may_start = running < self.max_parallel
            && (self.execution == Execution::Eager || self.message_end.is_some());
        let last_lookup = self.last_lookup();
        let mut before = Before::default();
        for at in self.calls.places(self.first) {
            if self.calls[at].waiting().is_some() {
                match self.gate(at, &before, last_lookup) {
                    Gate::Open if may_start => return Some(Move::Start(at)),
                    Gate::Open | Gate::Closed => {}
                    Gate::Broken(reason) => return Some(Move::Skip(at, reason)),
                    Gate::PutOff(reason) => return Some(Move::PutOff(at, reason)),
                }
            }
            before.add(at, &self.calls[at]);
        }
        None
    }

    fn last_lookup(&self) -> Option<CallAt> {
        let (calls, looks_up) = (self.calls, |at: &CallAt| self.calls[*at].may_look_up());
        calls.places(self.first).rev().find(looks_up)
    }

    fn gate(&self, at: CallAt, before: &Before, last_lookup: Option<CallAt>) -> Gate {
        let call = &self.calls[at];
        let policy = call.policy();
        let needs = || call.needs().iter().copied().filter(|named| self.is_before(*named, at));
        let blocks = |named: &CallAt| {
            let standing = self.calls[*named].standing();
            matches!(standing, Standing::Failed(_) | Standing::PutOff | Standing::HandedOut)
        };
        let of_others = if policy.mutates {
            [before.stop, before.failed, before.put_off]
        } else {
            [before.stop, before.failed_barrier, None]
        };
        let blockers = of_others.into_iter().flatten().chain(needs().filter(blocks));
        if let Some(gate) = blockers.min().and_then(|blocker| self.blocked_by(blocker)) {
            return gate;
        }
        if let Some(reason) = self.puts_off(at, last_lookup) {
            return Gate::PutOff(reason);
        }
        let is_open = |named: CallAt| matches!(self.calls[named].standing(), Standing::Open);
        let original = call.duplicate_of().filter(|named| self.is_before(*named, at));
        let has_to_wait = if policy.mutates || policy.sequential {
            before.has_open
        } else {
            before.has_open_barrier || needs().chain(original).any(is_open)
        };
        match self.message_end {
            _ if has_to_wait => Gate::Closed,
            None if policy.mutates => Gate::Closed,
            Some(MessageEnd::Cut) if policy.mutates => {
                Gate::Broken("your message was cut off".to_owned())
            }
            _ => Gate::Open,
        }
    }

    fn is_before(&self, earlier: CallAt, at: CallAt) -> bool {
        (self.first..at).contains(&earlier)
    }

    /// The gate of a call that an earlier one keeps from running.
    fn blocked_by(&self, blocker: CallAt) -> Option<Gate> {
        let blocker = &self.calls[blocker];
        let whose = blocker.title();
        Some(match blocker.standing() {
            Standing::Asked => Gate::Broken(format!("{whose} needs the user's answer first")),
            Standing::Completed => Gate::Broken(format!("{whose} ended the chain")),
            Standing::Failed(how) => Gate::Broken(format!("{whose}, which comes first, {how}")),
            Standing::PutOff => Gate::PutOff(format!("{whose}, which comes first, was put off")),
            Standing::HandedOut => Gate::PutOff(format!(
                "{whose} comes first; call it again when you have that result"
            )),
            Standing::Open | Standing::Done => return None,
        })
    }

    /// Whether a waiting call could start now.
    pub(super) fn is_ready(&self, at: CallAt) -> bool {
        let mut before = Before::default();
        for earlier in self.calls.places(self.first).take_while(|earlier| *earlier < at) {
            before.add(earlier, &self.calls[earlier]);
        }
        let is_ready = matches!(self.gate(at, &before, self.last_lookup()), Gate::Open);
        #[cfg(test)]
        assert_eq!(is_ready, self.reference_is_ready(at));
        is_ready
    }

    /// Why a mutating call does not run in this message. Models write the send before the lookup,
    /// with an id they made up. A call that refers to a lookup's result is exempt: its id comes
    /// from there.
    fn puts_off(&self, at: CallAt, last_lookup: Option<CallAt>) -> Option<String> {
        let call = &self.calls[at];
        let is_found = call.needs().iter().any(|named| self.calls[*named].policy().is_lookup());
        if !call.policy().mutates || is_found {
            return None;
        }
        if last_lookup > Some(at)
            && let Some(later) =
                self.calls.since(at.next()).iter().find(|later| later.may_look_up())
        {
            let whose = later.title();
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
