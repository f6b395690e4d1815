//! Steps: what follows from a round that is over, and how the turn ends.

use super::closing::Synthesis;
use super::{State, Turn};
use crate::conversation::render::results;
use crate::conversation::{Ending, Note, Question};
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::limits;
use crate::orchestrator::draft::{Action, EventDraft, Mistake, Progress, Surplus};
use crate::orchestrator::{feedback, prerequisites};
use crate::parser::ErrorCode;
use crate::upstream::ToolChoice;

/// What a message comes to, once nothing of it is open.
enum StepEnd {
    /// Nothing was said and nothing called.
    Nothing,
    /// Words alone.
    Answer,
    /// Calls that nobody has taken: those that could not be read have used up the turn's.
    OverCap,
    /// The user has to decide.
    Questions(Vec<Question>),
    /// The model goes on with what its calls brought and what was wrong with them.
    Results,
}

impl Turn {
    /// Ends the step when its message is over and nothing of it is open.
    pub(super) fn end_step_if_done(&mut self) {
        let open = |at: usize| self.draft.calls[at].is_open();
        if self.state != State::Executing || self.draft.round_calls().any(open) {
            return;
        }
        self.tell_mistakes();
        self.tell_invention();
        let end = self.step_end();
        if !matches!(end, StepEnd::Nothing) {
            self.empty_answers = 0;
        }
        match end {
            StepEnd::Nothing => self.nudge(),
            StepEnd::Answer if self.lacks_required_call() => self.ask_for_call(),
            StepEnd::Answer if self.draft.round.ran_into_token_limit() => {
                self.complete(TurnFinish::Length);
            }
            StepEnd::Answer => self.complete(TurnFinish::Stop),
            StepEnd::OverCap => {
                self.tell_call_cap();
                self.push_step();
                self.next_round();
            }
            StepEnd::Questions(questions) => {
                self.record.deferred = self.deferred_calls();
                self.push_step();
                self.ask_user(questions);
            }
            StepEnd::Results => self.go_on(),
        }
    }

    fn step_end(&self) -> StepEnd {
        let round = &self.draft.round;
        if round.notes.is_empty() && self.draft.round_calls().is_empty() {
            return match round.surplus {
                Some(Surplus::Excess) => StepEnd::OverCap,
                _ if self.draft.has_words() => StepEnd::Answer,
                _ => StepEnd::Nothing,
            };
        }
        match self.questions() {
            questions if questions.is_empty() => StepEnd::Results,
            questions => StepEnd::Questions(questions),
        }
    }

    /// Asks the model again, or ends with the results where that is wanted.
    fn go_on(&mut self) {
        let round = &self.draft.round;
        // Lookups that had waited are not all that the answer was given for.
        let is_resumed = round.number == 0;
        let only_results = round.notes.is_empty() && !round.has_refused && !is_resumed;
        let completed = |at: usize| self.draft.calls[at].progress() == Progress::Completed;
        if !is_resumed && self.draft.round_calls().any(completed) {
            self.end_tools();
        }
        self.push_step();
        if only_results && !self.rules.continue_after_tool {
            self.finish_turn(TurnFinish::Stop);
        } else {
            self.next_round();
        }
    }

    /// Tells the model of the mistakes that the parser found.
    fn tell_mistakes(&mut self) {
        let is_cut = self.draft.round.ran_into_token_limit();
        // A marker that comes last was cut from its call.
        let is_marker_cut = is_cut && self.draft.text.trim_end().ends_with(self.marker());
        for Mistake { call, error } in std::mem::take(&mut self.draft.round.mistakes) {
            let cut = match error.code {
                ErrorCode::MissingPayload => is_marker_cut,
                _ => is_cut,
            };
            let (settings, contract) = (&self.rules.parser, self.rules.call_contract);
            let (reason, message) =
                feedback::malformed(&error, self.marker(), settings, contract, cut);
            self.tell_mistake(call, reason, message);
        }
    }

    /// Whether the model has answered for the first time although it had to call a tool.
    fn lacks_required_call(&self) -> bool {
        let has_to = self.request.tool_choice != ToolChoice::Auto && self.synthesis.is_none();
        has_to && !self.has_called_as_asked() && !self.was_told_to_call
    }

