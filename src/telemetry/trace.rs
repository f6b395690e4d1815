//! Spans for tracing systems (OpenTelemetry), and the contexts that are handed on.
//!
//! Without an exporter, a span only hands on the context that it was begun in.

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
    /// What those that it asks are told; `None` if there is no trace.
    context: Option<TraceContext>,
    parent: Option<u64>,
    begun: SystemTime,
    instant: Instant,
    is_recorded: bool,
}

impl Span {
    /// Begins a span in this context, or a trace of its own.
    pub(crate) fn begin(parent: Option<&TraceContext>) -> Self {
        let (begun, instant) = (SystemTime::now(), Instant::now());
        let Some(sampler) = otlp::sampler() else {
            let context = parent.cloned();
            return Self { context, parent: None, begun, instant, is_recorded: false };
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
        Self { context: Some(context), parent, begun, instant, is_recorded }
    }

    /// Begins a span below this one.
    pub(crate) fn child(&self) -> Self {
        Self::begin(self.context.as_ref())
    }

    /// What is handed on to those that it asks.
    pub(crate) const fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Ends the span. `describe` is asked only if it is recorded.
    pub(crate) fn end(
        self,
        kind: SpanKind,
        error: Option<&'static str>,
        describe: impl FnOnce() -> (String, Attributes),
    ) {
        let Some(context) = self.context.filter(|_| self.is_recorded) else { return };
        let (name, attributes) = describe();
        let (begun, ended) = (self.begun, self.begun + self.instant.elapsed());
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
