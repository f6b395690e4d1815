//! What operators see of a running turn: its spans, log lines and metrics. It only measures and
//! decides nothing.

use std::time::Duration;

use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug, debug_span, info_span};

use super::call::{CallAt, CalledTool};
use super::turn::{LogLine, TurnMachine};
use super::turn_trace::{TracedTool, TurnTrace};
use crate::event::{Event, Summary, TurnState, Usage};
use crate::telemetry::metrics::{self, Gauged};
use crate::telemetry::millis;
use crate::tools::{RunEnd, Source};
use crate::trace_context::TraceContext;
use crate::upstream::{Delta, RoundFinish, RoundRequest, Upstream};

/// The measurements of one turn. What every token needs comes first: see [`Driver`](super::driver::Driver).
#[derive(Debug)]
#[repr(C)]
pub(super) struct Meter {
    begun: Instant,
    /// Whether the model has written anything yet.
    spoke: bool,
    /// Why the model stopped in the last round.
    finish: Option<RoundFinish>,
    /// The number of rounds so far.
    rounds: u32,
    /// The last state reported, and its entry in the gauge of running turns.
    state: Option<(TurnState, Option<Gauged>)>,
    /// The turn as OpenTelemetry shows it.
    trace: TurnTrace,
    // Each token needs the fields above.
    /// Since when no model is writing: the turn began, or the last round ended.
    silent_since: Option<Instant>,
    /// The turn's own span. A turn is polled outside of it, because entering it costs as much as a fifth
    /// of a token.
    turn: Span,
    /// The span of the last round, or of the turn before the first.
    span: Span,
    round_begun: Instant,
}

impl Meter {
    /// Begins to measure a turn in this trace.
    pub(super) fn new(trace: Option<&TraceContext>) -> Self {
        let (begun, turn) = (Instant::now(), Span::current());
        Self {
            begun,
            span: turn.clone(),
            turn,
            state: None,
            rounds: 0,
            round_begun: begun,
            finish: None,
            silent_since: Some(begun),
            spoke: false,
            trace: TurnTrace::new(trace),
        }
    }

    /// When the turn began.
    pub(super) const fn begun(&self) -> Instant {
        self.begun
    }

    /// The span of the last round, or of the turn before the first.
    pub(super) const fn span(&self) -> &Span {
        &self.span
    }

    /// Notes the turn's state. Returns whether it is new.
    pub(super) fn note_state(&mut self, state: TurnState) -> bool {
        if self.state.as_ref().is_some_and(|(told, _)| *told == state) {
            return false;
        }
        log(&self.turn, || debug!(state = state.name(), "turn state changed"));
        // Drop the old entry first, so that no turn counts twice.
        self.state = None;
        let running = (!state.is_over()).then(|| metrics::turn_running(state.name()));
        self.state = Some((state, running));
        true
    }

