//! Traces and metrics for an OpenTelemetry collector: OTLP over HTTP.
//!
//! ```text
//!   ended spans ── export ──> queue ── in batches ──────.
//!                               '- full: dropped,       |──> the exporter's task ──> POST /v1/traces
//!                                  and counted          |                            POST /v1/metrics
//!   measurements ── record ──> histograms ── at times ──'
//! ```
//! Only that task waits for the collector.
//!
//! We send Protobuf, which every collector reads. Collectors built on the crate `opentelemetry-proto` up to 0.31 also
//! read JSON, but silently drop all histograms (opentelemetry-rust, issue 3527).
//!
//! We export by ourselves because the OpenTelemetry crates cost too much for three spans a turn: ten more crates, 36 s
//! of CPU time in a clean release build, settings that come from environment variables, and threads of their own, on
//! which our HTTP client does not run.

mod client;
mod encode;
mod histograms;
mod proto;

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use self::client::Client;
pub use self::client::OtlpError;
use self::histograms::Histograms;
pub(crate) use self::histograms::{Buckets, Histogram, Instrument, Labels};
use self::proto::{PartialSuccess, Resource};
use super::metrics;
use super::seldom::Seldom;
use super::span_data::SpanData;
use crate::limits::telemetry::{
    BATCH_SPANS_MAX, BATCH_WAIT, COLLECTOR_WARNING_INTERVAL, LAST_EXPORT_TIMEOUT, QUEUED_SPANS_MAX,
};

/// Where to send traces and metrics, and which.
#[derive(Debug, Clone)]
pub(crate) struct OtlpOptions {
    /// The collector; `/v1/traces` and `/v1/metrics` are below it.
    pub(crate) endpoint: hyper::Uri,
    /// Headers of each request, such as a key.
    pub(crate) headers: Vec<(String, String)>,
    /// The gateway's name there: the resource's `service.name`.
    pub(crate) service: String,
    /// The ratio of traces to record, of those that begin here: 0 to 1.
    pub(crate) sample_ratio: f64,
    /// How often metrics are sent.
    pub(crate) metrics_interval: Duration,
}

/// What all threads share with the exporter.
#[derive(Debug)]
struct Shared {
    spans: Sender<SpanData>,
    histograms: Mutex<Histograms>,
    sampler: Sampler,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Decides which of the traces that begin here are recorded. Any other trace is recorded if its client records it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampler {
    /// A trace is recorded if the random bits of its id are below this.
    below: u64,
}

/// The lowest bits of a trace's id, which are random (W3C Trace Context, level 2, on the random-trace-id flag).
const RANDOM_BITS: u32 = 56;

impl Sampler {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a ratio is from 0 to 1, and need not be exact"
    )]
    fn new(ratio: f64) -> Self {
        Self { below: (ratio * (1_u64 << RANDOM_BITS) as f64) as u64 }
    }

    /// Whether to record this trace. Other processes with the same ratio decide alike.
    pub(crate) const fn takes(self, trace_id: u128) -> bool {
        let random = (trace_id & ((1 << RANDOM_BITS) - 1)) as u64;
        random < self.below
    }
}

/// Decides which traces to record; `None` if nothing is exported.
pub(crate) fn sampler() -> Option<Sampler> {
    SHARED.get().map(|shared| shared.sampler)
}

/// Queues an ended span for the collector. If the queue is full, the span is dropped and counted.
pub(crate) fn export(span: SpanData) {
    let Some(shared) = SHARED.get() else { return };
    if shared.spans.try_send(span).is_err() {
        metrics::otlp_dropped("traces", 1);
    }
}

/// Records a measurement. `labels` is called only if there is an exporter.
pub(crate) fn record(instrument: &'static Instrument, value: f64, labels: impl FnOnce() -> Labels) {
    let Some(shared) = SHARED.get() else { return };
    let labels = labels();
    shared.histograms.lock().record(instrument, labels, value);
}

