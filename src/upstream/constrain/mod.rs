//! Constraints that let a model write only valid calls; one pure file per kind.
//!
//! ```text
//!   tools, choice, format ──grammar──> GBNF ──┬── llama_grammar ───> "grammar", lazy if the server can
//!                      │                      └── structural_tag ──> "response_format": text, then calls
//!                      └────────────────────────── json_schema ────> "response_format": one call
//! ```

#[cfg(test)]
mod cases;
pub(crate) mod grammar;
mod held;
mod json_schema;
mod llama_grammar;
mod structural_tag;

pub(crate) use held::Held;
pub(crate) use structural_tag::Form;

use serde::Serialize;
use serde_json::{Map, Value};

use self::grammar::Callable;
use crate::upstream::ChatRequest;
use crate::upstream::models::Flavour;

/// What restricts the model of an upstream to valid calls: `upstreams[].constrain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Constrain {
    /// What the server is known to hold to.
    #[default]
    Auto,
    /// Only the prompt.
    None,
    /// A GBNF grammar, for llama.cpp and software built on it.
    LlamaGrammar,
    /// Tags, for vLLM, `SGLang` and other servers with xgrammar.
    StructuralTag,
    /// A JSON Schema for answers that must be a call, for all others.
    JsonSchema,
}

/// What a request is restricted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// See [`Constrain::LlamaGrammar`].
    LlamaGrammar,
    /// See [`Constrain::StructuralTag`].
    StructuralTag(Form),
    /// See [`Constrain::JsonSchema`].
    JsonSchema,
}

impl Constrain {
    /// All of them, with their names in the configuration.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("none", Self::None),
        ("llama_grammar", Self::LlamaGrammar),
        ("structural_tag", Self::StructuralTag),
        ("json_schema", Self::JsonSchema),
    ];

    /// The constraint for a server of this kind.
    #[must_use]
    pub(crate) const fn on(self, flavour: Flavour) -> Option<Constraint> {
        match (self, flavour) {
            (Self::LlamaGrammar, _) | (Self::Auto, Flavour::LlamaCpp) => {
                Some(Constraint::LlamaGrammar)
            }
            (Self::StructuralTag, _) | (Self::Auto, Flavour::Vllm | Flavour::Sglang) => {
                Some(Constraint::StructuralTag(Form::Tree))
            }
            (Self::JsonSchema, _) => Some(Constraint::JsonSchema),
            (Self::None, _) | (Self::Auto, Flavour::Ollama | Flavour::Other) => None,
        }
    }
}

impl Constraint {
    /// The request fields that ask a server for the constraint. `None` if no tool is offered,
    /// because there is nothing to restrict the model to, or if the constraint has no words for the
    /// calls. `prompt` is what the model reads, if that is known.
    #[must_use]
    pub(crate) fn request_fields(
        self,
        round: &ChatRequest,
        prompt: &str,
    ) -> Option<Map<String, Value>> {
        let ChatRequest { tools, named, tool_choice, format, .. } = round;
        // With native calls, the server itself ensures that they are valid; llama.cpp refuses a
        // constraint beside them.
        if tools.is_empty() || !round.contract.is_in_text() {
            return None;
        }
        let callable = Callable { tools, named };
        match self {
            Self::LlamaGrammar => {
                let reasoning = format.row().reasoning_open_in(prompt);
                Some(llama_grammar::request_fields(callable, tool_choice, format, reasoning))
            }
            Self::StructuralTag(form) => {
                structural_tag::request_fields(callable, tool_choice, format, form)
            }
            Self::JsonSchema => json_schema::request_fields(callable, tool_choice, format),
        }
    }

    /// What to ask for if a server has refused this.
    #[must_use]
    pub(crate) const fn weaker(self) -> Option<Self> {
        match self {
            Self::StructuralTag(Form::Tree) => Some(Self::StructuralTag(Form::Structures)),
            Self::LlamaGrammar | Self::StructuralTag(Form::Structures) | Self::JsonSchema => None,
        }
    }
}
