//! The rules of a grammar under construction, and how to write text in one.
//!
//! All rule names are ours. Whatever comes from a tool appears only in literals, so no name,
//! key or value of a tool can break out of the grammar.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// Rules, in the order they were pushed.
#[derive(Debug, Default)]
pub(super) struct Rules {
    text: String,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self { text: String::with_capacity(4096) }
    }

    pub(super) fn push(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.text, "{name} ::= {body}");
    }

    /// Pushes a rule whose body this writes.
    pub(super) fn push_with(&mut self, name: fmt::Arguments<'_>, body: impl FnOnce(&mut String)) {
        let _ = write!(self.text, "{name} ::= ");
        body(&mut self.text);
        self.text.push('\n');
    }

    /// The current length of the rules, to truncate back to.
    pub(super) const fn len(&self) -> usize {
        self.text.len()
    }

    /// Drops whatever was pushed after `len`.
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

/// A JSON value as a literal, spelled as a model writes it.
pub(super) fn json_literal(value: &Value) -> String {
    literal(&value.to_string())
}

/// A class of characters: any of `characters`, or, if `negated`, any other.
pub(super) fn class(negated: bool, characters: impl IntoIterator<Item = char>) -> String {
    let mut class = String::new();
    push_class(&mut class, negated, characters);
    class
}

/// Appends such a class.
pub(super) fn push_class(
    text: &mut String,
    negated: bool,
    characters: impl IntoIterator<Item = char>,
) {
    text.push_str(if negated { "[^" } else { "[" });
    for character in characters {
        push_escaped(text, character);
    }
    text.push(']');
}

/// Letters, digits and a few signs are written as they are, in literals and classes alike; all
/// other characters are written as their number. `\\x` does not do: llama.cpp reads two digits after
/// it, xgrammar as many as there are.
fn push_escaped(text: &mut String, character: char) {
    match character {
        'a'..='z'
        | 'A'..='Z'
        | '0'..='9'
        | '_'
        | ' '
        | ':'
        | ','
        | '.'
        | '<'
        | '>'
        | '{'
        | '}'
        | '='
        | '/'
        | '|' => {
            text.push(character);
        }
        _ => {
            let code = u32::from(character);
            let _ = match code {
                0..=0xFFFF => write!(text, "\\u{code:04X}"),
                _ => write!(text, "\\U{code:08X}"),
            };
        }
    }
}
