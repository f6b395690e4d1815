//! Calls: checked, started, ended, fed back.

use super::{NotRun, State, Turn};
use crate::conversation::Outcome;
use crate::event::FeedbackReason;
use crate::limits::tools::NAME_BYTES_MAX;
use crate::orchestrator::chain::{Chain, MessageEnd, Move};
use crate::orchestrator::draft::{Action, CallDraft, CallState, EventDraft, Progress, Surplus};
use crate::orchestrator::feedback;
use crate::orchestrator::repeats::Repeated;
use crate::tools::{CallRefusal, ToolResult, words};
use crate::upstream::RoundFinish;

/// Why a call is not run, and the model is told.
#[derive(Debug)]
pub(in crate::orchestrator) enum Refusal {
    Call(CallRefusal),
    /// It names a result that is not there.
    Reference(String),
    /// With the results that it names, it is nested too deep.
    ResolvedTooDeep,
    /// It would change the world for an option that the user has not chosen.
    NotChosen(String),
}

impl From<CallRefusal> for Refusal {
    fn from(refusal: CallRefusal) -> Self {
        Self::Call(refusal)
    }
}

impl Turn {
    /// Reads the calls that have become whole; whether there were any.
    pub(super) fn check_new_calls(&mut self) -> bool {
        let mut found = false;
        // Calls become whole in their order, so none is looked at twice.
        while let Some(call) = self.draft.calls.get(self.draft.round.checked) {
            match call.state {
                CallState::Arriving => break,
                CallState::Complete => {
                    self.check_call(self.draft.round.checked);
                    found = true;
                }
                _ => {}
            }
            self.draft.round.checked += 1;
            let repeats = self.draft.round.surplus == Some(Surplus::Repeats);
            if self.synthesis.is_some() || repeats {
                // That was one too many: what comes after it is not looked at.
                self.draft.discard_unchecked();
            }
        }
        found
    }

    fn check_call(&mut self, at: usize) {
        let tool = self.request.briefing.tools.get(self.draft.name_of(at));
        let policy = tool.map(|tool| tool.spec().policy);
        let call = &mut self.draft.calls[at];
        // A barrier is one also where it is refused.
        call.policy = policy.unwrap_or_default();
        call.is_unknown = policy.is_none();
        if call.end_is_mended && self.draft.round.ran_into_token_limit() {
            // What the token limit cut is not for us to complete.
            call.state = CallState::Malformed;
            let message = feedback::CUT_CALL.to_owned();
            self.tell_mistake(Some(at), FeedbackReason::IncompleteCall, message);
            return;
        }
        if at >= self.rules.max_calls as usize {
            let cap = self.rules.max_calls;
            let reason = format!("this turn may make {cap} calls and has made them");
            self.tell_call_cap();
            self.end_unrun(at, NotRun::OverCap, Outcome::Skipped(reason));
            return;
        }
        let original = self.original_of(at);
        if original.is_some() && !self.changes_the_world() {
            self.drop_repeat(at);
            return;
        }
        self.draft.calls[at].duplicate_of = original;
        if let Err(refusal) = self.read_call(at) {
            self.refuse(at, refusal);
        }
    }

    /// Says that the turn may make no further calls, and takes the tools away.
    pub(super) fn tell_call_cap(&mut self) {
        let cap = self.rules.max_calls;
        let status = format!(
            "the model has made {cap} calls, as many as limits.max_calls_per_turn allows; a last \
             answer without tools follows"
        );
        self.draft.say_status(status, self.now_ms);
        self.end_tools();
    }

    /// Reads a call's arguments; it waits for its turn if they are valid. What names
    /// the result of another call is known to be valid only when that has ended.
    fn read_call(&mut self, at: usize) -> Result<(), Refusal> {
        let tools = &self.request.briefing.tools;
        let Some((name, arguments)) = self.draft.calls[at].whole() else { return Ok(()) };
        let arguments = arguments.to_value();
        let is_known = tools.get(name).is_some();
        let named = if is_known { self.draft.named_calls(at, &arguments)? } else { Vec::new() };
        // What names another call's result is checked when that has ended.
        if named.is_empty() {
            tools.check(name, &arguments)?;
        }
        let call = &mut self.draft.calls[at];
        call.needs = named;
        call.state = CallState::Waiting(arguments);
        Ok(())
    }

