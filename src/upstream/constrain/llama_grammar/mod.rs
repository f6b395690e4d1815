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

use serde_json::{Map, Value, json};

use self::rules::{Rules, json_literal, literal};
use crate::call_format::{Body, CallFormat, Closer, Frame, Label, LabelId, Row};
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

/// The request fields that restrict llama.cpp to these calls. None for formats whose arguments are no
/// JSON.
#[must_use]
pub(crate) fn request_fields(
    callable: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
) -> Map<String, Value> {
    let mut fields = Map::new();
    let is_json = matches!(format.row().body, Body::Json(_) | Body::Keyed | Body::Arguments);
    if !is_json || format.row().bare.is_some() {
        return fields;
    }
    fields.insert("grammar".to_owned(), grammar(callable, choice, format).into());
    // A lazy grammar would let a model that must call write text instead.
    if *choice == ToolChoice::Auto {
        fields.insert("grammar_lazy".to_owned(), true.into());
        let triggers = json!([{"type": TRIGGER_WORD, "value": format.trigger()}]);
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
    let Row { frame, between, .. } = format.row();
    let (trigger, opener) = (format.trigger(), literal(format.opener()));
    let mut rules = Rules::new();
    let root = match choice {
        ToolChoice::Auto => free_text::push_rules(&mut rules, trigger, "calls"),
        ToolChoice::Required | ToolChoice::Named(_) => format!("{} calls", literal(trigger)),
    };
    rules.push("root", &root);

    let tools: Vec<_> = tools.iter().filter(|tool| choice.allows(&tool.name)).collect();
    let bare: Vec<&str> =
        named.iter().map(String::as_str).filter(|name| choice.allows(name)).collect();
    let most = GRAMMAR_CALLS_MAX - 1;
    let more = format!("({} {opener} call){{0,{most}}}", spelled(between));
    let calls = match frame {
        None if format.row().is_array => {
            let is_fenced = format.row().fence.is_written();
            let fences = if is_fenced { ["\"```json\\n\" ", " \"\\n```\""] } else { ["", ""] };
            format!(
                "[ \\n]? {}\"[\" s call (s \",\" s call){{0,{most}}} s \"]\"{}{}",
                fences[0],
                fences[1],
                closer(format.row())
            )
        }
        None if between.is_empty() => format!("call {more}"),
        None => format!("call {more} {}?", spelled(between)),
        Some(Frame { gap, close, .. }) => {
            let gap = spelled(gap);
            format!("{gap} {opener} call {more} {gap} {}", literal(close[0]))
        }
    };
    rules.push("calls", &calls);
    push_call(&mut rules, &tools, &bare, format.row());
    rules.push_json();
    rules.into_text()
}

/// Pushes a rule for what follows the opener of a call. `bare` are the names of tools that are called
/// without arguments.
fn push_call(rules: &mut Rules, tools: &[&OfferedTool], bare: &[&str], row: &Row) {
    let names: Vec<String> = (0..tools.len()).map(|index| format!("tool-{index}")).collect();
    let bare_rule = (!bare.is_empty()).then(|| "bare".to_owned());
    let any_tool = names.iter().chain(&bare_rule).cloned().collect::<Vec<_>>().join(" | ");
    let gap = if row.is_array { "" } else { "[ \\n]? " };
    let call = match &row.body {
        // After the opener, every call starts the same way, up to the name.
        Body::Json(keys) if row.label.is_none() => {
            format!("{gap}\"{{\" s {} s ({any_tool}) s \"}}\"", key(keys.name[0]))
        }
        Body::Keyed => format!("{gap}\"{{\" s ({any_tool}) s \"}}\""),
        Body::Arguments if row.fence.is_written() => format!("({any_tool}) \"\\n```\""),
        _ => format!("({any_tool})"),
    };
    let closer = if row.is_array { String::new() } else { closer(row) };
    rules.push("call", &(call + &closer));
    let call_of = |name: &str, arguments: &str| match &row.body {
        Body::Json(keys) => {
            let value = json_literal(&Value::from(name));
            let call = format!("{value} s \",\" s {} s {arguments}", key(keys.arguments[0]));
            if row.label.is_none() {
                return call;
            }
            format!("{} \"{{\" s {} s {call} s \"}}\"", label(row, name), key(keys.name[0]))
        }
        Body::Keyed => format!("{} \":\" s {arguments}", json_literal(&Value::from(name))),
        _ => format!("{} {arguments}", label(row, name)),
    };
    for (rule, tool) in names.iter().zip(tools) {
        let arguments = schema::push_arguments(rules, rule, &tool.parameters);
        rules.push(rule, &call_of(&tool.name, &arguments));
    }
    if let Some(rule) = bare_rule {
        let calls = bare.iter().map(|name| format!("({})", call_of(name, "\"{}\"")));
        rules.push(&rule, &calls.collect::<Vec<_>>().join(" | "));
    }
}

/// What closes a call, or the array of all.
fn closer(row: &Row) -> String {
    match &row.closer {
        Some(Closer { gap: "", text }) => format!(" {}", literal(text)),
        Some(Closer { text, .. }) => format!(" [ \\n]? {}", literal(text)),
        None => String::new(),
    }
}

/// What stands between the opener of a call and its arguments.
fn label(row: &Row, name: &str) -> String {
    let fence = if row.fence.is_written() { "```json\n" } else { "" };
    let Some(label) = &row.label else { return spelled(fence) };
    let Label { prefix, id, .. } = label;
    let before = literal(&format!("{prefix}{name}"));
    let id = match id {
        None => String::new(),
        Some(LabelId::After(mark, length)) => {
            format!(" {} [A-Za-z0-9]{{{length}}}", literal(mark))
        }
        Some(LabelId::Number) => " \":\" [0-9]{1,3}".to_owned(),
        Some(LabelId::NumberAfter(mark)) => format!(" {} [0-9]{{1,3}}", literal(mark)),
    };
    format!("{before}{id} {}", spelled(&format!("{}{}{fence}", label.end(), row.gap)))
}

/// The key of a call's member, with its colon.
fn key(key: &str) -> String {
    spelled(&format!("\"{key}\":"))
}

/// A part of a format as a literal that stays readable.
fn spelled(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
