//! Explains, in JSON's terms, which type a field of a request expects and what it got.

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::limits::server::REFUSED_VALUE_BYTES_MAX;
use crate::text::cut;

/// The reason why `body` is invalid, if its JSON has another type or size at `path` than the
/// field expects; `None` if there is another reason.
pub(super) fn explain(body: &[u8], path: &Path, error: &serde_json::Error) -> Option<String> {
    let reason = error.to_string();
    let is_mismatch = ["invalid type", "invalid value"].iter().any(|it| reason.starts_with(it));
    let expected = expected(path).filter(|_| is_mismatch)?;
    let got = match serde_json::from_slice(body) {
        Ok(whole) => cut(&at(&whole, path)?.to_string(), REFUSED_VALUE_BYTES_MAX),
        // The body breaks off after the field.
        Err(_) => "something else".to_owned(),
    };
    let (line, column) = (error.line(), error.column());
    Some(format!("expected {expected}, got {got} at line {line} column {column}"))
}

/// The type that a field expects. The request's shape is in `request`; a test keeps the two in
/// step.
fn expected(path: &Path) -> Option<&'static str> {
    Some(match &*pattern(path) {
        "" | "clarification_response" | "clarification_response.selected_option" | "sampling" => {
            "an object"
        }
        "session_id"
        | "prompt"
        | "model"
        | "clarification_response.clarification_id"
        | "clarification_response.selected_option.id"
        | "clarification_response.text"
        | "sampling.stop[]" => "a string",
        "tools" => "a list of tool names",
        "tools[]" => "a tool name (a string)",
        "max_tool_loops" | "sampling.max_tokens" => "an integer from 1 to 4294967295",
        "sampling.temperature" => "a number from 0 to 2",
        "sampling.top_p" => "a number from 0 to 1",
        "sampling.seed" => "a 64-bit integer",
        "sampling.stop" => "a list of strings",
        _ => return None,
    })
}

/// The path without the indices of list items: `tools[]`.
fn pattern(path: &Path) -> String {
    let mut pattern = String::new();
    for segment in path {
        match segment {
            Segment::Seq { .. } => pattern.push_str("[]"),
            Segment::Map { key } if pattern.is_empty() => pattern.push_str(key),
            Segment::Map { key } => {
                pattern.push('.');
                pattern.push_str(key);
            }
            Segment::Enum { .. } | Segment::Unknown => pattern.push('?'),
        }
    }
    pattern
}

fn at<'v>(whole: &'v Value, path: &Path) -> Option<&'v Value> {
    path.iter().try_fold(whole, |value, segment| match segment {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}
