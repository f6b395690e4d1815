//! `constrain: llama_grammar`: a GBNF grammar, for llama.cpp and software built on it.

use serde_json::{Map, Value, json};

/// llama.cpp's number for a trigger that is a word.
const TRIGGER_WORD: u8 = 1;

/// The request fields that restrict llama.cpp to this grammar. It sleeps until the model has written
/// the trigger, if there is one; otherwise it holds from the first token. An answer that must be a call
/// has none: while the grammar sleeps, a model could write text instead.
#[must_use]
pub(super) fn request_fields(grammar: String, trigger: Option<&str>) -> Map<String, Value> {
    let mut fields = Map::from_iter([("grammar".to_owned(), grammar.into())]);
    if let Some(trigger) = trigger {
        fields.insert("grammar_lazy".to_owned(), true.into());
        let triggers = json!([{"type": TRIGGER_WORD, "value": trigger}]);
        fields.insert("grammar_triggers".to_owned(), triggers);
    }
    fields
}
