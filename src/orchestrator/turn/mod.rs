//! The turn machine: every decision of a turn, and no I/O.
//!
//! **After each [`Turn::handle`], [`Turn::poll`] until it returns `None`.** What
//! comes out is to be done in that order. Text that several deltas brought comes
//! out as one event if they were handled before the poll, so a driver handles all
//! that has arrived and polls once.
//!
//! ```text
//!             ┌──────────── calls ended ───────────┐
//!             v                                    │
//!   ─> Planning ── round over, calls open ──> Executing ── a tool asks ──> AwaitingClarification
//!        │  │                                      │
//!        │  └── cap, or too many mistakes ─────────┴──> Synthesizing
//!        └───────────── an answer ────────> Completed <────┘
//! ```
//! Cancelling leads to `Completed` and failing to `Failed` from everywhere, with a
//! history that is valid: what was said is kept, calls without an outcome are
//! cancelled. A turn that answers one of several questions begins with the next one
//! and ends with it, without a round; one that answers the last begins with the lookups
//! that waited for it, if there are any.

mod acknowledge;
mod calls;
mod choices;
mod clarify;
mod closing;
mod io;
mod mistakes;
mod output;
mod rounds;
mod rules;
mod steps;

use std::sync::Arc;

use super::briefing::Briefing;
use super::draft::{Acknowledged, Draft, Entry, EventDraft};
use super::repeats::Repeats;
use super::result_guard::ResultGuard;
use crate::conversation::render::results;
use crate::conversation::{self, Ending, Opening, Outcome, Part, Step};
use crate::event::{Summary, TurnFinish, TurnState as State, Usage};
use crate::limits::turn::GUARDED_CALLS;
use crate::parser::{self, Parser};
use crate::tools::Policy;

use closing::Synthesis;
use mistakes::MistakeCounts;

pub(super) use calls::Refusal;
pub use io::{Input, NotRun, Output, TurnRequest};
pub use rules::Rules;

/// A turn. See the module for its contract.
#[derive(Debug)]
pub struct Turn {
    rules: Arc<Rules>,
    request: TurnRequest,
    max_tool_loops: u32,
    state: State,
    /// Reads the model's words. It is taken out while it hands out what it finds.
    parser: Option<Box<Parser>>,
    draft: Draft,
    /// The turn as history; its last step is still in `draft`.
    record: conversation::Turn,
    usage: Usage,
    /// What the model has written, in bytes.
    bytes: usize,
    mistakes: MistakeCounts,
    repeats: Repeats,
    /// Name of the upstream that answers.
    answering: String,
    /// What the user has heard before tools ran.
    acknowledged: Option<Acknowledged>,
    /// What is to be said of tools once the acknowledgement has come.
    held: Vec<EventDraft>,
    /// How often in a row the model has answered with nothing.
    empty_answers: u32,
    /// Whether it has answered although it had to call a tool, and was told so.
    was_told_to_call: bool,
    /// Milliseconds since the Unix epoch, as far as the turn was told.
    now_ms: u64,
    /// Set while a round was asked for that the driver has not been told of yet:
    /// what still comes in belongs to the one before and is nobody's any more.
    between_rounds: bool,
    /// Set when no further round may call tools.
    synthesis: Option<Synthesis>,
}

impl Turn {
    /// Begins a turn: the first thing to poll is its start and its first round.
    ///
    /// # Errors
    /// When the parser's settings are not usable.
    pub fn new(rules: Arc<Rules>, request: TurnRequest) -> Result<Self, parser::SettingsError> {
        // A model that was never told of calls may write about them. One that has read its own
        // writes another, though it has no tools any more.
        let may_call = !request.briefing.tools.is_empty() || request.history.call_ids() > 0;
        let settings = rules.parser_settings();
        let marker = marker(&rules, &request.briefing).to_owned();
        let settings = parser::Settings { calls: may_call && settings.calls, marker, ..settings };
        let parser = Parser::new(settings)?;
        let max_tool_loops = request
            .max_tool_loops
            .map_or(rules.max_tool_loops, |max| max.min(rules.max_tool_loops));
        let record = open(&request);
        let (now_ms, empty_answers) = (request.started_at_ms, request.history.empty_answers());
        let (calls_max, call_ids) = (rules.max_calls as usize, request.history.call_ids());
        let draft = Draft::new(calls_max, call_ids, guard(&rules, &request), now_ms);
        let is_answer = record.answer.is_some();
        let repeats = if is_answer { done_before(&request) } else { Repeats::default() };
        let answering = request.model.clone();
        let mut turn = Self {
            rules,
            request,
            max_tool_loops,
            state: State::Planning,
            parser: Some(Box::new(parser)),
            draft,
            record,
            usage: Usage::default(),
            bytes: 0,
            mistakes: MistakeCounts::default(),
            repeats,
            answering,
            acknowledged: None,
            held: Vec::new(),
            empty_answers,
            was_told_to_call: false,
            now_ms,
            between_rounds: false,
            synthesis: None,
        };
        turn.draft.say(EventDraft::TurnStarted);
        match turn.waiting_questions() {
            Some(questions) => turn.ask_user(questions),
            None if turn.record.deferred.is_empty() => turn.start_round(),
            None => turn.resume_calls(),
        }
        Ok(turn)
    }

    /// The turn's id.
    #[must_use]
    pub fn turn_id(&self) -> &str {
        &self.request.turn_id
    }

    /// When the turn began, in milliseconds since the Unix epoch.
    #[must_use]
    pub const fn started_at_ms(&self) -> u64 {
        self.record.started_at_ms
    }

