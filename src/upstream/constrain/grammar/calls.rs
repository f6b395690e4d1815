//! The rules of calls: everything that follows the trigger.

use serde_json::Value;

use super::Callable;
use super::arguments::Arguments;
use super::nested;
use super::notation::Notation;
use super::rules::{Rules, json_literal, literal};
use super::schema::{self, Writer};
use super::tags;
use crate::call_format::{Body, CallFormat, Closer, Frame, Label, LabelId, Row};
use crate::limits::upstream::{GRAMMAR_ARGUMENTS_MAX, GRAMMAR_CALLS_MAX};
use crate::upstream::{OfferedTool, ToolChoice};

/// Pushes the rule `calls`, and all that it needs.
pub(super) fn push(
    rules: &mut Rules,
    Callable { tools, named }: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
) {
    let row = format.row();
    rules.push("calls", &calls(format));
    let tools: Vec<_> = tools.iter().filter(|tool| choice.allows(&tool.name)).collect();
    let bare: Vec<&str> =
        named.iter().map(String::as_str).filter(|name| choice.allows(name)).collect();
    push_call(rules, &tools, &bare, row);
    if has_addressee(row) {
        let names = tools.iter().map(|tool| &*tool.name).chain(bare.iter().copied());
        rules.push("addressee", &names.map(literal).collect::<Vec<_>>().join(" | "));
    }
    let notation = Notation::of(&row.body);
    notation.push_values(rules);
    match &row.body {
        Body::Tagged(tags) => tags::push_shared(rules, tags),
        Body::Nested(elements) => {
            let closer = row.closer.as_ref().map_or("", |closer| closer.text);
            nested::push_shared(rules, elements, closer);
        }
        Body::Pythonic(_) | Body::PythonicLines(_) => {
            rules.push("argument", "[A-Za-z_] [A-Za-z0-9_]{0,63} \"=\" value");
        }
        Body::Json(_) | Body::Keyed | Body::Arguments | Body::Loose(_) => {}
    }
}

/// All calls of a message, after the trigger.
fn calls(format: &CallFormat) -> String {
    let row = format.row();
    if row.is_array {
        return array_of_calls(row);
    }
    let Row { frame, between, header, .. } = row;
    let message_end = header.as_ref().filter(|_| has_addressee(row));
    let message_end = message_end.map_or("", |header| header.message_end);
    let separator = spelled(&format!("{message_end}{between}"));
    let again = |call: &str| format!("({separator} {call}){{0,{}}}", GRAMMAR_CALLS_MAX - 1);
    // llama.cpp repeats nothing that is empty, and nothing follows the last message.
    let ends_bare = between.is_empty() || header.is_some();
    let last = if ends_bare { String::new() } else { format!("{}?", spelled(between)) };
    let opener = literal(format.opener());
    let Some(Frame { gap, close, open, is_shared }) = frame else {
        return format!("call {} {last}", again(&format!("{opener} call")));
    };
    let (gap, close) = (spelled(gap), literal(close[0]));
    if *is_shared {
        return format!("{gap} {opener} call {} {gap} {close}", again(&format!("{opener} call")));
    }
    let framed = format!("{gap} {opener} call {gap} {close}");
    let before = address(row).unwrap_or_default();
    format!("{framed} {} {last}", again(&format!("{before}{} {framed}", literal(open[0]))))
}

/// The same where they are written as one list.
fn array_of_calls(row: &Row) -> String {
    let most = GRAMMAR_CALLS_MAX - 1;
    let fences = if row.fence.is_written() { ["\"```json\\n\" ", " \"\\n```\""] } else { ["", ""] };
    let word = row.bare.as_ref().map_or("", |bare| bare.word);
    let before = if row.is_bare() { spelled(word) } else { "[ \\n]?".to_owned() };
    let list = match row.body {
        Body::PythonicLines(_) => format!("call (\"\\n\" call){{0,{most}}}"),
        _ => format!("\"[\" s call (s \",\" s call){{0,{most}}} s \"]\""),
    };
    format!("{before} {}{list}{}{}", fences[0], fences[1], closer(row))
}

/// Whether a header names the tool before the frame of its call.
const fn has_addressee(row: &Row) -> bool {
    row.header.is_some() && row.frame.is_some()
}

/// That header, of any tool: it need not be the one that is called.
pub(super) fn address(row: &Row) -> Option<String> {
    let header = row.header.as_ref().filter(|_| has_addressee(row))?;
    Some(format!("{} addressee {} ", literal(header.recipient), literal(header.end)))
}

