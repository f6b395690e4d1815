//! Model servers: how to request a round, and how to read the answer.
//!
//! `client`, `server`, `round`, `timeouts` and `patience` do the I/O. Everything between the bytes and the
//! turn is pure: bytes become frames ([`sse`]), and frames become [`Delta`]s (one folder per
//! dialect).

mod chat_template;
pub(crate) mod client;
mod configured;
pub(crate) mod constrain;
mod cool_down;
mod detect;
pub mod dialect;
mod extra_sampling;
mod failure;
mod frame_error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod identity;
mod image_support;
mod local;
mod message;
mod models;
mod native_calls;
mod overflow;
mod patience;
mod prelude;
mod round;
mod route;
mod server;
pub mod server_error;
pub mod sse;
mod timeouts;

pub use configured::{Kind, Options, Upstream};
pub use constrain::Constrain;
pub(crate) use detect::Detected;
pub use extra_sampling::ExtraSampling;
pub use failure::RoundFailure;
pub use frame_error::FrameError;
pub(crate) use identity::Identity;
pub use local::{LocalAnswer, LocalModel};
pub use message::{Image, Images};
pub(crate) use message::{Message, MessageCall, MessagePart, ReasoningItem, Role};
pub(crate) use round::Round;
pub(crate) use route::{Fallback, Opened, PassedOver, Route};
pub use server::{OptionsError, ServerOptions};

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call_format::{CallContract, CallFormat, Label, Row};
use crate::event::Usage;
use crate::limits::config::TEMPERATURE_MAX;
use crate::limits::server::{STOP_STRING_CHARS_MAX, STOP_STRINGS_MAX};
use crate::trace_context::TraceContext;

/// What one frame of a model server's stream adds to the message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delta<'a> {
    /// Text. It may hold calls, which the parser reads.
    Text(&'a str),
    /// Reasoning that the server has already separated from the text.
    Reasoning(&'a str),
    /// A reasoning item, as JSON, that the server wants back in the turn's next rounds.
    ReasoningItem(&'a str),
    /// The start of a call that the server itself has separated from the text. The calls of a
    /// round are numbered from 0.
    CallStarted {
        /// Identifies the call in the deltas that follow.
        index: u32,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call.
        index: u32,
        /// The next piece of the arguments' text.
        json: &'a str,
    },
    /// The end of a call, as far as the server knows. Calls complete in order.
    CallCompleted {
        /// The call.
        index: u32,
        /// The tool's name; empty if the server gave none.
        name: &'a str,
        /// The full text of the arguments, usually a JSON object.
        arguments: &'a str,
    },
    /// The model stopped. Calls that were cut off complete after this.
    Finish(RoundFinish),
    /// Token counts of this round.
    Usage(Usage),
}

impl Delta<'_> {
    /// Whether the model wrote this, as opposed to its server.
    #[must_use]
    pub(crate) const fn is_said(&self) -> bool {
        match self {
            Self::Text(_)
            | Self::Reasoning(_)
            | Self::CallStarted { .. }
            | Self::CallArguments { .. }
            | Self::CallCompleted { .. } => true,
            Self::ReasoningItem(_) | Self::Finish(_) | Self::Usage(_) => false,
        }
    }

    /// How many bytes the model wrote in this delta. A completed call counts 0, because its
    /// pieces have been counted.
    #[must_use]
    pub(crate) const fn written_bytes(&self) -> usize {
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
    /// It was done, or it hit a stop sequence.
    Stop,
    /// It hit the token limit.
    Length,
    /// The server thinks that the model made a call.
    ToolCalls,
    /// A content filter cut it off.
    ContentFilter,
    /// Something else; servers invent these.
    Other,
}

impl RoundFinish {
    /// Its name, for logs.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// How calls and their results are sent back to a model: `upstreams[].history`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Calls as the text they were written in, results as a user message. Plain text, for
    /// servers and templates without `tool_calls`.
    #[default]
    Text,
    /// As `tool_calls` and tool messages.
    Native,
}

/// How a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// How it makes calls.
    pub(crate) contract: CallContract,
    /// How they are sent back to it.
    pub(crate) history: History,
    /// What their ids are like if its chat template writes them, and it was trained on one kind.
    pub(crate) call_ids: Option<&'static Label>,
    /// Whether a model that has to go on with its message is shown just the message: the server takes an
    /// unfinished one.
    pub(crate) prefills: bool,
    /// How often the room for the conversation is cut to three quarters, because the model's context could not hold a
    /// longer one.
    pub(crate) tightness: u8,
    /// Whether the instructions are the beginning of the user's first message, because the model's chat template takes
    /// no others.
    pub(crate) joins_system: bool,
}

impl Way {
    /// The way to ask a model with this contract. Only with a contract in text is its format known.
    #[must_use]
    pub fn of(contract: CallContract, history: History) -> Self {
        let call_ids = contract.row().and_then(Row::call_ids);
        Self { contract, history, call_ids, prefills: false, tightness: 0, joins_system: false }
    }

    /// What this tightness leaves of the room for a conversation.
    pub(crate) fn room(whole: usize, tightness: u8) -> usize {
        (0..tightness).fold(whole, |room, _| room / 4 * 3)
    }
}

/// One request to a model, not yet in the form of any upstream; any of them can answer it.
#[derive(Debug, Clone)]
pub struct RoundRequest {
    /// The conversation.
    pub prompt: Arc<dyn Prompt>,
    /// The images in it that could be loaded, for upstreams that take images.
    pub(crate) images: Images,
    /// How tokens are chosen.
    pub(crate) sampling: Sampling,
    /// Tools that the model may call in this round; none in a synthesis.
    pub(crate) tools: Arc<[OfferedTool]>,
    /// More tools that it may call, of which it knows the names only.
    pub(crate) named: Arc<[String]>,
    /// Whether the model must call one of them.
    pub(crate) tool_choice: ToolChoice,
    /// The JSON Schema of an answer that has to be JSON.
    pub answer: Option<Arc<Value>>,
    /// The trace that the request belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// The upstream to ask first, as an index into the turn's route, once another upstream has
    /// answered an earlier round.
    pub(crate) asked_first: Option<usize>,
}

/// Whether a round must call a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// At least one tool.
    Required,
    /// The tool with this name.
    Named(String),
}

