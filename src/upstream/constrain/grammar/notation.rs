//! How a format writes the values of arguments.

use serde_json::Value;

use super::free_text;
use super::rules::{Rules, json_literal, literal};
use crate::call_format::Body;

/// See the module docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// As JSON.
    Json,
    /// As Python.
    Python,
    /// As an object with bare keys, whose texts stand between these.
    Loose(&'static str),
}

/// Rules for any value, in every notation: white space and numbers are bounded.
const SHARED: [(&str, &str); 6] = [
    ("s", "\" \"?"),
    ("value", "object | array | string | number | boolean | null"),
    ("object", "\"{\" s (member (s \",\" s member)*)? s \"}\""),
    ("array", "\"[\" s (value (s \",\" s value)*)? s \"]\""),
    ("integer", "\"-\"? (\"0\" | [1-9] [0-9]{0,17})"),
    ("number", "integer (\".\" [0-9]{1,17})? ([eE] [-+]? [0-9]{1,3})?"),
];

impl Notation {
    /// That of a body.
    pub(super) const fn of(body: &Body) -> Self {
        match body {
            Body::Json(_) | Body::Keyed | Body::Arguments | Body::Tagged(_) | Body::Nested(_) => {
                Self::Json
            }
            Body::Pythonic(_) | Body::PythonicLines(_) => Self::Python,
            Body::Loose(delimiter) => Self::Loose(delimiter),
        }
    }

    /// Pushes the rules for any value.
    pub(super) fn push_values(self, rules: &mut Rules) {
        for (name, body) in SHARED {
            rules.push(name, body);
        }
        rules.push("member", &format!("{} \":\" s value", self.any_key()));
        let (boolean, null) = match self {
            Self::Json | Self::Loose(_) => ("\"true\" | \"false\"", "\"null\""),
            Self::Python => ("\"True\" | \"False\" | \"true\" | \"false\"", "\"None\" | \"null\""),
        };
        rules.push("boolean", boolean);
        rules.push("null", null);
        // In Python, `\/` is two characters.
        let escapes = if self == Self::Python { "" } else { "/" };
        match self {
            Self::Json | Self::Python => {
                rules.push("string", "\"\\\"\" char* \"\\\"\"");
                let plain = "[^\"\\\\\\x00-\\x1F\\x7F]";
                let escape = format!("[\"\\\\{escapes}bfnrt] | \"u\" [0-9a-fA-F]{{4}}");
                rules.push("char", &format!("{plain} | \"\\\\\" ({escape})"));
            }
            Self::Loose(delimiter) => {
                let text = free_text::push_without(rules, "words", delimiter);
                let delimiter = literal(delimiter);
                rules.push("string", &format!("{delimiter} {text} {delimiter}"));
            }
        }
    }

    /// The rule of a key that the schema does not name.
    pub(super) const fn any_key(self) -> &'static str {
        match self {
            Self::Json | Self::Python => "string",
            Self::Loose(_) => "[^:{}]{1,64}",
        }
    }

    /// A key with its colon.
    pub(super) fn key(self, key: &str) -> String {
        match self {
            Self::Json | Self::Python => literal(&format!("{}:", Value::from(key))),
            Self::Loose(_) => literal(&format!("{key}:")),
        }
    }

    /// A value that is given.
    pub(super) fn constant(self, value: &Value) -> String {
        match (self, value) {
            (Self::Loose(delimiter), Value::String(text)) => {
                literal(&format!("{delimiter}{text}{delimiter}"))
            }
            (Self::Python, Value::Bool(_)) => "boolean".to_owned(),
            (Self::Python, Value::Null) => "null".to_owned(),
            // Nested ones are rare, and written in too many ways.
            (Self::Loose(_) | Self::Python, Value::Object(_) | Value::Array(_)) => {
                "value".to_owned()
            }
            _ => json_literal(value),
        }
    }

    /// Whether its texts have lengths that a grammar can count.
    pub(super) const fn counts_characters(self) -> bool {
        matches!(self, Self::Json | Self::Python)
    }
}
