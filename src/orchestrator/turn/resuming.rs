//! Resuming a turn whose gateway was stopped: what the journal and the log tell becomes the state of a machine.
//!
//! ```text
//!   the step that was under way          goes on as
//!   before the first round               the beginning of the turn, with what its calls have come to
//!   nothing                              the same round, asked again
//!   words                                the same round: the model goes on with them
//!   calls                                executing: results are kept, lookups run again
//! ```
//! A call that has begun and has no result may have done its work. If its tool changes something, it does not
//! run again, unless it may be retried under the same idempotency key: the model is told that nobody knows.

use std::sync::Arc;

use super::TurnMachine;
use super::acknowledgement::{Acknowledgement, Heard};
use super::closing::Closing;
use super::core::Core;
use super::first_calls::first_state;
use super::free_calls::FreeCalls;
use super::mistakes::MistakeCounts;
use super::queue::EventDraft;
use super::round::{Message, Round};
use super::setup::Setup;
use super::state::State;
use super::{TurnRequest, setup};
use crate::conversation::{Call, CallFates, Interrupted, Outcome, Part, Step};
use crate::event::TurnFinish;
use crate::orchestrator::call::{CallAt, Written};
use crate::orchestrator::chain::MessageEnd;
use crate::orchestrator::feedback;
use crate::tools::builtin::FindTools;
use crate::tools::{Policy, ToolResult};

/// What clients are told.
const RESUMED: &str = "the gateway was interrupted; this turn goes on where it was";

impl TurnMachine {
    /// Whether a turn with this request can be resumed. JSON that has been cut off cannot: servers that hold a
    /// model to a form begin anew.
    #[must_use]
    pub(crate) fn can_resume(request: &TurnRequest, interrupted: &Interrupted) -> bool {
        let step = &interrupted.step;
        // At its calls, a message is over.
        let is_at_calls = step.calls().next().is_some();
        request.response_format.is_none() || step.parts.is_empty() || is_at_calls
    }

    /// What becomes of the calls that were under way.
    #[must_use]
    pub(crate) fn fates(request: &TurnRequest, interrupted: &Interrupted) -> CallFates {
        let calls_with = |fate| {
            interrupted.describe_calls(|call| {
                let policy = setup::spec_of(request, &call.name).map(|spec| spec.policy);
                fate_of(call, policy) == fate
            })
        };
        CallFates {
            kept: calls_with(Fate::Kept),
            run_again: calls_with(Fate::RunsAgain),
            unknown: calls_with(Fate::Unknown),
        }
    }

    /// Goes on with a turn whose gateway was stopped. `request` is the one with which it began; the history does
    /// not have the turn yet.
    #[must_use]
    pub(crate) fn resume(request: TurnRequest, interrupted: Interrupted, now_ms: u64) -> Self {
        let setup = Setup::new(request);
        let parser = Box::new(setup.parser(setup.request.briefing.usual_primer()));
        let mut core = Core::new(setup);
        (core.begun_at_ms, core.now_ms) = (now_ms, now_ms);
        if !interrupted.is_begun {
            core.script.say(EventDraft::TurnStarted);
        }
        core.script.say(EventDraft::Status(RESUMED.to_owned()));
        let step = core.take_up(interrupted);
        let state = core.resumed_state(step);
        let mut turn = Self { parser, state, core, polled: None };
        if let State::Executing { .. } = turn.state {
            turn.run_calls();
        }
        turn
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has a result.
    Kept,
    RunsAgain,
    /// Nobody knows what it has done.
    Unknown,
}

fn fate_of(call: &Call, policy: Option<Policy>) -> Fate {
    let may_run_again = policy.is_some_and(|policy| policy.may_run_again());
    match call.outcome {
        Outcome::Cancelled if may_run_again => Fate::RunsAgain,
        Outcome::Cancelled => Fate::Unknown,
        _ => Fate::Kept,
    }
}

/// The step that was under way, and how its turn completes if that was the closing answer.
struct CutStep {
    step: Step,
    closes: Option<TurnFinish>,
}

impl Core {
    /// Takes up what the turn has said, done and counted. Returns the step that was under way.
    fn take_up(&mut self, interrupted: Interrupted) -> CutStep {
        let Interrupted { turn, tally, after, step, step_call_ids, said, heard, .. } = interrupted;
        let is_at_calls = step.calls().next().is_some();
        let (ids, taken_up, made) = match tally.rounds {
            // The first calls are taken up again, under the same ids.
            0 => (0, 0, 0),
            _ => (tally.call_ids + step_call_ids, step.calls().count(), tally.calls),
        };
        // It begins with those of the turn that it continues, which `Setup` has learned of.
        let continued = self.record.steps.len();
        // Those that it had used when it was taken over before.
        let before = turn.call_ids.saturating_sub(self.record.call_ids);
        let put_off = std::mem::take(&mut self.record_mut().deferred);
        self.record = Arc::new(turn);
        if tally.rounds == 0 {
            self.record_mut().deferred = put_off;
        }
        self.record_mut().call_ids += ids.saturating_sub(taken_up);
        self.calls.resume(before + ids, taken_up, made);
        self.rounds = tally.rounds;
        self.usage = tally.usage;
        self.bytes = tally.bytes;
        self.free_calls = FreeCalls::resumed(tally.free_calls, tally.free_rounds);
        self.empty_answers = tally.empty_answers;
        self.mistakes = MistakeCounts::resumed(tally.mistakes, tally.mistaken_rounds);
        self.was_reminded_to_call = tally.was_reminded_to_call;
        self.repeats.resume(tally.repeats);
        self.note_learned(tally.learned.iter().map(String::as_str));
        self.before.has_called = tally.has_called;
        self.before.step_after = is_at_calls.then_some(after);
        self.script.resume(said);
        if let Some((source, text)) = heard {
            self.acknowledgement = Acknowledgement::Said(Heard { text, source });
        }
        let primer = Arc::clone(self.setup.request.briefing.usual_primer());
        self.script.guard = self.setup.guard(&primer, Some(&self.record));
        let record = Arc::clone(&self.record);
        for call in record.steps.iter().skip(continued).flat_map(Step::calls) {
            self.learn_of(call);
        }
        CutStep { step, closes: tally.closes }
    }

