//! Calls: starting and ending them, and feeding mistakes back.

use super::NotRun;
use super::queue::{Action, EventDraft, LogDraft};
use super::state::OpenRound;
use crate::conversation::{Note, Outcome};
use crate::event::FeedbackReason;
use crate::limits::tools::NAME_BYTES_MAX;
use crate::orchestrator::call::{CallAt, CallDraft, Origin, Ready, Standing};
use crate::orchestrator::chain::Move;
use crate::orchestrator::feedback;
use crate::orchestrator::rejection::Rejection;
use crate::orchestrator::repeats::Repeated;
use crate::text;
use crate::tools::builtin::FindTools;
use crate::tools::{InvalidCall, ToolResult};

/// How a tool's run ended.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) result: ToolResult,
    pub(super) duration_ms: u64,
    pub(super) attempts: u32,
}

impl OpenRound<'_> {
    /// Reports that the turn may make no more calls, and takes the tools away.
    pub(super) fn report_call_cap(&mut self) {
        let setup = &self.core.setup;
        // A client may want fewer.
        let is_ours = setup.max_calls == setup.rules().max_calls;
        let key = if is_ours { " (limits.max_calls_per_turn)" } else { "" };
        let calls = setup.calls_max_in_words();
        let status = format!(
            "the model has made {calls}, and a turn may make no more{key}; it now answers without tools"
        );
        self.core.say_status(&mut self.round.message, status);
        self.end_tools();
    }

    /// Makes the next round the closing one: no more tools.
    pub(super) const fn end_tools(&mut self) {
        self.round.is_last_with_tools = true;
    }

    /// Ends an invalid call and tells the model what is wrong.
    pub(super) fn refuse(&mut self, at: CallAt, refusal: Rejection) {
        let (reason, message) = self.refusal_feedback(at, refusal);
        let message = feedback::brief(message);
        let result = ToolResult::error(message.clone());
        self.end_without_run(at, NotRun::Refused, Outcome::NotRun(result));
        self.round.has_refused = true;
        self.feed_back(Some(at), reason, message);
    }

    /// What the model is told about a refusal.
    fn refusal_feedback(&self, at: CallAt, refusal: Rejection) -> (FeedbackReason, String) {
        let name = self.core.calls[at].name();
        match refusal {
            Rejection::Call(refusal @ InvalidCall::NotFound { .. }) => {
                (FeedbackReason::ToolNotFound, refusal.to_string())
            }
            Rejection::Call(refusal @ InvalidCall::Invalid { .. }) => {
                (FeedbackReason::InvalidArguments, feedback::invalid_arguments(name, &refusal))
            }
            Rejection::Reference(reference) => {
                let before = self.core.calls.between(self.round.first_call, at);
                let before: Vec<String> = before.iter().map(CallDraft::title).collect();
                let message = feedback::bad_reference(name, &reference, &before);
                (FeedbackReason::InvalidArguments, message)
            }
            Rejection::ResolvedTooDeep => {
                (FeedbackReason::InvalidArguments, feedback::resolved_too_deep(name))
            }
            Rejection::ResolvedTooLong => {
                (FeedbackReason::InvalidArguments, feedback::resolved_too_long(name))
            }
            Rejection::LongInteger(number) => {
                (FeedbackReason::InvalidArguments, feedback::long_integer(name, &number))
            }
            Rejection::NotChosen(id) => {
                (FeedbackReason::InvalidArguments, feedback::not_chosen(name, &id))
            }
        }
    }

    /// Ends a call whose tool does not run.
    pub(super) fn end_without_run(&mut self, at: CallAt, why: NotRun, outcome: Outcome) {
        self.core.script.log(LogDraft::NotRun { call: at, why });
        self.core.calls[at].end(outcome);
    }

    /// Starts the calls that may start, and skips those that never will.
    pub(super) fn advance_calls(&mut self) {
        loop {
            match self.chain().next_move() {
                None => return,
                Some(Move::Skip(at, reason)) => self.skip(at, reason),
                Some(Move::PutOff(at, reason)) => {
                    self.say_skipped(at, &reason);
                    self.core.calls[at].put_off(Outcome::Skipped(reason));
                }
                Some(Move::Start(at)) => {
                    if let Err(refusal) = self.start_call(at) {
                        self.refuse(at, refusal);
                    }
                }
            }
        }
    }

    pub(super) fn skip(&mut self, at: CallAt, reason: String) {
        self.say_skipped(at, &reason);
        self.core.calls[at].end(Outcome::Skipped(reason));
    }

    pub(super) fn say_skipped(&mut self, at: CallAt, reason: &str) {
        let name = text::cut(self.core.calls[at].name(), NAME_BYTES_MAX);
        self.say_of_call(format!("{name} was not run: {}", as_status(reason)));
        self.core.script.log(LogDraft::NotRun { call: at, why: NotRun::Skipped });
    }

    fn start_call(&mut self, at: CallAt) -> Result<(), Rejection> {
        if !self.core.calls[at].needs().is_empty() {
            let resolved = self.core.calls.resolved(self.round.first_call, at)?;
            let (setup, call) = (&self.core.setup, &self.core.calls[at]);
            let resolved = setup.tools().completed(call.name(), resolved);
            setup.check(&call.origin, call.name(), &resolved)?;
            self.core.calls[at].resolve(resolved)?;
        }
        let call = &self.core.calls[at];
        let Some(Ready { arguments, .. }) = call.waiting() else { return Ok(()) };
        let policy = call.policy();
        if !call.origin.was_checked() {
            if policy.mutates
                && let Some(id) = self.not_chosen(arguments)
            {
                return Err(Rejection::NotChosen(id));
            }
            if self.core.setup.is_refused(call.name(), arguments) {
                self.skip(at, "the user has just refused it".to_owned());
                return Ok(());
            }
            let round = self.round.message.round;
            let repeated = self.core.repeats.check(call.name(), arguments, policy, round);
            if let Some(repeated) = repeated {
                self.end_repeated(at, repeated);
                return Ok(());
            }
        }
        if self.is_clients(at) {
            self.hand_out(at);
        } else if !self.needs_approval(at) {
            self.run_call(at);
        } else if self.core.setup.request.nobody_approves {
            self.skip(at, "it needs the user's approval, which nobody can give here".to_owned());
        } else {
            self.ask_approval(at);
        }
        Ok(())
    }

    /// Runs a call that has passed all checks.
    fn run_call(&mut self, at: CallAt) {
        let origin = &self.core.calls[at].origin;
        let (is_open, is_told) =
            (matches!(origin, Origin::Open { .. }), matches!(origin, Origin::Interrupted { .. }));
        let policy = self.core.calls[at].policy();
        let Some(arguments) = self.core.calls[at].start() else { return };
        if !is_told {
            self.say_started(at);
            if !policy.may_run_again() {
                // It runs once everything before is stored. Without its start, another gateway would run it again.
                self.acknowledge_now();
            }
        }
        self.core.script.act(if is_open {
            Action::ResumeTool { call: at }
        } else {
            Action::StartTool { call: at, arguments: Box::new(arguments) }
        });
    }

    /// Gives a repeated call the earlier result without comment: small models pass a comment on as
    /// their answer. The last repeat allowed ends the tools.
    fn end_repeated(&mut self, at: CallAt, Repeated { result, is_last }: Repeated) {
        let name = self.core.calls[at].name();
        let status = format!("{name} was called again with the same arguments, so it was not run");
        self.say_of_call(status);
        self.end_without_run(at, NotRun::Repeated, Outcome::NotRun(result));
        if is_last {
            self.end_tools();
        }
    }

    /// Ends a call whose tool has run. Returns whether the message ends too, because none of its
    /// further calls may run.
    pub(super) fn end_tool(&mut self, at: CallAt, run: Run) -> bool {
        let Run { result, duration_ms, attempts } = run;
        self.report_last_progress(at);
        let (call, round) = (&self.core.calls[at], self.round.message.round);
        self.core.is_tainted |= call.policy().open_world;
        if let Some((name, arguments)) = call.whole() {
            let arguments = arguments.to_value();
            self.core.repeats.note(name, arguments, call.policy(), &result, Some(round));
        }
        if self.core.setup.is_finder(self.core.calls[at].name()) {
            self.core.note_learned(FindTools::found(&result));
        }
        self.core.calls[at].end(Outcome::Ended(result));
        self.say_of_tool(EventDraft::ToolCompleted { call: at, duration_ms, attempts });
        if let Some(message) = self.failure_of(at) {
            self.feed_back(Some(at), FeedbackReason::ToolFailed, feedback::brief(message));
        }
        let standing = self.core.calls[at].standing();
        let ends_chain = matches!(standing, Standing::Asked | Standing::Completed);
        if ends_chain && self.is_arriving() {
            return true;
        }
        self.advance_calls();
        if self.is_arriving() && self.has_its_only_call() {
            return true;
        }
        if !self.is_arriving() {
            // The model will write no more words or calls in this message.
            self.acknowledge_now();
        }
        false
    }

    /// What the model is told about a tool's failure.
    fn failure_of(&self, at: CallAt) -> Option<String> {
        let call = self.core.calls[at].ended()?;
        feedback::tool_failed(&call.name, &call.result())
    }

    /// Counts a mistake and reports it. After too many of one kind, the model must answer without
    /// tools.
    fn feed_back(&mut self, call: Option<CallAt>, reason: FeedbackReason, message: String) {
        if self.report_mistake(call, reason, message) >= self.core.setup.rules().feedback_attempts {
            self.end_tools();
        }
    }

    /// Counts a mistake and reports it. Returns how many of its kind there have been.
    pub(super) fn report_mistake(
        &mut self,
        call: Option<CallAt>,
        reason: FeedbackReason,
        message: String,
    ) -> u32 {
        let attempt = self.core.mistakes.count(reason, self.round.message.round);
        self.say_of_tool(EventDraft::Feedback { call, reason, message, attempt });
        attempt
    }

    /// Tells the model about a mistake that no result can report.
    pub(super) fn feed_back_note(
        &mut self,
        call: Option<CallAt>,
        reason: FeedbackReason,
        message: String,
    ) {
        let message = feedback::brief(message);
        self.round.message.notes.push(Note { reason, message: message.clone() });
        self.feed_back(call, reason, message);
    }
}

/// A reason meant for the model, as users read it: without what to do next.
fn as_status(reason: &str) -> String {
    let (reason, _) = reason.rsplit_once("; call it again").unwrap_or((reason, ""));
    reason.replace("your message", "the model's message")
}
