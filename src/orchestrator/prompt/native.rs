//! The prompt for a server that presents the tools itself: only what the server cannot know.

use std::fmt::Write as _;

use super::contract::RULES;
use super::order;
use crate::tools::Catalog;

/// How to write a call's arguments, for a model that wrote something else.
pub(in crate::orchestrator) const EXAMPLE: &str =
    "with its arguments as one JSON object, such as {\"key\": \"value\"}";

/// Adds when to call and which calls wait for others. The server teaches how to call and chooses
/// the call ids, so references cannot be taught here.
pub(super) fn push(prompt: &mut String, tools: &Catalog) {
    let _ = write!(prompt, "\n\n{RULES}");
    for spec in tools.specs() {
        if let Some(order) = order::words(spec.policy) {
            let _ = write!(prompt, "\n{}: {order}", spec.name);
        }
    }
    if let Some((_, stop)) = order::stop(tools) {
        let _ = write!(prompt, "\n{stop}");
    }
}
