//! Steps: what follows from a round that is over, and how the turn ends.

use super::{State, Synthesis, Turn};
use crate::conversation::{Ending, Note};
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::limits;
use crate::orchestrator::draft::{Action, EventDraft, Mistake, Progress, Surplus};
use crate::orchestrator::feedback;
use crate::parser::ErrorCode;
use crate::upstream::RoundFinish;

impl Turn {
    /// Ends the step when its message is over and nothing of it is open.
    pub(super) fn end_step_if_done(&mut self) {
        let open = |at: usize| self.draft.calls[at].is_open();
        if self.state != State::Executing || self.draft.round_calls().any(open) {
            return;
        }
        self.tell_mistakes();
        let round = &self.draft.round;
        let is_over_cap = round.surplus == Some(Surplus::Excess);
        if is_over_cap && round.notes.is_empty() && self.draft.round_calls().is_empty() {
            // It called, where calls that could not be read have used up the turn's.
            self.end_calls();
            self.push_step();
            self.next_round();
            return;
        }
        let has_called = !self.draft.round.notes.is_empty() || !self.draft.round_calls().is_empty();
        if !has_called && !self.draft.has_words() {
            self.nudge();
            return;
        }
        self.empty_answers = 0;
        if !has_called {
            self.complete(match self.draft.round.finish {
                Some(RoundFinish::Length) => TurnFinish::Length,
                _ => TurnFinish::Stop,
            });
            return;
        }
        let questions = self.questions();
        if !questions.is_empty() {
            self.record.deferred = self.deferred_calls();
            self.push_step();
            self.ask_user(questions);
            return;
        }
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
            return;
        }
        self.next_round();
    }

    /// Tells the model of the mistakes that the parser found.
    fn tell_mistakes(&mut self) {
        let is_cut = self.draft.round.finish == Some(RoundFinish::Length);
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

    /// Tells the model of a mistake that has no result to stand in.
    pub(super) fn tell_mistake(
        &mut self,
        call: Option<usize>,
        reason: FeedbackReason,
        message: String,
    ) {
        self.draft.round.notes.push(Note { reason, message: message.clone() });
        self.feed_back(call, reason, message);
    }

    pub(super) fn next_round(&mut self) {
        if self.synthesis.is_none() && self.draft.round.number >= self.max_tool_loops {
            self.draft.say(EventDraft::LoopLimitReached);
            self.synthesis = Some(Synthesis::ending(TurnFinish::LoopLimit));
        }
        self.start_round();
    }

    /// Nothing was said and nothing called: the model is asked again, then given up.
    pub(super) fn nudge(&mut self) {
        let reason = FeedbackReason::EmptyResponse;
        self.empty_answers += 1;
        self.draft.act(Action::SaidNothing);
        let (message, attempt) = match self.empty_answers {
            1 => (feedback::EMPTY_RESPONSE, 1),
            again => (feedback::EMPTY_RESPONSE_AGAIN, again),
        };
        self.draft.round.notes.push(Note { reason, message: message.to_owned() });
        self.mistakes.count(reason, self.draft.round.number);
        if attempt >= limits::turn::EMPTY_ANSWERS_MAX {
            self.push_step();
            self.fail_empty();
            return;
        }
        let status = "the model said nothing; asking it again".to_owned();
        self.draft.say_status(status, self.now_ms);
        let message = message.to_owned();
        self.draft.say(EventDraft::Feedback { call: None, reason, message, attempt });
        self.push_step();
        self.next_round();
    }

    pub(super) fn push_step(&mut self) {
        let step = self.draft.take_step();
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
    pub(super) fn end(&mut self, ending: Ending, last: EventDraft) {
        self.usage += std::mem::take(&mut self.draft.round.usage);
        self.record.ending = ending;
        self.state = ending.state();
        self.draft.say(last);
    }

    /// No further round may call tools; the next one answers in words.
    pub(super) fn end_tools(&mut self) {
        self.synthesis.get_or_insert(Synthesis::ending(TurnFinish::Stop));
    }

    pub(super) fn fail_empty(&mut self) {
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
