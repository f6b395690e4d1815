//! What a server cannot know that tells its model of the tools itself.

use std::fmt::Write as _;

use super::order;
use crate::tools::Registry;

/// A call's arguments as they are to be written, for a model that has not.
pub(in crate::orchestrator) const EXAMPLE: &str =
    "with its arguments as one JSON object, such as {\"key\": \"value\"}";

/// Adds when to call, and for whom calls wait. How to call is the server's to teach, and
/// what calls are named by: a reference cannot be taught.
pub(super) fn push(prompt: &mut String, tools: &Registry) {
    prompt.push_str(
        "\n\nAlways call a function where one fits. Never describe a call and never guess a \
         result. Where none fits, or when you have the results, answer in words.",
    );
    for spec in tools.specs() {
        if let Some(order) = order::words(spec.policy) {
            let _ = write!(prompt, "\n{}: {order}", spec.name);
        }
    }
    if let Some((_, stop)) = order::stop(tools) {
        let _ = write!(prompt, "\n{stop}");
    }
}
