//! The metrics, under the names that `/metrics` shows.

use std::sync::LazyLock;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::RwLock;

use crate::version;

/// A metric that every request or turn uses, for each of its few labels. Looking a metric up costs several times as much
/// as counting does, so each is looked up once: when it is first needed, because the recorder may come later than a store.
struct Labelled<L, M>(RwLock<Vec<(L, M)>>);

impl<L: Copy + PartialEq, M: Clone> Labelled<L, M> {
    const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    fn get(&self, label: L, look_up: impl FnOnce() -> M) -> M {
        let known =
            self.0.read().iter().find(|(known, _)| *known == label).map(|(_, it)| it.clone());
        known.unwrap_or_else(|| {
            // Another thread may have been faster. Both have found the same.
            let found = look_up();
            self.0.write().push((label, found.clone()));
            found
        })
    }
}

/// A histogram that every turn uses, or every token.
macro_rules! hot_histogram {
    ($name:literal) => {{
        static HISTOGRAM: LazyLock<Histogram> = LazyLock::new(|| histogram!($name));
        &HISTOGRAM
    }};
}

/// Counts something as present for as long as it lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Gauged(Gauge);

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

/// Counts a turn as running in this state.
pub(crate) fn turn_running(state: &'static str) -> Gauged {
    static RUNNING: Labelled<&str, Gauge> = Labelled::new();
    Gauged::new(RUNNING.get(state, || gauge!("tether_turns_running", "state" => state)))
}

/// Counts a connection as open.
pub(crate) fn connection_open() -> Gauged {
    Gauged::new(gauge!("tether_connections_open"))
}

/// A connection, request or turn was refused because its client is over this limit.
pub(crate) fn over_limit(limit: &'static str) {
    counter!("tether_over_limit_total", "limit" => limit).increment(1);
}

/// This many turns run with a key. Turns without a key are not shown: their owner is empty.
pub(crate) fn key_turns(owner: &str, running: usize) {
    // Enough to tell keys apart. The owner is a digest of the key and no secret.
    let Some(key) = owner.get(..8) else { return };
    #[expect(clippy::cast_precision_loss, reason = "there are far fewer turns than 2^53")]
    gauge!("tether_key_turns_running", "key" => key.to_owned()).set(running as f64);
}

/// A client's TLS handshake ended: `done`, `failed`, `timed_out`, or `displaced` by another one.
pub(crate) fn tls_handshake(outcome: &'static str) {
    counter!("tether_tls_handshakes_total", "outcome" => outcome).increment(1);
}

/// This many spans, or requests with metrics, did not reach the OpenTelemetry collector.
pub(crate) fn otlp_dropped(signal: &'static str, count: usize) {
    counter!("tether_otlp_dropped_total", "signal" => signal).increment(count as u64);
}

/// Log lines were dropped because standard error did not take them.
pub(crate) fn log_lines_dropped(lines: u64) {
    counter!("tether_log_lines_dropped_total").increment(lines);
}

/// A turn ended, with this finish reason or failure code. [`turn_ended`] calls this for turns that ran here.
pub(crate) fn turn_outcome(outcome: &'static str) {
    static TURNS: Labelled<&str, Counter> = Labelled::new();
    TURNS.get(outcome, || counter!("tether_turns_total", "outcome" => outcome)).increment(1);
}

/// A turn ended: its finish reason or failure code, its rounds and its duration.
pub(crate) fn turn_ended(outcome: &'static str, rounds: u32, duration: Duration) {
    turn_outcome(outcome);
    hot_histogram!("tether_turn_rounds").record(f64::from(rounds));
    hot_histogram!("tether_turn_seconds").record(duration);
}

/// The first event of a turn was in its log this long after the request.
pub(crate) fn first_event(after: Duration) {
    hot_histogram!("tether_first_event_seconds").record(after);
}

/// The model wrote its first text this long after the turn began.
pub(crate) fn first_delta(after: Duration) {
    hot_histogram!("tether_first_delta_seconds").record(after);
}

