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
//!   ─> Planning ── round over, calls open ──> Executing
//!        │  │                                      │
//!        │  └── cap, or too many mistakes ─────────┴──> Synthesizing
//!        └───────────── an answer ──────────> Ended <──────┘
//! ```
//! Cancelling and failing lead to `Ended` from everywhere, with a history that
//! is valid: what was said is kept, calls without an outcome are cancelled.

use std::sync::Arc;

use serde_json::Value;

use super::chain::{self, Execution};
use super::draft::{CallState, Draft, Entry, Mistake, result_of};
use super::{feedback, prompt};
use crate::conversation::render::{self, Form, RESULTS_HEADING, Rendering};
use crate::conversation::{self, Conversation, Ending, Note, Outcome};
use crate::event::{Event, FailureCode, FeedbackReason, Summary, TurnFinish, Usage};
use crate::limits;
use crate::parser::{self, Parser};
use crate::tools::{CallRefusal, Registry, ToolResult};
use crate::upstream::{Delta, OfferedTool, RoundFinish, RoundRequest, Sampling};

/// How turns go; the same for all turns of a gateway.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The operator's instructions to the model.
    pub system_prompt: String,
    /// How calls are read.
    pub parser: parser::Settings,
    /// Tokens that a request to the model may take.
    pub context_budget_tokens: usize,
    /// Whether the model is asked again after tools ran.
    pub continue_after_tool: bool,
    /// When calls run.
    pub execution: Execution,
    /// Calls that run at the same time.
    pub max_parallel: usize,
    /// Mistakes of one kind that are fed back, per turn.
    pub feedback_attempts: u32,
    /// How much warmer the model gets with each mistake.
    pub temperature_step: f64,
    /// Rounds with tools, per turn.
    pub max_tool_loops: u32,
    /// Calls, per turn.
    pub max_calls: u32,
    /// Bytes that the model may write, per turn.
    pub max_turn_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            system_prompt: String::from("You are a helpful assistant."),
            parser: parser::Settings::default(),
            context_budget_tokens: limits::turn::CONTEXT_BUDGET_TOKENS,
            continue_after_tool: true,
            execution: Execution::Eager,
            max_parallel: limits::turn::PARALLEL_MAX,
            feedback_attempts: limits::turn::FEEDBACK_ATTEMPTS_MAX,
            temperature_step: 0.2,
            max_tool_loops: limits::turn::TOOL_LOOPS_MAX,
            max_calls: limits::turn::CALLS_MAX,
            max_turn_bytes: limits::turn::BYTES_MAX,
        }
    }
}

