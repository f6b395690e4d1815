//! The same decisions, each made by going through all earlier calls: quadratic, but plain. Every
//! move in every test is checked against it.

use super::{Chain, Execution, Gate, MessageEnd, Move};
use crate::orchestrator::call::{CallAt, Standing};

impl Chain<'_> {
    pub(super) fn reference_move(&self) -> Option<Move> {
        let running = self.calls.since(self.first).iter().filter(|call| call.is_running()).count();
        let may_start = running < self.max_parallel
            && (self.execution == Execution::Eager || self.message_end.is_some());
        let waiting = |at: &CallAt| self.calls[*at].waiting().is_some();
        self.calls.places(self.first).filter(waiting).find_map(|at| match self.reference_gate(at) {
            Gate::Open => may_start.then_some(Move::Start(at)),
            Gate::Closed => None,
            Gate::Broken(reason) => Some(Move::Skip(at, reason)),
            Gate::PutOff(reason) => Some(Move::PutOff(at, reason)),
        })
    }

    fn reference_gate(&self, at: CallAt) -> Gate {
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
                Standing::HandedOut if policy.mutates || call.needs().contains(&before) => {
                    return Gate::PutOff(format!(
                        "{whose} comes first; call it again when you have that result"
                    ));
                }
                Standing::PutOff | Standing::HandedOut | Standing::Failed(_) | Standing::Done => {}
            }
        }
        if let Some(reason) = self.reference_puts_off(at) {
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

    pub(super) fn reference_is_ready(&self, at: CallAt) -> bool {
        matches!(self.reference_gate(at), Gate::Open)
    }

    fn reference_puts_off(&self, at: CallAt) -> Option<String> {
        let call = &self.calls[at];
        let is_found = call.needs().iter().any(|named| self.calls[*named].policy().is_lookup());
        if !call.policy().mutates || is_found {
            return None;
        }
        if let Some(later) = self.calls.since(at.next()).iter().find(|later| later.may_look_up()) {
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
