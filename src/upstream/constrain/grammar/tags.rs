//! Arguments in tags.

use serde_json::Value;

use super::arguments::Arguments;
use super::free_text;
use super::notation::Notation;
use super::rules::{Rules, class, literal};
use super::schema::Writer;
use crate::call_format::{Hint, Tags};
use crate::limits::upstream::{
    GRAMMAR_ALTERNATIVES_MAX, GRAMMAR_ARGUMENTS_MAX, GRAMMAR_SCHEMA_DEPTH_MAX,
};

/// The rule for the text of an argument.
const TEXT: &str = "words-0";

/// Pushes the rules that the arguments of all tools share.
pub(super) fn push_shared(rules: &mut Rules, tags: &Tags) {
    free_text::push_without(rules, "words", tags.value[1]);
    let ends_key = tags.key[1].chars().next();
    let key = format!("{}{{1,64}}", class(true, ends_key.into_iter().chain(['\n'])));
    rules.push("argument", &argument(tags, &key, &[(true, TEXT.to_owned())]));
}

/// Pushes the rules of a tool's arguments, with names that start with `prefix`. Returns the
/// expression for all of them.
///
/// Arguments whose rules would be too long are any text.
pub(super) fn push_arguments(
    rules: &mut Rules,
    prefix: &str,
    schema: &Value,
    tags: &Tags,
) -> String {
    let start = rules.len();
    let others = format!("argument{{0,{GRAMMAR_ARGUMENTS_MAX}}}");
    let mut writer = Writer::new(rules, prefix, schema, Notation::Json);
    let Arguments { named, may_have_others } = Arguments::of(schema);
    let mut all: Vec<String> = Vec::new();
    for (key, schema, is_required) in named {
        let values =
            values(&mut writer, schema, tags.hint.is_some_and(|hint| hint.open().is_none()));
        let name = writer.named(&argument(tags, &literal(key), &values));
        all.push(if is_required { name } else { format!("{name}?") });
    }
    if writer.gives_up {
        rules.truncate(start);
        return others;
    }
    all.extend(may_have_others.then_some(others));
    all.join(" ")
}

/// An argument whose value is one of these: whether it is text, and its rule.
fn argument(tags: &Tags, key: &str, values: &[(bool, String)]) -> String {
    let Tags { key: [open, key_close], hint, gap, value: [value_open, close], .. } = tags;
    let line = if tags.is_trimmed { "\n" } else { "" };
    let before = literal(&format!("{gap}{value_open}{line}"));
    let values = values.iter().map(|(is_text, value)| {
        format!("{}{before} {value}", hint.map(|hint| word(hint, *is_text)).unwrap_or_default())
    });
    let values = values.collect::<Vec<_>>().join(" | ");
    let after = literal(&format!("{line}{close}{}", tags.end));
    format!("{} {key} {} ({values}) {after}", literal(open), literal(key_close))
}

/// The word on a value's type.
fn word(hint: Hint, is_text: bool) -> String {
    let close = hint.close();
    match (hint, is_text) {
        (Hint::Between(_), _) => String::new(),
        (Hint::IsText(_), _) => format!("{} ", literal(&format!("{is_text}{close}"))),
        (Hint::Type(_), true) => format!("{} ", literal(&format!("string{close}"))),
        (Hint::Type(_), false) => {
            format!(
                "(\"integer\" | \"number\" | \"boolean\" | \"object\" | \"array\" | \"null\") {} ",
                literal(close)
            )
        }
    }
}

/// What a schema allows: text, and JSON that is no text. Whether text fits is left to validation,
/// unless only some texts do. `is_said` is whether tags say which of both a value is; otherwise JSON
/// is a text, too.
pub(super) fn values<'a>(
    writer: &mut Writer<'a>,
    schema: &'a Value,
    is_said: bool,
) -> Vec<(bool, String)> {
    let mut alternatives = Vec::new();
    if !has_type(schema) && push_alternatives(writer, schema, 0, &mut alternatives) {
        let all = alternatives.into_iter().flat_map(|it| typed_values(writer, it, is_said));
        let all: Vec<_> = all.collect();
        return [true, false].into_iter().filter_map(|side| union(&all, side)).collect();
    }
    typed_values(writer, Alternative { schema, written_as: schema }, is_said)
}

