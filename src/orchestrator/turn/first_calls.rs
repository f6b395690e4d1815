//! The calls with which a turn begins, before the model is asked: the one that the user has answered and, unless
//! more questions wait, the lookups that were put off.

use super::core::Core;
use super::round::{Message, Round};
use super::state::State;
use crate::conversation::Step;
use crate::orchestrator::call::{Origin, Written};
use crate::orchestrator::chain::MessageEnd;

/// The state in which a turn begins. If it was interrupted before the model was asked, `begun` are the calls that
/// had begun.
pub(super) fn first_state(core: &mut Core, begun: &Step) -> State {
    let calls = core.first_calls();
    if calls.is_empty() {
        let waiting = core.setup.waiting_questions().to_vec();
        return if waiting.is_empty() {
            State::Planning(core.ask())
        } else {
            core.ask_user(waiting)
        };
    }
    let mut round = Round::new(Message::new(0, 0, core.now_ms), core.calls.end());
    for (written, origin) in calls {
        let at = core.calls.take_up(origin);
        let call_id = &core.calls[at].call_id;
        match begun.calls().find(|call| call.call_id == *call_id) {
            Some(call) => core.resume_call(at, call),
            None => core.calls[at].complete(written),
        }
        round.message.push_call(at);
    }
    State::Executing { round, message_end: MessageEnd::Complete }
}

impl Core {
    fn first_calls(&mut self) -> Vec<(Written, Origin)> {
        let mut calls = Vec::from_iter(self.setup.answered_call());
        if self.setup.waiting_questions().is_empty() && !self.record.deferred.is_empty() {
            for call in std::mem::take(&mut self.record_mut().deferred) {
                let (name, arguments) = (call.name.clone(), call.taken_arguments().clone());
                let written = Written { name, arguments, end_is_repaired: false };
                calls.push((written, Origin::Deferred));
            }
        }
        calls
    }
}
