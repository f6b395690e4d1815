//! The tools that a model may call: what each is told to be, and how one runs.
//!
//! A tool comes back in one shape, [`ToolResult`], whatever its kind; a new kind
//! is one file that implements [`Tool`].

pub mod builtin;
mod catalog;
pub mod fault;
pub mod registry;
pub mod report;
mod result;
pub mod run;
pub mod schema;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

pub use catalog::{CallRefusal, Catalog};
pub use fault::ToolFault;
pub use registry::{Registry, RegistryError};
pub use report::{Progress, Reporter};
pub use result::{Clarification, ClarificationOption, NextAction, ToolResult};
pub use run::{Run, RunEnd};

/// What a model and a client are told of a tool.
#[derive(Debug, Clone, Serialize)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_.-]{1,64}`.
    pub name: String,
    /// One or two sentences: what it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// What the user hears while it runs: lower case, a present participle first and
    /// no full stop last, so that several make one sentence ("looking up your
    /// appointments", "checking your billing").
    pub waiting_hint: String,
    /// What the orchestrator may do with its calls.
    pub policy: Policy,
    /// A use of it, from which a model learns how calls are written and what to do with
    /// their results. The first two tools that have one are shown.
    #[serde(skip)]
    pub example: Option<Example>,
}

/// A use of a tool, from the question to the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// As a user would ask.
    pub question: String,
    /// The call's arguments, a JSON object.
    pub arguments: Value,
    /// The data that the tool returns.
    pub result: Value,
    /// The answer in words.
    pub answer: String,
}

/// What the orchestrator may do with a tool's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own, which an operator answers in the configuration"
)]
pub struct Policy {
    /// A call may come back asking the user; calls behind it wait.
    pub may_clarify: bool,
    /// A call changes the world; it waits for all before it.
    pub mutates: bool,
    /// Calls run one after the other.
    pub sequential: bool,
    /// A mutating call may be retried under the same idempotency key.
    pub idempotent: bool,
    /// A call may be made again with the same arguments in one turn: it polls something
    /// that changes by itself.
    pub repeatable: bool,
    /// Longest run, where it differs from `limits.tool_timeout_sec`.
    #[serde(
        rename = "timeout_sec",
        skip_serializing_if = "Option::is_none",
        serialize_with = "seconds"
    )]
    pub timeout: Option<Duration>,
}

impl Policy {
    /// A tool that only reads and answers at once.
    pub const NONE: Self = Self {
        may_clarify: false,
        mutates: false,
        sequential: false,
        idempotent: false,
        repeatable: false,
        timeout: None,
    };

    /// Whether calls behind one of this tool wait for it.
    #[must_use]
    pub const fn is_barrier(&self) -> bool {
        self.may_clarify || self.mutates || self.sequential
    }

    /// Whether it looks something up that can be ambiguous, and changes nothing.
    #[must_use]
    pub const fn is_lookup(&self) -> bool {
        self.may_clarify && !self.mutates
    }
}

#[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
fn seconds<S: serde::Serializer>(
    timeout: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    timeout.map(|timeout| timeout.as_secs_f64()).serialize(serializer)
}

/// Which attempt of which call a tool is asked for, and where it reports while it runs.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The same in all attempts of one call, and in no other call. A tool that
    /// mutates and is idempotent hands it on, so that the change is made once.
    pub idempotency_key: Arc<str>,
    /// Counted from 1.
    pub attempt: u32,
    /// Takes what the tool has to say before it ends: how far it is, or a question.
    pub reporter: Reporter,
}

impl CallContext {
    /// The first attempt of a call, to whose reports nobody listens.
    #[must_use]
    pub fn first(idempotency_key: impl Into<Arc<str>>) -> Self {
        let reporter = Reporter::default();
        Self { idempotency_key: idempotency_key.into(), attempt: 1, reporter }
    }
}

/// One attempt of a call. Dropping it abandons the call.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolResult, ToolFault>> + Send>>;

/// Something that a model can call.
pub trait Tool: fmt::Debug + Send + Sync {
    /// What the model and clients are told of it.
    fn spec(&self) -> &ToolSpec;

    /// Runs it. `arguments` are an object that the tool's schema has accepted.
    ///
    /// A tool that could not do its work ends with a [`ToolFault`]; where that is
    /// transient, it may be called again with the same arguments and key. What it has
    /// to say to the model, a refusal too, is a [`ToolResult`].
    ///
    /// A panic inside the future is caught by the caller and becomes an error
    /// result; so does running out of time.
    fn call(&self, arguments: Value, context: CallContext) -> ToolFuture;
}