    fn ask_for_call(&mut self) {
        self.was_told_to_call = true;
        let (reason, message) =
            (FeedbackReason::MalformedCall, feedback::call_required(&self.request.tool_choice));
        self.draft.round.notes.push(Note { reason, message: message.clone() });
        // Even the last attempt keeps the tools: the model has to call one.
        self.say_mistake(None, reason, message);
        self.push_step();
        self.next_round();
    }

    /// Tells the model that it has written a result itself. One that goes on with a result
    /// after a call just gets the real one. A model that echoes a result has what it takes
    /// to answer, and is asked to.
    fn tell_invention(&mut self) {
        let has_result = self.draft.round_calls().any(|at| self.draft.ended(at).is_some());
        if self.draft.round.surplus != Some(Surplus::Results) || has_result {
            return;
        }
        let message = feedback::INVENTED_RESULT.to_owned();
        self.tell_mistake(None, FeedbackReason::InventedResult, message);
        if self.has_results() {
            self.end_tools();
        }
    }

    /// Tells the model of a mistake that has no result to stand in.
    pub(super) fn tell_mistake(
        &mut self,
        call: Option<usize>,
        reason: FeedbackReason,
        message: String,
    ) {
        let message = feedback::brief(message);
        self.draft.round.notes.push(Note { reason, message: message.clone() });
        self.feed_back(call, reason, message);
    }

    fn next_round(&mut self) {
        if self.synthesis.is_none() && self.draft.round.number >= self.max_tool_loops {
            self.draft.say(EventDraft::LoopLimitReached);
            self.synthesis = Some(Synthesis::ending(TurnFinish::LoopLimit));
        }
        self.start_round();
    }

    /// Nothing was said and nothing called: the model is asked again, then given up. Not
    /// fed back as other mistakes are: this one is counted over turns.
    fn nudge(&mut self) {
        let reason = FeedbackReason::EmptyResponse;
        self.empty_answers += 1;
        self.draft.act(Action::SaidNothing);
        let attempt = self.empty_answers;
        let message =
            if attempt == 1 { feedback::EMPTY_RESPONSE } else { feedback::EMPTY_RESPONSE_AGAIN };
        let message = message.to_owned();
        self.draft.round.notes.push(Note { reason, message: message.clone() });
        self.mistakes.count(reason, self.draft.round.number);
        if attempt >= limits::turn::EMPTY_ANSWERS_MAX {
            self.push_step();
            if !self.answer_with_results(TurnFinish::Stop) {
                self.fail_empty();
            }
            return;
        }
        let status = "the model said nothing; asking it again".to_owned();
        self.draft.say_status(status, self.now_ms);
        self.draft.say(EventDraft::Feedback { call: None, reason, message, attempt });
        self.push_step();
        self.next_round();
    }

    pub(super) fn push_step(&mut self) {
        let mut step = self.draft.take_step();
        let tools = &self.request.briefing.tools;
        let mutates = |name: &str| tools.get(name).is_some_and(|tool| tool.spec().policy.mutates);
        step.retry = prerequisites::call_to_retry(&self.record.steps, &step, mutates);
        let marker = super::marker(&self.rules, &self.request.briefing);
        for call in step.calls() {
            self.draft.guard.learn_result(|| results::json(&call.result(), marker));
        }
        if !step.parts.is_empty() || !step.notes.is_empty() {
            self.record.steps.push(step);
        }
    }

    pub(super) fn complete(&mut self, finish: TurnFinish) {
        self.push_step();
        self.finish_turn(finish);
    }

    pub(super) fn finish_turn(&mut self, finish: TurnFinish) {
        self.end(Ending::Completed(finish), EventDraft::Completed(finish));
    }

    /// The turn is over, and this is the last that is said of it.
    fn end(&mut self, ending: Ending, last: EventDraft) {
        self.usage += std::mem::take(&mut self.draft.round.usage);
        self.record.ending = ending;
        self.state = ending.state();
        self.draft.say(last);
    }

    fn fail_empty(&mut self) {
        let message = "the model kept answering with nothing; try a larger model, a shorter \
                       prompt, or fewer tools";
        self.fail(FailureCode::EmptyResponse, message.to_owned(), true);
    }

    pub(super) fn fail(&mut self, code: FailureCode, message: String, retryable: bool) {
        self.stop_all();
        self.push_step();
        self.end(Ending::Failed(code), EventDraft::Failed { code, message, retryable });
    }

    pub(super) fn stop_all(&mut self) {
        self.acknowledge_if_held();
        self.draft.act(Action::StopRound);
        self.draft.act(Action::StopTools);
    }
}
