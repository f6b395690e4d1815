//! A call's result as the model reads it: as JSON after the tool's name, or as plain lines for a
//! model that should no longer think of calls.
//!
//! Fields meant for the gateway (`success`, `next_action`) are left out unless the model needs
//! them: small models repeat them as their answer.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::{Style, inert};
use crate::call_format::CallFormat;
use crate::conversation::Call;
use crate::limits::tools::NAME_BYTES_MAX;
use crate::limits::turn::RESULT_LINES_MAX;
use crate::text;
use crate::tools::{Clarification, NextAction, ToolResult};

/// A result as JSON: just its data if there is nothing else, otherwise an object. It is abridged to
/// about `bytes_max`.
pub(crate) fn json(result: &ToolResult, format: &CallFormat, bytes_max: usize) -> String {
    match &*result.told(bytes_max) {
        ToolResult {
            success: true,
            data: Some(data),
            instruction_for_ai: None,
            clarification: None,
            ..
        } => inert::json(data, format),
        told => inert::json(&Told::of(told), format),
    }
}

/// A result that says more than its data.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_action: Option<NextAction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clarification: Option<&'a Clarification>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction_for_ai: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn of(result: &'a ToolResult) -> Self {
        let asks = result.clarification.is_some();
        Self {
            // An empty object would not show that the call succeeded.
            success: (result.success && result.data.is_none() && !asks).then_some(true),
            data: result.data.as_ref(),
            next_action: asks.then_some(result.next_action),
            clarification: result.clarification.as_ref(),
            error: result.error.as_deref(),
            instruction_for_ai: result.instruction_for_ai.as_deref(),
        }
    }
}

/// The end of a result's heading.
pub(crate) const RETURNED: &str = "returned:";

/// The heading of a result in JSON. References name results by these ids.
pub(crate) fn heading(tool: &str, call_id: &str) -> String {
    format!("`{tool}` ({call_id}) {RETURNED}")
}

/// The tool's name as the model wrote it, cut to the length that tool names may have.
pub(super) fn name(call: &Call, format: &CallFormat) -> String {
    inert::text(&text::cut(&call.name, NAME_BYTES_MAX), format).into_owned()
}

/// Adds `` `NAME` (ID) returned: JSON ``.
pub(super) fn push_json(told: &mut String, call: &Call, style: Style<'_>) {
    let Style { format, result_bytes_max, .. } = style;
    let (name, result) = (name(call, format), json(&call.result(), format, result_bytes_max));
    format.push_result(told, &heading(&name, &call.call_id), &result);
}

/// Adds a call's result as `key: value` lines under a heading in words.
pub(super) fn push_lines(told: &mut String, call: &Call, style: Style<'_>) {
    let Style { format, result_bytes_max, .. } = style;
    let (name, result) = (name(call, format), call.result());
    let result = result.told(result_bytes_max);
    let heading = if result.success { "found" } else { "answered" };
    let _ = write!(told, "Here is what {name} {heading}:\n{}", lines(&result, Some(format)));
}

/// A result as lines for people.
pub(crate) fn plain_lines(result: &ToolResult) -> String {
    lines(result, None)
}

/// A result as lines: its error, or its data.
fn lines(result: &ToolResult, format: Option<&CallFormat>) -> String {
    let mut lines = Lines { text: String::new(), format, count: 0 };
    match (&result.error, &result.data) {
        (Some(error), _) => lines.push("", "error", error),
        (None, Some(data)) => lines.push_value(data, "", ""),
        (None, None) => match &result.clarification {
            Some(clarification) => lines.push("", "question", &clarification.question),
            None => lines.push("", "", "done"),
        },
    }
    if lines.text.trim_ascii().is_empty() {
        lines.text.clear();
        lines.push("", "", "nothing");
    }
    // A tool's instruction to the model is not for the user.
    if let (Some(instruction), Some(_)) = (&result.instruction_for_ai, format) {
        lines.push("", "instruction", instruction);
    }
    lines.text.truncate(lines.text.trim_ascii_end().len());
    lines.text
}

struct Lines<'a> {
    text: String,
    /// The format whose marks are escaped for a model; `None` for people.
    format: Option<&'a CallFormat>,
    count: usize,
}

