//! Holds values to the description more strictly than clients may: nothing may be in an answer that
//! is not described. And lists what is described and never seen.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::server::openapi;

static SCHEMAS: LazyLock<Value> =
    LazyLock::new(|| openapi::document(&[])["components"]["schemas"].take());

/// The same, with nothing else in any object that has described members.
static CLOSED: LazyLock<Value> = LazyLock::new(|| {
    let mut schemas = SCHEMAS.clone();
    schemas.as_object_mut().unwrap().values_mut().for_each(close_members);
    schemas
});

/// Keywords with schemas of the same value.
const IN_PLACE: [&str; 3] = ["oneOf", "anyOf", "allOf"];

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    IN_PLACE.iter().flat_map(|key| schema[*key].as_array().into_iter().flatten())
}

fn target(schema: &Value) -> Option<(&str, &Value)> {
    let name = schema["$ref"].as_str()?.rsplit('/').next()?;
    Some((name, &SCHEMAS[name]))
}

/// Whether a schema says which members there are.
fn has_members(schema: &Value) -> bool {
    schema["properties"].is_object()
        || branches(schema).any(has_members)
        || target(schema).is_some_and(|(_, target)| has_members(target))
}

/// Closes the members and elements of a value, but not the value itself: its schema may be one of
/// several that share it.
fn close_members(schema: &mut Value) {
    let close = |member: &mut Value| {
        close_members(member);
        if has_members(member) {
            member["unevaluatedProperties"] = false.into();
        }
    };
    let Some(schema) = schema.as_object_mut() else { return };
    for key in ["properties", "patternProperties"] {
        let members = schema.get_mut(key).and_then(Value::as_object_mut);
        members.into_iter().flat_map(|it| it.values_mut()).for_each(close);
    }
    schema.get_mut("items").into_iter().for_each(close);
    for key in IN_PLACE {
        let branches = schema.get_mut(key).and_then(Value::as_array_mut);
        branches.into_iter().flatten().for_each(close_members);
    }
}

fn validator(name: &str) -> Arc<Validator> {
    static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> =
        LazyLock::new(Mutex::default);

    let mut validators = VALIDATORS.lock();
    let validator = validators.entry(name.to_owned()).or_insert_with(|| {
        let schema = json!({
            "$ref": format!("#/components/schemas/{name}"),
            "unevaluatedProperties": false,
            "components": { "schemas": needed(name) },
        });
        Arc::new(jsonschema::validator_for(&schema).unwrap())
    });
    Arc::clone(validator)
}

/// The closed schemas that one leads to: a validator of all takes long to build.
fn needed(name: &str) -> Map<String, Value> {
    fn visit(schema: &Value, found: &mut Map<String, Value>) {
        match schema {
            Value::Object(members) => {
                if let Some((name, _)) = target(schema) {
                    add(name, found);
                }
                members.values().for_each(|member| visit(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
            _ => {}
        }
    }
    fn add(name: &str, found: &mut Map<String, Value>) {
        if !found.contains_key(name) {
            found.insert(name.to_owned(), CLOSED[name].clone());
            visit(&CLOSED[name], found);
        }
    }
    let mut found = Map::new();
    add(name, &mut found);
    found
}

/// The schema of the variant, if this is a union: its errors say more.
fn variant(name: &str, value: &Value) -> String {
    let kind = value["type"].as_str().unwrap_or_default();
    let reference = SCHEMAS[name]["discriminator"]["mapping"][kind].as_str();
    reference.and_then(|it| it.rsplit('/').next()).unwrap_or(name).to_owned()
}

/// Checks that a value is as described, and has nothing else.
#[track_caller]
pub(in crate::server) fn check(name: &str, value: &Value) {
    assert!(SCHEMAS[name].is_object(), "{name} is not described");
    let name = variant(name, value);
    let validator = validator(&name);
    let errors: Vec<String> = validator.iter_errors(value).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{value}\nis not a {name}:\n{}", errors.join("\n"));
}

/// The members that were seen, as `Schema.member.member[]`.
#[derive(Debug, Default)]
pub(in crate::server) struct Seen(BTreeSet<String>);

impl Seen {
    /// Checks a value, and keeps its members.
    #[track_caller]
    pub(in crate::server) fn check(&mut self, name: &str, value: &Value) {
        check(name, value);
        self.visit(name, &SCHEMAS[name], value);
    }

    fn visit(&mut self, path: &str, schema: &Value, value: &Value) {
        if let Some((name, target)) = target(schema) {
            self.visit(name, target, value);
        }
        branches(schema).filter(|it| fits(it, value)).for_each(|it| self.visit(path, it, value));
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(value) = value.get(name) {
                let path = format!("{path}.{name}");
                self.visit(&path, member, value);
                self.0.insert(path);
            }
        }
        let elements = value.as_array().into_iter().flatten();
        elements.for_each(|it| self.visit(&format!("{path}[]"), &schema["items"], it));
    }

    /// What these schemas describe and was never seen. Members of `elsewhere` are left out.
    pub(in crate::server) fn missing(&self, names: &[&str], elsewhere: &[&str]) -> Vec<String> {
        let mut described = BTreeSet::new();
        let mut visited: BTreeSet<&str> = elsewhere.iter().copied().collect();
        for name in names {
            describe(name, &SCHEMAS[*name], &mut visited, &mut described);
        }
        described.difference(&self.0).cloned().collect()
    }
}

fn describe<'s>(
    path: &str,
    schema: &'s Value,
    visited: &mut BTreeSet<&'s str>,
    described: &mut BTreeSet<String>,
) {
    if let Some((name, target)) = target(schema)
        && visited.insert(name)
    {
        describe(name, target, visited, described);
    }
    branches(schema).for_each(|it| describe(path, it, visited, described));
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        describe(&path, member, visited, described);
        described.insert(path);
    }
    if schema["items"].is_object() {
        describe(&format!("{path}[]"), &schema["items"], visited, described);
    }
}

/// Whether a value can be meant by a branch: its type, its constants and what it needs agree.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some((_, target)) = target(schema) {
        return fits(target, value);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = match &schema["type"] {
        Value::String(expected) => expected == kind || expected == "integer" && kind == "number",
        Value::Array(expected) => expected.iter().any(|it| it == kind),
        _ => true,
    };
    let is_const = schema.get("const").is_none_or(|it| it == value);
    let mut needed = schema["required"].as_array().into_iter().flatten();
    let has_needed = needed.all(|it| value.get(it.as_str().unwrap_or_default()).is_some());
    let mut members = schema["properties"].as_object().into_iter().flatten();
    let agrees = members.all(|(name, it)| {
        let constant = it.get("const");
        constant.is_none() || value.get(name).is_none_or(|value| constant == Some(value))
    });
    let mut one = branches(schema).peekable();
    let has_branch = one.peek().is_none() || one.any(|it| fits(it, value));
    is_kind && is_const && has_needed && agrees && has_branch
}
