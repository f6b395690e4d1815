//! The system prompt: the operator's words, the tools, how to call one.
//!
//! Given a vague prompt, models describe a call instead of making it. The order and wording were
//! measured with a small model (`docs/prompting.md`): tools come first, rules last, and examples
//! are messages of their own.

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

/// The system message for a model that writes its calls in this format.
pub(super) fn system(operator: &str, tools: &Catalog, format: &CallFormat) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.is_empty() {
        tools::push(&mut prompt, tools, format);
        order::push(&mut prompt, tools);
        contract::push(&mut prompt, format);
    }
    prompt
}

/// Exchanges that precede the session's own, for a model that writes its calls itself.
pub(super) fn examples(tools: &Catalog) -> Vec<Turn> {
    if tools.is_empty() { Vec::new() } else { examples::turns(tools) }
}

/// The system message for a model whose server presents the tools to it.
pub(super) fn native_system(operator: &str, tools: &Catalog) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.is_empty() {
        native::push(&mut prompt, tools);
    }
    prompt
}