/// One turn as it was asked for.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The session.
    pub session_id: String,
    /// The turn's id in it.
    pub turn_id: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// The user's words.
    pub prompt: String,
    /// Name of the upstream that answers.
    pub model: String,
    /// How that upstream takes calls and results.
    pub form: Form,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
    /// Lowers the cap of [`Rules::max_tool_loops`].
    pub max_tool_loops: Option<u32>,
    /// The tools of this turn.
    pub tools: Registry,
    /// The turns before this one.
    pub history: Conversation,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The running round brought something.
    Delta(Delta<'a>),
    /// The running round ended well.
    RoundEnded,
    /// The running round could not be started, or broke off.
    RoundFailed {
        /// What it means for the turn.
        code: FailureCode,
        /// For a person, with what to do.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// A tool ended.
    ToolEnded {
        /// The call, as [`Output::StartTool`] named it.
        call: usize,
        /// What came back.
        result: ToolResult,
        /// How long it ran.
        duration_ms: u64,
        /// How often it was tried.
        attempts: u32,
    },
    /// Nobody wants the answer any more.
    Cancel,
}

/// What is to be done.
#[derive(Debug)]
pub enum Output<'a> {
    /// Tell the clients.
    Event(Event<'a>),
    /// Ask the model.
    StartRound(Box<RoundRequest>),
    /// Drop the running round; nothing of it is wanted any more.
    StopRound,
    /// Run a tool.
    StartTool {
        /// Names the call in [`Input::ToolEnded`].
        call: usize,
        /// Its id, for logs.
        call_id: &'a str,
        /// The tool.
        name: &'a str,
        /// The arguments, valid.
        arguments: Value,
    },
    /// Drop all running tools.
    StopTools,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Planning,
    Executing,
    Synthesizing,
    Ended,
}

/// A turn. See the module for its contract.
#[derive(Debug)]
pub struct Turn {
    rules: Arc<Rules>,
    request: TurnRequest,
    max_tool_loops: u32,
    system: String,
    state: State,
    parser: Parser,
    draft: Draft,
    /// The turn as history; its last step is still in `draft`.
    record: conversation::Turn,
    finish: Option<RoundFinish>,
    round_usage: Usage,
    usage: Usage,
    bytes: usize,
    mistakes: MistakeCounts,
    /// Set while a round was asked for that the driver has not been told of yet:
    /// what still comes in belongs to the one before and is nobody's any more.
    between_rounds: bool,
    /// Set when no further round may call tools, with how that turn completes.
    synthesis: Option<TurnFinish>,
}

/// How often each kind of mistake was made in the turn.
#[derive(Debug, Default)]
struct MistakeCounts(Vec<(FeedbackReason, u32)>);

impl MistakeCounts {
    fn count(&mut self, reason: FeedbackReason) -> u32 {
        for (counted, attempts) in &mut self.0 {
            if *counted == reason {
                *attempts += 1;
                return *attempts;
            }
        }
        self.0.push((reason, 1));
        1
    }

    fn total(&self) -> u32 {
        self.0.iter().map(|(_, attempts)| attempts).sum()
    }
}

impl Turn {
    /// Begins a turn: the first thing to poll is its start and its first round.
    ///
    /// # Errors
    /// When the parser's settings are not usable.
    pub fn new(rules: Arc<Rules>, request: TurnRequest) -> Result<Self, parser::SettingsError> {
        let parser = Parser::new(rules.parser.clone())?;
        let max_tool_loops =
            request.max_tool_loops.map_or(rules.max_tool_loops, |max| max.min(rules.max_tool_loops));
        let system = prompt::system(&rules.system_prompt, &request.tools, &rules.parser.marker);
        let record = conversation::Turn {
            turn_id: request.turn_id.clone(),
            started_at_ms: request.started_at_ms,
            prompt: request.prompt.clone(),
            steps: Vec::new(),
            ending: Ending::Running,
        };
        let mut turn = Self {
            rules,
            request,
            max_tool_loops,
            system,
            state: State::Planning,
            parser,
            draft: Draft::default(),
            record,
            finish: None,
            round_usage: Usage::default(),
            usage: Usage::default(),
            bytes: 0,
            mistakes: MistakeCounts::default(),
            between_rounds: false,
            synthesis: None,
        };
        turn.draft.queue.push_back(Entry::TurnStarted);
        turn.start_round();
        Ok(turn)
    }

    /// Whether the turn is over. What is still to be polled is the rest of it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Ended
    }

    /// The state's name, for logs.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        match self.state {
            State::Planning => "planning",
            State::Executing => "executing",
            State::Synthesizing => "synthesizing",
            State::Ended => match self.record.ending {
                Ending::Failed(_) => "failed",
                Ending::Completed(_) | Ending::Running => "completed",
            },
        }
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
        self.record
    }

    /// What the turn took so far.
    #[must_use]
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            loops: self.draft.round,
            tool_calls: u32::try_from(self.draft.calls.len()).unwrap_or(u32::MAX),
            usage: self.usage,
            text: &self.draft.text,
        }
    }

    /// Takes what happened. An ended turn takes nothing more.
    pub fn handle(&mut self, input: Input<'_>) {
        if self.state == State::Ended {
            return;
        }
        match input {
            Input::Delta(_) | Input::RoundEnded | Input::RoundFailed { .. }
                if self.between_rounds || self.state == State::Executing => {}
            Input::Delta(delta) => self.take_delta(delta),
            Input::RoundEnded => self.end_round(),
            Input::RoundFailed { code, message, retryable } => {
                self.finish_parsing();
                self.fail(code, message, retryable);
            }
            Input::ToolEnded { call, result, duration_ms, attempts } => {
                self.end_tool(call, result, duration_ms, attempts);
            }
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
        let entry = self.draft.queue.pop_front()?;
        Some(match entry {
            Entry::StartRound(request) => {
                self.between_rounds = false;
                Output::StartRound(request)
            }
            Entry::StopRound => Output::StopRound,
            Entry::StopTools => Output::StopTools,
            Entry::StartTool { call, arguments } => {
                let draft = &self.draft.calls[call];
                let name = self.draft.name_of(call);
                Output::StartTool { call, call_id: &draft.call_id, name, arguments }
            }
            entry => self.poll_event(entry),
        })
    }

    fn poll_event(&mut self, entry: Entry) -> Output<'_> {
        // A message that the event borrows has to live somewhere.
        if let Entry::Feedback { message, .. }
        | Entry::Status(message)
        | Entry::Failed { message, .. } = &entry
        {
            self.draft.said.clone_from(message);
        }
        let draft = &self.draft;
        let id_of = |call: usize| draft.calls[call].call_id.as_str();
        Output::Event(match entry {
            Entry::TurnStarted => Event::TurnStarted {
                session_id: &self.request.session_id,
                turn_id: &self.request.turn_id,
                model: &self.request.model,
                max_tool_loops: self.max_tool_loops,
            },
            Entry::Text(range) => Event::TextDelta { text: &draft.text[range] },
            Entry::Reasoning(range) => Event::ReasoningDelta { text: &draft.reasoning[range] },
            Entry::MarkerDetected { call } => Event::ToolMarkerDetected {
                call_id: id_of(call),
                r#loop: draft.calls[call].round,
            },
            Entry::ArgumentsDelta { call, delta } => {
                Event::ToolArgumentsDelta { call_id: id_of(call), delta: draft.arguments(delta) }
            }
            Entry::ToolStarted { call } => draft.tool_started(call),
            Entry::ToolCompleted { call } => draft.tool_completed(call),
            Entry::Feedback { call, reason, attempt, .. } => Event::Feedback {
                call_id: call.map(id_of),
                reason,
                message: &draft.said,
                attempt,
            },
            Entry::Status(_) => Event::Status { message: &draft.said },
            Entry::LoopLimitReached => {
                Event::LoopLimitReached { max_tool_loops: self.max_tool_loops }
            }
            Entry::Completed(finish_reason) => {
                Event::TurnCompleted { finish_reason, summary: self.summary() }
            }
            Entry::Failed { code, retryable, .. } => Event::TurnFailed {
                code,
                message: &draft.said,
                retryable,
                summary: self.summary(),
            },
            Entry::StartRound(_)
            | Entry::StopRound
            | Entry::StartTool { .. }
            | Entry::StopTools => unreachable!("poll has returned these"),
        })
    }
}

