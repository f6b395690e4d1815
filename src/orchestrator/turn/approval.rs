//! Approval: the user decides whether a call may run.
//!
//! The call has been checked and could run now. Instead, the turn ends with a question, and the
//! turn that approves it begins with exactly this call.

use super::NotRun;
use super::state::OpenRound;
use crate::conversation::{Outcome, approval};
use crate::orchestrator::call::{CallAt, CallDraft, Origin};
use crate::tools::{Clarification, ClarificationOption, Continuation, ToolSpec};

impl OpenRound<'_> {
    /// Whether the user has to approve a call before it runs.
    pub(super) fn needs_approval(&self, at: CallAt) -> bool {
        let (call, setup) = (&self.core.calls[at], &self.core.setup);
        match call.origin {
            Origin::Approved { is_current } => !is_current,
            Origin::Again(_) | Origin::Open { .. } => false,
            Origin::Model | Origin::Deferred => {
                setup.wants_approval(&call.policy())
                    && (self.core.is_tainted || !setup.is_approved(call.name()))
            }
        }
    }

    /// Whether the message has a call that waits for approval. Nothing runs after it.
    pub(super) fn asks_approval(&self) -> bool {
        let is_unapproved = |call: &CallDraft| {
            call.ended().is_some_and(|call| matches!(call.outcome, Outcome::Unapproved(_)))
        };
        self.calls().iter().any(is_unapproved)
    }

    /// Ends a call by asking whether it may run.
    pub(super) fn ask_approval(&mut self, at: CallAt) {
        let name = self.core.calls[at].name();
        let definition = self.core.setup.spec(name).map(ToolSpec::digest).unwrap_or_default();
        let clarification = confirmation(name);
        self.core.calls[at].continuation = Continuation::Approval { definition };
        self.end_without_run(at, NotRun::Unapproved, Outcome::Unapproved(clarification));
    }
}

/// Asks whether a call of this tool may run. Clients show the arguments with it.
fn confirmation(name: &str) -> Clarification {
    Clarification {
        r#type: "confirmation".to_owned(),
        question: format!("Run {name} with these arguments?"),
        options: vec![
            ClarificationOption::new(approval::APPROVE, "Yes"),
            ClarificationOption::new(
                approval::APPROVE_SESSION,
                format!("Yes, and do not ask again about {name} in this session"),
            ),
            ClarificationOption::new(approval::DENY, "No"),
        ],
        ..Clarification::default()
    }
}
