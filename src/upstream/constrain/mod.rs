//! Constraints that let a model write only valid calls; one pure file a kind.

pub mod llama_grammar;
