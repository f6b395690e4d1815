//! The I/O of a turn: one task, one loop, no policy.
//!
//! Each time the task wakes up, it takes all that is ready, runs it through the turn machine and
//! publishes the results at once, so text that arrived together leaves together. This is a
//! hand-written `poll` rather than a `select!`, which would poll twice per token: once to take it
//! and once to find nothing after it.

use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep, Timeout, sleep_until, timeout};
use tracing::Instrument as _;

use super::call::CalledTool;
use super::meter::{Meter, TurnReport};
use super::parked_calls::ParkedCalls;
use super::running_tools::{Caller, News, RunningTools, ToolStart};
use super::turn::{Input, Output, TurnMachine};
use crate::conversation;
use crate::event::Event;
use crate::limits::turn::CANCEL_TIMEOUT;
use crate::session::{Artifacts, Barrier, Writer};
use crate::telemetry::millis;
use crate::tools::Registry;
use crate::tools::run::{Run, RunEnd};
use crate::trace_context::TraceContext;
use crate::upstream::{Fallback, Opened, Round, RoundFailure, RoundRequest, Route};

/// What the driver needs for a turn.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The id under which its session is kept.
    pub(crate) session_id: Arc<str>,
    /// The session in which its calls wait for answers.
    pub(crate) parked_in: Arc<str>,
    /// The machine, newly created.
    pub(crate) turn: TurnMachine,
    /// Where its events go.
    pub(crate) writer: Writer,
    /// The models that may answer.
    pub(crate) route: Route,
    /// The tools that the turn's briefing offers.
    pub(crate) tools: Arc<Registry>,
    /// Time limit for tools that set none of their own.
    pub(crate) tool_timeout: Duration,
    /// The calls that wait for answers.
    pub(crate) parked: ParkedCalls,
    /// Where the files of tools are kept.
    pub(crate) artifacts: Artifacts,
    /// The trace that the turn belongs to.
    pub(crate) trace: Option<TraceContext>,
}

/// A turn that is over.
#[derive(Debug)]
pub(crate) struct RanTurn {
    /// The turn for the history.
    pub(crate) record: conversation::Turn,
    /// What was said in it.
    pub(crate) text: String,
    /// Where its events went. The last one is not published yet.
    pub(crate) writer: Writer,
    /// The turn's count and log line. Publish it unless another gateway has taken over.
    pub(crate) report: TurnReport,
}

type Opening = Pin<Box<dyn Future<Output = Result<Opened, RoundFailure>> + Send>>;

enum RoundState {
    None,
    Opening(Opening),
    Open(Box<Round>),
}

/// Opens a round. Images are loaded only if an upstream may show them to its model.
async fn open(
    route: Route,
    mut request: RoundRequest,
    artifacts: Artifacts,
    results: Barrier,
) -> Result<Opened, RoundFailure> {
    // No model learns of a result that a killed process would forget.
    results.wait().await;
    if route.may_take_images() {
        request.images = artifacts.images(request.prompt.images()).await;
    }
    route.open(&request).await
}

/// Longest sleep, well below the overflow of clocks. A turn with a later deadline just wakes up in
/// between.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A timer for the turn's next deadline.
struct Timer {
    deadline_ms: u64,
    sleep: Pin<Box<Sleep>>,
}