/// A schema that a value may fit.
#[derive(Clone, Copy)]
struct Alternative<'a> {
    schema: &'a Value,
    /// What has the rule for it, which all that refer to the schema share: the `$ref` that leads to it, or itself.
    written_as: &'a Value,
}

/// Whether a schema states what its values are.
fn has_type(schema: &Value) -> bool {
    ["enum", "const", "type"].into_iter().any(|keyword| schema.get(keyword).is_some())
}

/// Pushes the typed schemas that a value of this one may fit: behind a `$ref`, or among the members of `anyOf` and
/// `oneOf`, as Pydantic writes enums, models and what is optional. Returns whether these are all, and no more than a
/// grammar takes.
fn push_alternatives<'a>(
    writer: &Writer<'a>,
    schema: &'a Value,
    depth: usize,
    alternatives: &mut Vec<Alternative<'a>>,
) -> bool {
    // Beside other keywords, a reference says only a part of what a value may be.
    const MORE: [&str; 3] = ["properties", "patternProperties", "additionalProperties"];
    if depth > GRAMMAR_SCHEMA_DEPTH_MAX || MORE.iter().any(|key| schema.get(*key).is_some()) {
        return false;
    }
    let next = writer.alternatives_of(schema);
    let is_reference = schema.get("$ref").is_some();
    !next.is_empty()
        && next.into_iter().all(|next| {
            if !has_type(next) {
                return push_alternatives(writer, next, depth + 1, alternatives);
            }
            let written_as = if is_reference { schema } else { next };
            alternatives.push(Alternative { schema: next, written_as });
            alternatives.len() <= GRAMMAR_ALTERNATIVES_MAX
        })
}

/// All values on this side, if there are any: text or JSON.
fn union(values: &[(bool, String)], side: bool) -> Option<(bool, String)> {
    let mut rules: Vec<&str> = Vec::new();
    for (_, rule) in values.iter().filter(|(is_text, _)| *is_text == side) {
        if rule == TEXT {
            return Some((side, TEXT.to_owned()));
        }
        if !rules.contains(&&**rule) {
            rules.push(rule);
        }
    }
    match rules[..] {
        [] => None,
        [rule] => Some((side, rule.to_owned())),
        _ => Some((side, format!("({})", rules.join(" | ")))),
    }
}

/// The same for a schema without references and alternatives.
fn typed_values<'a>(
    writer: &mut Writer<'a>,
    Alternative { schema, written_as }: Alternative<'a>,
    is_said: bool,
) -> Vec<(bool, String)> {
    let given = schema.get("enum").and_then(Value::as_array).cloned();
    let given = given.or_else(|| schema.get("const").map(|value| vec![value.clone()]));
    if let Some(given) = given {
        let (texts, others): (Vec<&Value>, Vec<&Value>) =
            given.iter().partition(|value| value.is_string());
        let texts: Vec<_> = texts.iter().filter_map(|text| text.as_str()).map(literal).collect();
        let others: Vec<_> = others.iter().map(|value| literal(&value.to_string())).collect();
        let sides = [(true, texts), (false, others)].into_iter();
        let sides = sides.filter(|(_, side)| !side.is_empty());
        return sides.map(|(is_text, side)| (is_text, format!("({})", side.join(" | ")))).collect();
    }
    let kinds = match schema.get("type") {
        Some(Value::String(kind)) => vec![&**kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        // Combined with others: any text may be meant for one of them.
        _ if is_said => return vec![(true, TEXT.to_owned()), (false, writer.value(schema))],
        _ => vec!["string"],
    };
    let json = ["integer", "number", "boolean", "null", "object", "array"];
    let is_json = kinds.iter().any(|kind| json.contains(kind));
    let is_text = kinds.iter().any(|kind| !json.contains(kind));
    let mut values = Vec::new();
    if is_text {
        values.push((true, TEXT.to_owned()));
    }
    if is_json && !is_text {
        values.push((false, writer.value(written_as)));
    } else if is_json {
        values.push((false, "value".to_owned()));
    }
    values
}
