//! What a server cannot know that tells its model of the tools itself.

use std::fmt::Write as _;

use super::contract::RULES;
use super::order;
use crate::tools::Catalog;

/// How a call's arguments are to be written: told to a model that wrote something else.
pub(in crate::orchestrator) const EXAMPLE: &str =
    "with its arguments as one JSON object, such as {\"key\": \"value\"}";

/// Adds when to call, and for whom calls wait. How to call is the server's to teach, and
/// what calls are named by: a reference cannot be taught.
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
