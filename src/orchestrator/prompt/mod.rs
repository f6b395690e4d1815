//! The system prompt: the operator's words, the tools, how to call one.
//!
//! Vague prompts are why models describe a call instead of making it. Its order
//! and wording were measured with a small model (`docs/prompting.md`): the tools
//! come first, the rules last, and examples are messages of their own.

mod closing;
mod contract;
mod examples;
mod native;
mod order;
#[cfg(test)]
mod tests;
mod tools;

pub(super) use closing::{SYNTHESIS, SYNTHESIS_AGAIN};
pub(super) use native::EXAMPLE as NATIVE_EXAMPLE;

use crate::call_format::CallFormat;
use crate::conversation::Turn;
use crate::tools::Catalog;

/// The system message of a model that writes its calls in this format.
pub(super) fn system(operator: &str, tools: &Catalog, format: &CallFormat) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.is_empty() {
        tools::push(&mut prompt, tools);
        order::push(&mut prompt, tools);
        contract::push(&mut prompt, format);
    }
    prompt
}

/// Exchanges that come before those of the session, for a model that writes its calls itself.
pub(super) fn examples(tools: &Catalog) -> Vec<Turn> {
    if tools.is_empty() { Vec::new() } else { examples::turns(tools) }
}

/// The system message of a model whose server tells it of the tools.
pub(super) fn native_system(operator: &str, tools: &Catalog) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.is_empty() {
        native::push(&mut prompt, tools);
    }
    prompt
}
