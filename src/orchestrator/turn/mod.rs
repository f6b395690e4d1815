//! The turn machine: every decision of a turn, and no I/O.
//!
//! **After each [`TurnMachine::handle`], [`TurnMachine::poll`] until it returns `None`.** Outputs must be
//! carried out in order. Text from several deltas comes out as one event if they were all handled
//! before the poll, so a driver should handle everything that has arrived and then poll.
//!
//! ```text
//!             ┌──────────── calls ended ───────────┐
//!             v                                    │
//!   ─> Planning ────────── message over ─────> Executing ── a tool asks ──> AwaitingClarification
//!                                               │    │
//!                        tools are over ────────┘    └── an answer ──> Completed
//!                           v                                              ^
//!                     Synthesizing ────────────────────────────────────────┘
//!                        │    ^
//!                        └────┘ no words, once
//! ```
//! Tools are over at a cap, after too many mistakes, when the model repeats itself, or when a tool
//! says that the work is done. From any state, cancelling leads to `Completed` and failing to
//! `Failed`. The history stays valid: the text so far is kept, running calls are cancelled, and
//! waiting ones are skipped. If several questions are open, a turn that answers one just asks the
//! next and ends without a round. A turn that answers the last one begins with the lookups that
//! waited for it, if any.

mod acknowledgement;
mod acknowledging;
mod approval;
mod calls;
mod checking;
mod choices;
mod clarification;
mod client_calls;
mod closing;
mod core;
mod first_calls;
mod free_calls;
mod io;
mod mistakes;
mod output;
mod progress;
mod queue;
mod reading;
mod resuming;
mod round;
mod round_prompt;
mod script;
mod seam;
mod setup;
mod state;
mod steps;
mod tokens;
mod untold;

use std::sync::Arc;

use crate::conversation::{self, Ending, Part, Step, Tally};
use crate::event::{Event, FailureCode, Summary, TurnFinish, TurnState};
use crate::limits::turn::EVENTS_FACTOR;
use crate::orchestrator::call::{CallAt, CallDraft};
use crate::parser::Parser;
use crate::upstream::Delta;

use self::core::Core;
use calls::Run;
use closing::Over;
use first_calls::first_state;
use queue::{EventDraft, LogDraft, Queued};
use round::Flow;
use setup::Setup;
use state::State;

pub use io::{Input, LogLine, NotRun, Output, TurnRequest};

/// A turn. See the module docs for its contract.
#[derive(Debug)]
#[repr(C)]
pub struct TurnMachine {
    /// Reads the model's words, one message after another.
    parser: Box<Parser>,
    state: State,
    core: Core,
    /// The last polled event; the output borrows from it.
    polled: Option<EventDraft>,
}

impl TurnMachine {
    /// Begins a turn. Its start and its first round are the first outputs.
    #[must_use]
    pub fn new(request: TurnRequest) -> Self {
        let setup = Setup::new(request);
        let parser = Box::new(setup.parser(setup.request.briefing.usual_primer()));
        let mut core = Core::new(setup);
        core.script.say(EventDraft::TurnStarted);
        let state = first_state(&mut core, &Step::default());
        let mut turn = Self { parser, state, core, polled: None };
        if let State::Executing { .. } = turn.state {
            turn.run_calls();
        }
        turn
    }

    /// The turn's id.
    #[must_use]
    pub(crate) fn turn_id(&self) -> &str {
        &self.core.record.turn_id
    }

    /// When this machine began or resumed it, in milliseconds since the Unix epoch.
    #[must_use]
    pub(crate) const fn begun_at_ms(&self) -> u64 {
        self.core.begun_at_ms
    }

    /// The state of the turn.
    #[must_use]
    pub(crate) const fn state(&self) -> TurnState {
        self.state.name()
    }

    /// Whether the turn is over. Its last outputs may still have to be polled.
    #[must_use]
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    /// Sets the time, in milliseconds since the Unix epoch. What the turn records next gets this
    /// timestamp.
    pub(crate) const fn set_now(&mut self, now_ms: u64) {
        self.core.now_ms = now_ms;
    }

