//! An ended span, as it goes to the exporter.

use std::time::SystemTime;

use crate::trace_context::TraceContext;

/// What is known about a span, by the names of the semantic conventions.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Int(u64),
    Float(f64),
    Bool(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Whether a span is work of this process or a request to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Work inside this process.
    Internal,
    /// A request to another process.
    Client,
}

/// An ended span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpanData {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) begun: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) attributes: Attributes,
    /// What went wrong, as a code; `None` if nothing did.
    pub(crate) error: Option<&'static str>,
}