    /// What is new of these words, if they may belong to the seam.
    pub(super) fn take_over_seam(&mut self, text: &str) -> Option<String> {
        let seam = self.seam.as_mut()?;
        let rest = seam.push(text);
        if seam.is_passed() {
            self.seam = None;
        }
        Some(rest)
    }

    /// Learns what an earlier call of the turn has found and done.
    fn learn_of(&mut self, call: &Call) {
        let Outcome::Ended(result) = &call.outcome else { return };
        let policy = self.setup.policy(&call.name).unwrap_or(Policy::NONE);
        self.is_tainted |= policy.open_world;
        if self.setup.is_finder(&call.name) {
            self.note_learned(FindTools::found(result));
        }
        let arguments = call.taken_arguments().to_value();
        self.repeats.note(&call.name, arguments, policy, result, None);
    }

    fn resumed_state(&mut self, CutStep { step, closes }: CutStep) -> State {
        if self.rounds == 0 {
            return first_state(self, &step);
        }
        if step.calls().next().is_some() {
            return self.resume_calls(step);
        }
        let goes_on = !step.parts.is_empty();
        if goes_on {
            self.record_mut().steps.push(step);
        }
        // It is the same round.
        self.rounds = self.rounds.saturating_sub(1);
        self.before.is_cut = goes_on;
        match closes {
            None => State::Planning(self.ask()),
            Some(finish) => State::Synthesizing(Closing::begin(finish, self)),
        }
    }

    /// Resumes a message at its calls. What else it would have said is lost.
    fn resume_calls(&mut self, step: Step) -> State {
        let words = step.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Call(_) | Part::Said(_) | Part::Reasoning(_) => 0,
        });
        let mut at = self.script.text.len().saturating_sub(words.sum());
        let mut message = Message::new(self.rounds, at, self.now_ms);
        let first_call = self.calls.end();
        for part in step.parts {
            match part {
                Part::Text(text) => {
                    message.push_text(at..at + text.len());
                    at += text.len();
                }
                Part::Call(call) => {
                    let at = self.calls.take_back_up(call.call_id.clone(), self.rounds);
                    self.resume_call(at, &call);
                    message.push_call(at);
                }
                Part::Said(_) | Part::Reasoning(_) => {}
            }
        }
        let round = Round::new(message, first_call);
        State::Executing { round, message_end: MessageEnd::Complete }
    }

    /// Keeps a call that has ended, and runs one again if that does no harm.
    pub(super) fn resume_call(&mut self, at: CallAt, call: &Call) {
        let policy = self.setup.policy(&call.name);
        match fate_of(call, policy) {
            Fate::Kept => {
                self.learn_of(call);
                self.calls[at].resume_ended(call.clone(), policy);
            }
            Fate::RunsAgain => {
                let Call { name, arguments, .. } = call.clone();
                let origin = std::mem::take(&mut self.calls[at].origin);
                self.calls[at].origin = origin.interrupted();
                self.calls[at].complete(Written { name, arguments, end_is_repaired: false });
            }
            Fate::Unknown => {
                let result =
                    ToolResult::error(feedback::outcome_unknown(&call.name)).but_uncertain();
                let call = Call { outcome: Outcome::Ended(result), ..call.clone() };
                self.learn_of(&call);
                self.calls[at].resume_ended(call, policy);
                let told = EventDraft::ToolCompleted { call: at, duration_ms: 0, attempts: 1 };
                self.script.say(told);
            }
        }
    }
}