    /// Begins a round. Returns the trace context for its request.
    pub(super) fn begin_round(
        &mut self,
        request: &RoundRequest,
        asked: &Upstream,
    ) -> Option<TraceContext> {
        self.rounds += 1;
        (self.round_begun, self.finish, self.silent_since) = (Instant::now(), None, None);
        let round = debug_span!(parent: &self.turn, "round", r#loop = self.rounds);
        // Most rounds say nothing but debug lines, and a span takes half a kilobyte.
        self.span = if round.is_disabled() { self.turn.clone() } else { round };
        self.log(|| debug!("round started"));
        self.trace.begin_round(request, || asked.identity())
    }

    /// This upstream answers.
    pub(super) fn note_answering(&mut self, upstream: &Upstream) {
        self.trace.note_answering(|| upstream.identity());
    }

    /// The model that answers is this one, as its server calls it.
    pub(super) fn note_model(&mut self, model: Option<&str>) {
        self.trace.note_model(model);
    }

    pub(super) fn note_rerouting(&self, answering: &str) {
        self.log(|| debug!(%answering, "using another upstream"));
    }

    pub(super) fn note_delta(&mut self, delta: &Delta<'_>) {
        if delta.is_said() && !std::mem::replace(&mut self.spoke, true) {
            metrics::first_delta(self.begun.elapsed());
        }
        if let Delta::Finish(finish) = delta {
            self.finish = Some(*finish);
        }
        self.trace.note_delta(delta);
    }

    pub(super) fn complete_round(&mut self) {
        self.end_round(self.finish.map_or("unknown", RoundFinish::name), None);
    }

    /// Writes the one log line that ends a round. A failed round has a `reason`.
    pub(super) fn end_round(&mut self, outcome: &'static str, reason: Option<&str>) {
        self.trace.end_round(reason.map(|_| outcome));
        self.silent_since = Some(Instant::now());
        let duration_ms = millis(self.round_begun.elapsed());
        self.log(|| debug!(outcome, duration_ms, reason, "round ended"));
    }

    /// Begins a tool. Returns the span in which it runs, and the trace context for its requests.
    pub(super) fn begin_tool(
        &mut self,
        tool: CalledTool<'_>,
        position: usize,
        traced: impl FnOnce() -> TracedTool,
    ) -> (Span, Option<TraceContext>) {
        let CalledTool { call_id, name, .. } = tool;
        let span = info_span!(parent: &self.span, "tool", call_id, tool = name, position);
        log(&span, || debug!("tool started"));
        (span, self.trace.begin_tool(tool, traced))
    }

    /// A tool of an earlier turn goes on.
    pub(super) fn resume_tool(
        &mut self,
        tool: CalledTool<'_>,
        traced: impl FnOnce() -> TracedTool,
    ) {
        // It goes on in the trace that it was given when it began.
        let _ = self.trace.begin_tool(tool, traced);
    }

    /// A tool from this source has ended.
    pub(super) fn end_tool(
        &mut self,
        call: CallAt,
        source: &Source,
        name: String,
        end: RunEnd,
        duration: Duration,
    ) {
        self.trace.end_tool(call, end, duration);
        metrics::tool_ended(source.to_string(), name, end.name(), duration);
        // Time that passed while the model was still writing did not delay the turn.
        let waited = self.silent_since.map_or(Duration::ZERO, |since| since.elapsed());
        metrics::tool_hidden(duration.saturating_sub(waited));
    }

    pub(super) fn stop_tool(&mut self, call: CallAt) {
        self.trace.stop_tools(|running| running == call);
    }

    pub(super) fn stop_tools(&mut self, running: usize) {
        self.trace.stop_tools(|_| true);
        if running > 0 {
            self.log(|| debug!(running, "tools stopped"));
        }
    }

    /// Counts and logs the client events that operators care about.
    pub(super) fn note_event(&self, event: &Event<'_>) {
        match event {
            Event::Acknowledgement { source, .. } => {
                self.log(|| debug!(source = source.name(), "acknowledgement sent"));
            }
            Event::Feedback { call_id, reason, attempt, .. } => {
                let reason = reason.name();
                self.log(|| debug!(call_id, reason, attempt, "feedback sent to the model"));
                metrics::feedback(reason);
            }
            Event::ClarificationNeeded { call_id, tool_name, .. } => {
                self.log(|| debug!(call_id, tool = tool_name, "user asked for clarification"));
                metrics::clarification("asked");
            }
            Event::LoopLimitReached { max_tool_loops } => {
                self.log(|| debug!(max_tool_loops, "loop cap reached"));
            }
            _ => {}
        }
    }

    /// Logs something in the span of the last round, at level debug.
    fn log(&self, line: impl FnOnce()) {
        log(&self.span, line);
    }

    /// Counts and logs what clients do not see.
    pub(super) fn note(&self, line: LogLine<'_>) {
        match line {
            LogLine::EmptyAnswer => {
                self.log(|| debug!("empty answer"));
                metrics::empty_answer();
            }
            LogLine::NotRun { call_id, name, position, why } => {
                let outcome = why.name();
                self.log(|| debug!(call_id, tool = name, position, outcome, "call not run"));
                metrics::call_not_run(outcome);
            }
            LogLine::Abandoned => self.log(|| debug!("no client re-joined in time")),
        }
    }

    /// Ends the turn on this gateway. Publish the report once the end is stored.
    pub(super) fn end_turn(&mut self, turn: &TurnMachine) -> TurnReport {
        let Summary { loops, tool_calls, usage, .. } = turn.summary();
        let duration = self.begun.elapsed();
        self.trace.end_turn(turn, duration);
        TurnReport { outcome: turn.outcome(), loops, tool_calls, usage, duration }
    }
}

/// The end of a turn, as operators see it. Until the end is stored, another gateway may have the turn.
#[derive(Debug)]
pub(crate) struct TurnReport {
    outcome: &'static str,
    loops: u32,
    tool_calls: u32,
    usage: Usage,
    duration: Duration,
}

impl TurnReport {
    /// Counts the turn, and writes the one log line that ends it. Call this in the turn's span.
    pub(crate) fn publish(&self) {
        let Self { outcome, loops, tool_calls, usage, duration } = *self;
        metrics::turn_ended(outcome, loops, duration);
        tracing::info!(
            outcome,
            loops,
            tool_calls,
            prompt_tokens = usage.prompt_tokens,
            completion_tokens = usage.completion_tokens,
            duration_ms = millis(duration),
            "turn ended"
        );
    }
}

/// Logs something in this span, at level debug. Usually nobody listens, and the span is not entered: that costs more
/// than all else here. An event with this span as its parent would have no list of spans in JSON.
fn log(span: &Span, line: impl FnOnce()) {
    if LevelFilter::current() >= LevelFilter::DEBUG {
        span.in_scope(line);
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::time::advance;

    use super::*;

    /// A call that the user has approved, for example.
    #[tokio::test(start_paused = true)]
    async fn no_model_hides_the_time_of_a_tool_that_runs_before_the_first_round() {
        let (mut meter, ran) = (Meter::new(None), Duration::from_secs(3));
        advance(ran).await;
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || {
            let (call, name) = (CallAt::default(), "wipe".to_owned());
            meter.end_tool(call, &Source::builtin(), name, RunEnd::Done, ran);
        });
        let metrics = recorder.handle().render();
        assert!(metrics.contains("tether_tool_hidden_seconds_sum 0\n"), "{metrics}");
    }
}
