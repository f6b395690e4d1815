//! The tools that a model may call: how each is described, and how it runs.
//!
//! Every tool returns the same shape, [`ToolResult`]. A new kind of tool is one file that
//! implements [`Tool`].

pub mod builtin;
mod catalog;
pub(crate) mod clean;
pub mod client;
pub mod command;
mod digest;
pub(crate) mod fault;
pub(crate) mod form;
mod half_characters;
pub mod http;
mod keys;
pub mod mcp;
pub mod oauth;
pub mod outbound;
mod policy;
pub mod process;
pub(crate) mod question;
pub(crate) mod registry;
pub(crate) mod report;
pub(crate) mod reported;
mod result;
pub(crate) mod run;
pub(crate) mod schema;
pub mod search;
pub mod source;
mod sources;
mod throttle;

use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

pub use catalog::{Catalog, InvalidCall};
pub use fault::{Delivery, ToolFault};
pub use policy::{Confirm, Policy, PolicyPatch};
pub use question::{Continuation, Given, Resumption};
pub use registry::{Entry, Registry, RegistryError, check_parameters, is_tool_name};
pub use report::{Progress, Reporter};
pub(crate) use result::shortened;
pub use result::{
    Clarification, ClarificationOption, ListedFile, NextAction, ToolFile, ToolResult,
};
pub use run::{Run, RunEnd, RunLimits};
pub use schema::{SchemaError, Unsupported};
pub use source::{Glob, Source, SourceKind, SourceReport};
pub use sources::{Sources, Toolset};

pub use crate::trace_context::TraceContext;

/// What models and clients are told about a tool.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_.-]{1,64}`.
    pub name: String,
    /// A name for people, if the tool has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// One or two sentences: what it does and when to use it.
    pub description: String,
    /// A JSON Schema of the arguments, which are an object. Arguments are checked against it.
    pub parameters: Value,
    /// The part of the parameters that models need to read, if that is not all of them.
    #[serde(skip)]
    pub told: Option<Value>,
    /// What the user sees while it runs. It starts with a present participle, in lower case, and
    /// has no full stop, so that several can form one sentence ("looking up your appointments",
    /// "checking your billing").
    pub waiting_hint: String,
    /// What the orchestrator may do with its calls.
    pub policy: Policy,
    /// An example that shows models how to write its calls and what to do with the results.
    /// Prompts show the examples of the first two tools that have one.
    #[serde(skip)]
    pub example: Option<Example>,
    /// Where it comes from.
    pub source: Source,
    /// Its name there, if the source has several tools and names them itself.
    #[serde(skip)]
    pub source_name: Option<String>,
    /// A hash of what runs behind its name, if that is not the gateway: a program with its
    /// arguments, or an address. What changes without being another tool is not part of it, such
    /// as keys.
    #[serde(skip)]
    pub implementation: String,
}

impl ToolSpec {
    /// The parameters as models read them: a JSON Schema that allows what
    /// [`parameters`](Self::parameters) allow, except values and names that hide something.
    #[must_use]
    pub fn told_parameters(&self) -> &Value {
        self.told.as_ref().unwrap_or(&self.parameters)
    }

    /// Whether the client runs it, and not the gateway.
    #[must_use]
    pub(crate) fn is_clients(&self) -> bool {
        self.source.kind == SourceKind::Client
    }

    /// A SHA-256 of everything that users rely on when they approve calls of this tool, in
    /// hexadecimal. It changes if the tool becomes another one under the same name.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self { name, title, description, parameters, policy, source, implementation, .. } =
            self;
        digest::of(&json!([name, title, description, parameters, policy, source, implementation]))
    }
}

/// A use of a tool, from the question to the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The question, as a user would ask it.
    pub question: String,
    /// The call's arguments, a JSON object.
    pub arguments: Value,
    /// The data that the tool returns.
    pub result: Value,
    /// The answer in words.
    pub answer: String,
}

