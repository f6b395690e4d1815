//! Traces and metrics for an OpenTelemetry collector: OTLP over HTTP, in JSON.
//!
//! ```text
//!   spans that end ─ export ─> a queue ─ batches ─.
//!                              '- full: dropped, counted    the exporter's task ─> POST /v1/traces, /v1/metrics
//!   measurements ─ record ─> histograms ─ regularly ─'
//! ```
//! Nothing waits for the collector but that task.
//!
//! This is an exporter of our own because the field's crates cost too much for three spans a turn: ten crates, 36
//! seconds of a clean release build (CPU time), settings from variables of the environment, and threads of their own,
//! in which our HTTP client does not run.

mod client;
mod encode;
mod histograms;

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::Value as Json;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use self::client::Client;
pub use self::client::OtlpError;
use self::histograms::Histograms;
pub(crate) use self::histograms::{Buckets, Instrument, Labels};
use super::metrics;
use super::span_data::SpanData;
use crate::limits::telemetry::{
    BATCH_SPANS_MAX, BATCH_WAIT, COLLECTOR_WARNING_INTERVAL, LAST_EXPORT_TIMEOUT, QUEUED_SPANS_MAX,
};

/// Where to send what.
#[derive(Debug, Clone)]
pub(crate) struct OtlpOptions {
    /// The collector; `/v1/traces` and `/v1/metrics` are below it.
    pub(crate) endpoint: hyper::Uri,
    /// Headers of each request, such as a key.
    pub(crate) headers: Vec<(String, String)>,
    /// The name under which the gateway is known there.
    pub(crate) service: String,
    /// The part of the traces that begin here that are recorded.
    pub(crate) sample_ratio: f64,
    /// How often metrics are sent.
    pub(crate) metrics_interval: Duration,
}

/// What any thread may use.
#[derive(Debug)]
struct Shared {
    spans: Sender<SpanData>,
    histograms: Mutex<Histograms>,
    sampler: Sampler,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Decides which traces are recorded that begin here. Others are recorded if their beginning is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampler {
    /// Ids below this are.
    below: u64,
}

impl Sampler {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a ratio is from 0 to 1, and need not be exact"
    )]
    fn new(ratio: f64) -> Self {
        Self { below: (ratio * (1_u64 << 56) as f64) as u64 }
    }

    /// Whether this trace is recorded. Other processes with the same ratio decide alike.
    pub(crate) const fn takes(self, trace_id: u128) -> bool {
        let random = (trace_id & ((1 << 56) - 1)) as u64;
        random < self.below
    }
}

/// Whether spans are recorded at all, and which.
pub(crate) fn sampler() -> Option<Sampler> {
    SHARED.get().map(|shared| shared.sampler)
}

/// Passes a span on, if there is room.
pub(crate) fn export(span: SpanData) {
    let Some(shared) = SHARED.get() else { return };
    if shared.spans.try_send(span).is_err() {
        metrics::otlp_dropped("traces", 1);
    }
}

/// Counts a measurement. `labels` is asked only if somebody collects them.
pub(crate) fn record(instrument: &'static Instrument, value: f64, labels: impl FnOnce() -> Labels) {
    let Some(shared) = SHARED.get() else { return };
    shared.histograms.lock().record(instrument, labels(), value);
}

/// The running exporter.
#[derive(Debug)]
#[must_use = "what is left is sent when it is stopped"]
pub(crate) struct Exporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts to record and to send.
    ///
    /// # Errors
    /// See [`OtlpError`].
    pub(crate) fn start(options: &OtlpOptions) -> Result<Self, OtlpError> {
        let client = Client::new(&options.endpoint, &options.headers)?;
        let (spans, queue) = mpsc::channel(QUEUED_SPANS_MAX);
        let sampler = Sampler::new(options.sample_ratio);
        let shared = Shared { spans, histograms: Mutex::default(), sampler };
        SHARED.set(shared).map_err(|_| OtlpError::Twice)?;
        let stop = CancellationToken::new();
        let resource = encode::resource(&options.service, &Uuid::new_v4().to_string());
        let worker =
            Worker { client, resource, begun: SystemTime::now(), warned: None, stop: stop.clone() };
        let task = tokio::spawn(worker.run(queue, options.metrics_interval));
        Ok(Self { stop, task })
    }

    /// Sends what is left, within [`LAST_EXPORT_TIMEOUT`].
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if timeout(LAST_EXPORT_TIMEOUT, self.task).await.is_err() {
            warn!("the OpenTelemetry collector did not take the last traces and metrics in time");
        }
    }
}

/// The task that sends.
struct Worker {
    client: Client,
    resource: Json,
    begun: SystemTime,
    /// When a failure was last logged.
    warned: Option<Instant>,
    stop: CancellationToken,
}

impl Worker {
    async fn run(mut self, mut queue: Receiver<SpanData>, metrics_interval: Duration) {
        let mut tick = interval(metrics_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        let stop = self.stop.clone();
        let mut batch: Vec<SpanData> = Vec::new();
        let mut due = Instant::now();
        loop {
            let has_ended = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                _ = tick.tick() => {
                    self.send_metrics().await;
                    // From now: a slow collector must not hear of nothing but metrics.
                    tick.reset();
                    false
                }
                () = sleep_until(due), if !batch.is_empty() => {
                    self.send_spans(&batch).await;
                    batch.clear();
                    false
                }
                span = queue.recv() => {
                    if batch.is_empty() {
                        due = Instant::now() + BATCH_WAIT;
                    }
                    batch.extend(span);
                    if batch.len() >= BATCH_SPANS_MAX {
                        self.send_spans(&batch).await;
                        batch.clear();
                    }
                    false
                }
            };
            if has_ended {
                break;
            }
        }
        queue.close();
        while let Some(span) = queue.recv().await {
            batch.push(span);
        }
        for batch in batch.chunks(BATCH_SPANS_MAX) {
            self.send_spans(batch).await;
        }
        self.send_metrics().await;
    }

    async fn send_spans(&mut self, spans: &[SpanData]) {
        let body = encode::traces(&self.resource, spans);
        if !self.send("/v1/traces", &body).await {
            metrics::otlp_dropped("traces", spans.len());
        }
    }

    async fn send_metrics(&mut self) {
        let Some(shared) = SHARED.get() else { return };
        let now = SystemTime::now();
        let body = {
            let histograms = shared.histograms.lock();
            if histograms.iter().next().is_none() {
                return;
            }
            encode::metrics(&self.resource, &histograms, self.begun, now)
        };
        if !self.send("/v1/metrics", &body).await {
            // The next ones count from the start as well.
            metrics::otlp_dropped("metrics", 1);
        }
    }

    /// Sends a request, and again if that may help. Whether the collector has it.
    async fn send(&mut self, path: &str, body: &Json) -> bool {
        let Err(error) = self.client.post(path, body, &self.stop).await else { return true };
        let now = Instant::now();
        if self.warned.is_none_or(|at| now.duration_since(at) >= COLLECTOR_WARNING_INTERVAL) {
            self.warned = Some(now);
            warn!(path, %error, "the OpenTelemetry collector (telemetry.otlp) takes nothing");
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_all_traces_is_recorded() {
        let spread = |ratio| {
            let sampler = Sampler::new(ratio);
            let ids = (0..1000_u128).map(|at| at * (1 << 56) / 1000 + (at << 64));
            ids.filter(|id| sampler.takes(*id)).count()
        };
        assert_eq!([0.0, 0.25, 1.0].map(spread), [0, 250, 1000]);
    }
}
