//! Constraints that let a model write only valid calls; one pure file per kind.
//!
//! To add a kind, add a variant of [`Constraint`] and a module next to `llama_grammar` that
//! turns the offered tools into request fields.

#[cfg(test)]
mod cases;
pub(crate) mod llama_grammar;

use serde_json::{Map, Value};

use crate::upstream::ChatRequest;

/// What restricts the model of an upstream to valid calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// A GBNF grammar, for llama.cpp and software built on it.
    LlamaGrammar,
}

impl Constraint {
    /// The request fields that ask a server for the constraint. `None` if no tool is offered,
    /// because there is nothing to restrict the model to. `prompt` is what the model reads, if that
    /// is known.
    #[must_use]
    pub(crate) fn request_fields(
        &self,
        round: &ChatRequest,
        prompt: &str,
    ) -> Option<Map<String, Value>> {
        let ChatRequest { tools, named, tool_choice, format, .. } = round;
        // With native calls, the server itself ensures that they are valid; llama.cpp refuses a
        // constraint beside them.
        if tools.is_empty() || !round.contract.is_in_text() {
            return None;
        }
        match self {
            Self::LlamaGrammar => Some({
                let callable = llama_grammar::Callable { tools, named };
                let reasoning = format.row().reasoning_open_in(prompt);
                llama_grammar::request_fields(callable, tool_choice, format, reasoning)
            }),
        }
    }
}
