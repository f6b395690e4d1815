//! Forms: what a user fills in to answer a tool's question.
//!
//! A form's schema is a flat object of simple fields: text, numbers, booleans, choices and lists
//! of choices (MCP 2025-11-25, client/elicitation). This module knows nothing of how forms arrive.

use serde_json::{Map, Number, Value, json};

use super::schema::{Schema, Violation};
use super::source::clean_text;
use crate::limits::tools::PARAMETER_DESCRIPTION_CHARS_MAX;

/// The option that accepts a form without fields.
const ACCEPT: &str = "accept";

/// Fills the defaults of a form into the fields that are absent, and checks the result.
///
/// # Errors
/// What is wrong with the content; never empty.
pub(crate) fn fill(schema: &Value, content: Value) -> Result<Value, Vec<Violation>> {
    let content = with_defaults(schema, content);
    // A question whose schema does not compile is never asked.
    let Ok(form) = Schema::compile(schema) else { return Ok(content) };
    form.validate(&content).map(|()| content)
}

/// The content with the defaults of absent fields.
pub(crate) fn with_defaults(schema: &Value, mut content: Value) -> Value {
    if let Value::Object(fields) = &mut content {
        for (name, field) in properties(schema) {
            if let Some(default) = field.get("default")
                && !fields.contains_key(name)
            {
                fields.insert(name.clone(), default.clone());
            }
        }
    }
    content
}

/// The options of a form that one choice fills in, as ids and titles: its only required field is a
/// choice or a boolean, or it has no fields and is a question of yes or no. Empty for other forms.
pub(super) fn options(schema: &Value) -> Vec<(&str, &str)> {
    match only_required(schema) {
        None if has_no_fields(schema) => vec![(ACCEPT, "Yes"), ("deny", "No")],
        None => Vec::new(),
        Some((_, field)) if field["type"] == "boolean" => vec![("true", "Yes"), ("false", "No")],
        Some((_, field)) => choices(field),
    }
}

/// The content that choosing one of the [`options`] means; `None` if it means no.
pub(crate) fn from_option(schema: &Value, id: &str) -> Option<Value> {
    if has_no_fields(schema) {
        return (id == ACCEPT).then(|| json!({}));
    }
    let (name, field) = only_required(schema)?;
    let value = if field["type"] == "boolean" { json!(id == "true") } else { json!(id) };
    Some(Value::Object(Map::from_iter([(name.to_owned(), value)])))
}

/// The content of an answer in words, if the form's only required field takes a text or a number. Whether it takes
/// this one is not checked.
pub(crate) fn from_text(schema: &Value, text: &str) -> Option<Value> {
    let (name, field) = text_field(schema)?;
    let number = || text.trim().parse::<Number>().ok().map(Value::Number);
    let value = if field["type"] == "string" { None } else { number() };
    Some(Value::Object(Map::from_iter([(name.to_owned(), value.unwrap_or_else(|| json!(text)))])))
}

/// Whether an answer in words fills the form in.
pub(crate) fn takes_text(schema: &Value) -> bool {
    text_field(schema).is_some()
}

fn text_field(schema: &Value) -> Option<(&str, &Value)> {
    let takes_words =
        |field: &Value| ["string", "integer", "number"].iter().any(|kind| field["type"] == *kind);
    only_required(schema).filter(|(_, field)| takes_words(field) && choices(field).is_empty())
}

fn has_no_fields(schema: &Value) -> bool {
    properties(schema).next().is_none()
}

/// The only required field.
fn only_required(schema: &Value) -> Option<(&str, &Value)> {
    let [required] = schema["required"].as_array()?.as_slice() else { return None };
    let name = required.as_str()?;
    Some((name, schema["properties"].get(name)?))
}

/// The values of a choice, with their titles; empty if one of them is neither a text nor null, which
/// leaves a field out. An option can only be a text.
fn choices(field: &Value) -> Vec<(&str, &str)> {
    text_choices(field).unwrap_or_default()
}