/// A tool of a source ended with this outcome.
pub(crate) fn tool_ended(source: String, tool: String, outcome: &'static str, duration: Duration) {
    counter!("tether_tool_calls_total", "source" => source, "tool" => tool.clone(), "outcome" => outcome)
        .increment(1);
    histogram!("tether_tool_seconds", "tool" => tool).record(duration);
}

/// A call was not run, for this reason.
pub(crate) fn call_not_run(why: &'static str) {
    counter!("tether_calls_not_run_total", "why" => why).increment(1);
}

/// A tool of a client cannot be offered.
pub(crate) fn client_tool_left_out() {
    counter!("tether_client_tools_left_out_total").increment(1);
}

/// A client's history was repaired in this way, however often. One client can send
/// any number of faults.
pub(crate) fn history_repaired(kind: &'static str) {
    counter!("tether_history_repairs_total", "kind" => kind).increment(1);
}

/// This much of a tool's run time overlapped with the model's writing.
pub(crate) fn tool_hidden(hidden: Duration) {
    histogram!("tether_tool_hidden_seconds").record(hidden);
}

/// The model wrote nothing for the user.
pub(crate) fn empty_answer() {
    counter!("tether_empty_answers_total").increment(1);
}

/// The model was sent feedback on a mistake.
pub(crate) fn feedback(reason: &'static str) {
    counter!("tether_feedback_total", "reason" => reason).increment(1);
}

/// A question to the user was `asked`, `answered`, or `dropped` for another prompt.
pub(crate) fn clarification(outcome: &'static str) {
    counter!("tether_clarifications_total", "outcome" => outcome).increment(1);
}

/// A source of tools is there or not, and offers this many tools and leaves out that many.
pub(crate) fn tool_source(
    kind: &'static str,
    name: &str,
    is_ready: bool,
    offered: usize,
    left_out: usize,
) {
    let labels = || [("kind", kind.to_owned()), ("name", name.to_owned())];
    #[expect(clippy::cast_precision_loss, reason = "there are at most thousands")]
    let set = |gauge: Gauge, value: usize| gauge.set(value as f64);
    set(gauge!("tether_tool_source_up", &labels()), usize::from(is_ready));
    set(gauge!("tether_tools_offered", &labels()), offered);
    set(gauge!("tether_tools_left_out", &labels()), left_out);
}

/// An MCP server was connected again.
pub(crate) fn mcp_restarted(name: &str) {
    counter!("tether_mcp_restarts_total", "name" => name.to_owned()).increment(1);
}

/// The tools of an MCP server have changed.
pub(crate) fn mcp_list_changed(name: &str) {
    counter!("tether_mcp_list_changes_total", "name" => name.to_owned()).increment(1);
}

/// A turn's model is told about this many tools, in roughly this many tokens.
pub(crate) fn tools_told(tools: usize, tokens: usize) {
    #[expect(clippy::cast_precision_loss, reason = "there are at most thousands")]
    let [tools, tokens] = [tools, tokens].map(|count| count as f64);
    hot_histogram!("tether_tools_told").record(tools);
    hot_histogram!("tether_tools_told_tokens").record(tokens);
}

/// An upstream failed to answer, so others are asked first for a while.
pub(crate) fn upstream_cools_down(upstream: &str) {
    counter!("tether_upstream_cool_downs_total", "upstream" => upstream.to_owned()).increment(1);
}

/// A request was answered.
pub(crate) fn request(route: &'static str, status: u16) {
    static REQUESTS: Labelled<(&str, u16), Counter> = Labelled::new();
    let look_up =
        || counter!("tether_http_requests_total", "route" => route, "status" => status.to_string());
    REQUESTS.get((route, status), look_up).increment(1);
}

