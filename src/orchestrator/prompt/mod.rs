//! The system prompt: the operator's words, the tools, how to call one.
//!
//! Given a vague prompt, models describe a call instead of making it. The order and wording were
//! measured with a small model (`docs/prompting.md`): tools come first, rules last, and examples
//! are messages of their own.

mod closing;
mod contract;
mod examples;
mod named;
mod native;
mod order;
#[cfg(test)]
mod tests;
mod tools;

pub(super) use closing::{GO_ON, SYNTHESIS, SYNTHESIS_AGAIN, SYNTHESIS_IN_FORM};
pub(super) use native::EXAMPLE as NATIVE_EXAMPLE;

use super::selection::Selection;
use crate::call_format::CallFormat;
use crate::conversation::Turn;
use crate::tools::Catalog;

/// The tools that a prompt tells about.
pub(super) struct Tools<'a> {
    /// All that may be called.
    pub(super) all: &'a Catalog,
    /// Those told in full.
    pub(super) told: &'a Catalog,
    pub(super) selection: &'a Selection,
}

/// The system message for a model that writes its calls in this format.
pub(super) fn system(operator: &str, tools: &Tools<'_>, format: &CallFormat) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.all.is_empty() {
        tools::push(&mut prompt, tools.told, format);
        named::push(&mut prompt, tools.all, tools.selection);
        order::push(&mut prompt, tools.told);
        contract::push(&mut prompt, format);
    }
    prompt
}

/// Exchanges that precede the session's own, for a model that writes its calls itself.
pub(super) fn examples(tools: &Catalog) -> Vec<Turn> {
    if tools.is_empty() { Vec::new() } else { examples::turns(tools) }
}

/// The system message for a model whose server presents the tools to it.
pub(super) fn native_system(operator: &str, tools: &Tools<'_>) -> String {
    let mut prompt = operator.trim_end().to_owned();
    if !tools.all.is_empty() {
        native::push(&mut prompt, tools.told);
        if tools.selection.is_partial() {
            prompt.push('\n');
            named::push(&mut prompt, tools.all, tools.selection);
            prompt.truncate(prompt.trim_end().len());
        }
    }
    prompt
}