/// Records many measurements at once. `labels` is called only if there are any, and an exporter.
pub(crate) fn record_all(
    instrument: &'static Instrument,
    measured: &Histogram,
    labels: impl FnOnce() -> Labels,
) {
    let Some(shared) = SHARED.get().filter(|_| !measured.is_empty()) else { return };
    let labels = labels();
    shared.histograms.lock().record_all(instrument, labels, measured);
}

/// The running exporter.
#[derive(Debug)]
#[must_use = "stop it to send what is left"]
pub(crate) struct Exporter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts recording and sending.
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
        let worker = Worker {
            client,
            resource,
            begun: SystemTime::now(),
            warnings: Seldom::default(),
            stop: stop.clone(),
        };
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

/// The exporter's task.
struct Worker {
    client: Client,
    resource: Resource,
    begun: SystemTime,
    /// When a failure was last logged: not each of them is.
    warnings: Seldom,
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
            let is_due = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = tick.tick() => {
                    self.send_metrics().await;
                    // Count from now: a slow collector must not be sent metrics alone.
                    tick.reset();
                    false
                }
                () = sleep_until(due), if !batch.is_empty() => true,
                span = queue.recv() => {
                    if batch.is_empty() {
                        due = Instant::now() + BATCH_WAIT;
                    }
                    batch.extend(span);
                    batch.len() >= BATCH_SPANS_MAX
                }
            };
            if is_due {
                self.send_spans(&batch).await;
                batch.clear();
            }
        }
        self.send_rest(batch, queue).await;
    }

    /// Sends everything that was recorded before the process ends.
    async fn send_rest(mut self, mut batch: Vec<SpanData>, mut queue: Receiver<SpanData>) {
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
        let request = encode::traces(&self.resource, spans);
        let rejected = self.send("/v1/traces", &request).await.unwrap_or(spans.len());
        metrics::otlp_dropped("traces", rejected);
    }

    async fn send_metrics(&mut self) {
        let Some(shared) = SHARED.get() else { return };
        let now = SystemTime::now();
        // A copy, because turns wait for the lock.
        let histograms = shared.histograms.lock().clone();
        if histograms.iter().next().is_none() {
            return;
        }
        let request = encode::metrics(&self.resource, &histograms, self.begun, now);
        if self.send("/v1/metrics", &request).await != Some(0) {
            // Nothing is lost for good: the next ones count from the start, too.
            metrics::otlp_dropped("metrics", 1);
        }
    }

    /// Sends a request, again if need be. Returns how many of its spans or points the collector has rejected; `None`
    /// if it has not accepted the request.
    async fn send(&mut self, path: &str, request: &impl Message) -> Option<usize> {
        match self.client.post(path, request, &self.stop).await {
            Ok(accepted) => {
                let is_whole = accepted == PartialSuccess::default();
                let PartialSuccess { rejected, error_message } = accepted;
                if !is_whole && self.warnings.is_due(COLLECTOR_WARNING_INTERVAL) {
                    warn!(
                        path,
                        rejected,
                        error_message,
                        "the OpenTelemetry collector (telemetry.otlp) rejected a part, or has a warning"
                    );
                }
                Some(usize::try_from(rejected).unwrap_or_default())
            }
            Err(error) => {
                if self.warnings.is_due(COLLECTOR_WARNING_INTERVAL) {
                    let endpoint = self.client.origin();
                    warn!(endpoint, path, %error, "the OpenTelemetry collector (telemetry.otlp) does not accept what it is sent");
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_recorded_traces_is_the_configured_one() {
        let spread = |ratio| {
            let sampler = Sampler::new(ratio);
            let ids = (0..1000_u128).map(|at| at * (1 << 56) / 1000 + (at << 64));
            ids.filter(|id| sampler.takes(*id)).count()
        };
        assert_eq!([0.0, 0.25, 1.0].map(spread), [0, 250, 1000]);
    }
}
