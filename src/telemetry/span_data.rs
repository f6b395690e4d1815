//! What is known of a span that is over.

use std::time::SystemTime;

use crate::trace_context::TraceContext;

/// What is known of a span or a measurement, by the names of the conventions.
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

/// Which side of an exchange a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Work inside this process.
    Internal,
    /// A request to another process.
    Client,
}

/// A span that is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpanData {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) begun: SystemTime,
    pub(crate) ended: SystemTime,
    pub(crate) attributes: Attributes,
    /// What went wrong: a code.
    pub(crate) error: Option<&'static str>,
}
