//! A call as the line that a model writes it in.

use std::fmt::Write as _;

use crate::conversation::Call;
use crate::text;

/// Adds a call to some words that end with a line.
pub(super) fn push(words: &mut String, marker: &str, call: &Call) {
    let name = text::quote(&call.name);
    let arguments = call.arguments.as_str();
    let _ = writeln!(words, "{marker} {{\"name\": {name}, \"arguments\": {arguments}}}");
}