/// Drives one turn.
///
/// With hundreds of turns, most of this leaves the cache between two tokens of a turn. So what every token needs is
/// side by side, from the end of `tools` to the start of `meter`, and at the starts of `writer` and `turn`:
///
/// ```text
///   [ parked_in | parked | route |   tools   | timer .. needs_pass | meter       | writer       | turn       ]
///                                      '--------- each token ---------'           '------'       '------'
/// ```
/// The types of a turn that are marked `repr(C)` keep the order of their fields for this reason.
#[repr(C)]
pub(crate) struct Driver {
    parked_in: Arc<str>,
    parked: ParkedCalls,
    route: Route,
    tools: RunningTools,
    timer: Option<Timer>,
    round: RoundState,
    /// When the task was woken.
    now: Instant,
    /// Waits until all that is known is stored, because another gateway is to go on with the turn.
    leaving: Option<Pin<Box<Timeout<BoxFuture<'static, ()>>>>>,
    /// Whether another pass is needed: something was started, or the machine may wait for something
    /// else now.
    needs_pass: bool,
    meter: Meter,
    writer: Writer,
    turn: TurnMachine,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Driver {
    /// Starts the turn. Its first events are in the log when this returns, so that they go out
    /// with the head of the response.
    #[must_use]
    pub(crate) fn new(parts: Parts) -> Self {
        let (parked, parked_in, trace) = (parts.parked, parts.parked_in, parts.trace);
        let Parts { turn, session_id, writer, route, tools, tool_timeout, artifacts, .. } = parts;
        let (turn_id, words_only) = (turn.turn_id(), turn.words_only());
        let caller = Caller { session: session_id, turn_id, words_only };
        let mut driver = Self {
            tools: RunningTools::new(tools, artifacts, tool_timeout, caller),
            parked_in,
            turn,
            writer,
            route,
            parked,
            round: RoundState::None,
            timer: None,
            meter: Meter::new(trace.as_ref()),
            now: Instant::now(),
            needs_pass: false,
            leaving: None,
        };
        let (turn, tally) = (driver.turn.so_far(), driver.turn.tally());
        driver.writer.note_journal(turn, tally, driver.turn.steps_end());
        driver.run_outputs();
        driver.publish_state();
        driver.writer.publish_at(driver.now);
        driver
    }

    /// Drives the turn, which is taken at its end. Returns the turn for the history, and the writer with
    /// the last event still unpublished: a client may ask for the next turn as soon as it reads that
    /// event, so the session has to be free by then.
    ///
    /// Dropping a driver drops the upstream connection and all running tools. The log then ends with a
    /// failure. What is returned is boxed, because a poll that returns nothing else copies the room for it.
    ///
    /// # Errors
    /// The writer alone, if another gateway is to go on with the turn.
    pub(crate) fn poll_run(
        running: &mut Option<Box<Self>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Box<RanTurn>, Box<Writer>>> {
        if let Some(driver) = running {
            ready!(driver.poll(cx));
        }
        running.take().map_or(Poll::Pending, |driver| Poll::Ready(driver.end()))
    }

    /// What is left when the turn is over, or another gateway is to go on with it.
    fn end(mut self: Box<Self>) -> Result<Box<RanTurn>, Box<Writer>> {
        if self.leaving.is_some() {
            return Err(Box::new(self.writer));
        }
        let waiting = self.tools.take_parked();
        let report = self.meter.end_turn(&self.turn);
        let text = self.turn.take_text();
        let record = self.turn.into_record();
        for call in waiting {
            let asked = record.questions.iter().find(|asked| asked.call_id == call.call_id);
            if let Some(asked) = asked {
                self.parked.park(&self.parked_in, &asked.clarification_id, call);
            }
        }
        Ok(Box::new(RanTurn { record, text, writer: self.writer, report }))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.leaving.is_some() {
            return self.poll_leaving(cx);
        }
        self.update_clock();
        loop {
            self.needs_pass = false;
            if self.take_audience(cx).is_break() {
                self.leave(cx);
                return self.poll_leaving(cx);
            }
            self.take_round(cx);
            self.take_tools(cx);
            self.take_timer(cx);
            self.run_outputs();
            self.turn.handle(Input::Logged(self.writer.bytes()));
            self.run_outputs();
            self.publish_state();
            if self.turn.is_over() {
                return Poll::Ready(());
            }
            self.writer.publish_at(self.now);
            if !self.needs_pass {
                return Poll::Pending;
            }
        }
    }

    fn update_clock(&mut self) {
        self.now = Instant::now();
        let passed = millis(self.now - self.meter.begun());
        self.turn.set_now(self.turn.begun_at_ms().saturating_add(passed));
    }

    /// Publishes a new state. The session publishes the final one, once it is free.
    fn publish_state(&mut self) {
        let state = self.turn.state();
        if self.meter.note_state(state) && !state.is_over() {
            self.writer.log().set_turn_state(state);
        }
    }

    /// Carries out the machine's outputs.
    fn run_outputs(&mut self) {
        while let Some(output) = self.turn.poll() {
            match output {
                Output::Event(event) => {
                    self.writer.push(&event);
                    self.meter.note_event(&event);
                }
                Output::StartRound(mut request) => {
                    let first = self.route.first(request.asked_first);
                    request.trace = self.meter.begin_round(&request, first);
                    let (route, span) = (self.route.clone(), self.meter.span().clone());
                    self.writer.note_journal(self.turn.so_far(), self.turn.tally(), None);
                    let opening = open(
                        route,
                        *request,
                        self.tools.artifacts().clone(),
                        self.writer.barrier(),
                    );
                    let opening = opening.instrument(span);
                    self.round = RoundState::Opening(Box::pin(opening));
                    self.needs_pass = true;
                }
                Output::StopRound => {
                    if !matches!(self.round, RoundState::None) {
                        self.drop_round();
                        self.meter.end_round("stopped", None);
                    }
                }
                Output::StartTool { call, call_id, name, position, arguments, resumption } => {
                    let call = CalledTool { call, call_id, name };
                    let traced = || self.tools.traced(name);
                    let (span, trace) = self.meter.begin_tool(call, position, traced);
                    let stored = self.writer.barrier();
                    let start = ToolStart { arguments, resumption, stored, span, trace };
                    self.tools.start(call, start);
                    self.needs_pass = true;
                }
                Output::ResumeTool { call, call_id, name, parked_as, given } => {
                    let parked = self.parked.take(&self.parked_in, parked_as);
                    let call = CalledTool { call, call_id, name };
                    self.meter.resume_tool(call, || self.tools.traced(name));
                    self.tools.resume(call, parked, given);
                    self.needs_pass = true;
                }
                Output::ParkTool { call } => self.tools.park(call),
                Output::StopTool { call } => {
                    self.meter.stop_tool(call);
                    self.tools.stop(call);
                }
                Output::StopTools => {
                    self.meter.stop_tools(self.tools.len());
                    self.tools.stop_all();
                }
                Output::Log(line) => self.meter.note(line),
            }
        }
    }

    /// Passes on cancellation, and whether anyone is reading. Breaks off if another gateway is to go on.
    fn take_audience(&mut self, cx: &Context<'_>) -> ControlFlow<()> {
        let audience = self.writer.log().watch_audience(cx);
        if audience.is_left {
            return ControlFlow::Break(());
        }
        if audience.cancelled {
            self.turn.handle(Input::Cancel);
            // Nothing is asked of a model or a tool any more, not even what was about to be.
            self.run_outputs();
        }
        if audience.has_store_failed {
            self.turn.handle(Input::StoreLost);
        }
        self.turn.handle(Input::Audience { is_present: audience.readers > 0 });
        ControlFlow::Continue(())
    }

    /// Leaves the turn to another gateway: keeps what its tools have returned, because otherwise nobody would know what they
    /// have done. Nothing begins any more.
    fn leave(&mut self, cx: &mut Context<'_>) {
        // Tools that have ended come first, with one report at most before their end.
        for _ in 0..=2 * self.tools.len() {
            let Poll::Ready(news) = self.tools.poll(cx) else { break };
            if let News::Ended { call, run, duration, .. } = news {
                let (Run { result, attempts, .. }, duration_ms) = (run, millis(duration));
                let ended = Input::ToolEnded { call, result, duration_ms, attempts };
                self.turn.handle(ended);
                self.keep_results();
            }
        }
        self.tools.stop_all();
        self.writer.publish_at(self.now);
        let stored: BoxFuture<'static, ()> = Box::pin(self.writer.barrier().wait());
        self.leaving = Some(Box::pin(timeout(CANCEL_TIMEOUT / 2, stored)));
    }

    /// Of what the machine would do next, only tells what calls have come to.
    fn keep_results(&mut self) {
        while let Some(output) = self.turn.poll() {
            if let Output::Event(event @ Event::ToolCompleted { .. }) = output {
                self.writer.push(&event);
            }
        }
    }

    /// Ready once everything is stored, or the store does not answer.
    fn poll_leaving(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(leaving) = &mut self.leaving else { return Poll::Ready(()) };
        if self.writer.log().watch_audience(cx).has_store_failed {
            return Poll::Ready(());
        }
        leaving.as_mut().poll(cx).map(drop)
    }

    fn take_timer(&mut self, cx: &mut Context<'_>) {
        let Some(deadline_ms) = self.turn.deadline_ms() else {
            self.timer = None;
            return;
        };
        if self.timer.as_ref().is_none_or(|timer| timer.deadline_ms != deadline_ms) {
            let wait = Duration::from_millis(deadline_ms.saturating_sub(self.turn.begun_at_ms()));
            let at = self.meter.begun() + wait.min(WAIT_MAX);
            self.timer = Some(Timer { deadline_ms, sleep: Box::pin(sleep_until(at)) });
        }
        if let Some(timer) = &mut self.timer
            && timer.sleep.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            self.update_clock();
            self.turn.handle(Input::Tick);
            self.needs_pass = true;
        }
    }

    fn take_round(&mut self, cx: &mut Context<'_>) {
        if let RoundState::Opening(opening) = &mut self.round {
            match opening.as_mut().poll(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(Opened { round, upstream, fallback })) => {
                    self.meter.note_answering(&upstream);
                    let (contract, in_reasoning) = (round.contract(), round.starts_in_reasoning());
                    let is_prefilled = round.is_prefilled();
                    self.turn.handle(Input::Answered { contract, in_reasoning, is_prefilled });
                    self.round = RoundState::Open(Box::new(round));
                    if let Some(Fallback { place, name: answering, why }) = fallback {
                        self.meter.note_rerouting(&answering);
                        self.turn.handle(Input::Rerouted { place, answering, why });
                        self.needs_pass = true;
                    }
                }
                Poll::Ready(Err(failure)) => return self.end_round(Err(failure)),
            }
        }
        let RoundState::Open(round) = &mut self.round else { return };
        let (turn, meter) = (&mut self.turn, &mut self.meter);
        let mut more = false;
        let ended = round.poll(cx, self.now, &mut more, |delta| {
            meter.note_delta(&delta);
            turn.handle(Input::Delta(delta));
        });
        match ended {
            Poll::Ready(outcome) => self.end_round(outcome),
            // A flood: let other tasks run before taking the rest.
            Poll::Pending if more => cx.waker().wake_by_ref(),
            Poll::Pending => {}
        }
    }

