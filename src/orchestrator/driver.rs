//! The I/O of a turn: one task, one loop, no policy.
//!
//! Each wake-up of the task takes all that is ready, runs it through the turn
//! machine, and publishes what came of it at once: text that arrived together
//! leaves together. It is written as one `poll` and not as a `select!`, because a
//! token would otherwise be polled for twice, once to take it and once more to
//! find that there is none behind it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{Instrument as _, Span, debug, info_span};

use super::call::CallAt;
use super::turn::{Input, Output, Turn};
use crate::conversation;
use crate::event::{Event, TurnState};
use crate::session::Writer;
use crate::telemetry::metrics::{self, Gauged};
use crate::telemetry::millis;
use crate::tools::run::{self, Run};
use crate::upstream::{Delta, Opened, Round, RoundFailure, RoundFinish, RoundRequest, Route};

/// What a turn is driven with.
#[derive(Debug)]
pub struct Parts {
    /// The machine, just begun.
    pub turn: Turn,
    /// Where its events go.
    pub writer: Writer,
    /// The models that may answer.
    pub route: Route,
    /// Longest run of a tool that has no limit of its own.
    pub tool_timeout: Duration,
    /// How long the turn goes on when nobody reads it.
    pub disconnect_grace: Duration,
}

type Opening = Pin<Box<dyn Future<Output = Result<Opened, RoundFailure>> + Send>>;

enum RoundState {
    None,
    Opening(Opening),
    Open(Box<Round>),
}

/// A tool that ended, with the call that it was run for.
struct Ended {
    call: CallAt,
    name: String,
    run: Run,
    duration: Duration,
}

/// A turn that is being driven.
pub struct Driver {
    turn: Turn,
    /// Names the turn's calls to the tools: unique, as the turn is.
    turn_id: String,
    /// The turn's state as it was told last, and its place among those that run.
    state: Option<TurnState>,
    running: Option<Gauged>,
    writer: Writer,
    route: Route,
    tool_timeout: Duration,
    disconnect_grace: Duration,
    round: RoundState,
    calls: JoinSet<Ended>,
    /// Runs while nobody reads the log.
    abandoned: Option<Pin<Box<Sleep>>>,
    /// What the machine wants to be told of.
    timer: Option<Pin<Box<Sleep>>>,
    begun: Instant,
    /// When the last round was asked for, how its model has finished, and when it was over.
    round_begun: Instant,
    finish: Option<RoundFinish>,
    silent_since: Option<Instant>,
    /// Rounds so far, and the span of the last.
    rounds: u32,
    span: Span,
    /// Whether something was started that has not been polled yet.
    unpolled: bool,
    /// Whether the model has said anything yet.
    spoke: bool,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Driver {
    /// Begins to drive a turn. Its first events are in the log when this returns,
    /// so that they go out with the head of the answer.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { turn, writer, route, tool_timeout, disconnect_grace } = parts;
        let mut driver = Self {
            turn_id: turn.turn_id().to_owned(),
            turn,
            state: None,
            running: None,
            writer,
            route,
            tool_timeout,
            disconnect_grace,
            round: RoundState::None,
            calls: JoinSet::new(),
            abandoned: None,
            timer: None,
            begun: Instant::now(),
            round_begun: Instant::now(),
            finish: None,
            silent_since: None,
            rounds: 0,
            span: info_span!("round", r#loop = 0),
            unpolled: false,
            spoke: false,
        };
        driver.act();
        driver.tell_state();
        driver.writer.publish();
        driver
    }

    /// Drives the turn to its end. Returns it as it goes into the history, and the
    /// writer with the last event still unpublished: a client that reads it may
    /// ask for the next turn at once, so the session has to be free by then.
    ///
    /// Dropping the future drops the upstream's connection and all running tools;
    /// the log then ends with a failure.
    pub async fn run(mut self) -> (conversation::Turn, Writer) {
        poll_fn(|cx| self.poll(cx)).await;
        self.report();
        (self.turn.into_record(), self.writer)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.unpolled = true;
        let now_ms = self.turn.started_at_ms().saturating_add(millis(self.begun.elapsed()));
        self.turn.set_now(now_ms);
        loop {
            self.act();
            self.turn.handle(Input::Logged(self.writer.bytes()));
            self.act();
            self.tell_state();
            if self.turn.is_over() {
                return Poll::Ready(());
            }
            self.writer.publish();
            if !std::mem::take(&mut self.unpolled) {
                return Poll::Pending;
            }
            self.take_audience(cx);
            self.take_round(cx);
            self.take_calls(cx);
            self.take_timer(cx);
        }
    }

    fn take_timer(&mut self, cx: &mut Context<'_>) {
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            self.turn.handle(Input::TimerEnded);
            self.unpolled = true;
        }
    }

