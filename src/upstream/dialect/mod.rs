//! Dialects: how model servers are asked, and how their answers are read. All of it is pure.
//!
//! A dialect is one folder and one row of [`Kind`]: nothing else knows which there are.

pub(super) mod json_string;
pub(super) mod lenient;
pub mod openai_chat;
pub mod openai_responses;

use std::fmt;

use serde::Serialize;

use super::constrain::Constraint;
use super::frame_error::FrameError;
use super::models::Flavour;
use super::sse::Frame;
use super::{ChatRequest, Delta, OfferedTool};

/// How a model server is asked.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// Where rounds are asked for, after the server's base URL.
    fn path(&self) -> &'static str;

    /// The body of the request for a round.
    fn body(&self, round: &ChatRequest, server: &Server<'_>) -> Vec<u8>;

    /// Reads the answer to a round.
    fn decoder(&self, round: &ChatRequest) -> Box<dyn Decode>;

    /// Whether the server has given reasoning that holds nothing, and would hold something
    /// if it were asked for encrypted.
    fn lacks_reasoning(&self, round: &ChatRequest) -> bool {
        let _ = round;
        false
    }
}

/// How the answer of a model server is read.
pub trait Decode: fmt::Debug + Send {
    /// Hands out what a frame brings.
    ///
    /// # Errors
    /// If the frame is nothing that the API sends, or reports an error.
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError>;

    /// Whether the model has given a reason to stop. A stream that ends before was cut off.
    fn is_finished(&self) -> bool;

    /// Whether nothing follows.
    fn is_done(&self) -> bool;
}

/// What is known of a server when it is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Server<'a> {
    /// The model's name there.
    pub model: &'a str,
    /// Which server it is.
    pub flavour: Flavour,
    /// Whether it is asked for its reasoning encrypted.
    pub encrypts_reasoning: bool,
}

/// What a dialect needs to know of an upstream's configuration.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The upstream's own name: reasoning goes back to where it came from.
    pub upstream: String,
    /// What keeps the model to valid calls.
    pub constraint: Option<Constraint>,
    /// Whether the server is told of the tools and reads their calls itself.
    /// llama.cpp refuses a constraint beside it.
    pub native_calls: bool,
}

impl Options {
    /// The round's tools, if the server is told of them. Otherwise their calls come as text,
    /// by the contract in the system prompt; a server that is told of tools reads calls itself,
    /// by its own rules.
    fn offered<'r>(&self, round: &'r ChatRequest) -> &'r [OfferedTool] {
        if self.native_calls { &round.tools } else { &[] }
    }
}

/// The dialects: `upstreams[].kind`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Chat Completions, streamed.
    #[default]
    OpenaiChat,
    /// The Responses API, streamed.
    OpenaiResponses,
}

impl Kind {
    /// All of them, by their names in the configuration.
    pub const ALL: [(&'static str, Self); 2] =
        [("openai_chat", Self::OpenaiChat), ("openai_responses", Self::OpenaiResponses)];

    /// Whether it can carry a constraint.
    #[must_use]
    pub const fn takes_constraint(self) -> bool {
        match self {
            Self::OpenaiChat => true,
            Self::OpenaiResponses => false,
        }
    }

    /// The dialect, for an upstream of these options.
    #[must_use]
    pub fn dialect(self, options: Options) -> Box<dyn Dialect> {
        match self {
            Self::OpenaiChat => Box::new(openai_chat::OpenaiChat(options)),
            Self::OpenaiResponses => Box::new(openai_responses::OpenaiResponses(options)),
        }
    }
}
