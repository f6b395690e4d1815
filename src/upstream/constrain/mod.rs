//! Constraints that let a model write only valid calls; one pure file a kind.
//!
//! A further kind is a variant of [`Constraint`] and a module beside
//! `llama_grammar` that makes the request's fields from the offered tools.

pub mod llama_grammar;

use serde_json::{Map, Value};

use crate::upstream::ChatRequest;

/// What keeps the model of one upstream to valid calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// A GBNF grammar, for llama.cpp and what is built on it.
    LlamaGrammar,
}

impl Constraint {
    /// The fields that ask a server for it. `None` if no tool is offered: there is nothing
    /// to hold the model to.
    #[must_use]
    pub fn request_fields(&self, round: &ChatRequest) -> Option<Map<String, Value>> {
        let ChatRequest { tools, tool_choice, format, .. } = round;
        if tools.is_empty() {
            return None;
        }
        match self {
            Self::LlamaGrammar => Some(llama_grammar::request_fields(tools, tool_choice, format)),
        }
    }
}
