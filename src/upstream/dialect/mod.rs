//! Dialects: how to ask each kind of model server, and how to read its answers. All pure.
//!
//! A dialect is one folder and one variant of [`Kind`]; no other code names them.

mod chat_message;
mod data_url;
pub(super) mod json_string;
pub(super) mod lenient;
pub(crate) mod llama_completion;
pub mod openai_chat;
pub(crate) mod openai_responses;

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::constrain::{Constrain, Held};
use super::frame_error::FrameError;
use super::models::Flavour;
use super::sse::Frame;
use super::{ChatRequest, Delta};

/// How to ask a model server.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// The path for requesting rounds, appended to the server's base URL.
    fn path(&self) -> &'static str;

    /// The body of the request that renders the chat template before a round, if the dialect sends
    /// prompts instead of messages.
    fn template_body(&self, _round: &ChatRequest, _model: &str) -> Option<Vec<u8>> {
        None
    }

    /// The body of the request for a round.
    fn body(&self, round: &ChatRequest, server: &Server<'_>) -> Vec<u8>;

    /// Creates the decoder for the answer to a round.
    fn decoder(&self, round: &ChatRequest) -> Box<dyn Decode>;

    /// What restricts the model to valid calls, if the dialect can carry that.
    #[expect(private_interfaces, reason = "only dialects of this crate have any")]
    fn constraint(&self) -> Option<&Held> {
        None
    }

    /// Which variant of requests it writes at present. What it learns may change that, and a
    /// request that was refused may then succeed.
    fn variant(&self) -> u8 {
        self.constraint().map_or(0, Held::refusals)
    }

    /// Learns from what a server said when it refused a request of this variant, how to request rounds from now on.
    /// Returns whether that can be [taken back](Self::unlearn).
    fn learn_refusal(&self, told: &str, has_tools: bool, variant: u8) -> bool {
        self.constraint()
            .is_some_and(|constraint| constraint.learn_refusal(told, has_tools, variant))
    }

    /// Takes back what a round has learnt from the refusals of these variants: it has not helped.
    fn unlearn(&self, refused: RangeInclusive<u8>) {
        if let Some(constraint) = self.constraint() {
            constraint.unlearn(refused);
        }
    }

    /// Forgets what the server has refused, because it may have been replaced.
    fn forget_refusals(&self) {
        if let Some(constraint) = self.constraint() {
            constraint.forget();
        }
    }
}

/// How to read the answer of a model server.
pub trait Decode: fmt::Debug + Send {
    /// Passes the deltas of a frame to `sink`.
    ///
    /// # Errors
    /// If the API never sends such a frame, or if the frame reports an error.
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        sink: &mut dyn FnMut(Delta<'_>),
    ) -> Result<(), FrameError>;

    /// Whether the model has given a reason to stop. A stream that ends earlier was cut off.
    fn is_finished(&self) -> bool;

    /// Whether nothing follows.
    fn is_done(&self) -> bool;

    /// The model that answers, by the name that the server has for it, if the server says so.
    fn model(&self) -> Option<&str> {
        None
    }
}

/// What is known about a server when a request is written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Server<'a> {
    /// The model's name on the server.
    pub(crate) model: &'a str,
    /// The kind of server.
    pub(crate) flavour: Flavour,
    /// The rendered conversation; empty for dialects that send messages.
    pub(crate) prompt: &'a str,
}

/// The part of an upstream's configuration that a dialect needs.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The upstream's name; reasoning goes back only to where it came from.
    pub(crate) upstream: String,
    /// What restricts the model to valid calls.
    pub(crate) constrain: Constrain,
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
    /// llama.cpp's `/apply-template` and `/completion`.
    LlamaCompletion,
}

impl Kind {
    /// All dialects, with their names in the configuration.
    pub(crate) const ALL: [(&'static str, Self); 3] = [
        ("openai_chat", Self::OpenaiChat),
        ("openai_responses", Self::OpenaiResponses),
        ("llama_completion", Self::LlamaCompletion),
    ];

    /// Whether the dialect can carry a constraint.
    #[must_use]
    pub(crate) const fn takes_constraint(self) -> bool {
        match self {
            Self::OpenaiChat | Self::LlamaCompletion => true,
            Self::OpenaiResponses => false,
        }
    }

    /// Whether it sends prompts, rendered from the model's chat template, instead of messages.
    #[must_use]
    pub(crate) const fn sends_prompts(self) -> bool {
        match self {
            Self::LlamaCompletion => true,
            Self::OpenaiChat | Self::OpenaiResponses => false,
        }
    }

    /// Creates the dialect for an upstream with these options.
    #[must_use]
    pub fn dialect(self, options: Options) -> Box<dyn Dialect> {
        match self {
            Self::OpenaiChat => Box::new(openai_chat::OpenaiChat::new(&options)),
            Self::OpenaiResponses => Box::new(openai_responses::OpenaiResponses::new(options)),
            Self::LlamaCompletion => Box::new(llama_completion::LlamaCompletion::new(&options)),
        }
    }
}

/// The decoder for models inside this process, which answer like a Chat Completions server.
pub(super) fn local_decoder() -> Box<dyn Decode> {
    Box::new(openai_chat::Decoder::new())
}