/// A request was refused with this code and status.
pub(crate) fn refusal(code: &'static str, status: u16) {
    static REFUSALS: Labelled<(&str, u16), Counter> = Labelled::new();
    let look_up =
        || counter!("tether_refusals_total", "code" => code, "status" => status.to_string());
    REFUSALS.get((code, status), look_up).increment(1);
}

/// A reader was cut because it took nothing.
pub(crate) fn reader_cut() {
    counter!("tether_readers_cut_total").increment(1);
}

/// A store in a file has made what this many callers wanted durable.
pub(crate) fn store_commit(jobs: usize, duration: Duration) {
    #[expect(clippy::cast_precision_loss, reason = "there are at most thousands")]
    histogram!("tether_store_commit_jobs").record(jobs as f64);
    histogram!("tether_store_commit_seconds").record(duration);
}

/// A store has taken so many bytes of a running turn. That may be for each token.
pub(crate) fn store_append(bytes: usize) {
    static APPENDS: LazyLock<[Counter; 2]> = LazyLock::new(appends);
    let [count, sum] = &*APPENDS;
    count.increment(1);
    sum.increment(bytes as u64);
}

fn appends() -> [Counter; 2] {
    [counter!("tether_store_appends_total"), counter!("tether_store_appended_bytes_total")]
}

/// A shared store has answered.
pub(crate) fn store_request(duration: Duration) {
    hot_histogram!("tether_store_request_seconds").record(duration);
}

/// A write to a shared store has taken so many events of a running turn.
pub(crate) fn store_append_events(events: u64) {
    #[expect(clippy::cast_precision_loss, reason = "no log has more than 2^53 events")]
    hot_histogram!("tether_store_append_events").record(events as f64);
}

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Memory,
    File,
    Shared,
}

/// What counters with labels count by.
#[derive(Debug)]
pub(crate) struct Labels<'l> {
    pub(crate) outcomes: &'l [&'static str],
    pub(crate) feedback: &'l [&'static str],
    pub(crate) not_run: &'l [&'static str],
    pub(crate) over_limit: &'l [&'static str],
    pub(crate) repairs: &'l [&'static str],
    /// The upstreams, if one can take the place of another.
    pub(crate) upstreams: &'l [&'l str],
    pub(crate) mcp_servers: &'l [&'l str],
}

/// Starts all counters whose labels are known at 0, so that the first event is an increase like any other.
pub(crate) fn begin(store: StoreKind, labels: &Labels<'_>) {
    gauge!(
        "tether_build_info",
        "version" => version::VERSION,
        "commit" => version::COMMIT,
        "target" => version::TARGET,
        "features" => version::FEATURES
    )
    .set(1);
    for name in [
        "tether_empty_answers_total",
        "tether_client_tools_left_out_total",
        "tether_readers_cut_total",
        "tether_log_lines_dropped_total",
    ] {
        counter!(name).increment(0);
    }
    let of_store: &[_] = match store {
        StoreKind::Memory => &[],
        StoreKind::File => &["tether_store_commits_failed_total"],
        StoreKind::Shared => &[
            "tether_store_requests_failed_total",
            "tether_store_writes_fenced_total",
            "tether_lease_renewals_total",
            "tether_leases_lost_total",
        ],
    };
    for name in of_store {
        counter!(*name).increment(0);
    }
    if store != StoreKind::Memory {
        for counter in appends() {
            counter.increment(0);
        }
        for outcome in ["resumed", "ended"] {
            counter!("tether_turns_interrupted_total", "outcome" => outcome).increment(0);
        }
    }
    for &outcome in labels.outcomes {
        counter!("tether_turns_total", "outcome" => outcome).increment(0);
    }
    for &reason in labels.feedback {
        counter!("tether_feedback_total", "reason" => reason).increment(0);
    }
    for &why in labels.not_run {
        counter!("tether_calls_not_run_total", "why" => why).increment(0);
    }
    for &limit in labels.over_limit {
        counter!("tether_over_limit_total", "limit" => limit).increment(0);
    }
    for &kind in labels.repairs {
        counter!("tether_history_repairs_total", "kind" => kind).increment(0);
    }
    for &upstream in labels.upstreams {
        let upstream = upstream.to_owned();
        counter!("tether_upstream_cool_downs_total", "upstream" => upstream).increment(0);
    }
    for &name in labels.mcp_servers {
        for counter in ["tether_mcp_restarts_total", "tether_mcp_list_changes_total"] {
            counter!(counter, "name" => name.to_owned()).increment(0);
        }
    }
    for outcome in ["done", "failed", "timed_out", "displaced"] {
        counter!("tether_tls_handshakes_total", "outcome" => outcome).increment(0);
    }
    for signal in ["traces", "metrics"] {
        counter!("tether_otlp_dropped_total", "signal" => signal).increment(0);
    }
    for outcome in ["asked", "answered", "declined", "dropped", "expired"] {
        counter!("tether_clarifications_total", "outcome" => outcome).increment(0);
    }
}

