//! Steps: what follows a finished round, and how a turn ends.

use super::TurnMachine;
use super::closing::{ASKING_FOR_FORM, Closing, Over};
use super::core::Core;
use super::queue::{Action, EventDraft, LogDraft};
use super::reading;
use super::round::{Mistake, Round, Surplus};
use super::state::{OpenRound, State};
use crate::conversation::{Ending, Note, Outcome, Question};
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::limits;
use crate::orchestrator::call::{CallAt, CallDraft, Standing};
use crate::orchestrator::feedback;
use crate::parser::ErrorCode;

/// The outcome of a message, once none of its calls is open.
enum StepEnd {
    /// No words and no calls.
    Nothing,
    /// Only words.
    Answer,
    /// Calls, but none was accepted: unreadable ones had used up the turn's limit.
    OverCap,
    /// The user has to decide.
    Questions(Vec<Question>),
    /// The client has to run these calls.
    ClientCalls(Vec<CallAt>),
    /// The model continues with the results of its calls, and with what was wrong with them.
    Results,
}

/// What comes after a message.
enum Next {
    /// The model is asked again.
    Ask,
    /// The turn is over, with this message as its last.
    End(Over),
    /// The turn ends with questions to the user.
    AskUser(Vec<Question>),
}

impl TurnMachine {
    /// Stops the model. The rest of its message is dropped, and so is a call or marker that it has
    /// only begun.
    pub(super) fn stop_round(&mut self) {
        self.core.script.act(Action::StopRound);
        self.parser.abandon();
        if let Some(mut round) = self.state.open_round(&mut self.core) {
            if round.round.surplus == Some(Surplus::Excess) {
                // Native calls may all be unfinished, and the model has to learn about them.
                round.fail_unfinished();
            }
            round.discard_unchecked();
        }
        self.close_round(true);
    }

    pub(super) fn end_round(&mut self) {
        self.finish_reading();
        self.close_round(false);
    }

    pub(super) fn finish_reading(&mut self) {
        if let Some(mut seam) = self.core.seam.take() {
            let rest = seam.finish();
            if !rest.is_empty() {
                // The message is over anyway.
                let _ = reading::read(&mut self.parser, &rest, &mut self.state, &mut self.core);
            }
        }
        self.state.finish_reading(&mut self.parser, &mut self.core);
    }

    fn close_round(&mut self, was_stopped: bool) {
        self.core.note_usage(&mut self.state, was_stopped);
        match &mut self.state {
            State::Planning(round) => {
                let message_end = round.message_end(was_stopped);
                self.state = State::Executing { round: std::mem::take(round), message_end };
                self.run_calls();
            }
            State::Synthesizing(closing) => match closing.end(&mut self.core) {
                Ok(over) => self.end(over),
                Err(again) => self.state = State::Synthesizing(again),
            },
            State::Executing { .. } | State::Over(_) => {}
        }
    }

    /// Runs the calls of a message that is over, and ends the step if none is left open.
    pub(super) fn run_calls(&mut self) {
        if let Some(mut round) = self.state.open_round(&mut self.core) {
            round.check_new_calls();
            round.advance_calls();
            round.acknowledge_now();
        }
        self.end_step_if_done();
    }

    /// Ends the step if its message is over and none of its calls is open.
    pub(super) fn end_step_if_done(&mut self) {
        let State::Executing { .. } = self.state else { return };
        let Some(mut round) = self.state.open_round(&mut self.core) else { return };
        if round.has_open_calls() {
            return;
        }
        match round.end_step() {
            Next::Ask => {
                let State::Executing { round, .. } = &self.state else { return };
                self.state = self.core.next_round(round.is_last_with_tools);
            }
            Next::End(over) => self.end(over),
            Next::AskUser(questions) => self.state = self.core.ask_user(questions),
        }
    }

    /// Ends the turn.
    pub(super) fn end(&mut self, over: Over) {
        if let Over::Failed { .. } = over {
            self.stop_all();
        }
        // A message that is over has been counted.
        self.core.note_usage(&mut self.state, true);
        self.push_step();
        self.state = self.core.end(over);
    }

    /// Adds the current message to the history.
    fn push_step(&mut self) {
        let calls_end = self.core.calls.end();
        match &mut self.state {
            State::Planning(round) | State::Executing { round, .. } => {
                self.core.push_step(&mut round.message, round.first_call);
            }
            State::Synthesizing(closing) => self.core.push_step(&mut closing.message, calls_end),
            State::Over(_) => {}
        }
    }

    pub(super) fn fail(&mut self, code: FailureCode, message: String, retryable: bool) {
        self.end(Over::Failed { code, message, retryable });
    }

    pub(super) fn stop_all(&mut self) {
        if let Some(mut round) = self.state.open_round(&mut self.core) {
            round.acknowledge_now();
        }
        self.core.script.act(Action::StopRound);
        self.core.script.act(Action::StopTools);
    }
}