/// Pushes a rule for what follows the opener of a call. `bare` are the names of tools that are called
/// without arguments.
fn push_call(rules: &mut Rules, tools: &[&OfferedTool], bare: &[&str], row: &Row) {
    let names: Vec<String> = (0..tools.len()).map(|index| format!("tool-{index}")).collect();
    let bare_rule = (!bare.is_empty()).then(|| "bare".to_owned());
    let any_tool = names.iter().chain(&bare_rule).cloned().collect::<Vec<_>>().join(" | ");
    let gap = if row.is_array || row.is_bare() { "" } else { "[ \\n]? " };
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
    for (rule, tool) in names.iter().zip(tools) {
        let arguments = arguments(rules, rule, &tool.parameters, &row.body);
        rules.push(rule, &call_of(row, &tool.name, &arguments));
    }
    if let Some(rule) = bare_rule {
        let nothing = match row.body {
            Body::Tagged(_) | Body::Nested(_) => "\"\"",
            Body::Pythonic(_) | Body::PythonicLines(_) => "\"()\"",
            Body::Json(_) | Body::Keyed | Body::Arguments | Body::Loose(_) => "\"{}\"",
        };
        let calls = bare.iter().map(|name| format!("({})", call_of(row, name, nothing)));
        rules.push(&rule, &calls.collect::<Vec<_>>().join(" | "));
    }
}

/// A call of one tool, without what every call has.
fn call_of(row: &Row, name: &str, arguments: &str) -> String {
    match &row.body {
        Body::Json(keys) => {
            let value = json_literal(&Value::from(name));
            let call = format!("{value} s \",\" s {} s {arguments}", key(keys.arguments[0]));
            if row.label.is_none() {
                return call;
            }
            format!("{} \"{{\" s {} s {call} s \"}}\"", label(row, name), key(keys.name[0]))
        }
        Body::Keyed => format!("{} \":\" s {arguments}", json_literal(&Value::from(name))),
        Body::Pythonic(_) | Body::PythonicLines(_) => format!("{} {arguments}", literal(name)),
        Body::Arguments | Body::Tagged(_) | Body::Loose(_) | Body::Nested(_) => {
            format!("{} {arguments}", label(row, name))
        }
    }
}

/// Pushes the rules for the arguments of a tool. Returns the expression for all of them.
fn arguments(rules: &mut Rules, rule: &str, schema: &Value, body: &Body) -> String {
    match body {
        Body::Tagged(tags) => tags::push_arguments(rules, rule, schema, tags),
        Body::Nested(elements) => nested::push_arguments(rules, rule, schema, elements),
        Body::Pythonic(_) | Body::PythonicLines(_) => push_keywords(rules, rule, schema),
        body @ (Body::Json(_) | Body::Keyed | Body::Arguments | Body::Loose(_)) => {
            schema::push_arguments(rules, rule, schema, Notation::of(body))
        }
    }
}

/// Pushes the rules for keyword arguments.
fn push_keywords(rules: &mut Rules, prefix: &str, schema: &Value) -> String {
    let any = |most: usize| format!("(argument (\",\" s argument){{0,{most}}})?");
    let start = rules.len();
    let mut writer = Writer::new(rules, prefix, schema, Notation::Python);
    let Arguments { named, may_have_others } = Arguments::of(schema);
    let others = if may_have_others { any(GRAMMAR_ARGUMENTS_MAX) } else { String::new() };
    let mut after_first = others;
    let mut after_other = if may_have_others {
        format!("(\",\" s argument){{0,{GRAMMAR_ARGUMENTS_MAX}}}")
    } else {
        String::new()
    };
    // From last to first, because each rule names the next.
    for (key, schema, is_required) in named.into_iter().rev() {
        let value = writer.value(schema);
        let argument = writer.named(&format!("{} {value}", literal(&format!("{key}="))));
        let mut first = format!("{argument} {after_other}");
        let mut other = format!("\",\" s {argument} {after_other}");
        if !is_required {
            first = format!("{first} | {}", schema::or_nothing(&after_first));
            other = format!("{other} | {}", schema::or_nothing(&after_other));
        }
        after_first = writer.named(&first);
        after_other = writer.named(&other);
    }
    if writer.gives_up {
        rules.truncate(start);
        after_first = any(GRAMMAR_ARGUMENTS_MAX);
    }
    format!("\"(\" {after_first} \")\"")
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
    let name = literal(&format!("{prefix}{name}"));
    let before = match id {
        Some(LabelId::NumberBefore(mark)) => format!("[0-9]{{1,3}} {} {name}", literal(mark)),
        _ => name,
    };
    let id = match id {
        None | Some(LabelId::NumberBefore(_)) => String::new(),
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