    /// How the turn ended, for logs: a finish reason or a failure's code.
    #[must_use]
    pub(crate) const fn outcome(&self) -> &'static str {
        match self.ending() {
            Some(Ending::Completed(finish)) => finish.name(),
            Some(Ending::Failed(code)) => code.name(),
            None => "running",
        }
    }

    /// Why it failed, once it has.
    pub(crate) const fn failure(&self) -> Option<FailureCode> {
        match self.ending() {
            Some(Ending::Failed(code)) => Some(code),
            _ => None,
        }
    }

    /// Its session, as its client knows it.
    pub(crate) fn session_id(&self) -> &str {
        &self.core.setup.request.session_id
    }

    /// Whether its user can answer questions only in words.
    pub(crate) const fn words_only(&self) -> bool {
        self.core.setup.request.words_only
    }

    /// The name of the upstream that it asks.
    pub(crate) fn model(&self) -> &str {
        &self.core.setup.request.model
    }

    /// Takes what was said. Call this once [`is_over`](Self::is_over) is true.
    #[must_use]
    pub(crate) fn take_text(&mut self) -> String {
        self.core.script.take_seen()
    }

    /// Turns it into a record for the history. Call this once [`is_over`](Self::is_over) is true.
    #[must_use]
    pub(crate) fn into_record(self) -> conversation::Turn {
        let ending = self.ending();
        let mut record = Arc::unwrap_or_clone(self.core.record);
        record.ending = ending;
        record.call_ids += self.core.calls.len();
        for step in &mut record.steps {
            step.parts.retain(|part| !matches!(part, Part::Reasoning(_)));
        }
        record
    }

    /// The turn as far as it has come: its whole steps.
    #[must_use]
    pub(crate) const fn so_far(&self) -> &Arc<conversation::Turn> {
        &self.core.record
    }

    /// The last event that belongs to its whole steps, if that is not the latest.
    #[must_use]
    pub(crate) const fn steps_end(&self) -> Option<u64> {
        self.core.before.step_after
    }

    /// What it has counted so far.
    #[must_use]
    pub(crate) fn tally(&self) -> Tally {
        let (closes, is_cut) = (self.state.closes(), self.state.goes_on());
        Tally { closes, is_cut, ..self.core.tally() }
    }

    /// `None` while it runs.
    const fn ending(&self) -> Option<Ending> {
        match self.state {
            State::Over(ending) => Some(ending),
            State::Planning(_) | State::Executing { .. } | State::Synthesizing(_) => None,
        }
    }

    /// What the turn has used so far.
    #[must_use]
    pub(crate) fn summary(&self) -> Summary<'_> {
        self.core.summary()
    }

    /// Handles an input. Late input from a stopped round is ignored, and so is everything after
    /// the end of the turn.
    pub fn handle(&mut self, input: Input<'_>) {
        if self.is_over() {
            return;
        }
        match input {
            Input::Rerouted { place, answering, why } => {
                if let Some(message) = self.state.arriving() {
                    self.core.reroute(message, place, answering, why);
                }
            }
            Input::Answered { contract, in_reasoning, is_prefilled } => {
                let Some(message) = self.state.arriving() else { return };
                if let Some(parser) = self.core.adopt(message, contract) {
                    *self.parser = parser;
                }
                if in_reasoning {
                    self.parser.start_in_reasoning();
                }
                if is_prefilled && let Some(seam) = &mut self.core.seam {
                    seam.expect_no_repetition();
                }
            }
            Input::Delta(delta) if self.is_arriving() => self.take_delta(delta),
            Input::RoundEnded if self.is_arriving() => self.end_round(),
            Input::RoundFailed { code, message, retryable } if self.is_arriving() => {
                self.finish_reading();
                self.fail(code, message, retryable);
            }
            Input::Delta(_) | Input::RoundEnded | Input::RoundFailed { .. } => {}
            Input::ToolProgressed { call, progress, attempt } => {
                self.take_progress(call, progress, attempt);
            }
            Input::ToolAsked { call, question, continuation, duration_ms, attempts } => {
                self.take_question(call, question, continuation, duration_ms, attempts);
            }
            Input::ToolEnded { call, result, duration_ms, attempts } => {
                self.end_tool(call, Run { result, duration_ms, attempts });
            }
            Input::Logged(bytes) => {
                self.core.logged_bytes = bytes;
                self.check_logged(bytes);
            }
            Input::Audience { is_present } => self.core.note_audience(is_present),
            Input::Tick => self.tick(),
            Input::Cancel => self.cancel(),
            Input::StoreLost => self.lose_store(),
        }
    }

    /// The next output. Once this returns `None`, there is nothing more until the next
    /// [`handle`](Self::handle).
    pub fn poll(&mut self) -> Option<Output<'_>> {
        match self.core.script.next()? {
            // As below, but without room for the largest output, which would be copied for each token.
            Queued::Say(EventDraft::Text { r#loop, words }) => {
                let text = &self.core.script.text[words];
                Some(Output::Event(Event::TextDelta { r#loop, text }))
            }
            queued => Some(self.output(queued)),
        }
    }

    #[inline(never)]
    fn output(&mut self, queued: Queued) -> Output<'_> {
        match queued {
            Queued::Say(event) => Output::Event(self.core.event(self.polled.insert(event))),
            Queued::Do(action) => self.action(action),
        }
    }

    /// When to send [`Input::Tick`], in milliseconds since the Unix epoch.
    #[must_use]
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let acknowledgement = self.core.acknowledgement.deadline_ms();
        let deadlines = [acknowledgement, self.core.give_up_at_ms, self.progress_due_ms()];
        deadlines.into_iter().flatten().min()
    }

    fn tick(&mut self) {
        let has_come = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= self.core.now_ms);
        let is_abandoned = has_come(self.core.give_up_at_ms);
        if has_come(self.core.acknowledgement.deadline_ms())
            && let Some(mut round) = self.state.open_round(&mut self.core)
        {
            round.acknowledge_now();
        }
        self.report_progress();
        if is_abandoned {
            self.core.script.log(LogDraft::Abandoned);
            self.cancel();
        }
    }

    fn cancel(&mut self) {
        self.finish_reading();
        self.stop_all();
        self.end(Over::Completed(TurnFinish::Cancelled));
    }

    fn lose_store(&mut self) {
        self.finish_reading();
        self.stop_all();
        let message = "the session store failed, so this turn stopped here; it may go on elsewhere, so read the \
                       session before you try again";
        self.fail(FailureCode::StoreUnavailable, message.to_owned(), true);
    }

    fn is_arriving(&mut self) -> bool {
        self.state.arriving().is_some()
    }

    fn take_delta(&mut self, delta: Delta<'_>) {
        let Self { parser, state, core, .. } = self;
        let goes_on = Flow::Continue(());
        if let Some(message) = state.unread() {
            message.tokens.wrote(delta.written_bytes());
        }
        let flow = match delta {
            Delta::Text(text) => match core.take_over_seam(text) {
                None => reading::read(parser, text, state, core),
                Some(rest) => reading::read(parser, &rest, state, core),
            },
            Delta::Reasoning(text) => reading::read_reasoning(parser, text, state, core),
            Delta::ReasoningItem(json) => {
                state.take_reasoning_item(json, core);
                goes_on
            }
            Delta::CallStarted { .. }
            | Delta::CallArguments { .. }
            | Delta::CallCompleted { .. } => {
                // The model only writes about calls, and the server has taken that for one.
                if !core.setup.may_call() {
                    return;
                }
                let flow = reading::end_reasoning(parser, state, core);
                if flow.is_continue() { state.take_native(delta, core) } else { flow }
            }
            Delta::Finish(_) | Delta::Usage(_) => {
                state.take_end(delta);
                goes_on
            }
        };
        if flow.is_break() {
            self.stop_round();
        }
        self.count(delta.written_bytes());
    }

    fn end_tool(&mut self, call: CallAt, run: Run) {
        if !self.core.calls.get(call).is_some_and(CallDraft::is_running) {
            return;
        }
        let Some(mut round) = self.state.open_round(&mut self.core) else { return };
        if round.end_tool(call, run) {
            self.stop_round();
        } else {
            self.end_step_if_done();
        }
    }

    /// Counts what the model has written. Fails the turn if it is over the limit.
    fn count(&mut self, bytes: usize) {
        self.core.bytes += bytes;
        let max = self.core.bytes_max;
        if self.core.bytes > max && !self.is_over() {
            self.fail_too_large(format!(
                "the model wrote more than limits.max_turn_bytes ({max}) in one turn; lower \
                 sampling.max_tokens or raise the limit"
            ));
        }
    }

    /// Fails the turn if its events, tool results included, take too much space.
    fn check_logged(&mut self, bytes: usize) {
        let max = self.core.logged_bytes_max;
        if bytes > max {
            self.fail_too_large(format!(
                "the events of this turn take up more than {max} bytes ({EVENTS_FACTOR} times \
                 limits.max_turn_bytes); ask for less at a time or raise the limit"
            ));
        }
    }

    fn fail_too_large(&mut self, message: String) {
        self.finish_reading();
        self.fail(FailureCode::TurnTooLarge, message, false);
    }
}

#[cfg(test)]
mod tests;