/// Rounds.
impl Turn {
    fn start_round(&mut self) {
        let (form, closing, tools) = match self.synthesis {
            None => (self.request.form, None, offered(&self.request.tools)),
            Some(_) => (Form::Words, Some(prompt::SYNTHESIS), Vec::new()),
        };
        let rendering = Rendering {
            form,
            marker: &self.rules.parser.marker,
            budget: self.rules.context_budget_tokens,
        };
        let system = match self.synthesis {
            None => &self.system,
            Some(_) => &self.rules.system_prompt,
        };
        let messages =
            render::messages(system, &self.request.history, &self.record, closing, rendering);
        let request = RoundRequest { messages, sampling: self.sampling(), tools };
        self.draft.begin_round();
        self.finish = None;
        self.state =
            if self.synthesis.is_some() { State::Synthesizing } else { State::Planning };
        self.between_rounds = true;
        self.draft.queue.push_back(Entry::StartRound(Box::new(request)));
    }

    /// Each mistake makes the model a little warmer, so that it does not repeat
    /// itself.
    fn sampling(&self) -> Sampling {
        /// Where a model's temperature is not known: what servers default to.
        const USUAL_TEMPERATURE: f64 = 0.7;
        /// Beyond this, small models write noise.
        const TEMPERATURE_MAX: f64 = 1.5;

        let mut sampling = self.request.sampling.clone();
        let mistakes = self.mistakes.total();
        if mistakes > 0 {
            let base = sampling.temperature.unwrap_or(USUAL_TEMPERATURE);
            let warmer = self.rules.temperature_step.mul_add(f64::from(mistakes), base);
            sampling.temperature = Some(warmer.min(TEMPERATURE_MAX).max(base));
        }
        sampling
    }

