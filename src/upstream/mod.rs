//! Model servers: how a round is asked for, and how its answer is read.
//!
//! `client`, `server`, `round` and `timeouts` do the I/O; what is between the bytes and the
//! turn is pure: bytes become frames ([`sse`]), frames become [`Delta`]s (one file
//! per dialect).

pub mod client;
mod configured;
pub mod constrain;
mod cool_down;
pub mod dialect;
mod failure;
mod frame_error;
mod local;
mod message;
mod models;
mod native_calls;
mod prelude;
mod round;
mod route;
mod server;
pub mod server_error;
pub mod sse;
mod timeouts;

pub use configured::{Kind, Options, Upstream};
pub use failure::RoundFailure;
pub use frame_error::FrameError;
pub use local::{LocalAnswer, LocalModel};
pub use message::{Message, MessageCall, MessagePart, ReasoningItem, Role};
pub use models::{Flavour, Models};
pub use round::Round;
pub use route::{Instead, Opened, PassedOver, Route};
pub use server::{OptionsError, ServerOptions};

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::call_format::CallFormat;
use crate::event::Usage;

/// What one frame of a model server's stream adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delta<'a> {
    /// Words, calls included: the parser reads them.
    Text(&'a str),
    /// Reasoning that the server has separated already.
    Reasoning(&'a str),
    /// Reasoning as an item, JSON, that the server wants back in the turn's next rounds.
    ReasoningItem(&'a str),
    /// A call begins that the server tells from the words itself. Calls of a round
    /// count from 0.
    CallStarted {
        /// Names it in what follows.
        index: u32,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call.
        index: u32,
        /// The next piece of their text.
        json: &'a str,
    },
    /// A call is whole, as far as the server knows. Calls become whole in their order.
    CallCompleted {
        /// The call.
        index: u32,
        /// The tool's name; empty where the server gave none.
        name: &'a str,
        /// All of the arguments' text, mostly a JSON object.
        arguments: &'a str,
    },
    /// The model stopped. What was cut becomes whole behind it.
    Finish(RoundFinish),
    /// Tokens of this round.
    Usage(Usage),
}

impl Delta<'_> {
    /// Whether the model has written it, and not its server beside that.
    #[must_use]
    pub const fn is_said(&self) -> bool {
        match self {
            Self::Text(_)
            | Self::Reasoning(_)
            | Self::CallStarted { .. }
            | Self::CallArguments { .. }
            | Self::CallCompleted { .. } => true,
            Self::ReasoningItem(_) | Self::Finish(_) | Self::Usage(_) => false,
        }
    }

    /// How much of what the model has written it holds, in bytes. A call that is whole has
    /// been told before, piece by piece.
    #[must_use]
    pub const fn written_bytes(&self) -> usize {
        match self {
            Self::Text(written)
            | Self::Reasoning(written)
            | Self::ReasoningItem(written)
            | Self::CallArguments { json: written, .. } => written.len(),
            Self::CallStarted { .. }
            | Self::CallCompleted { .. }
            | Self::Finish(_)
            | Self::Usage(_) => 0,
        }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundFinish {
    /// It was done, or met a stop sequence.
    Stop,
    /// It ran into the token limit.
    Length,
    /// The server thinks that it made a call.
    ToolCalls,
    /// A filter cut it off.
    ContentFilter,
    /// Something else; servers invent these.
    Other,
}

impl RoundFinish {
    /// Its name, for logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// How calls and their results go back to a model: `upstreams[].history`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Calls as the line they were written in, results as a user's message: plain
    /// text, for servers and templates that know no `tool_calls`.
    #[default]
    Text,
    /// As `tool_calls` and tool messages.
    Native,
}

/// One request to a model, in no upstream's form yet: any of them can answer it.
#[derive(Debug, Clone)]
pub struct RoundRequest {
    /// What the model is told.
    pub prompt: Arc<dyn Prompt>,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
    /// Tools that may be called in this round; none in a synthesis.
    pub tools: Arc<[OfferedTool]>,
    /// Whether it has to call one of them.
    pub tool_choice: ToolChoice,
    /// How the model writes calls in its words.
    pub format: CallFormat,
    /// The upstream that is asked first, by its place in the turn's route, if it has answered
    /// instead of another before.
    pub asked_first: Option<usize>,
}

/// Whether a round has to call a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// The tool of this name.
    Named(String),
}

impl ToolChoice {
    /// Whether a call of this tool will do.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        match self {
            Self::Auto | Self::Required => true,
            Self::Named(name) => name == tool,
        }
    }
}

impl RoundRequest {
    /// The request as an upstream takes it.
    #[must_use]
    pub fn render(&self, history: History) -> ChatRequest {
        let messages = self.prompt.messages(history);
        ChatRequest {
            messages,
            sampling: self.sampling.clone(),
            tools: Arc::clone(&self.tools),
            tool_choice: self.tool_choice.clone(),
            format: self.format.clone(),
        }
    }
}

/// What a model is told: a conversation that can be written down in each form.
pub trait Prompt: fmt::Debug + Send + Sync {
    /// The whole of it, a valid sequence that ends with something to answer.
    fn messages(&self, history: History) -> Vec<Message>;
}

/// One request to a model: rendered, ready for a dialect to write down.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The whole conversation as this upstream takes it.
    pub messages: Vec<Message>,
    /// How the next tokens are chosen.
    pub sampling: Sampling,
    /// Tools that may be called in this round; none in a synthesis.
    pub tools: Arc<[OfferedTool]>,
    /// Whether it has to call one of them.
    pub tool_choice: ToolChoice,
    /// How the model writes calls in its words.
    pub format: CallFormat,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, Serialize)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// How tokens are chosen; what is absent is left to the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Over 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Tokens of one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// For repeatable answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Strings that end the round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}
