//! Calls: checked, started, ended, fed back.

use serde_json::Value;

use super::{NotRun, State, Turn};
use crate::conversation::{Answer, Outcome};
use crate::event::FeedbackReason;
use crate::limits::turn::OPTION_ID_BYTES_MIN;
use crate::orchestrator::chain::{Chain, MessageEnd, Move};
use crate::orchestrator::draft::{Action, CallDraft, CallState, EventDraft, Progress};
use crate::orchestrator::feedback;
use crate::orchestrator::repeats::Repeated;
use crate::tools::{CallRefusal, ToolResult};
use crate::upstream::RoundFinish;

/// In how many rounds of the turn each kind of mistake was made: what a model writes in
/// one message is one attempt, however often it is wrong in it.
#[derive(Debug, Default)]
pub(super) struct MistakeCounts {
    kinds: Vec<KindCount>,
    /// How many rounds had any.
    rounds: u32,
    last_round: Option<u32>,
}

#[derive(Debug)]
struct KindCount {
    reason: FeedbackReason,
    attempts: u32,
    last_round: u32,
}

impl MistakeCounts {
    /// Counts a mistake of a round; the attempt that it belongs to, from 1.
    pub(super) fn count(&mut self, reason: FeedbackReason, round: u32) -> u32 {
        if self.last_round.replace(round) != Some(round) {
            self.rounds += 1;
        }
        let Some(kind) = self.kinds.iter_mut().find(|kind| kind.reason == reason) else {
            self.kinds.push(KindCount { reason, attempts: 1, last_round: round });
            return 1;
        };
        kind.attempts += u32::from(kind.last_round != round);
        kind.last_round = round;
        kind.attempts
    }

