//! Spans for tracing systems (OpenTelemetry), and the trace contexts that go out with requests.
//!
//! Without an exporter, a span only passes on the context in which it began.

use std::time::SystemTime;

use tokio::time::Instant;
use uuid::Uuid;

use super::otlp;
use super::span_data::SpanData;
pub(crate) use super::span_data::{Attributes, SpanKind, Value};
use crate::trace_context::TraceContext;

/// A span that is under way.
#[derive(Debug)]
pub(crate) struct Span {
    /// The context for requests from within this span; `None` if there is no trace.
    context: Option<TraceContext>,
    parent: Option<u64>,
    begun: SystemTime,
    /// The same moment on the monotonic clock, to measure the duration.
    since: Instant,
    is_recorded: bool,
}

impl Span {
    /// Begins a span below `parent`. Without one, the span begins a trace if there is an exporter.
    pub(crate) fn begin(parent: Option<&TraceContext>) -> Self {
        let (begun, since) = (SystemTime::now(), Instant::now());
        let Some(sampler) = otlp::sampler() else {
            let context = parent.cloned();
            return Self { context, parent: None, begun, since, is_recorded: false };
        };
        let context = parent.map_or_else(
            || {
                let trace_id = Uuid::new_v4().as_u128();
                TraceContext::root(trace_id, span_id(), sampler.takes(trace_id))
            },
            |parent| parent.child(span_id()),
        );
        let is_recorded = context.is_sampled();
        let parent = parent.map(|parent| parent.span_id);
        Self { context: Some(context), parent, begun, since, is_recorded }
    }

    /// Begins a span below this one.
    pub(crate) fn child(&self) -> Self {
        Self::begin(self.context.as_ref())
    }

    /// The context for requests from within this span.
    pub(crate) const fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Ends the span; `error` is what went wrong, as a code. `describe` gives its name and attributes, and is
    /// called only if the span is recorded.
    pub(crate) fn end(
        self,
        kind: SpanKind,
        error: Option<&'static str>,
        describe: impl FnOnce() -> (String, Attributes),
    ) {
        let Some(context) = self.context.filter(|_| self.is_recorded) else { return };
        let (name, attributes) = describe();
        let (begun, ended) = (self.begun, self.begun + self.since.elapsed());
        otlp::export(SpanData {
            context,
            parent: self.parent,
            name,
            kind,
            begun,
            ended,
            attributes,
            error,
        });
    }
}

/// A random id that is not 0.
fn span_id() -> u64 {
    let (high, low) = Uuid::new_v4().as_u64_pair();
    (high ^ low.rotate_left(32)).max(1)
}
