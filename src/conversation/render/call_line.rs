//! A call as the line that a model writes it in.

use std::fmt::Write as _;

use crate::conversation::Call;
use crate::tools::words;

/// Adds a call to some words, on a line of its own.
pub(super) fn push(words: &mut String, marker: &str, call: &Call) {
    if !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    let name = words::quote(&call.name);
    let arguments = call.arguments.as_str();
    let _ = writeln!(words, "{marker} {{\"name\": {name}, \"arguments\": {arguments}}}");
}
