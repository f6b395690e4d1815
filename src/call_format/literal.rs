//! Formats in which a call looks like code.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::json::KEYS;
use super::{Bare, Body, Closer, Label, Row};

/// Llama 4, Llama 3.2 and `ToolACE`: the list alone.
pub(super) static PYTHONIC: Row = Row {
    name: "pythonic",
    openers: &[""],
    bare: Some(Bare { word: "", bracket: b'[' }),
    body: Body::Pythonic(KEYS),
    is_array: true,
    hidden: &["<|python_start|>", "<|python_end|>"],
    ..Row::PLAIN
};

/// LFM2 and LFM2.5: `[f(a="x", n=1), g()]`.
pub(super) static LFM2: Row = Row {
    name: "lfm2",
    has_special: true,
    openers: &["<|tool_call_start|>"],
    body: Body::Pythonic(KEYS),
    is_array: true,
    closer: Some(Closer { gap: "", text: "<|tool_call_end|>" }),
    result: ["<|tool_response_start|>", "<|tool_response_end|>"],
    ..Row::PLAIN
};

/// `OLMo` 3: one call on each line.
pub(super) static OLMO3: Row = Row {
    name: "olmo3",
    openers: &["<function_calls>"],
    label: Some(Label { stops: &["("], ..Label::PLAIN }),
    body: Body::PythonicLines(KEYS),
    is_array: true,
    closer: Some(Closer { gap: "", text: "</function_calls>" }),
    ..Row::PLAIN
};

/// Gemma 4: `call:f{k:<|"|>text<|"|>,n:1}`.
pub(super) static GEMMA4: Row = Row {
    name: "gemma4",
    has_special: true,
    openers: &["<|tool_call>call:"],
    label: Some(NAME),
    body: Body::Loose("<|\"|>"),
    closer: Some(Closer { gap: "", text: "<tool_call|>" }),
    reasoning: &[["<|channel>thought\n", "<channel|>"]],
    ..Row::PLAIN
};

/// FunctionGemma: the same with other marks.
pub(super) static FUNCTIONGEMMA: Row = Row {
    name: "functiongemma",
    has_special: true,
    openers: &["<start_function_call>call:"],
    label: Some(NAME),
    body: Body::Loose("<escape>"),
    closer: Some(Closer { gap: "", text: "<end_function_call>" }),
    ..Row::PLAIN
};

/// The name, up to its arguments.
const NAME: Label = Label { stops: &["{"], ..Label::PLAIN };

/// Adds a call as Python writes it.
pub(super) fn push_call(text: &mut String, name: &str, arguments: &str) {
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    let _ = write!(text, "{name}(");
    for (number, (key, value)) in arguments.iter().enumerate() {
        let _ = write!(text, "{}{key}=", if number > 0 { ", " } else { "" });
        push_pythonic(text, value);
    }
    text.push(')');
}

fn push_pythonic(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        Value::Number(_) | Value::String(_) => text.push_str(&value.to_string()),
        Value::Array(values) => {
            push_list(text, ["[", ", ", "]"], values, push_pythonic);
        }
        Value::Object(members) => {
            push_list(text, ["{", ", ", "}"], members, |text, (key, value)| {
                let _ = write!(text, "{}: ", Value::from(key.as_str()));
                push_pythonic(text, value);
            });
        }
    }
}

/// Adds an object with bare keys.
pub(super) fn push_object(text: &mut String, arguments: &str, delimiter: &str) {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    push_loose(text, &arguments, delimiter);
}

fn push_loose(text: &mut String, value: &Value, delimiter: &str) {
    match value {
        Value::String(words) => {
            let _ = write!(text, "{delimiter}{words}{delimiter}");
        }
        Value::Array(values) => {
            push_list(text, ["[", ",", "]"], values, |text, value| {
                push_loose(text, value, delimiter);
            });
        }
        Value::Object(members) => {
            push_list(text, ["{", ",", "}"], members, |text, (key, value)| {
                let _ = write!(text, "{key}:");
                push_loose(text, value, delimiter);
            });
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// Adds values between brackets.
fn push_list<T>(
    text: &mut String,
    [open, between, close]: [&str; 3],
    values: impl IntoIterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    text.push_str(open);
    for (number, value) in values.into_iter().enumerate() {
        text.push_str(if number > 0 { between } else { "" });
        push(text, value);
    }
    text.push_str(close);
}
