//! What structured content already says. Models get the texts beside it only if these say more.

use std::collections::HashSet;

use serde_json::Value;

use crate::tools::digest;

/// Servers repeat all of it as text, a member, or each item of a list in a block of its own.
const DEPTH: usize = 2;

/// The values of some structured content, as canonical JSON.
pub(super) struct Said(HashSet<String>);

impl Said {
    pub(super) fn of(content: &Value) -> Self {
        let mut said = Self(HashSet::new());
        said.add(content, DEPTH);
        said
    }

    fn add(&mut self, value: &Value, depth: usize) {
        self.0.insert(match value {
            // White space around a text says nothing.
            Value::String(text) => digest::canonical(&Value::from(text.trim())),
            value => digest::canonical(value),
        });
        let Some(depth) = depth.checked_sub(1) else { return };
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item, depth)),
            Value::Object(members) => members.values().for_each(|member| self.add(member, depth)),
            _ => {}
        }
    }

    /// Whether a text, or the JSON in it, is there.
    pub(super) fn has(&self, text: &str) -> bool {
        let text = text.trim();
        let is_there = |value: &Value| self.0.contains(&digest::canonical(value));
        text.is_empty()
            || is_there(&Value::from(text))
            || serde_json::from_str(text).is_ok_and(|value| is_there(&value))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_repeat_what_is_there_or_say_more() {
        let said = Said::of(
            &json!({ "result": [{ "a": 1, "b": 2 }, "ü\n", 5], "deep": { "in": { "it": 7 } } }),
        );
        for text in [
            "{\"deep\":{\"in\":{\"it\":7}},\"result\":[{\"a\":1,\"b\":2},\"ü\\n\",5]}",
            "[{\"b\": 2, \"a\": 1},\n \"\\u00fc\\n\", 5]",
            "{\"a\": 1, \"b\": 2}",
            " ü\n",
            "5",
            "{\"it\": 7}",
            "",
        ] {
            assert!(said.has(text), "{text}");
        }
        for text in ["7", "{\"a\": 1}", "ü, 5", "[", "There are three."] {
            assert!(!said.has(text), "{text}");
        }
    }
}