impl ToolChoice {
    /// Whether a call of this tool satisfies the choice.
    #[must_use]
    pub(crate) fn allows(&self, tool: &str) -> bool {
        match self {
            Self::Auto | Self::Required => true,
            Self::Named(name) => name == tool,
        }
    }
}

impl RoundRequest {
    /// Renders the request for an upstream whose model is asked like this, with this sampling, and sees these images.
    #[must_use]
    pub(crate) fn render(&self, way: Way, sampling: &Sampling, images: &Images) -> ChatRequest {
        let contract = way.contract;
        // Native calls go back natively: as text, they would teach the model to write calls as text.
        let history = if contract.is_in_text() { way.history } else { History::Native };
        let mut messages = self.prompt.messages(Way { history, ..way }, images);
        if way.joins_system {
            message::join_system(&mut messages);
        }
        ChatRequest {
            is_prefilled: messages.last().is_some_and(|last| last.role == Role::Assistant),
            messages,
            sampling: sampling.clone(),
            tools: Arc::clone(&self.tools),
            named: Arc::clone(&self.named),
            tool_choice: self.tool_choice.clone(),
            answer: self.answer.clone(),
            trace: self.trace.clone(),
            format: self.prompt.format(contract),
            contract,
        }
    }
}

/// A conversation that can be rendered for models that are asked in any way.
pub trait Prompt: fmt::Debug + Send + Sync {
    /// The whole conversation with these images in it: a valid sequence that ends with something
    /// to answer.
    fn messages(&self, way: Way, images: &Images) -> Vec<Message>;

    /// How many tokens the conversation may have by our estimate, before any tightness.
    fn room_tokens(&self) -> usize;

    /// The same in bytes of text.
    fn room_bytes(&self) -> usize;

    /// Whether the model has to go on with a message that was cut off.
    fn goes_on(&self) -> bool {
        false
    }

    /// How a model with this contract writes calls in its text.
    fn format(&self, contract: CallContract) -> CallFormat;

    /// The ids of the images that a model should see, if it takes images.
    fn images(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One request to a model, ready to be written by a dialect.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The whole conversation, as this upstream takes it.
    pub messages: Vec<Message>,
    /// Whether the model goes on with the last of them, which is its own.
    pub is_prefilled: bool,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tools that the model may call in this round; none in a synthesis.
    pub tools: Arc<[OfferedTool]>,
    /// More tools that it may call, of which it knows the names only.
    pub named: Arc<[String]>,
    /// Whether the model must call one of them.
    pub tool_choice: ToolChoice,
    /// The JSON Schema of an answer that has to be JSON.
    pub answer: Option<Arc<Value>>,
    /// The trace that the request belongs to.
    pub(crate) trace: Option<TraceContext>,
    /// How the model makes calls.
    pub contract: CallContract,
    /// How it writes calls in its text.
    pub format: CallFormat,
}

impl ChatRequest {
    /// The tools that the request lists for the server. A server that has them reads calls by its own rules;
    /// otherwise calls come as text, as the system prompt or the chat template asks.
    pub(crate) fn native_tools(&self) -> &[OfferedTool] {
        if self.contract == CallContract::Native { &self.tools } else { &[] }
    }

    /// The ids of the images that the model is shown.
    #[must_use]
    pub(crate) fn image_ids(&self) -> Vec<String> {
        let images = self.messages.iter().flat_map(Message::images);
        images.map(|image| image.id.clone()).collect()
    }
}

/// A tool as it is described to the model.
#[derive(Debug, Clone, Serialize)]
pub struct OfferedTool {
    /// Its name.
    pub(crate) name: String,
    /// What it does.
    pub(crate) description: String,
    /// JSON Schema of its arguments.
    pub(crate) parameters: Value,
}

/// How tokens are chosen; the server decides on whatever is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// From 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = TEMPERATURE_MAX))]
    pub temperature: Option<f64>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f64>,
    /// The most tokens in one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u32>,
    /// For repeatable answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Strings that end the round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = STOP_STRINGS_MAX), inner(length(max = STOP_STRING_CHARS_MAX)))]
    pub stop: Vec<String>,
    /// More ways, which not every server knows.
    #[serde(skip)]
    pub extra: ExtraSampling,
}
