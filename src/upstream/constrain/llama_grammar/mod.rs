//! `constrain: llama_grammar`: GBNF from the JSON Schemas of the offered tools.
//!
//! The model writes freely until it has written the marker. After that it can only write a call
//! of an offered tool, with arguments of the tool's shape. Patterns, formats and ranges are
//! left to the validation of the call: if the maximum is 7, a model that wants 12 would write 1
//! under a grammar, and would never learn why.
//!
//! llama.cpp has *lazy* grammars for this, which sleep until a trigger is seen, and the request
//! asks for one. But its `/v1/chat/completions` overwrites `grammar_lazy` and the triggers with
//! those of its own tool calling. There the grammar applies from the first token, and a grammar
//! of calls alone would force every answer to be a call. So this grammar is lazy by itself: it
//! begins with any text that does not contain the marker ([`free_text`]). If it is applied
//! lazily, from the trigger on, that text is simply empty.
//!
//! White space and digits are bounded everywhere, because a small model that may write one more
//! blank writes blanks forever. The number of calls in a message is bounded as well. After the
//! last call the model must stop, or it goes on and invents the result.

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

/// llama.cpp's number for a trigger that is a word.
const TRIGGER_WORD: u8 = 1;

/// What a model may call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callable<'a> {
    /// Tools with arguments that fit their parameters.
    pub(crate) tools: &'a [OfferedTool],
    /// Tools whose names alone the model knows. It need not guess what they take: they are called
    /// without arguments, and are described to it then.
    pub(crate) named: &'a [String],
}

/// The request fields that restrict llama.cpp to these calls.
#[must_use]
pub(crate) fn request_fields(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("grammar".to_owned(), grammar(callable, choice, format).into());
    // A lazy grammar would let a model that must call write text instead.
    if *choice == ToolChoice::Auto {
        fields.insert("grammar_lazy".to_owned(), true.into());
        let triggers = json!([{"type": TRIGGER_WORD, "value": format.opener()}]);
        fields.insert("grammar_triggers".to_owned(), triggers);
    }
    fields
}

/// A grammar of free text that may contain these calls. If a call is required, the grammar
/// begins with it, without free text.
#[must_use]
pub(crate) fn grammar(
    Callable { tools, named }: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
) -> String {
    let Row { body: Body::Json(keys), closer, between, .. } = format.row();
    let opener = format.opener();
    let mut rules = Rules::new();
    let root = match choice {
        ToolChoice::Auto => free_text::push_rules(&mut rules, opener, "calls"),
        ToolChoice::Required | ToolChoice::Named(_) => format!("{} calls", literal(opener)),
    };
    rules.push("root", &root);

    let tools: Vec<_> = tools.iter().filter(|tool| choice.allows(&tool.name)).collect();
    let bare: Vec<String> = named
        .iter()
        .filter(|name| choice.allows(name))
        .map(|name| json_literal(&Value::from(name.as_str())))
        .collect();
    let between = spelled(between);
    let more = format!("({between} {} call){{0,{}}}", literal(opener), GRAMMAR_CALLS_MAX - 1);
    rules.push("calls", &format!("call {more} {between}?"));
    let names: Vec<String> = (0..tools.len()).map(|index| format!("tool-{index}")).collect();
    let bare_rule = (!bare.is_empty()).then(|| "bare".to_owned());
    let any_tool = names.iter().chain(&bare_rule).cloned().collect::<Vec<_>>().join(" | ");
    // After the opener, every call starts the same way, up to the name.
    let name_key = key(keys.name[0]);
    let mut call = format!("[ \\n]? \"{{\" s {name_key} s ({any_tool}) s \"}}\"");
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
    if let Some(rule) = bare_rule {
        let bare = bare.join(" | ");
        rules.push(&rule, &format!("({bare}) s \",\" s {arguments_key} s \"{{}}\""));
    }
    rules.push_json();
    rules.into_text()
}

/// The key of a call's member, with its colon.
fn key(key: &str) -> String {
    spelled(&format!("\"{key}\":"))
}

/// A part of a format as a literal that stays readable.
fn spelled(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