    pub(super) const fn rounds(&self) -> u32 {
        self.rounds
    }
}

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
            if self.synthesis.is_some() {
                // That was one too many: what stands behind it is not looked at.
                self.draft.forget_unread();
            }
        }
        found
    }

    pub(super) fn check_call(&mut self, at: usize) {
        let call = &mut self.draft.calls[at];
        if call.end_is_mended && self.draft.round.finish == Some(RoundFinish::Length) {
            // What the token limit cut is not for us to complete.
            call.state = CallState::Malformed;
            let message = feedback::CUT_CALL.to_owned();
            self.tell_mistake(Some(at), FeedbackReason::IncompleteCall, message);
            return;
        }
        if at >= self.rules.max_calls as usize {
            let cap = self.rules.max_calls;
            let reason = format!("this turn may make {cap} calls and has made them");
            self.end_calls();
            self.end_unrun(at, NotRun::OverCap, Outcome::Skipped(reason));
            return;
        }
        if let Err(refusal) = self.read_call(at) {
            self.refuse(at, refusal);
        }
    }

    /// The turn may make no further calls.
    pub(super) fn end_calls(&mut self) {
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
        let policy = tools.get(name).map(|tool| tool.spec().policy);
        // What names another call's result is checked when that has ended.
        let checked = match self.draft.named_calls(at, &arguments) {
            Ok(named) if policy.is_some() && !named.is_empty() => Ok(named),
            Err(refusal) if policy.is_some() => Err(refusal),
            _ => self.check(name, &arguments).map(|()| Vec::new()),
        };
        let call = &mut self.draft.calls[at];
        // A barrier is one also where it is refused.
        call.policy = policy.unwrap_or_default();
        call.needs = checked?;
        call.state = CallState::Waiting(arguments);
        Ok(())
    }

    /// Whether a call may be made with these arguments.
    fn check(&self, name: &str, arguments: &Value) -> Result<(), Refusal> {
        let tools = &self.request.briefing.tools;
        tools.check(name, arguments)?;
        if tools.get(name).is_some_and(|tool| tool.spec().policy.mutates) {
            let not_chosen = self.not_chosen().find(|id| holds(arguments, id));
            return not_chosen.map_or(Ok(()), |id| Err(Refusal::NotChosen(id.to_owned())));
        }
        Ok(())
    }

    /// The options that the user was offered and has not chosen, in this turn and in those
    /// that it goes on from, by their ids.
    fn not_chosen(&self) -> impl Iterator<Item = &str> {
        let ids = self.answers().flat_map(|answer| &answer.not_chosen).map(String::as_str);
        let is_chosen = |id: &str| self.answers().any(|answer| answer.chosen() == Some(id));
        ids.filter(move |id| id.len() >= OPTION_ID_BYTES_MIN && !is_chosen(id))
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        let before = self.record.answer.is_some().then(|| self.request.history.chain());
        let before = before.into_iter().flatten().filter_map(|turn| turn.answer.as_ref());
        self.record.answer.iter().chain(before).map(|answer| &**answer)
    }

    /// A call that is not run for what is wrong with it.
    fn refuse(&mut self, at: usize, refusal: Refusal) {
        let name = self.draft.name_of(at);
        let (reason, message) = match refusal {
            Refusal::Call(refusal @ CallRefusal::NotFound { .. }) => {
                (FeedbackReason::ToolNotFound, feedback::tool_not_found(&refusal))
            }
            Refusal::Call(refusal @ CallRefusal::Invalid { .. }) => {
                (FeedbackReason::InvalidArguments, feedback::invalid_arguments(name, &refusal))
            }
            Refusal::Reference(reference) => {
                (FeedbackReason::InvalidArguments, feedback::bad_reference(name, &reference))
            }
            Refusal::ResolvedTooDeep => {
                (FeedbackReason::InvalidArguments, feedback::resolved_too_deep(name))
            }
            Refusal::NotChosen(id) => {
                (FeedbackReason::InvalidArguments, feedback::not_chosen(name, &id))
            }
        };
        let result = ToolResult::error(message.clone());
        self.end_unrun(at, NotRun::Refused, Outcome::Ended(result));
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
            let chain = Chain {
                calls: &self.draft.calls,
                first: self.draft.round_calls().start,
                execution: self.rules.execution,
                message_end: self.message_end(),
                max_parallel: self.rules.max_parallel,
            };
            match chain.next_move() {
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

    fn message_end(&self) -> MessageEnd {
        match self.draft.round.finish {
            _ if self.state == State::Planning => MessageEnd::NotYet,
            Some(RoundFinish::Length | RoundFinish::ContentFilter) => MessageEnd::Cut,
            _ if self.draft.round.is_cut => MessageEnd::Cut,
            _ => MessageEnd::Well,
        }
    }

    fn skip(&mut self, at: usize, reason: String) {
        let status = format!("{} was not run: {reason}", self.draft.name_of(at));
        self.say_of_call(status);
        self.end_unrun(at, NotRun::Skipped, Outcome::Skipped(reason));
    }

    fn start_call(&mut self, at: usize) -> Result<(), Refusal> {
        if !self.draft.calls[at].needs.is_empty() {
            let resolved = self.draft.resolved(at)?;
            self.check(self.draft.name_of(at), &resolved)?;
            self.draft.calls[at].resolve(resolved)?;
        }
        let call = &self.draft.calls[at];
        let CallState::Waiting(arguments) = &call.state else {
            unreachable!("the chain starts waiting calls")
        };
        let name = self.draft.name_of(at);
        if let Some(repeated) = self.repeats.ask(name, arguments, call.policy.mutates) {
            self.end_repeated(at, repeated);
        } else if let Some(arguments) = self.draft.calls[at].start() {
            self.say_started(at);
            self.draft.act(Action::StartTool { call: at, arguments });
        }
        Ok(())
    }

    /// A call that would bring nothing new gets what it brought before.
    fn end_repeated(&mut self, at: usize, Repeated { result, is_hopeless }: Repeated) {
        let name = self.draft.name_of(at);
        let status = format!("{name} was called again with the same arguments; it was not run");
        let result = result.with_instruction(feedback::repeated(name));
        self.say_of_call(status);
        self.end_unrun(at, NotRun::Repeated, Outcome::Ended(result));
        if is_hopeless {
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
        let result = feedback::with_guidance(result);
        if let Some((name, arguments)) = self.draft.calls[at].whole() {
            self.repeats.note(name, arguments.to_value(), &result);
        }
        self.draft.calls[at].end(Outcome::Ended(result));
        self.say_of_tool(EventDraft::ToolCompleted { call: at, duration_ms, attempts });
        if let Some(message) = self.draft.failure_of(at) {
            self.feed_back(Some(at), FeedbackReason::ToolFailed, message);
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
        let attempt = self.mistakes.count(reason, self.draft.round.number);
        if attempt >= self.rules.feedback_attempts {
            self.end_tools();
        }
        self.say_of_tool(EventDraft::Feedback { call, reason, message, attempt });
    }
}

/// Whether a string stands in some arguments, as a value of its own.
fn holds(arguments: &Value, string: &str) -> bool {
    match arguments {
        Value::String(value) => value == string,
        Value::Array(items) => items.iter().any(|item| holds(item, string)),
        Value::Object(members) => members.values().any(|value| holds(value, string)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
