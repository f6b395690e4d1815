//! Approval: the user decides whether a call may run.
//!
//! The call has been checked and could run now. Instead, the turn ends with a question, and the
//! turn that approves it begins with exactly this call.

use serde_json::Value;

use super::NotRun;
use super::setup::Setup;
use super::state::OpenRound;
use crate::conversation::{Answer, Approval, Outcome, approval};
use crate::orchestrator::call::{CallAt, CallDraft, Origin};
use crate::orchestrator::repeats;
use crate::parser::Arguments;
use crate::tools::{Clarification, ClarificationOption, Continuation, Given, Policy, ToolSpec};

impl OpenRound<'_> {
    /// Whether the user has to approve a call before it runs.
    pub(super) fn needs_approval(&self, at: CallAt) -> bool {
        let (call, setup) = (&self.core.calls[at], &self.core.setup);
        match call.origin {
            Origin::Approved { is_current } => !is_current,
            Origin::Again(_) | Origin::Open { .. } | Origin::Interrupted { .. } => false,
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
        let call = &self.core.calls[at];
        let name = call.name();
        let definition = self.core.setup.spec(name).map(ToolSpec::digest).unwrap_or_default();
        let has_changed = matches!(call.origin, Origin::Approved { is_current: false });
        let clarification = confirmation(name, has_changed);
        self.core.calls[at].continuation = Continuation::Approval { definition };
        self.end_without_run(at, NotRun::Unapproved, Outcome::Unapproved(clarification));
    }
}

impl Setup {
    /// Whether the operator or the request wants the user to approve calls with this policy.
    pub(super) fn wants_approval(&self, policy: &Policy) -> bool {
        let operator = policy.confirm.unwrap_or_else(|| self.rules().confirm);
        operator.includes(policy)
            || self.request.confirm.is_some_and(|confirm| confirm.includes(policy))
    }

    /// Whether the user has approved all calls of this tool for the session, and it has not changed
    /// since.
    pub(super) fn is_approved(&self, name: &str) -> bool {
        let history = &self.request.history;
        let given_now = self.answer().and_then(|answer| history.approval(answer));
        let is_of_tool = |approval: &&Approval| approval.tool_name == name;
        let mut approvals = history.approvals().iter().chain(&given_now).filter(is_of_tool);
        self.spec(name)
            .is_some_and(|spec| approvals.any(|approval| spec.digest() == approval.definition))
    }

    /// Whether the user's answer refuses exactly this call.
    pub(super) fn is_refused(&self, name: &str, arguments: &Value) -> bool {
        let Some((question, Answer { given: Given::Refused(_), .. })) = self.answered() else {
            return false;
        };
        let is_same = |refused: &Arguments| repeats::is_same(&refused.to_value(), arguments);
        question.tool_name == name && question.arguments.as_ref().is_some_and(is_same)
    }

    /// Whether the turns that this one continues have read anything that strangers may have
    /// written.
    pub(super) fn is_tainted(&self) -> bool {
        self.calls_before().any(|call| match call.outcome {
            Outcome::Ended(_) => self.policy(&call.name).is_some_and(|policy| policy.open_world),
            Outcome::Claimed(_) => true,
            _ => false,
        })
    }
}

/// Asks whether a call of this tool may run, which may have changed since the user approved the
/// call. Clients show the arguments with it.
fn confirmation(name: &str, has_changed: bool) -> Clarification {
    let question = if has_changed {
        format!("{name} has changed since you approved this call. Run it with these arguments?")
    } else {
        format!("Run {name} with these arguments?")
    };
    Clarification {
        r#type: Clarification::CONFIRMATION.to_owned(),
        question,
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
