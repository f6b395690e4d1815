//! Calls of tools that the client runs.
//!
//! A call is checked like any other. When it could run, it ends as handed out, and the gateway's own
//! calls go on around it; one that changes something does not follow it, because its result is not
//! known. With the message's other calls done, the turn ends, and the client gets its calls. The
//! turn that brings their results continues this one.
//!
//! A question to the user comes first. The calls are then not handed out, because nobody knows what
//! the answer will change.

use super::closing::Over;
use super::queue::EventDraft;
use super::state::OpenRound;
use crate::conversation::Outcome;
use crate::event::TurnFinish;
use crate::orchestrator::call::{CallAt, Standing};

impl OpenRound<'_> {
    /// Whether the client runs the tool of this call.
    pub(super) fn is_clients(&self, at: CallAt) -> bool {
        let name = self.core.calls[at].name();
        self.core.setup.spec(name).is_some_and(crate::tools::ToolSpec::is_clients)
    }

    /// Ends a call that the client has to run.
    pub(super) fn hand_out(&mut self, at: CallAt) {
        let is_one_too_many =
            self.core.setup.request.single_client_call && !self.handed_out().is_empty();
        if is_one_too_many {
            let reason = "only one such call may be made at a time; make it again once the first \
                          has its result";
            self.skip(at, reason.to_owned());
        } else {
            self.core.calls[at].end(Outcome::HandedOut);
        }
    }

    /// The message's calls that the client has to run.
    pub(super) fn handed_out(&self) -> Vec<CallAt> {
        let calls = &self.core.calls;
        let is_handed_out =
            |at: &CallAt| calls[*at].ended().is_some_and(|call| call.outcome == Outcome::HandedOut);
        calls.places(self.round.first_call).filter(is_handed_out).collect()
    }

    /// Whether the client, which takes one call at a time, has it, and no other call of the message is open. A server
    /// that finds calls itself is at its end then, and tells how many tokens it was.
    pub(super) fn has_its_only_call(&self) -> bool {
        self.core.setup.request.single_client_call
            && self.core.contract().is_in_text()
            && !self.handed_out().is_empty()
            && self.calls().iter().all(|call| call.standing() != Standing::Open)
    }

    /// Takes the calls back, because the user has to answer a question first.
    pub(super) fn take_back(&mut self) {
        for at in self.handed_out() {
            let reason = "the user has to answer a question first".to_owned();
            self.say_skipped(at, &reason);
            self.core.calls[at].take_back(Outcome::Skipped(reason));
        }
    }

    /// Ends the turn by handing these calls to the client.
    pub(super) fn end_with_calls(&mut self, calls: Vec<CallAt>) -> Over {
        for call in calls {
            self.say_of_tool(EventDraft::ClientToolCall { call });
        }
        Over::Completed(TurnFinish::ClientToolCalls)
    }
}