/// Identifies an attempt of a call, and takes the tool's reports.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The same in all attempts of one call, and in no other call. An idempotent tool passes it
    /// on, so that its change is made only once.
    pub idempotency_key: Arc<str>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Takes what the tool reports before it ends: progress, or a question.
    pub reporter: Reporter,
    /// The answer, if the tool asked to be called again with it.
    pub resumption: Option<Resumption>,
    /// Whose call it is: the id of the session, which only tells calls apart.
    pub session: Arc<str>,
    /// Whether the user can answer questions only in words, or by naming an option.
    pub words_only: bool,
    /// The trace that the call belongs to, if its client or the gateway records one.
    pub trace: Option<TraceContext>,
}

impl CallContext {
    /// The same for a tool that is given these keys: what it reports is shown without them.
    fn hiding(self, keys: &keys::Keys) -> Self {
        Self { reporter: self.reporter.hiding(keys), ..self }
    }

    /// The first attempt of a call, with reports that go nowhere.
    #[must_use]
    pub fn first(idempotency_key: impl Into<Arc<str>>) -> Self {
        let reporter = Reporter::default();
        Self {
            idempotency_key: idempotency_key.into(),
            attempt: 1,
            reporter,
            resumption: None,
            session: Arc::default(),
            words_only: false,
            trace: None,
        }
    }

    /// The `traceparent` for requests of the call (W3C Trace Context). A call that belongs to no trace gets one
    /// of its own, in which each attempt is a span.
    pub(crate) fn traceparent(&self) -> String {
        if let Some(trace) = &self.trace {
            return trace.to_string();
        }
        let call = digest::of_text(&self.idempotency_key);
        let (trace, span) = (&call[..32], &call[32..40]);
        format!("00-{trace}-{span}{:08x}-01", self.attempt)
    }
}

impl CallContext {
    /// The `tracestate` for requests of the call, if there is any.
    pub(crate) fn tracestate(&self) -> Option<&str> {
        self.trace.as_ref()?.state.as_deref()
    }
}

/// The wait until nothing of earlier calls goes on.
pub type Settled<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One attempt of a call. Dropping it abandons the call.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolResult, ToolFault>> + Send>>;

/// A tool that a model can call.
pub trait Tool: fmt::Debug + Send + Sync {
    /// What models and clients are told about it.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Runs the tool. `arguments` are an object that its schema has accepted.
    ///
    /// A tool that could not do its work returns a [`ToolFault`]. If the fault is transient, the
    /// tool may be called again with the same arguments and key. Anything it has to say to the
    /// model, including a refusal, is a [`ToolResult`].
    ///
    /// The caller catches panics inside the future and turns them into error results. It does the
    /// same if the time runs out.
    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture;

    /// What traces show of its calls, besides what they show of every tool's: OpenTelemetry's names with texts
    /// or integers.
    fn trace_attributes(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// How often and for how long a call may be attempted.
    fn run_limits(&self) -> RunLimits {
        RunLimits::default()
    }

    /// Whether a call that changes something may be repeated only under its own idempotency key. If the
    /// model makes it again, which is another call, the tool does its work again.
    fn needs_own_key(&self) -> bool {
        false
    }

    /// Waits until nothing that this session's earlier calls started is still running, for a few seconds at most. A call
    /// that was abandoned may take that long to end it.
    ///
    /// A call that changes something waits for this before it begins, and before it is reported as out of time.
    fn settled<'a>(&'a self, _session: &'a str) -> Settled<'a> {
        Box::pin(future::ready(()))
    }

    /// Lets go of whatever the tool keeps for a session, which is gone for good.
    fn forget(&self, _session: &str) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_implementation_is_another_tool() {
        let spec = |implementation: &str| ToolSpec {
            name: "search".into(),
            implementation: implementation.into(),
            ..ToolSpec::default()
        };
        assert_eq!(spec("grep").digest(), spec("grep").digest());
        assert_ne!(spec("grep").digest(), spec("rm").digest());
    }

    #[test]
    fn attempts_are_spans_of_one_trace() {
        let span = |key: &str, attempt| {
            let traceparent = CallContext { attempt, ..CallContext::first(key) }.traceparent();
            assert_eq!(traceparent.len(), 55);
            traceparent.split('-').map(str::to_owned).collect::<Vec<_>>()
        };
        let (one, again, other) = (span("a", 1), span("a", 2), span("b", 1));
        assert!(one[1] == again[1] && one[2] != again[2] && one[1] != other[1]);
    }
}
