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

use super::turn::{Input, Output, Turn};
use crate::conversation;
use crate::event::{Event, TurnState};
use crate::session::Writer;
use crate::telemetry::{metrics, millis};
use crate::tools::run::{self, Run};
use crate::upstream::{Opened, Round, RoundFailure, RoundRequest, Route};

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
    call: usize,
    run: Run,
    duration: Duration,
}

/// A turn that is being driven.
pub struct Driver {
    turn: Turn,
    /// Names the turn's calls to the tools: unique, as the turn is.
    turn_id: String,
    /// The turn's state as it was told last.
    state: Option<TurnState>,
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
    /// When the last round was over.
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
            writer,
            route,
            tool_timeout,
            disconnect_grace,
            round: RoundState::None,
            calls: JoinSet::new(),
            abandoned: None,
            timer: None,
            begun: Instant::now(),
            silent_since: None,
            rounds: 0,
            span: Span::none(),
            unpolled: false,
            spoke: false,
        };
        driver.act();
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
        if !state.is_over() {
            self.writer.log().set_turn_state(state);
        }
    }

    /// Does what the machine wants done.
    fn act(&mut self) {
        while let Some(output) = self.turn.poll() {
            match output {
                Output::Event(event) => {
                    self.writer.push(&event);
                    count(&event);
                }
                Output::StartRound(request) => self.open_round(*request),
                Output::StopRound => {
                    self.round = RoundState::None;
                    self.silent_since = Some(Instant::now());
                }
                Output::StartTool { call, call_id, tool, name, arguments } => {
                    let key = Arc::from(format!("{}/{call_id}", self.turn_id));
                    let run = run::run(Arc::clone(tool), arguments, key, self.tool_timeout);
                    let span = info_span!(parent: &self.span, "tool", call_id, tool = name);
                    span.in_scope(|| debug!("tool begins"));
                    self.calls.spawn(ended(call, run).instrument(span));
                    self.unpolled = true;
                }
                Output::StartTimer(duration) => {
                    self.timer = Some(Box::pin(sleep(duration)));
                    self.unpolled = true;
                }
                Output::NotRun { call_id, name, position, why } => {
                    self.span.in_scope(|| {
                        debug!(call_id, tool = name, position, why = why.name(), "call is not run");
                    });
                    metrics::call_not_run(why.name());
                }
                Output::StopTools => self.calls.abort_all(),
            }
        }
    }

    fn open_round(&mut self, request: RoundRequest) {
        self.rounds += 1;
        self.silent_since = None;
        self.span = info_span!("round", r#loop = self.rounds);
        self.span.in_scope(|| debug!("round begins"));
        let route = self.route.clone();
        let opening = async move { route.open(&request).await };
        self.round = RoundState::Opening(Box::pin(opening.instrument(self.span.clone())));
        self.unpolled = true;
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
                Poll::Ready(Ok(Opened { round, place })) => {
                    if place > 0 {
                        // It stays with the turn: who could not be reached is not waited
                        // for in each of its rounds.
                        let answering = self.route.prefer(place).to_owned();
                        self.turn.handle(Input::Rerouted { answering });
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
        let (spoke, begun) = (&mut self.spoke, self.begun);
        let ended = round.poll(cx, &mut more, |delta| {
            if !std::mem::replace(spoke, true) {
                metrics::first_delta(begun.elapsed());
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
            Ok(()) => Input::RoundEnded,
            Err(RoundFailure { code, message, retryable }) => {
                self.span.in_scope(|| debug!(code = code.name(), %message, "round failed"));
                Input::RoundFailed { code, message, retryable }
            }
        });
    }

    fn take_calls(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(ended)) = self.calls.poll_join_next(cx) {
            // What was aborted has no result, and nobody waits for one.
            let Ok(Ended { call, run: Run { result, attempts, .. }, duration }) = ended else {
                continue;
            };
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
async fn ended(call: usize, run: impl Future<Output = Run>) -> Ended {
    let begun = Instant::now();
    let run = run.await;
    let duration = begun.elapsed();
    let (end, attempts) = (run.end.name(), run.attempts);
    debug!(end, attempts, duration_ms = millis(duration), "tool ended");
    Ended { call, run, duration }
}

/// Counts what operators look at.
fn count(event: &Event<'_>) {
    match event {
        Event::ToolCompleted { tool_name, tool_result, duration_ms, .. } => {
            let duration = Duration::from_millis(*duration_ms);
            metrics::tool_ended(tool_name, tool_result.success, duration);
        }
        Event::Feedback { reason, .. } => metrics::feedback(reason.name()),
        Event::ClarificationNeeded { tool_name, .. } => {
            debug!(tool = tool_name, "the user is asked");
            metrics::clarification("asked");
        }
        _ => {}
    }
}
