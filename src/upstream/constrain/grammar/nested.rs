//! Arguments that are elements, in which objects and arrays are elements, too.

use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::free_text;
use super::notation::Notation;
use super::rules::{Rules, literal};
use super::schema::{Writer, may_have_more_properties};
use super::tags::values;
use crate::call_format::{Elements, ValueType};
use crate::limits::upstream::{GRAMMAR_ARGUMENTS_MAX, GRAMMAR_SCHEMA_DEPTH_MAX};

/// The rule for any arguments.
const ANYTHING: &str = "anything-0";

/// Pushes the rules that the arguments of all tools share.
pub(super) fn push_shared(rules: &mut Rules, elements: &Elements, closer: &str) {
    // The text of an element ends at any tag, so it may not hold what opening and closing tags share.
    let Elements { open, close, .. } = elements;
    let shared = if close.starts_with(open) { open } else { open.trim_start_matches('<') };
    free_text::push_without(rules, "words", shared);
    free_text::push_without(rules, "anything", closer);
}

/// Pushes the rules of a tool's arguments, with names that start with `prefix`. Returns the expression
/// for all of them. A grammar cannot make a closing tag repeat its opening one, so keys must be known:
/// without any, or if the rules would be too long, anything may be written up to the closer.
pub(super) fn push_arguments(
    rules: &mut Rules,
    prefix: &str,
    schema: &Value,
    elements: &Elements,
) -> String {
    let start = rules.len();
    let mut writer = Writer::new(rules, prefix, schema, Notation::Json);
    let Arguments { named, may_have_others } = Arguments::of(schema);
    let has_unknown_keys = schema.as_object().is_some_and(may_have_more_properties);
    if has_unknown_keys || (named.is_empty() && may_have_others) {
        return ANYTHING.to_owned();
    }
    let all = members(&mut writer, elements, named, 1);
    if writer.gives_up {
        rules.truncate(start);
        return ANYTHING.to_owned();
    }
    all
}

fn members<'a>(
    writer: &mut Writer<'a>,
    elements: &Elements,
    named: Vec<(&'a str, &'a Value, bool)>,
    depth: usize,
) -> String {
    let members = named.into_iter().map(|(key, schema, is_required)| {
        let element = element(writer, elements, Some(key), schema, depth);
        let name = writer.named(&element);
        if is_required { name } else { format!("{name}?") }
    });
    members.collect::<Vec<_>>().join(" ")
}

/// The expression for an element. Objects and arrays of which the schema says no more are JSON.
fn element<'a>(
    writer: &mut Writer<'a>,
    elements: &Elements,
    key: Option<&str>,
    schema: &'a Value,
    depth: usize,
) -> String {
    let whole = |kind: ValueType, content: &str| {
        let [open, close] = [elements.opening_tag(key, kind), elements.closing_tag(key)];
        format!("{} {content} {}", literal(&open), literal(&close))
    };
    let is_shallow = depth < GRAMMAR_SCHEMA_DEPTH_MAX && !writer.gives_up;
    let properties = schema.get("properties").and_then(Value::as_object).map(Map::len);
    let others = match properties {
        None => writer.alternatives_of(schema),
        // They say which of these belong together.
        Some(_) => Vec::new(),
    };
    if is_shallow && !others.is_empty() {
        let others = others.into_iter().map(|schema| {
            let element = element(writer, elements, key, schema, depth + 1);
            writer.named(&element)
        });
        return format!("({})", others.collect::<Vec<_>>().join(" | "));
    }
    let kind = schema.get("type").and_then(Value::as_str);
    // Keys that are not known cannot be written as elements.
    writer.gives_up |= schema.as_object().is_some_and(may_have_more_properties);
    match (kind, properties, schema.get("items")) {
        (Some("object"), Some(1..), _) if is_shallow => {
            let named = Arguments::of(schema).named;
            whole(ValueType::Object, &members(writer, elements, named, depth + 1))
        }
        (Some("array"), _, Some(items)) if is_shallow && schema.get("prefixItems").is_none() => {
            let item = element(writer, elements, None, items, depth + 1);
            let item = writer.named(&item);
            whole(ValueType::Array, &format!("{item}{{0,{GRAMMAR_ARGUMENTS_MAX}}}"))
        }
        _ => {
            let values = values(writer, schema, elements.attributes.is_some());
            let values = values.iter().map(|(is_text, value)| {
                let kind = if *is_text { ValueType::Text } else { ValueType::Json };
                format!("({})", whole(kind, value))
            });
            values.collect::<Vec<_>>().join(" | ")
        }
    }
}