    /// Where the turn is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether the turn is over. What is still to be polled is the rest of it.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// Tells the time, in milliseconds since the Unix epoch. What the turn writes
    /// down next bears it.
    pub const fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// How the turn ended, for logs: a finish reason or a failure's code.
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self.record.ending {
            Ending::Completed(finish) => finish.name(),
            Ending::Failed(code) => code.name(),
            Ending::Running => "running",
        }
    }

    /// The turn as it goes into the history. Call it when [`is_over`](Self::is_over).
    #[must_use]
    pub fn into_record(self) -> conversation::Turn {
        let mut record = self.record;
        record.call_ids = self.draft.calls.len();
        for step in &mut record.steps {
            step.parts.retain(|part| !matches!(part, Part::Reasoning(_)));
        }
        record
    }

    /// What the turn took so far.
    #[must_use]
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            loops: self.draft.round.number,
            tool_calls: self.draft.calls_made(),
            usage: self.usage,
            text: &self.draft.text,
        }
    }

    /// Takes what happened. An ended turn takes nothing more.
    pub fn handle(&mut self, input: Input<'_>) {
        if self.is_over() {
            return;
        }
        match input {
            Input::Rerouted { .. }
            | Input::Delta(_)
            | Input::RoundEnded
            | Input::RoundFailed { .. }
                if self.between_rounds || self.state == State::Executing => {}
            Input::Rerouted { answering, why } => self.reroute(answering, why),
            Input::Delta(delta) => self.take_delta(delta),
            Input::RoundEnded => self.end_round(),
            Input::RoundFailed { code, message, retryable } => {
                self.finish_parsing();
                self.fail(code, message, retryable);
            }
            Input::ToolEnded { call, result, duration_ms, attempts } => {
                self.end_tool(call, result, duration_ms, attempts);
            }
            Input::Logged(bytes) => self.check_logged(bytes),
            Input::TimerEnded => self.acknowledge_if_held(),
            Input::Cancel => {
                self.finish_parsing();
                self.stop_all();
                self.complete(TurnFinish::Cancelled);
            }
        }
    }

    /// What is to be done next. Nothing more comes until the next
    /// [`handle`](Self::handle) once this has returned `None`.
    pub fn poll(&mut self) -> Option<Output<'_>> {
        Some(match self.draft.queue.pop_front()? {
            Entry::Say(event) => Output::Event(self.event(event)),
            Entry::Do(action) => self.action(action),
        })
    }
}

/// What opens a call of the model.
fn marker<'a>(rules: &'a Rules, briefing: &'a Briefing) -> &'a str {
    match &*briefing.marker {
        "" => &rules.parser.marker,
        marker => marker,
    }
}

/// The calls of the turns that an answer continues: what they have sent is sent. What they
/// have read may be read again: the answer may have taken hours.
fn done_before(request: &TurnRequest) -> Repeats {
    let mut repeats = Repeats::default();
    let turns: Vec<_> = request.history.chain().collect();
    for call in turns.iter().rev().flat_map(|turn| &turn.steps).flat_map(Step::calls) {
        if let Outcome::Ended(result) = &call.outcome {
            let tool = request.briefing.tools.get(&call.name);
            let policy = tool.map_or(Policy::NONE, |tool| tool.spec().policy);
            if policy.mutates || result.clarification.is_some() {
                repeats.note(&call.name, call.taken_arguments().to_value(), policy, result, None);
            }
        }
    }
    repeats
}

/// Knows what was there before the turn and its messages may echo: the results of the
/// examples and of the last calls, and the name of each tool that was called.
fn guard(rules: &Rules, request: &TurnRequest) -> ResultGuard {
    let TurnRequest { briefing, history, .. } = request;
    let mut guard = ResultGuard::new(briefing.tools.names(), wants_json(rules, request));
    let examples = briefing.examples.iter().flat_map(|turn| &turn.steps).flat_map(Step::calls);
    let examples = examples.collect::<Vec<_>>();
    let before = history.turns().flat_map(|turn| &turn.steps).flat_map(Step::calls);
    let before = before.collect::<Vec<_>>();
    for call in examples.iter().chain(&before) {
        guard.learn_tool(&call.name);
    }
    let last = &before[before.len().saturating_sub(GUARDED_CALLS)..];
    for call in examples.iter().chain(last) {
        guard.learn_result(|| results::json(&call.result(), marker(rules, briefing)));
    }
    guard
}

/// Whether the operator, or the user in any turn, has spoken of JSON: then an answer may well
/// be some.
fn wants_json(rules: &Rules, request: &TurnRequest) -> bool {
    let says = |words: &str| {
        let bytes = words.as_bytes();
        memchr::memchr2_iter(b'j', b'J', bytes)
            .any(|at| bytes[at..].get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"json")))
    };
    says(&rules.system_prompt)
        || says(request.opening.words())
        || request.history.turns().any(|turn| says(&turn.prompt))
}

/// The record of a turn that begins.
fn open(request: &TurnRequest) -> conversation::Turn {
    let questions = request.history.open_questions();
    let (answer, dropped) = match &request.opening {
        Opening::Prompt(_) => {
            (None, questions.first().map(|open| open.clarification.question.clone()))
        }
        Opening::Answer(answer) => (Some(answer.clone()), None),
    };
    let asked = request.history.chain().next().filter(|_| answer.is_some());
    conversation::Turn {
        deferred: asked.map(|asked| asked.deferred.clone()).unwrap_or_default(),
        turn_id: request.turn_id.clone(),
        started_at_ms: request.started_at_ms,
        prompt: request.opening.words().to_owned(),
        answer,
        dropped,
        ..conversation::Turn::default()
    }
}

#[cfg(test)]
mod tests;
