//! Call formats as data: one row says how a format's calls are written.
//!
//! The state machine reads openers and key names from here and names none
//! itself. The payload grammar is JSON for every row so far, so it has no
//! column yet.

/// How the calls of one format are written.
#[derive(Debug)]
pub(super) struct Format {
    /// Opens a call unless the settings name another marker.
    pub marker: &'static str,
    /// Opens and closes reasoning.
    pub reasoning: [&'static str; 2],
    /// Keys that hold the tool's name, the standard one first.
    pub name_keys: &'static [&'static str],
    /// Keys that hold the arguments, the standard one first.
    pub arguments_keys: &'static [&'static str],
}

/// `<<function_call>> {"name": "...", "arguments": {...}}`, on a line of its own.
pub(super) static MARKER_JSON: Format = Format {
    marker: "<<function_call>>",
    reasoning: ["<think>", "</think>"],
    name_keys: &["name", "tool_name", "tool", "function"],
    arguments_keys: &["arguments", "args", "parameters", "tool_args", "input"],
};