impl Core {
    /// Asks the model again, with tools unless this round was the last one with them.
    fn next_round(&mut self, was_last_with_tools: bool) -> State {
        if was_last_with_tools {
            return State::Synthesizing(Closing::begin(TurnFinish::Stop, self));
        }
        if self.counted_rounds() >= self.setup.max_tool_loops {
            self.script.say(EventDraft::LoopLimitReached);
            return State::Synthesizing(Closing::begin(TurnFinish::LoopLimit, self));
        }
        State::Planning(self.ask())
    }

    /// Ends the turn with the first of these questions.
    pub(super) fn ask_user(&mut self, questions: Vec<Question>) -> State {
        self.record_mut().questions = questions;
        self.script.say(EventDraft::Clarification);
        self.end(Over::Completed(TurnFinish::ClarificationNeeded))
    }

    /// Ends the turn with its last event.
    fn end(&mut self, over: Over) -> State {
        let (ending, last) = match over {
            Over::Completed(finish) => (Ending::Completed(finish), EventDraft::Completed(finish)),
            Over::Failed { code, message, retryable } => {
                (Ending::Failed(code), EventDraft::Failed { code, message, retryable })
            }
        };
        self.script.say(last);
        State::Over(ending)
    }

    /// Adds the tokens of the state's message to the turn's total.
    fn note_usage(&mut self, state: &mut State, is_broken_off: bool) {
        if let Some(message) = state.message() {
            self.usage += message.tokens.take(is_broken_off);
        }
    }
}

