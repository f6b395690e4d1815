//! The rules of a grammar in the making, and how text is written in one.
//!
//! Rules are named by us alone and what came from a tool stands only in literals,
//! so that no name, key or value of a tool can break out of the grammar.

use std::fmt::Write as _;

use serde_json::Value;

/// Rules that every grammar of calls shares: any JSON, with bounded white space
/// and bounded numbers.
const JSON_RULES: [(&str, &str); 9] = [
    ("s", "\" \"?"),
    ("value", "object | array | string | number | boolean | null"),
    ("object", "\"{\" s (string \":\" s value (s \",\" s string \":\" s value)*)? s \"}\""),
    ("array", "\"[\" s (value (s \",\" s value)*)? s \"]\""),
    ("string", "\"\\\"\" char* \"\\\"\""),
    ("char", "[^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})"),
    ("integer", "\"-\"? (\"0\" | [1-9] [0-9]{0,17})"),
    ("number", "integer (\".\" [0-9]{1,17})? ([eE] [-+]? [0-9]{1,3})?"),
    ("boolean", "\"true\" | \"false\""),
];

/// Rules, in the order in which they were pushed.
#[derive(Debug, Default)]
pub(super) struct Rules {
    text: String,
}

impl Rules {
    pub(super) const fn new() -> Self {
        Self { text: String::new() }
    }

    pub(super) fn push(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.text, "{name} ::= {body}");
    }

    pub(super) fn push_json(&mut self) {
        for (name, body) in JSON_RULES {
            self.push(name, body);
        }
        self.push("null", "\"null\"");
    }

    /// Where the rules end now, to go back to.
    pub(super) const fn len(&self) -> usize {
        self.text.len()
    }

    /// Forgets what was pushed behind `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// `text` as a literal.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for character in text.chars() {
        push_escaped(&mut literal, character);
    }
    literal.push('"');
    literal
}

/// A JSON value, as a model writes it, as a literal.
pub(super) fn json_literal(value: &Value) -> String {
    literal(&value.to_string())
}

/// A class of characters: one of `characters`, or one that is none of them.
pub(super) fn class(negated: bool, characters: impl IntoIterator<Item = char>) -> String {
    let mut class = String::from(if negated { "[^" } else { "[" });
    for character in characters {
        push_escaped(&mut class, character);
    }
    class.push(']');
    class
}

/// Letters, digits and a few signs stand for themselves in literals and classes
/// alike; everything else is written as its number.
fn push_escaped(text: &mut String, character: char) {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ' ' | ':' | ',' | '.' | '<' | '>' | '{' | '}' => {
            text.push(character);
        }
        _ => {
            let code = u32::from(character);
            let _ = match code {
                0..=0xFF => write!(text, "\\x{code:02X}"),
                0x100..=0xFFFF => write!(text, "\\u{code:04X}"),
                _ => write!(text, "\\U{code:08X}"),
            };
        }
    }
}
