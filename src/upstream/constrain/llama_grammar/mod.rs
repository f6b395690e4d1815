//! `constrain: llama_grammar`: GBNF from the JSON Schemas of the offered tools.
//!
//! The model speaks freely until it has written the marker; from there on it can
//! only write a call of an offered tool with arguments of the tool's shape. Patterns
//! and formats are left to the validation of the call, and so are ranges: a model
//! that wants 12 where 7 is the most would write 1, and nobody would tell it.
//!
//! llama.cpp has *lazy* grammars for this, which sleep until a trigger is seen,
//! and the request asks for one. But its `/v1/chat/completions` overwrites
//! `grammar_lazy` and the triggers with those of its own tool calling, so that
//! there the grammar holds from the first token, and a grammar of calls alone
//! would force a call upon every answer. So this one is lazy by itself: it begins
//! with any text that does not hold the marker ([`free_text`]). Read lazily, from
//! the trigger on, it fits as well, with that text empty.
//!
//! White space is bounded everywhere, and so are digits: a small model that may
//! write one more blank for ever does. So are the calls of a message. After the last
//! one the model must stop, or it goes on by inventing its result.

mod free_text;
mod rules;
mod schema;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use self::rules::{Rules, json_literal, literal};
use crate::call_format::{Body, CallFormat, Row};
use crate::limits::upstream::GRAMMAR_CALLS_MAX;
use crate::upstream::{OfferedTool, ToolChoice};

/// How llama.cpp counts the kinds of triggers: one that is a word.
const TRIGGER_WORD: u8 = 1;

/// The fields that hold a request to `llama.cpp` to calls of `tools`.
#[must_use]
pub fn request_fields(
    tools: &[OfferedTool],
    choice: &ToolChoice,
    format: &CallFormat,
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("grammar".to_owned(), grammar(tools, choice, format).into());
    // A lazy grammar would let a model speak that has to call.
    if *choice == ToolChoice::Auto {
        fields.insert("grammar_lazy".to_owned(), true.into());
        let triggers = json!([{"type": TRIGGER_WORD, "value": format.opener()}]);
        fields.insert("grammar_triggers".to_owned(), triggers);
    }
    fields
}

/// A grammar of free text, in which calls of `tools` may stand; of a call from the first byte
/// on if one is required.
#[must_use]
pub fn grammar(tools: &[OfferedTool], choice: &ToolChoice, format: &CallFormat) -> String {
    let Row { body: Body::Json(keys), closer, between, .. } = format.row();
    let opener = format.opener();
    let mut rules = Rules::new();
    let root = match choice {
        ToolChoice::Auto => free_text::push_rules(&mut rules, opener, "calls"),
        ToolChoice::Required | ToolChoice::Named(_) => format!("{} calls", literal(opener)),
    };
    rules.push("root", &root);

    let tools: Vec<_> = tools.iter().filter(|tool| choice.allows(&tool.name)).collect();
    let between = spelled(between);
    let more = format!("({between} {} call){{0,{}}}", literal(opener), GRAMMAR_CALLS_MAX - 1);
    rules.push("calls", &format!("call {more} {between}?"));
    let names: Vec<String> = (0..tools.len()).map(|index| format!("tool-{index}")).collect();
    // After the opener, before any choice, what every call has.
    let name_key = key(keys.name[0]);
    let mut call = format!("[ \\n]? \"{{\" s {name_key} s ({}) s \"}}\"", names.join(" | "));
    if let Some(closer) = closer {
        let _ = write!(call, " [ \\n]? {}", literal(closer.text));
    }
    rules.push("call", &call);
    let arguments_key = key(keys.arguments[0]);
    for (name, tool) in names.iter().zip(tools) {
        let arguments = schema::push_arguments(&mut rules, name, &tool.parameters);
        let tool_name = json_literal(&Value::from(tool.name.as_str()));
        rules.push(name, &format!("{tool_name} s \",\" s {arguments_key} s {arguments}"));
    }
    rules.push_json();
    rules.into_text()
}

/// A key of a call, with its colon.
fn key(key: &str) -> String {
    spelled(&format!("\"{key}\":"))
}

/// A part of a format as a literal for people to read, too.
fn spelled(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