    /// The earlier call of the message that asks the same of a tool that would return the
    /// same.
    fn original_of(&self, at: usize) -> Option<usize> {
        let call = &self.draft.calls[at];
        let is_same = |before: &usize| call.repeats(&self.draft.calls[*before]);
        let mut before = self.draft.round_calls().start..at;
        before.find(is_same).filter(|_| !call.policy.repeatable)
    }

    /// Whether a call of the message may change the world. Such a message is read to its
    /// end: what follows decides whether its calls may run.
    fn changes_the_world(&self) -> bool {
        self.draft.calls[self.draft.round_calls()].iter().any(|call| call.policy.mutates)
    }

    /// Stops a message at a call that it has made before. Small models do not notice that they
    /// are done and start over; the rest of the message is not read.
    fn drop_repeat(&mut self, at: usize) {
        self.draft.act(Action::NotRun { call: at, why: NotRun::Repeated });
        self.draft.calls[at].state = CallState::Malformed;
        self.draft.round.surplus.get_or_insert(Surplus::Repeats);
    }

    /// A call that is not run for what is wrong with it.
    fn refuse(&mut self, at: usize, refusal: Refusal) {
        let name = self.draft.name_of(at);
        let (reason, message) = match refusal {
            Refusal::Call(refusal @ CallRefusal::NotFound { .. }) => {
                (FeedbackReason::ToolNotFound, refusal.to_string())
            }
            Refusal::Call(refusal @ CallRefusal::Invalid { .. }) => {
                (FeedbackReason::InvalidArguments, feedback::invalid_arguments(name, &refusal))
            }
            Refusal::Reference(reference) => {
                let before = &self.draft.calls[self.draft.round_calls().start..at];
                let before: Vec<String> = before.iter().map(CallDraft::title).collect();
                let message = feedback::bad_reference(name, &reference, &before);
                (FeedbackReason::InvalidArguments, message)
            }
            Refusal::ResolvedTooDeep => {
                (FeedbackReason::InvalidArguments, feedback::resolved_too_deep(name))
            }
            Refusal::NotChosen(id) => {
                (FeedbackReason::InvalidArguments, feedback::not_chosen(name, &id))
            }
        };
        let message = feedback::brief(message);
        let result = ToolResult::error(message.clone());
        self.end_unrun(at, NotRun::Refused, Outcome::NotRun(result));
        self.draft.round.has_refused = true;
        self.feed_back(Some(at), reason, message);
    }

    /// Ends a call whose tool does not run.
    fn end_unrun(&mut self, at: usize, why: NotRun, outcome: Outcome) {
        self.draft.act(Action::NotRun { call: at, why });
        self.draft.calls[at].end(outcome);
    }

    /// Starts what may start, and lets go of what never will.
    pub(super) fn move_calls(&mut self) {
        loop {
            match self.chain().next_move() {
                None => return,
                Some(Move::Skip(at, reason)) => self.skip(at, reason),
                Some(Move::PutOff(at, reason)) => {
                    self.draft.calls[at].is_put_off = true;
                    self.skip(at, reason);
                }
                Some(Move::Start(at)) => {
                    if let Err(refusal) = self.start_call(at) {
                        self.refuse(at, refusal);
                    }
                }
            }
        }
    }