/// A turn was resumed or ended whose gateway had been stopped.
pub(crate) fn turn_interrupted(outcome: &'static str) {
    counter!("tether_turns_interrupted_total", "outcome" => outcome).increment(1);
}

/// A store in a file could not make a transaction durable.
pub(crate) fn store_commit_failed() {
    counter!("tether_store_commits_failed_total").increment(1);
}

/// The lease of a running turn was renewed.
pub(crate) fn lease_renewed() {
    counter!("tether_lease_renewals_total").increment(1);
}

/// The lease of a running turn was lost, or could not be renewed in time.
pub(crate) fn lease_lost() {
    counter!("tether_leases_lost_total").increment(1);
}

/// A shared store has refused a write, because its lease or its version is another one.
pub(crate) fn store_write_fenced() {
    counter!("tether_store_writes_fenced_total").increment(1);
}

/// A shared store could not do what it was asked.
pub(crate) fn store_request_failed() {
    counter!("tether_store_requests_failed_total").increment(1);
}

/// Sets the gauge for the sessions in a file.
pub(crate) fn store_sessions(sessions: i64) {
    #[expect(clippy::cast_precision_loss, reason = "no file has more than 2^53 sessions")]
    gauge!("tether_store_sessions").set(sessions as f64);
}

/// Sets the gauges for the logs of other nodes' turns that are followed here, and for those who read them, if there
/// are other nodes.
pub(crate) fn remote_logs(logs_and_readers: Option<(usize, usize)>) {
    let Some((logs, readers)) = logs_and_readers else { return };
    #[expect(clippy::cast_precision_loss, reason = "no node has more than 2^53 readers")]
    let [logs, readers] = [logs, readers].map(|count| count as f64);
    gauge!("tether_remote_logs").set(logs);
    gauge!("tether_remote_readers").set(readers);
}

/// Sets the gauge for the length of that file.
pub(crate) fn store_file_bytes(bytes: u64) {
    #[expect(clippy::cast_precision_loss, reason = "no file has more than 2^53 bytes")]
    gauge!("tether_store_file_bytes").set(bytes as f64);
}

/// Sets the gauges for what is in memory: the number of sessions, their size, and the size of
/// their finished turns' logs.
pub(crate) fn memory(
    sessions: usize,
    session_bytes: usize,
    turn_log_bytes: usize,
    artifact_bytes: usize,
    turn_cache_bytes: usize,
) {
    #[expect(clippy::cast_precision_loss, reason = "no memory has more than 2^53 bytes")]
    let set = |gauge: Gauge, value: usize| gauge.set(value as f64);
    set(gauge!("tether_sessions"), sessions);
    set(gauge!("tether_session_bytes"), session_bytes);
    set(gauge!("tether_turn_log_bytes"), turn_log_bytes);
    set(gauge!("tether_artifact_bytes"), artifact_bytes);
    set(gauge!("tether_turn_cache_bytes"), turn_cache_bytes);
}
