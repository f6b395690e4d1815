//! The body of an operation's requests: JSON or a form.
//!
//! The members of an object become arguments of their own, which small models fill in more
//! reliably than a nested object; other bodies are an argument called `body`.

use std::collections::{BTreeSet, HashSet};
use std::ptr;

use serde_json::{Map, Value};

use super::parameters::{Arguments, described, is_json, query_style};
use super::schema::Converter;
use super::{is_true, reference, text};
use crate::tools::http::encode::Style;
use crate::tools::http::request::{BodyTemplate, Field};
use crate::tools::http::template::{JsonTemplate, Template};

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Json,
    Form,
}

/// Adds the arguments of an operation's body.
///
/// # Errors
/// Why the operation cannot be offered with it.
pub(super) fn of_operation(
    operation: &Value,
    converter: &mut Converter<'_, '_>,
    arguments: &mut Arguments,
) -> Result<Option<BodyTemplate>, String> {
    let Some(body) = operation.get("requestBody") else { return Ok(None) };
    let body = reference::resolve(converter.root(), body)?;
    let (media_type, content, written) = content(body)?;
    let is_required = is_true(body, "required");
    let styles = styles(content);
    let whole = content.get("schema").unwrap_or(&Value::Null);
    if let Some(object) = mergeable(converter.root(), whole, is_required, arguments) {
        let members = members(object, is_required, converter, arguments)?;
        return Ok(Some(match written {
            Written::Json => {
                let argument = |(name, key)| (name, JsonTemplate::Argument(key));
                let members = members.into_iter().map(argument).collect();
                let template = if is_required {
                    JsonTemplate::Object(members)
                } else {
                    JsonTemplate::Members(members)
                };
                BodyTemplate::Json(media_type.to_owned(), template)
            }
            Written::Form => {
                let field = |(name, key): (String, String)| {
                    let style = style_of(&styles, &name);
                    Field { value: Template::argument(key), name, style }
                };
                BodyTemplate::Form(members.into_iter().map(field).collect())
            }
        }));
    }
    let schema =
        if whole.is_null() { Value::Object(Map::new()) } else { converter.convert(whole)? };
    let schema = described(schema, text(body, "description"));
    let key = arguments.add("request", "body", schema, is_required);
    Ok(Some(match written {
        Written::Json => BodyTemplate::Json(media_type.to_owned(), JsonTemplate::Argument(key)),
        Written::Form => {
            let known = known_members(converter.root(), whole);
            let known = known.into_iter().map(|name| (name.to_owned(), style_of(&styles, name)));
            BodyTemplate::FormOf(key, known.collect())
        }
    }))
}

/// The first kind of content that can be written, JSON if there is a choice.
fn content(body: &Value) -> Result<(&str, &Value, Written), String> {
    let Some(content) = body.get("content").and_then(Value::as_object) else {
        return Err("its body has no content".to_owned());
    };
    let json = content.iter().find(|(media_type, _)| is_json(media_type));
    if let Some((media_type, content)) = json {
        let media_type = if media_type.contains('*') { "application/json" } else { media_type };
        return Ok((media_type, content, Written::Json));
    }
    let form = content.iter().find(|(media_type, _)| is_form(media_type));
    if let Some((media_type, content)) = form {
        return Ok((media_type, content, Written::Form));
    }
    let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
    Err(format!("its body is {}, neither JSON nor a form", kinds.join(" or ")))
}

fn is_form(media_type: &str) -> bool {
    media_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
}

/// The schema of the body, if it is an object whose members can be arguments of their own.
fn mergeable<'d>(
    root: &'d Value,
    schema: &'d Value,
    is_required: bool,
    arguments: &Arguments,
) -> Option<&'d Map<String, Value>> {
    const OTHER_RULES: &[&str] = &[
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependentRequired",
        "dependentSchemas",
        "if",
        "maxProperties",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "unevaluatedProperties",
    ];
    let object = reference::resolve(root, schema).ok()?.as_object()?;
    let properties = object.get("properties")?.as_object().filter(|all| !all.is_empty())?;
    let is_plain = |rule: &&str| match object.get(*rule) {
        None => true,
        // Merging has the same effect.
        Some(value) => *rule == "additionalProperties" && *value == Value::Bool(false),
    };
    let is_object = object.get("type").is_none_or(|kind| kind == "object");
    // In a body that may be absent, members cannot be required on their own.
    let requires = object.get("required").and_then(Value::as_array);
    let can_vanish = is_required || requires.is_none_or(Vec::is_empty);
    let clashes = properties.keys().any(|name| arguments.has(name));
    let is_mergeable = is_object && can_vanish && !clashes && OTHER_RULES.iter().all(is_plain);
    is_mergeable.then_some(object)
}

/// Adds the members of an object as arguments. Returns each member's name with its argument's.
fn members(
    object: &Map<String, Value>,
    is_required: bool,
    converter: &mut Converter<'_, '_>,
    arguments: &mut Arguments,
) -> Result<Vec<(String, String)>, String> {
    let removed: Vec<String> = converter.read_only(object);
    let named = object.get("required").and_then(Value::as_array);
    let is_needed = |name: &str| is_required && named.into_iter().flatten().any(|it| it == name);
    let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut members = Vec::new();
    for (name, schema) in properties.filter(|(name, _)| !removed.contains(name)) {
        let schema = converter.convert(schema)?;
        let key = arguments.add("body", name, schema, is_needed(name));
        members.push((name.clone(), key));
    }
    Ok(members)
}

/// The styles of a form's fields, if they are not the usual one.
fn styles(content: &Value) -> Vec<(String, Style)> {
    let encoding = content.get("encoding").and_then(Value::as_object).into_iter().flatten();
    let style = |(name, encoding): (&String, &Value)| {
        if encoding.get("contentType").and_then(Value::as_str).is_some_and(is_json) {
            return Some((name.clone(), Style::Json));
        }
        let explode = encoding.get("explode").and_then(Value::as_bool);
        let style = query_style(text(encoding, "style").unwrap_or("form"), explode)?;
        Some((name.clone(), style))
    };
    encoding.filter_map(style).collect()
}

/// The members that a schema names, in all of its parts.
fn known_members<'d>(root: &'d Value, schema: &'d Value) -> BTreeSet<&'d str> {
    let mut known = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        // What does not resolve has been refused, and a schema may refer to itself.
        let Ok(schema) = reference::resolve(root, schema) else { continue };
        if !seen.insert(ptr::from_ref(schema)) {
            continue;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        known.extend(properties.into_iter().flat_map(Map::keys).map(String::as_str));
        let parts = ["allOf", "anyOf", "oneOf"].map(|keyword| schema.get(keyword));
        open.extend(parts.into_iter().flatten().filter_map(Value::as_array).flatten());
    }
    known
}

fn style_of(styles: &[(String, Style)], name: &str) -> Style {
    let style = styles.iter().find(|(styled, _)| styled == name);
    style.map_or(Style::Repeat, |(_, style)| *style)
}