    pub(super) fn chain(&self) -> Chain<'_> {
        Chain {
            calls: &self.draft.calls,
            first: self.draft.round_calls().start,
            is_readable: self.draft.round.mistakes.is_empty(),
            execution: self.rules.execution,
            message_end: self.message_end(),
            max_parallel: self.rules.max_parallel,
        }
    }

    fn message_end(&self) -> MessageEnd {
        match self.draft.round.finish {
            _ if self.state == State::Planning => MessageEnd::NotYet,
            Some(RoundFinish::Length | RoundFinish::ContentFilter) => MessageEnd::Cut,
            // A model that goes on with results was done with its calls.
            _ if self.draft.round.surplus == Some(Surplus::Results) => MessageEnd::Well,
            _ if self.draft.round.was_stopped => MessageEnd::Cut,
            _ => MessageEnd::Well,
        }
    }

    fn skip(&mut self, at: usize, reason: String) {
        let name = words::cut(self.draft.name_of(at), NAME_BYTES_MAX);
        let status = format!("{name} was not run: {reason}");
        self.say_of_call(status);
        self.end_unrun(at, NotRun::Skipped, Outcome::Skipped(reason));
    }

    fn start_call(&mut self, at: usize) -> Result<(), Refusal> {
        if !self.draft.calls[at].needs.is_empty() {
            let resolved = self.draft.resolved(at)?;
            self.request.briefing.tools.check(self.draft.name_of(at), &resolved)?;
            self.draft.calls[at].resolve(resolved)?;
        }
        let call = &self.draft.calls[at];
        let CallState::Waiting(arguments) = &call.state else {
            unreachable!("the chain starts waiting calls")
        };
        if call.policy.mutates
            && let Some(id) = self.not_chosen(arguments)
        {
            return Err(Refusal::NotChosen(id));
        }
        let (name, round) = (self.draft.name_of(at), self.draft.round.number);
        if let Some(repeated) = self.repeats.check(name, arguments, call.policy, round) {
            self.end_repeated(at, repeated);
        } else if let Some(arguments) = self.draft.calls[at].start() {
            self.say_started(at);
            self.draft.act(Action::StartTool { call: at, arguments });
        }
        Ok(())
    }

    /// A call that repeats an earlier one gets the earlier result without a comment: small
    /// models pass a comment on as their answer. The last repeat allowed ends the tools.
    fn end_repeated(&mut self, at: usize, Repeated { result, is_last }: Repeated) {
        let name = self.draft.name_of(at);
        let status = format!("{name} was called again with the same arguments; it was not run");
        self.say_of_call(status);
        self.end_unrun(at, NotRun::Repeated, Outcome::NotRun(result));
        if is_last {
            self.end_tools();
        }
    }

    pub(super) fn end_tool(
        &mut self,
        at: usize,
        result: ToolResult,
        duration_ms: u64,
        attempts: u32,
    ) {
        if !self.draft.calls.get(at).is_some_and(CallDraft::is_running) {
            return;
        }
        let (call, round) = (&self.draft.calls[at], self.draft.round.number);
        if let Some((name, arguments)) = call.whole() {
            self.repeats.note(name, arguments.to_value(), call.policy, &result, Some(round));
        }
        self.draft.calls[at].end(Outcome::Ended(result));
        self.say_of_tool(EventDraft::ToolCompleted { call: at, duration_ms, attempts });
        if let Some(message) = self.draft.failure_of(at) {
            self.feed_back(Some(at), FeedbackReason::ToolFailed, feedback::brief(message));
        }
        let ends_chain =
            matches!(self.draft.calls[at].progress(), Progress::Asked | Progress::Completed);
        if ends_chain && self.state == State::Planning {
            self.stop_round();
            return;
        }
        self.move_calls();
        if self.state == State::Executing {
            // No further words of the model are to come, nor other calls.
            self.acknowledge_if_held();
        }
        self.end_step_if_done();
    }

    /// Counts a mistake and says so; too many of one kind, and the model is asked
    /// for an answer without tools.
    pub(super) fn feed_back(
        &mut self,
        call: Option<usize>,
        reason: FeedbackReason,
        message: String,
    ) {
        if self.say_mistake(call, reason, message) >= self.rules.feedback_attempts {
            self.end_tools();
        }
    }

    /// Counts a mistake and says so. Returns how many of its kind there have been.
    pub(super) fn say_mistake(
        &mut self,
        call: Option<usize>,
        reason: FeedbackReason,
        message: String,
    ) -> u32 {
        let attempt = self.mistakes.count(reason, self.draft.round.number);
        self.say_of_tool(EventDraft::Feedback { call, reason, message, attempt });
        attempt
    }
}