fn text_choices(field: &Value) -> Option<Vec<(&str, &str)>> {
    if let Some(titled) = field["oneOf"].as_array() {
        let titled = titled.iter().filter(|choice| choice["type"] != "null").map(|choice| {
            let id = choice["const"].as_str()?;
            Some((id, choice["title"].as_str().unwrap_or(id)))
        });
        return titled.collect();
    }
    // Titles as MCP had them before 2025-11-25.
    let title = |at: usize| field["enumNames"].get(at)?.as_str();
    let values = field["enum"].as_array()?.iter().enumerate().filter(|(_, value)| !value.is_null());
    values.map(|(at, value)| value.as_str().map(|id| (id, title(at).unwrap_or(id)))).collect()
}

/// Removes what nobody sees from the words of a form. Names and values stay as they are, because
/// they are what the server gets back; if they are not clean, they get a title that is.
pub(crate) fn clean(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                clean_member(key, value);
            }
            title_values(members);
        }
        _ => {}
    }
}

fn clean_member(key: &str, value: &mut Value) {
    match (key, value) {
        ("title" | "description", Value::String(text)) => *text = cleaned(text),
        ("enumNames", Value::Array(titles)) => {
            for title in titles {
                *title = title.as_str().map(cleaned).into();
            }
        }
        ("properties", Value::Object(fields)) => {
            for (name, field) in fields {
                clean(field);
                if let Value::Object(field) = field {
                    title(field, name);
                }
            }
        }
        ("enum" | "const" | "default" | "examples", _) => {}
        (_, value) => clean(value),
    }
}

/// Gives titles to values of a choice that are not clean.
fn title_values(members: &mut Map<String, Value>) {
    if let Some(value) = members.get("const").and_then(Value::as_str).map(str::to_owned) {
        title(members, &value);
    }
    if let Some(Value::Array(values)) = members.get("enum")
        && !members.contains_key("enumNames")
        && values.iter().filter_map(Value::as_str).any(|value| cleaned(value) != value)
    {
        let titles: Value = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), cleaned))
            .collect();
        members.insert("enumNames".to_owned(), titles);
    }
}

/// Gives a field or a value a title if its name is not clean.
fn title(members: &mut Map<String, Value>, name: &str) {
    let title = cleaned(name);
    if title != name && !members.contains_key("title") {
        members.insert("title".to_owned(), title.into());
    }
}

