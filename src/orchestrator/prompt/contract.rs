//! The contract: how a call is written after a marker, and when to make one.

use std::fmt::Write as _;

/// When to call and when to answer.
pub(super) const RULES: &str = "Call a function only when the question needs what it alone can know \
     or do. Small talk, jokes, translations and general knowledge need none: answer in words. \
     Never guess a result, and never repeat what you have said before a call.";

/// A call as it is to be written: told to a model that wrote something else.
pub(in crate::orchestrator) fn example(marker: &str) -> String {
    format!("{marker} {{\"name\": \"tool_name\", \"arguments\": {{\"key\": \"value\"}}}}")
}

/// Adds it, the rules last: what is read last is followed most.
pub(super) fn push(prompt: &mut String, marker: &str) {
    let _ = write!(
        prompt,
        "\n# How to call a function\n\
         Write one line: the marker {marker}, a space, then one JSON object with \"name\" and \
         \"arguments\". Nothing else. Several calls are several lines.\n\
         {RULES}"
    );
}