    /// Tells a new state. Of the last one the session tells, once it is free.
    fn tell_state(&mut self) {
        let state = self.turn.state();
        if self.state.replace(state) == Some(state) {
            return;
        }
        debug!(state = state.name(), "the turn's state has changed");
        self.running = None;
        if !state.is_over() {
            self.running = Some(metrics::turn_running(state));
            self.writer.log().set_turn_state(state);
        }
    }

    /// Does what the machine wants done.
    fn act(&mut self) {
        while let Some(output) = self.turn.poll() {
            match output {
                Output::Event(event) => {
                    self.writer.push(&event);
                    self.span.in_scope(|| note(&event));
                }
                Output::StartRound(request) => self.open_round(*request),
                Output::StopRound => self.stop_round(),
                Output::StartTool { call, call_id, tool, name, position, arguments } => {
                    let key = Arc::from(format!("{}/{call_id}", self.turn_id));
                    let run = run::run(Arc::clone(tool), arguments, key, self.tool_timeout);
                    let span =
                        info_span!(parent: &self.span, "tool", call_id, tool = name, position);
                    span.in_scope(|| debug!("tool begins"));
                    self.calls.spawn(ended(call, name.to_owned(), run).instrument(span));
                    self.unpolled = true;
                }
                Output::StartTimer(duration) => {
                    self.timer = Some(Box::pin(sleep(duration)));
                    self.unpolled = true;
                }
                Output::NotRun { call_id, name, position, why } => {
                    self.span.in_scope(|| {
                        let outcome = why.name();
                        debug!(call_id, tool = name, position, outcome, "call is not run");
                    });
                    metrics::call_not_run(why.name());
                }
                Output::SaidNothing => {
                    self.span.in_scope(|| debug!("the model has said nothing"));
                    metrics::empty_answer();
                }
                Output::StopTools => {
                    if !self.calls.is_empty() {
                        let running = self.calls.len();
                        self.span.in_scope(|| debug!(running, "tools are stopped"));
                    }
                    self.calls.abort_all();
                }
            }
        }
    }

    fn open_round(&mut self, request: RoundRequest) {
        self.rounds += 1;
        (self.round_begun, self.finish) = (Instant::now(), None);
        self.silent_since = None;
        self.span = info_span!("round", r#loop = self.rounds);
        self.span.in_scope(|| debug!("round begins"));
        let route = self.route.clone();
        let opening = async move { route.open(&request).await };
        self.round = RoundState::Opening(Box::pin(opening.instrument(self.span.clone())));
        self.unpolled = true;
    }

    fn stop_round(&mut self) {
        if !matches!(self.round, RoundState::None) {
            self.note_round("stopped", None);
        }
        self.round = RoundState::None;
        self.silent_since = Some(Instant::now());
    }

    /// The one line that a round's end leaves in the log.
    fn note_round(&self, outcome: &'static str, reason: Option<&str>) {
        let duration_ms = millis(self.round_begun.elapsed());
        self.span.in_scope(|| debug!(outcome, duration_ms, reason, "round ended"));
    }

    /// Notices who cancels, and that nobody is there any more.
    fn take_audience(&mut self, cx: &mut Context<'_>) {
        let audience = self.writer.log().watch_audience(cx);
        if audience.cancelled {
            self.turn.handle(Input::Cancel);
        } else if audience.readers > 0 {
            self.abandoned = None;
        } else {
            let grace = self.disconnect_grace;
            let abandoned = self.abandoned.get_or_insert_with(|| Box::pin(sleep(grace)));
            if abandoned.as_mut().poll(cx).is_ready() {
                debug!("nobody has re-joined in time");
                self.turn.handle(Input::Cancel);
            }
        }
    }

    fn take_round(&mut self, cx: &mut Context<'_>) {
        if let RoundState::Opening(opening) = &mut self.round {
            match opening.as_mut().poll(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(Opened { round, instead })) => {
                    if let Some((place, why)) = instead {
                        // It stays with the turn: who could not be reached is not waited
                        // for in each of its rounds.
                        let answering = self.route.prefer(place).to_owned();
                        self.span.in_scope(|| debug!(%answering, "another upstream answers"));
                        self.turn.handle(Input::Rerouted { answering, why });
                        self.unpolled = true;
                    }
                    self.round = RoundState::Open(Box::new(round));
                }
                Poll::Ready(Err(failure)) => return self.end_round(Err(failure)),
            }
        }
        let RoundState::Open(round) = &mut self.round else { return };
        let turn = &mut self.turn;
        let mut more = false;
        let (spoke, begun, finish) = (&mut self.spoke, self.begun, &mut self.finish);
        let ended = round.poll(cx, &mut more, |delta| {
            if delta.is_said() && !std::mem::replace(spoke, true) {
                metrics::first_delta(begun.elapsed());
            }
            if let Delta::Finish(why) = delta {
                *finish = Some(why);
            }
            turn.handle(Input::Delta(delta));
        });
        match ended {
            Poll::Ready(outcome) => self.end_round(outcome),
            // A flood: let others run before the rest of it is taken.
            Poll::Pending if more => cx.waker().wake_by_ref(),
            Poll::Pending => {}
        }
    }

