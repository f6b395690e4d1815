//! `constrain: llama_grammar`: a GBNF grammar, for llama.cpp and software built on it.

use serde_json::{Map, Value, json};

use super::grammar::{self, Callable};
use crate::call_format::CallFormat;
use crate::upstream::ToolChoice;

/// llama.cpp's number for a trigger that is a word.
const TRIGGER_WORD: u8 = 1;

/// The request fields that restrict llama.cpp to these calls. `reasoning` closes the reasoning that the
/// prompt has begun, if it has.
#[must_use]
pub(super) fn request_fields(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
    reasoning: Option<&str>,
) -> Map<String, Value> {
    let mut fields = Map::new();
    let grammar = grammar::of_answers(callable, choice, format, reasoning);
    fields.insert("grammar".to_owned(), grammar.into());
    // A lazy grammar would let a model that must call write text instead.
    if *choice == ToolChoice::Auto && !format.row().is_bare() {
        fields.insert("grammar_lazy".to_owned(), true.into());
        let triggers = json!([{"type": TRIGGER_WORD, "value": format.trigger()}]);
        fields.insert("grammar_triggers".to_owned(), triggers);
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::{HERMES, ROWS};
    use crate::upstream::OfferedTool;

    fn fields(choice: &ToolChoice, format: &CallFormat) -> Map<String, Value> {
        let parameters = json!({"type": "object", "properties": {}});
        let tool = OfferedTool { name: "f".to_owned(), description: String::new(), parameters };
        request_fields(Callable { tools: &[tool], named: &[] }, choice, format, None)
    }

    #[test]
    fn the_opener_wakes_a_lazy_grammar() {
        for (format, trigger) in
            [(CallFormat::marker("<call>"), "<call>"), (CallFormat::of(&HERMES), "<tool_call>")]
        {
            let fields = fields(&ToolChoice::Auto, &format);
            assert_eq!(fields["grammar_lazy"], true);
            assert_eq!(fields["grammar_triggers"], json!([{"type": 1, "value": trigger}]));
            assert!(fields["grammar"].as_str().unwrap().starts_with("text-0 ::= "));
        }
    }

    #[test]
    fn nothing_wakes_a_grammar_that_never_sleeps() {
        let only = |fields: Map<String, Value>| fields.keys().cloned().collect::<Vec<_>>();
        assert_eq!(only(fields(&ToolChoice::Required, &CallFormat::default())), ["grammar"]);
        for row in ROWS.iter().filter(|row| row.is_bare()) {
            let fields = fields(&ToolChoice::Auto, &CallFormat::of(row));
            assert_eq!(only(fields), ["grammar"], "{}", row.name);
        }
    }
}