    fn take_delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                let (draft, takes_calls) = (&mut self.draft, self.synthesis.is_none());
                self.parser.push_str(text, |segment| draft.take(segment, takes_calls));
                self.bytes += text.len();
                if takes_calls && !draft.round_calls().is_empty() {
                    self.after_calls();
                }
            }
            Delta::Reasoning(text) => {
                self.draft.push_reasoning(text);
                self.bytes += text.len();
            }
            Delta::Finish(finish) => self.finish = Some(finish),
            Delta::Usage(usage) => self.round_usage = usage,
        }
        if self.bytes > self.rules.max_turn_bytes {
            let message = format!(
                "the model wrote more than limits.max_turn_bytes ({}) in one turn; lower \
                 sampling.max_tokens or raise the limit",
                self.rules.max_turn_bytes
            );
            self.finish_parsing();
            self.fail(FailureCode::TurnTooLarge, message, false);
        }
    }

    /// Looks at what the round has written since calls appeared in it.
    fn after_calls(&mut self) {
        self.check_new_calls();
        self.start_waiting_calls(false);
        let invents_results = self
            .draft
            .text_behind_call()
            .is_some_and(|text| text.trim_start().starts_with(RESULTS_HEADING));
        if invents_results {
            self.draft.queue.push_back(Entry::StopRound);
            self.end_round();
        }
    }

    /// Hands out what the parser still holds.
    fn finish_parsing(&mut self) {
        if matches!(self.state, State::Planning | State::Synthesizing) {
            let (draft, takes_calls) = (&mut self.draft, self.synthesis.is_none());
            self.parser.finish(|segment| draft.take(segment, takes_calls));
        }
    }

    fn end_round(&mut self) {
        self.finish_parsing();
        self.usage += std::mem::take(&mut self.round_usage);
        if self.state == State::Synthesizing {
            self.end_synthesis();
            return;
        }
        self.state = State::Executing;
        self.check_new_calls();
        self.start_waiting_calls(true);
        self.end_step_if_done();
    }

    fn end_synthesis(&mut self) {
        if self.draft.stray_marker {
            let message = "the model tried to call a tool in its closing answer; it was not run";
            self.draft.queue.push_back(Entry::Status(message.to_owned()));
        }
        if self.draft.has_words() {
            self.complete(self.synthesis.unwrap_or(TurnFinish::Stop));
        } else {
            self.fail_empty();
        }
    }
}

/// Calls.
impl Turn {
    /// Reads the calls that have become whole.
    fn check_new_calls(&mut self) {
        for at in self.draft.round_calls() {
            if matches!(self.draft.calls[at].state, CallState::Complete { .. }) {
                self.check_call(at);
            }
        }
    }