fn cleaned(text: &str) -> String {
    clean_text(text, PARAMETER_DESCRIPTION_CHARS_MAX)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value, required: &[&str]) -> Value {
        json!({ "type": "object", "properties": properties, "required": required })
    }

    #[test]
    fn words_are_cleaned_and_names_and_values_are_not() {
        let mut form = form(
            &json!({
                "na\u{202e}me": {"type": "string", "description": "a\u{e0041}b"},
                "size": {"title": "Si\u{200b}ze", "enum": ["s\u{2066}", "m"], "default": "s\u{2066}"},
                "kind": {"type": "array", "items": {"anyOf": [{"const": "x\u{200b}"}]}},
                "old": {"enum": ["s"], "enumNames": ["Sma\u{feff}ll"]},
            }),
            &[],
        );
        clean(&mut form);
        let expected = json!({
            "na\u{202e}me": {"type": "string", "description": "ab", "title": "name"},
            "size": {
                "title": "Size",
                "enum": ["s\u{2066}", "m"],
                "default": "s\u{2066}",
                "enumNames": ["s", "m"],
            },
            "kind": {"type": "array", "items": {"anyOf": [{"const": "x\u{200b}", "title": "x"}]}},
            "old": {"enum": ["s"], "enumNames": ["Small"]},
        });
        assert_eq!(form["properties"], expected);
    }

    #[test]
    fn defaults_fill_absent_fields_only() {
        let form = form(
            &json!({
                "name": {"type": "string", "default": "Ann"},
                "age": {"type": "integer", "default": 7},
                "note": {"type": "string"},
            }),
            &[],
        );
        let filled = fill(&form, json!({"age": 8})).unwrap();
        assert_eq!(filled, json!({"age": 8, "name": "Ann"}));
    }

    #[test]
    fn content_is_checked() {
        let form = form(&json!({"age": {"type": "integer", "minimum": 18}}), &["age"]);
        for wrong in [json!({}), json!({"age": "old"}), json!({"age": 17}), json!("18")] {
            assert!(!fill(&form, wrong.clone()).unwrap_err().is_empty(), "{wrong}");
        }
        assert_eq!(fill(&form, json!({"age": 18})), Ok(json!({"age": 18})));
    }

    #[track_caller]
    fn check_options(field: &Value, options_are: &[(&str, &str)], chosen: &Value) {
        let form = form(&json!({"pick": field, "more": {"type": "string"}}), &["pick"]);
        assert_eq!(options(&form), options_are);
        let content = from_option(&form, options_are[0].0).unwrap();
        assert_eq!(content, json!({ "pick": chosen }));
        assert_eq!(fill(&form, content.clone()), Ok(content));
        assert!(!takes_text(&form));
    }

    #[test]
    fn one_required_choice_or_boolean_gives_options() {
        let boolean = json!({"type": "boolean"});
        check_options(&boolean, &[("true", "Yes"), ("false", "No")], &json!(true));
        let plain = json!({"type": "string", "enum": ["s", "l"]});
        check_options(&plain, &[("s", "s"), ("l", "l")], &json!("s"));
        let named = json!({"type": "string", "enum": ["s", "l"], "enumNames": ["Small"]});
        check_options(&named, &[("s", "Small"), ("l", "l")], &json!("s"));
        let titled = json!({"type": "string", "oneOf": [{"const": "s", "title": "Small"}]});
        check_options(&titled, &[("s", "Small")], &json!("s"));
        let optional = json!({"type": ["string", "null"], "enum": ["s", null, "l"]});
        check_options(&optional, &[("s", "s"), ("l", "l")], &json!("s"));
        let optional = json!({"oneOf": [{"const": "s"}, {"type": "null"}]});
        check_options(&optional, &[("s", "s")], &json!("s"));
    }

    #[test]
    fn one_required_text_takes_words() {
        let text =
            form(&json!({"name": {"type": "string"}, "age": {"type": "integer"}}), &["name"]);
        assert_eq!(from_text(&text, "Ann"), Some(json!({"name": "Ann"})));
        assert!(takes_text(&text) && options(&text).is_empty());
    }

    #[test]
    fn one_required_number_takes_words() {
        let age = form(&json!({"age": {"type": "integer", "minimum": 18}}), &["age"]);
        assert!(takes_text(&age) && options(&age).is_empty());
        for (words, content) in [(" 20\n", json!(20)), ("17", json!(17)), ("x", json!("x"))] {
            let is_right = words.trim() == "20";
            let content = json!({ "age": content });
            assert_eq!(from_text(&age, words), Some(content.clone()), "{words}");
            assert_eq!(fill(&age, content).is_ok(), is_right, "{words}");
        }
    }

    #[test]
    fn a_form_without_fields_is_accepted_or_not() {
        let bare = form(&json!({}), &[]);
        assert_eq!(options(&bare), [("accept", "Yes"), ("deny", "No")]);
        assert_eq!(from_option(&bare, "accept"), Some(json!({})));
        assert_eq!(from_option(&bare, "deny"), None);
        assert!(!takes_text(&bare));
    }

    #[test]
    fn other_forms_take_only_content() {
        let two = json!({"a": {"type": "string"}, "b": {"type": "boolean"}});
        for required in [&["a", "b"][..], &[]] {
            let form = form(&two, required);
            assert!(options(&form).is_empty() && !takes_text(&form), "{required:?}");
        }
        for field in [
            json!({"type": "array"}),
            // No option could stand for the number.
            json!({"enum": ["many", 1]}),
            json!({"oneOf": [{"const": 1, "title": "One"}, {"const": "many"}]}),
        ] {
            let form = form(&json!({ "n": field }), &["n"]);
            assert!(options(&form).is_empty() && !takes_text(&form), "{field}");
        }
    }
}
