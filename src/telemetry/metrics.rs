//! What is counted, under the names that `/metrics` shows. None of it is counted
//! per token.

use std::time::Duration;

use ::metrics::{Gauge, counter, gauge, histogram};

/// Counts something as there for as long as it lives.
#[derive(Debug)]
#[must_use]
pub struct Gauged(Gauge);

impl Gauged {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1);
        Self(gauge)
    }
}

impl Drop for Gauged {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// A turn runs, and is in this state.
pub fn turn_running(state: &'static str) -> Gauged {
    Gauged::new(gauge!("tether_turns_running", "state" => state))
}

/// A connection is open.
pub fn connection_open() -> Gauged {
    Gauged::new(gauge!("tether_connections_open"))
}

/// Log lines were dropped: standard error did not take them.
pub fn log_lines_dropped(lines: u64) {
    counter!("tether_log_lines_dropped_total").increment(lines);
}

/// A turn ended, by finish reason or failure code, and what it took.
pub fn turn_ended(outcome: &'static str, rounds: u32, duration: Duration) {
    counter!("tether_turns_total", "outcome" => outcome).increment(1);
    histogram!("tether_turn_rounds").record(f64::from(rounds));
    histogram!("tether_turn_seconds").record(duration);
}

/// A turn's first event stood in its log, this long after it was asked for.
pub fn first_event(after: Duration) {
    histogram!("tether_first_event_seconds").record(after);
}

/// The model said its first word, this long after the turn began.
pub fn first_delta(after: Duration) {
    histogram!("tether_first_delta_seconds").record(after);
}

/// A tool ended, as its run's end is called.
pub fn tool_ended(tool: String, outcome: &'static str, duration: Duration) {
    counter!("tether_tool_calls_total", "tool" => tool.clone(), "outcome" => outcome).increment(1);
    histogram!("tether_tool_seconds", "tool" => tool).record(duration);
}

/// A call was not run.
pub fn call_not_run(why: &'static str) {
    counter!("tether_calls_not_run_total", "why" => why).increment(1);
}

/// So much of a tool's time passed while the model still wrote.
pub fn tool_hidden(hidden: Duration) {
    histogram!("tether_tool_hidden_seconds").record(hidden);
}

/// The model wrote nothing for the user.
pub fn empty_answer() {
    counter!("tether_empty_answers_total").increment(1);
}

/// The model was told of a mistake.
pub fn feedback(reason: &'static str) {
    counter!("tether_feedback_total", "reason" => reason).increment(1);
}

/// A question to the user was `asked`, `answered`, or `dropped` for another prompt.
pub fn clarification(outcome: &'static str) {
    counter!("tether_clarifications_total", "outcome" => outcome).increment(1);
}

/// An upstream could not be reached, so that others are asked first for a while.
pub fn upstream_cools_down(upstream: &str) {
    counter!("tether_upstream_cool_downs_total", "upstream" => upstream.to_owned()).increment(1);
}

/// A request was answered.
pub fn request(route: &'static str, status: u16) {
    counter!("tether_http_requests_total", "route" => route, "status" => status.to_string())
        .increment(1);
}

/// A reader was cut because it took nothing.
pub fn reader_cut() {
    counter!("tether_readers_cut_total").increment(1);
}

/// What is held now: how many sessions, what they take in memory, and what the logs of their
/// finished turns take.
pub fn held(sessions: usize, session_bytes: usize, turn_log_bytes: usize) {
    #[expect(clippy::cast_precision_loss, reason = "no memory has so many bytes")]
    let set = |gauge: Gauge, value: usize| gauge.set(value as f64);
    set(gauge!("tether_sessions"), sessions);
    set(gauge!("tether_session_bytes"), session_bytes);
    set(gauge!("tether_turn_log_bytes"), turn_log_bytes);
}