    /// Drops the round, which ends its connection or its request.
    fn drop_round(&mut self) {
        if let RoundState::Open(round) = std::mem::replace(&mut self.round, RoundState::None) {
            self.meter.note_model(round.model());
        }
    }

    fn end_round(&mut self, outcome: Result<(), RoundFailure>) {
        self.drop_round();
        self.needs_pass = true;
        self.turn.handle(match outcome {
            Ok(()) => {
                self.meter.complete_round();
                Input::RoundEnded
            }
            Err(RoundFailure { code, message, retryable, .. }) => {
                self.meter.end_round(code.name(), Some(&message));
                Input::RoundFailed { code, message, retryable }
            }
        });
    }

    fn take_tools(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(news) = self.tools.poll(cx) {
            let input = match news {
                News::Progressed { call, progress, attempt } => {
                    self.turn.handle(Input::ToolProgressed { call, progress, attempt });
                    // A tool may report without pause: let other tasks run before the next report.
                    return cx.waker().wake_by_ref();
                }
                News::Asked { call, name, question, continuation, duration, attempts } => {
                    let source = self.tools.source(&name);
                    self.meter.end_tool(call, &source, name, RunEnd::Done, duration);
                    let duration_ms = millis(duration);
                    Input::ToolAsked { call, question, continuation, duration_ms, attempts }
                }
                News::Ended { call, name, run, duration } => {
                    let Run { result, end, attempts } = run;
                    let source = self.tools.source(&name);
                    self.meter.end_tool(call, &source, name, end, duration);
                    let duration_ms = millis(duration);
                    Input::ToolEnded { call, result, duration_ms, attempts }
                }
            };
            self.turn.handle(input);
            self.needs_pass = true;
        }
    }
}
