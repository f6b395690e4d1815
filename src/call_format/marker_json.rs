//! `marker_json`: a marker and a JSON object, on a line of its own.

use super::{Body, JsonKeys, Row};

/// `<<function_call>> {"name": "...", "arguments": {...}}`: a format that any model can be taught.
/// The operator can choose the marker.
pub static MARKER_JSON: Row = Row {
    name: "marker_json",
    openers: &["<<function_call>>"],
    is_taught: true,
    gap: " ",
    body: Body::Json(JSON_KEYS),
    closer: None,
    between: "\n",
    result: ["", ""],
    lesson: "Write one line: the marker {opener}, a space, then one JSON object with \"name\" and \
             \"arguments\". Nothing else. Several calls are several lines.",
    reasoning: ["<think>", "</think>"],
};

/// The keys that models write, whatever they are told.
pub(super) const JSON_KEYS: JsonKeys = JsonKeys {
    name: &["name", "tool_name", "tool", "function"],
    arguments: &["arguments", "args", "parameters", "tool_args", "input"],
};
