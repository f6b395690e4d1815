//! Steps: what follows from a round that is over, and how the turn ends.

use super::{State, Turn};
use crate::conversation::{Ending, Note};
use crate::event::{FailureCode, FeedbackReason, TurnFinish};
use crate::limits;
use crate::orchestrator::draft::{Entry, Mistake, Progress};
use crate::orchestrator::feedback;
use crate::upstream::RoundFinish;

impl Turn {
    /// Ends the step when its message is over and nothing of it is open.
    pub(super) fn end_step_if_done(&mut self) {
        let open = |at: usize| self.draft.calls[at].is_open();
        if self.state != State::Executing || self.draft.round_calls().any(open) {
            return;
        }
        let notes = self.take_notes();
        if self.draft.has_words() || !self.draft.round_calls().is_empty() || !notes.is_empty() {
            self.empty_answers = 0;
        }
        if notes.is_empty() && self.draft.round_calls().is_empty() {
            if self.draft.has_words() {
                self.complete(match self.finish {
                    Some(RoundFinish::Length) => TurnFinish::Length,
                    _ => TurnFinish::Stop,
                });
            } else {
                self.nudge();
            }
            return;
        }
        let questions = self.questions();
        if !questions.is_empty() {
            self.push_step(notes);
            self.ask_user(questions);
            return;
        }
        let only_results = notes.is_empty() && !self.refused;
        if self.draft.round_calls().any(|at| self.draft.calls[at].progress() == Progress::Completed)
        {
            self.end_tools();
        }
        self.push_step(notes);
        if only_results && !self.rules.continue_after_tool {
            self.finish_turn(TurnFinish::Stop);
            return;
        }
        self.next_round();
    }

    /// What the model is told about the mistakes that the parser found.
    pub(super) fn take_notes(&mut self) -> Vec<Note> {
        let cut = self.finish == Some(RoundFinish::Length);
        let mistakes = std::mem::take(&mut self.draft.mistakes);
        let mut notes = std::mem::take(&mut self.cut_calls);
        for Mistake { call, error } in mistakes {
            let (settings, contract) = (&self.rules.parser, self.rules.call_contract);
            let (reason, message) =
                feedback::malformed(&error, self.marker(), settings, contract, cut);
            notes.push(Note { reason, message: message.clone() });
            self.feed_back(call, reason, message);
        }
        notes
    }

    pub(super) fn next_round(&mut self) {
        if self.synthesis.is_none() && self.draft.round >= self.max_tool_loops {
            self.draft.queue.push_back(Entry::LoopLimitReached);
            self.synthesis = Some(TurnFinish::LoopLimit);
        }
        self.start_round();
    }

    /// Nothing was said and nothing called: the model is asked again, then given up.
    pub(super) fn nudge(&mut self) {
        let reason = FeedbackReason::EmptyResponse;
        self.empty_answers += 1;
        let (message, attempt) = match self.empty_answers {
            1 => (feedback::EMPTY_RESPONSE, 1),
            again => (feedback::EMPTY_RESPONSE_AGAIN, again),
        };
        let note = Note { reason, message: message.to_owned() };
        self.mistakes.count(reason);
        if attempt >= limits::turn::EMPTY_ANSWERS_MAX {
            self.push_step(vec![note]);
            self.fail_empty();
            return;
        }
        let status = "the model said nothing; asking it again".to_owned();
        self.draft.say_status(status, self.now_ms);
        let message = message.to_owned();
        self.draft.queue.push_back(Entry::Feedback { call: None, reason, message, attempt });
        self.push_step(vec![note]);
        self.next_round();
    }

    pub(super) fn push_step(&mut self, notes: Vec<Note>) {
        let step = self.draft.take_step(notes);
        if !step.parts.is_empty() || !step.notes.is_empty() {
            self.record.steps.push(step);
        }
    }

    pub(super) fn complete(&mut self, finish: TurnFinish) {
        self.push_step(Vec::new());
        self.finish_turn(finish);
    }

    pub(super) fn finish_turn(&mut self, finish: TurnFinish) {
        self.end(Ending::Completed(finish), Entry::Completed(finish));
    }

    /// The turn is over, and this is the last that is said of it.
    pub(super) fn end(&mut self, ending: Ending, last: Entry) {
        self.usage += std::mem::take(&mut self.round_usage);
        self.record.ending = ending;
        self.state = ending.state();
        self.draft.queue.push_back(last);
    }

    /// No further round may call tools; the next one answers in words.
    pub(super) fn end_tools(&mut self) {
        self.synthesis.get_or_insert(TurnFinish::Stop);
    }

    pub(super) fn fail_empty(&mut self) {
        let message = "the model kept answering with nothing; try a larger model, a shorter \
                       prompt, or fewer tools";
        self.fail(FailureCode::EmptyResponse, message.to_owned(), true);
    }

    pub(super) fn fail(&mut self, code: FailureCode, message: String, retryable: bool) {
        self.stop_all();
        self.push_step(Vec::new());
        self.end(Ending::Failed(code), Entry::Failed { code, message, retryable });
    }

    pub(super) fn stop_all(&mut self) {
        self.acknowledge_if_held();
        self.draft.queue.push_back(Entry::StopRound);
        self.draft.queue.push_back(Entry::StopTools);
    }
}