    fn check_call(&mut self, at: usize) {
        if at >= self.rules.max_calls as usize {
            let reason = format!("this turn may make {} calls and has made them", at);
            self.draft.end_call(at, Outcome::Skipped(reason), 0, 0);
            self.synthesis.get_or_insert(TurnFinish::Stop);
            return;
        }
        let CallState::Complete { name, arguments } = &self.draft.calls[at].state else { return };
        match self.request.tools.check(name, arguments.as_str()) {
            Ok(checked) => {
                let (name, arguments) = (name.clone(), arguments.clone());
                self.draft.calls[at].state = CallState::Waiting { name, arguments, checked };
            }
            Err(refusal) => {
                let (reason, message) = match &refusal {
                    CallRefusal::NotFound { .. } => {
                        (FeedbackReason::ToolNotFound, feedback::tool_not_found(&refusal))
                    }
                    CallRefusal::Invalid { .. } => (
                        FeedbackReason::InvalidArguments,
                        feedback::invalid_arguments(name, &refusal),
                    ),
                };
                let result = ToolResult::error(message.clone());
                self.draft.end_call(at, Outcome::Ended(result), 0, 0);
                self.feed_back(Some(at), reason, message);
            }
        }
    }

    fn start_waiting_calls(&mut self, round_over: bool) {
        loop {
            let calls = self.draft.round_calls();
            let Some(at) = chain::next_to_start(
                &self.draft.calls[calls.clone()],
                calls.start,
                self.rules.execution,
                round_over,
                self.rules.max_parallel,
            ) else {
                return;
            };
            let state = std::mem::replace(&mut self.draft.calls[at].state, CallState::Malformed);
            let CallState::Waiting { name, arguments, checked } = state else {
                unreachable!("next_to_start names waiting calls");
            };
            self.draft.calls[at].state = CallState::Running { name, arguments };
            self.draft.queue.push_back(Entry::ToolStarted { call: at });
            self.draft.queue.push_back(Entry::StartTool { call: at, arguments: checked });
        }
    }

    fn end_tool(&mut self, at: usize, result: ToolResult, duration_ms: u64, attempts: u32) {
        let running = |call: &super::draft::CallDraft| matches!(call.state, CallState::Running { .. });
        if !self.draft.calls.get(at).is_some_and(running) {
            return;
        }
        let failure = result.error.clone();
        self.draft.end_call(at, Outcome::Ended(result), duration_ms, attempts);
        self.draft.queue.push_back(Entry::ToolCompleted { call: at });
        if let Some(error) = failure {
            let message = feedback::tool_failed(self.draft.name_of(at), &error);
            self.feed_back(Some(at), FeedbackReason::ToolFailed, message);
        }
        self.start_waiting_calls(self.state == State::Executing);
        self.end_step_if_done();
    }

    /// Counts a mistake and says so; too many of one kind, and the model is asked
    /// for an answer without tools.
    fn feed_back(&mut self, call: Option<usize>, reason: FeedbackReason, message: String) {
        let attempt = self.mistakes.count(reason);
        if attempt >= self.rules.feedback_attempts {
            self.synthesis.get_or_insert(TurnFinish::Stop);
        }
        self.draft.queue.push_back(Entry::Feedback { call, reason, message, attempt });
    }
}

/// Steps and the end.
impl Turn {
    /// Ends the step when its message is over and nothing of it is open.
    fn end_step_if_done(&mut self) {
        let open = |at: usize| self.draft.calls[at].state.is_open();
        if self.state != State::Executing || self.draft.round_calls().any(open) {
            return;
        }
        let notes = self.take_notes();
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
        let only_calls = notes.is_empty();
        self.push_step(notes);
        if only_calls && !self.rules.continue_after_tool {
            self.finish_turn(TurnFinish::Stop);
            return;
        }
        self.next_round();
    }