    fn end_round(&mut self, outcome: Result<(), RoundFailure>) {
        self.round = RoundState::None;
        self.silent_since = Some(Instant::now());
        self.unpolled = true;
        self.turn.handle(match outcome {
            Ok(()) => {
                self.note_round(self.finish.map_or("unknown", RoundFinish::name), None);
                Input::RoundEnded
            }
            Err(RoundFailure { code, message, retryable, .. }) => {
                self.note_round(code.name(), Some(&message));
                Input::RoundFailed { code, message, retryable }
            }
        });
    }

    fn take_calls(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.calls.poll_join_next(cx) {
            // What was aborted has no result, and nobody waits for one.
            let Ok(Ended { call, name, run: Run { result, end, attempts, .. }, duration }) = ended
            else {
                continue;
            };
            metrics::tool_ended(name, end.name(), duration);
            let duration_ms = millis(duration);
            // What of it passed while the model still wrote cost nobody any time.
            let waited = self.silent_since.map_or(Duration::ZERO, |since| since.elapsed());
            metrics::tool_hidden(duration.saturating_sub(waited));
            self.turn.handle(Input::ToolEnded { call, result, duration_ms, attempts });
            self.unpolled = true;
        }
    }

    /// The one line that a turn leaves in the log.
    fn report(&self) {
        let summary = self.turn.summary();
        let duration = self.begun.elapsed();
        metrics::turn_ended(self.turn.outcome(), summary.loops, duration);
        tracing::info!(
            outcome = self.turn.outcome(),
            loops = summary.loops,
            tool_calls = summary.tool_calls,
            prompt_tokens = summary.usage.prompt_tokens,
            completion_tokens = summary.usage.completion_tokens,
            duration_ms = millis(duration),
            "turn ended"
        );
    }
}

/// Waits for a tool's end.
async fn ended(call: CallAt, name: String, run: impl Future<Output = Run>) -> Ended {
    let begun = Instant::now();
    let run = run.await;
    let duration = begun.elapsed();
    let (outcome, attempts) = (run.end.name(), run.attempts);
    debug!(outcome, attempts, duration_ms = millis(duration), "tool ended");
    Ended { call, name, run, duration }
}

/// Counts and logs what operators look at.
fn note(event: &Event<'_>) {
    match event {
        Event::Acknowledgement { source, .. } => {
            debug!(source = source.name(), "the user hears that work has begun");
        }
        Event::Feedback { call_id, reason, attempt, .. } => {
            debug!(call_id, reason = reason.name(), attempt, "the model is told of a mistake");
            metrics::feedback(reason.name());
        }
        Event::ClarificationNeeded { call_id, tool_name, .. } => {
            debug!(call_id, tool = tool_name, "the user is asked");
            metrics::clarification("asked");
        }
        Event::LoopLimitReached { max_tool_loops } => {
            debug!(max_tool_loops, "the loop cap is reached");
        }
        _ => {}
    }
}