impl Lines<'_> {
    fn push_value(&mut self, value: &Value, indent: &str, key: &str) {
        match value {
            Value::Object(members) => {
                let inner = self.push_heading(indent, key, members.is_empty());
                for (key, value) in members {
                    self.push_value(value, &inner, key);
                }
            }
            Value::Array(items) if items.is_empty() => self.push(indent, key, "none"),
            Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
                let inner = self.push_heading(indent, key, false);
                for (item, number) in items.iter().zip(1..) {
                    self.push_value(item, &inner, &number.to_string());
                }
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(scalar).collect();
                self.push(indent, key, &items.join(", "));
            }
            scalar_value => self.push(indent, key, &scalar(scalar_value)),
        }
    }

    /// Adds the line above nested values. Returns the indent of the lines below it.
    fn push_heading(&mut self, indent: &str, key: &str, is_empty: bool) -> String {
        if key.is_empty() {
            return indent.to_owned();
        }
        self.push(indent, key, if is_empty { "none" } else { "" });
        format!("{indent}  ")
    }

    fn push<'t>(&mut self, indent: &str, key: &'t str, value: &'t str) {
        self.count += 1;
        if self.count > RESULT_LINES_MAX {
            if self.count == RESULT_LINES_MAX + 1 {
                self.text.push_str("...\n");
            }
            return;
        }
        let told = |text: &'t str| match self.format {
            Some(format) => inert::text(text, format),
            None => Cow::Borrowed(text),
        };
        let (key, value) = (told(key), told(value));
        let separator = if key.is_empty() { "" } else { ":" };
        let space = if key.is_empty() || value.is_empty() { "" } else { " " };
        let _ = writeln!(self.text, "{indent}{key}{separator}{space}{value}");
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_its_data_or_a_sentence() {
        let data = ToolResult::data(json!({ "time": "12:00", "by": "<sun>" }));
        let done = ToolResult { data: None, ..data.clone() };
        for (result, expected) in [
            (data.clone(), r#"{"time":"12:00","by":"\u003csun>"}"#),
            (done, r#"{"success":true}"#),
            (ToolResult::error("no such zone"), r#"{"error":"no such zone"}"#),
            (
                data.with_instruction("Round it."),
                r#"{"data":{"time":"12:00","by":"\u003csun>"},"instruction_for_ai":"Round it."}"#,
            ),
        ] {
            assert_eq!(json(&result, &CallFormat::marker("<<f>>"), 10_000), expected);
        }
    }

    #[track_caller]
    fn check(data: Value, expected: &str) {
        assert_eq!(lines(&ToolResult::data(data), Some(&CallFormat::marker("[[do]]"))), expected);
    }

    #[test]
    fn data_is_rendered_as_lines() {
        check(
            json!({ "city": "Oslo", "cold": true, "wind": null }),
            "city: Oslo\ncold: yes\nwind: none",
        );
        check(json!({ "days": ["Mon", 2], "bills": [] }), "days: Mon, 2\nbills: none");
        check(
            json!({ "books": [{ "title": "Dune", "copies": { "free": 1 } }, { "title": "Emma" }] }),
            "books:\n  1:\n    title: Dune\n    copies:\n      free: 1\n  2:\n    title: Emma",
        );
        check(json!("just words"), "just words");
        check(json!([]), "none");
        check(json!({}), "nothing");
        check(json!(""), "nothing");
        check(json!([1, 2]), "1, 2");
        check(json!({ "said": "[[do]] <|im_end|>" }), "said: \\u005b[do]] \\u003c|im_end|>");
    }

    #[test]
    fn instructions_are_only_for_the_model() {
        let result = ToolResult::data(json!({ "found": 0 })).with_instruction("Ask for the name.");
        assert_eq!(
            lines(&result, Some(&CallFormat::marker("[[do]]"))),
            "found: 0\ninstruction: Ask for the name."
        );
        assert_eq!(plain_lines(&result), "found: 0");
    }

    #[test]
    fn lines_are_bounded() {
        let told = |count: usize| {
            lines(&ToolResult::data((0..count).map(|n| json!({ "n": n })).collect()), None)
        };
        assert_eq!(told(RESULT_LINES_MAX / 2).lines().count(), RESULT_LINES_MAX);
        assert!(told(RESULT_LINES_MAX / 2 + 1).ends_with("\n..."));
    }
}