impl OpenRound<'_> {
    fn has_open_calls(&self) -> bool {
        self.calls().iter().any(CallDraft::is_open)
    }

    /// Ends the step, now that none of its calls is open.
    fn end_step(&mut self) -> Next {
        self.feed_back_mistakes();
        self.feed_back_invention();
        self.count_round();
        let end = self.step_end();
        if !matches!(end, StepEnd::Nothing) {
            self.core.empty_answers = 0;
        }
        match end {
            StepEnd::Nothing => match self.round.message.cut_by() {
                // Asked again, the model would be cut off at the same place.
                Some(cut) => Next::End(self.core.end_without_answer(&mut self.round.message, cut)),
                None => self.nudge(),
            },
            StepEnd::Answer if self.round.is_stopped() => {
                self.core.show_as_it_is(&self.round.message);
                Next::End(Over::Completed(TurnFinish::Stop))
            }
            StepEnd::Answer if self.lacks_required_call() => self.ask_for_call(),
            StepEnd::Answer => self.end_with_answer(),
            StepEnd::OverCap => {
                self.report_call_cap();
                self.push_step();
                Next::Ask
            }
            StepEnd::Questions(mut questions) => {
                self.take_back();
                let deferred = self.deferred_calls();
                self.core.record_mut().deferred.extend(deferred);
                self.push_step();
                questions.extend_from_slice(self.core.setup.waiting_questions());
                Next::AskUser(questions)
            }
            StepEnd::ClientCalls(_) | StepEnd::Results
                if !self.core.setup.waiting_questions().is_empty() =>
            {
                self.take_back();
                self.push_step();
                Next::AskUser(self.core.setup.waiting_questions().to_vec())
            }
            StepEnd::ClientCalls(calls) => Next::End(self.end_with_calls(calls)),
            StepEnd::Results => self.go_on(),
        }
    }

    /// Ends the turn with the message as its answer, if that has the required form. If not, the
    /// model is asked for it without tools.
    fn end_with_answer(&mut self) -> Next {
        let cut_by = self.round.message.cut_by();
        if self.core.show_in_form(&self.round.message).is_err() {
            if cut_by.is_none() {
                self.core.say_status(&mut self.round.message, ASKING_FOR_FORM);
                self.end_tools();
                self.push_step();
                return Next::Ask;
            }
            self.core.show_as_it_is(&self.round.message);
        }
        Next::End(Over::Completed(cut_by.unwrap_or(TurnFinish::Stop)))
    }

    fn push_step(&mut self) {
        self.core.push_step(&mut self.round.message, self.round.first_call);
    }

    fn step_end(&self) -> StepEnd {
        // A stop text cuts off calls that have only begun.
        let is_cut = |call: &CallDraft| self.round.is_stopped() && call.ended().is_none();
        if self.round.message.notes.is_empty() && self.calls().iter().all(is_cut) {
            return match self.round.surplus {
                Some(Surplus::Excess) => StepEnd::OverCap,
                Some(Surplus::StopText) => StepEnd::Answer,
                _ if self.round.message.has_words(&self.core.script.text) => StepEnd::Answer,
                _ => StepEnd::Nothing,
            };
        }
        let (questions, client_calls) = (self.questions(), self.handed_out());
        if !questions.is_empty() {
            StepEnd::Questions(questions)
        } else if !client_calls.is_empty() {
            StepEnd::ClientCalls(client_calls)
        } else {
            StepEnd::Results
        }
    }

    /// Asks the model again, or ends with the results if that is configured.
    fn go_on(&mut self) -> Next {
        let Round { message, has_refused, .. } = &*self.round;
        // The user's answer was for more than the deferred lookups.
        let is_resumed = message.round == 0;
        let has_searched = self.calls().iter().any(|it| self.core.setup.is_finder(it.name()));
        let skipped = |it: &CallDraft| {
            it.ended().is_some_and(|call| matches!(call.outcome, Outcome::Skipped(_)))
        };
        // Otherwise the model has something to do, or to be told.
        let has_to_hear = has_searched || self.calls().iter().any(skipped);
        let only_results = message.notes.is_empty() && !has_refused && !is_resumed && !has_to_hear;
        let completed = |call: &CallDraft| call.standing() == Standing::Completed;
        if !is_resumed && self.calls().iter().any(completed) {
            self.end_tools();
        }
        self.push_step();
        let ends_with_results = only_results && !self.core.setup.rules().continue_after_tool;
        if ends_with_results { Next::End(Over::Completed(TurnFinish::Stop)) } else { Next::Ask }
    }

    /// Tells the model about the mistakes that the parser found.
    fn feed_back_mistakes(&mut self) {
        let cut = self.round.message.cut_by().map(feedback::cut_call);
        // A marker at the very end was cut off from its call, perhaps in the middle of the tool's name or the next tag.
        let text = self.core.script.text.trim_end();
        let is_word = |(_, rest): (&str, &str)| !rest.trim_start().contains(char::is_whitespace);
        let is_last = |opener: &str| text.rsplit_once(opener).is_some_and(is_word);
        let is_marker_cut = cut.is_some() && self.core.format().openers().any(is_last);
        for Mistake { call, error } in std::mem::take(&mut self.round.mistakes) {
            let cut = cut.filter(|_| error.code != ErrorCode::MissingPayload || is_marker_cut);
            let (format, contract) = (self.core.format(), self.core.contract());
            let most = self.core.setup.rules().parser.max_payload_bytes;
            let (reason, message) = feedback::malformed(&error, format, most, contract, cut);
            self.feed_back_note(call, reason, message);
        }
    }

    /// Whether the model has answered, for the first time, although it had to call a tool.
    fn lacks_required_call(&self) -> bool {
        self.core.setup.has_to_call()
            && !self.round.is_last_with_tools
            && !self.core.has_called_as_asked()
            && !self.core.was_reminded_to_call
    }

    fn ask_for_call(&mut self) -> Next {
        self.core.was_reminded_to_call = true;
        let choice = &self.core.setup.request.tool_choice;
        let (reason, message) = (FeedbackReason::MalformedCall, feedback::call_required(choice));
        self.round.message.notes.push(Note { reason, message: message.clone() });
        // Even the last attempt keeps the tools: the model has to call one.
        self.report_mistake(None, reason, message);
        self.push_step();
        Next::Ask
    }

    /// Tells the model that it has written a result itself. A model that writes one right after its
    /// call simply gets the real one. A model that echoes a result knows enough to answer, so it is
    /// asked to.
    fn feed_back_invention(&mut self) {
        let has_result = self.calls().iter().any(|call| call.ended().is_some());
        // What follows a call that could not be read is the rest of that call.
        let has_mistakes = !self.round.message.notes.is_empty();
        if self.round.surplus != Some(Surplus::Results) || has_result || has_mistakes {
            return;
        }
        let message = feedback::invented_result(self.core.has_tools()).to_owned();
        self.feed_back_note(None, FeedbackReason::InventedResult, message);
        if self.core.has_results() {
            self.end_tools();
        }
    }

    /// Handles an empty answer: asks the model again, and gives up in the end. Unlike other
    /// mistakes, this one is counted across turns.
    fn nudge(&mut self) -> Next {
        let reason = FeedbackReason::EmptyResponse;
        self.core.empty_answers += 1;
        self.core.script.log(LogDraft::EmptyAnswer);
        let attempt = self.core.empty_answers;
        let message = match attempt {
            1 => feedback::empty_response(self.core.has_tools()),
            _ => feedback::EMPTY_RESPONSE_AGAIN,
        };
        let message = message.to_owned();
        self.round.message.notes.push(Note { reason, message: message.clone() });
        self.core.mistakes.count(reason, self.round.message.round);
        if attempt >= limits::turn::EMPTY_ANSWERS_MAX {
            return self.give_up();
        }
        self.core.say_status(&mut self.round.message, "the model's answer was empty; asking again");
        self.core.script.say(EventDraft::Feedback { call: None, reason, message, attempt });
        self.push_step();
        Next::Ask
    }

    /// Gives up on a model that keeps saying nothing. The turn's results become the answer, if
    /// there are any.
    fn give_up(&mut self) -> Next {
        self.push_step();
        if self.core.answer_with_results(&mut self.round.message) {
            return Next::End(Over::Completed(TurnFinish::Stop));
        }
        let message = "the model kept giving empty answers; try a larger model, a shorter prompt, \
                       or fewer tools";
        Next::End(Over::empty_response(message))
    }
}