    /// What the model is told about the mistakes that the parser found.
    fn take_notes(&mut self) -> Vec<Note> {
        let cut = self.finish == Some(RoundFinish::Length);
        let mistakes = std::mem::take(&mut self.draft.mistakes);
        let mut notes = Vec::with_capacity(mistakes.len());
        for Mistake { call, error } in mistakes {
            let (reason, message) = feedback::malformed(&error, &self.rules.parser, cut);
            notes.push(Note { reason, message: message.clone() });
            self.feed_back(call, reason, message);
        }
        notes
    }

    fn next_round(&mut self) {
        if self.synthesis.is_none() && self.draft.round >= self.max_tool_loops {
            self.draft.queue.push_back(Entry::LoopLimitReached);
            self.synthesis = Some(TurnFinish::LoopLimit);
        }
        self.start_round();
    }

    /// Nothing was said and nothing called: the model is asked again, then given up.
    fn nudge(&mut self) {
        let reason = FeedbackReason::EmptyResponse;
        let message = feedback::EMPTY_RESPONSE.to_owned();
        let attempt = self.mistakes.count(reason);
        if attempt >= self.rules.feedback_attempts {
            self.fail_empty();
            return;
        }
        let status = "the model said nothing; asking it again".to_owned();
        self.draft.queue.push_back(Entry::Status(status));
        let note = Note { reason, message: message.clone() };
        self.draft.queue.push_back(Entry::Feedback { call: None, reason, message, attempt });
        self.push_step(vec![note]);
        self.next_round();
    }

    fn push_step(&mut self, notes: Vec<Note>) {
        let step = self.draft.take_step(notes);
        if !step.parts.is_empty() || !step.notes.is_empty() {
            self.record.steps.push(step);
        }
    }

    fn complete(&mut self, finish: TurnFinish) {
        self.push_step(Vec::new());
        self.finish_turn(finish);
    }

    fn finish_turn(&mut self, finish: TurnFinish) {
        self.usage += std::mem::take(&mut self.round_usage);
        self.record.ending = Ending::Completed(finish);
        self.state = State::Ended;
        self.draft.queue.push_back(Entry::Completed(finish));
    }

    fn fail_empty(&mut self) {
        let message = "the model kept answering with nothing; try a larger model, a shorter \
                       prompt, or fewer tools";
        self.fail(FailureCode::EmptyResponse, message.to_owned(), true);
    }

    fn fail(&mut self, code: FailureCode, message: String, retryable: bool) {
        self.stop_all();
        self.push_step(Vec::new());
        self.usage += std::mem::take(&mut self.round_usage);
        self.record.ending = Ending::Failed(code);
        self.state = State::Ended;
        self.draft.queue.push_back(Entry::Failed { code, message, retryable });
    }

    fn stop_all(&mut self) {
        self.draft.queue.push_back(Entry::StopRound);
        self.draft.queue.push_back(Entry::StopTools);
    }
}

impl Draft {
    fn tool_started(&self, at: usize) -> Event<'_> {
        let draft = &self.calls[at];
        let (tool_name, arguments) =
            draft.state.call().expect("a call that was started is whole");
        Event::ToolStarted {
            call_id: &draft.call_id,
            tool_name,
            tool_args: arguments.as_raw(),
            r#loop: draft.round,
        }
    }

    fn tool_completed(&self, at: usize) -> Event<'_> {
        let draft = &self.calls[at];
        let CallState::Ended { call, duration_ms, attempts } = &draft.state else {
            unreachable!("only an ended call is queued as completed");
        };
        Event::ToolCompleted {
            call_id: &draft.call_id,
            tool_name: &call.name,
            tool_result: result_of(call).expect("a tool that ran left a result"),
            duration_ms: *duration_ms,
            attempts: *attempts,
        }
    }

    /// A whole call's name.
    fn name_of(&self, at: usize) -> &str {
        self.calls[at].state.call().map_or("", |(name, _)| name)
    }
}

fn offered(tools: &Registry) -> Vec<OfferedTool> {
    tools
        .specs()
        .map(|spec| OfferedTool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
