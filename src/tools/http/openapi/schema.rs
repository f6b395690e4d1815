//! Schemas of a document as JSON Schema (2020-12) that stands on its own.
//!
//! References are kept: `#/components/schemas/Pet` becomes `#/$defs/Pet`, and what is reached is
//! copied, each schema once. A schema may therefore refer to itself, and takes no more room than in
//! the document.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ptr;

use serde_json::{Map, Value, json};

use super::names::Names;
use super::reference;
use crate::limits::openapi::{DOCUMENT_SCHEMAS_BYTES_MAX, SCHEMA_BYTES_MAX};
use crate::text::quote;
use crate::tools::schema::parts::{Holds, holds};

/// Keywords that say nothing about a value. Definitions are copied where they are referred to.
const DROPPED: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$schema",
    "$vocabulary",
    "definitions",
    "deprecated",
    "discriminator",
    "example",
    "examples",
    "externalDocs",
    "nullable",
    "readOnly",
    "writeOnly",
    "xml",
];
/// Keywords that apply other schemas to the same value: these may refuse a `null` that `type` allows.
const APPLICATORS: &[&str] = &["$ref", "allOf", "anyOf", "if", "not", "oneOf"];
/// Keywords that inform readers, and restrict no value.
const ANNOTATIONS: &[&str] = &["title", "description", "default"];
/// Keywords that change what references mean.
const UNSUPPORTED: &[&str] = &["$dynamicRef", "$id", "$recursiveRef"];

/// The schemas of one document.
#[derive(Debug)]
pub(super) struct Schemas<'d> {
    pub(super) root: &'d Value,
    /// Whether the document is of version 3.0, in which a reference replaces what is next to it.
    pub(super) is_3_0: bool,
    /// Bytes that may still be copied for all operations.
    pub(super) room: usize,
}

impl<'d> Schemas<'d> {
    pub(super) const fn new(root: &'d Value, is_3_0: bool) -> Self {
        Self { root, is_3_0, room: DOCUMENT_SCHEMAS_BYTES_MAX }
    }

    /// For the schemas of one operation.
    pub(super) fn operation(&mut self) -> Converter<'_, 'd> {
        Converter {
            names: BTreeMap::new(),
            removed: BTreeMap::new(),
            given: Names::default(),
            open: Vec::new(),
            room: SCHEMA_BYTES_MAX,
            all: self,
        }
    }
}

/// Converts the schemas of one operation.
#[derive(Debug)]
pub(super) struct Converter<'s, 'd> {
    all: &'s mut Schemas<'d>,
    /// The names of definitions, by reference.
    names: BTreeMap<String, String>,
    /// Properties that a definition must not require, by reference: another part of the same schema says that only
    /// answers have them.
    removed: BTreeMap<String, BTreeSet<String>>,
    given: Names,
    /// References whose definitions have not been copied yet.
    open: Vec<String>,
    room: usize,
}

impl<'d> Converter<'_, 'd> {
    pub(super) const fn root(&self) -> &'d Value {
        self.all.root
    }

    /// Converts a schema.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, String> {
        self.convert_part(schema, &[])
    }

    /// Converts a part of a schema of which only answers have these properties.
    fn convert_part(&mut self, schema: &Value, removed: &[String]) -> Result<Value, String> {
        let Value::Object(keywords) = schema else {
            // `true`, `false`, or names in `dependencies`.
            self.spend(weight(schema))?;
            return Ok(schema.clone());
        };
        if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| keywords.contains_key(**keyword)) {
            return Err(format!("its schema has {keyword}, which is not supported"));
        }
        let is_nullable = keywords.get("nullable") == Some(&Value::Bool(true));
        let removed = [&*self.read_only(keywords), removed].concat();
        let mut converted = Map::new();
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            let name = self.name(reference)?;
            self.note_removed(reference, &removed);
            converted.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
            if self.all.is_3_0 {
                return self.finished(converted, is_nullable);
            }
        }
        for (keyword, value) in keywords {
            let is_dropped = DROPPED.contains(&&**keyword) || keyword.starts_with("x-");
            if keyword == "$ref" || is_dropped {
                continue;
            }
            self.spend(keyword.len() + 4)?;
            let value = self.keyword(keyword, value, &removed)?;
            converted.insert(keyword.clone(), value);
        }
        exclusive_limits(&mut converted);
        self.finished(converted, is_nullable)
    }

    fn finished(&mut self, schema: Map<String, Value>, is_nullable: bool) -> Result<Value, String> {
        if !is_nullable {
            return Ok(schema.into());
        }
        self.spend(OR_NULL_BYTES)?;
        Ok(or_null(schema).into())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        removed: &[String],
    ) -> Result<Value, String> {
        match (holds(keyword), value) {
            (Some(Holds::Named), Value::Object(named)) => {
                let mut converted = Map::new();
                for (name, schema) in named {
                    if keyword != "properties" || !removed.contains(name) {
                        self.spend(name.len() + 4)?;
                        converted.insert(name.clone(), self.convert(schema)?);
                    }
                }
                Ok(converted.into())
            }
            (Some(Holds::List), Value::Array(list)) if keyword != "prefixItems" => {
                list.iter().map(|part| self.convert_part(part, removed)).collect()
            }
            (Some(Holds::List | Holds::SchemaOrList), Value::Array(list)) => {
                list.iter().map(|schema| self.convert(schema)).collect()
            }
            (None, Value::Array(required)) if keyword == "required" => {
                let is_kept = |name: &&Value| !removed.iter().any(|removed| *name == removed);
                Ok(required.iter().filter(is_kept).cloned().collect())
            }
            (Some(Holds::Schema | Holds::SchemaOrList), schema) => self.convert(schema),
            (_, value) => {
                self.spend(weight(value))?;
                Ok(value.clone())
            }
        }
    }

    /// The names of properties that only answers have, as all parts of the schema say together.
    pub(super) fn read_only(&self, keywords: &Map<String, Value>) -> Vec<String> {
        let is_plain_reference = keywords.len() == 1 && keywords.contains_key("$ref");
        if is_plain_reference {
            // Its definition says it.
            return Vec::new();
        }
        let (mut names, mut seen) = (Vec::new(), HashSet::new());
        let mut open = vec![keywords];
        while let Some(part) = open.pop() {
            // A schema may refer to itself.
            if !seen.insert(ptr::from_ref(part)) {
                continue;
            }
            names.extend(self.read_only_here(part));
            let parts = part.get("allOf").and_then(Value::as_array).into_iter().flatten();
            let reference = part.get("$ref").and_then(Value::as_str);
            let referred = reference.and_then(|it| reference::find(self.all.root, it).ok());
            open.extend(parts.chain(referred).filter_map(Value::as_object));
        }
        names
    }

    fn read_only_here(&self, keywords: &Map<String, Value>) -> Vec<String> {
        let Some(Value::Object(properties)) = keywords.get("properties") else { return Vec::new() };
        let says = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        let is_read_only = |schema: &Value| {
            says(schema) || reference::resolve(self.all.root, schema).is_ok_and(says)
        };
        let properties = properties.iter().filter(|(_, schema)| is_read_only(schema));
        properties.map(|(name, _)| name.clone()).collect()
    }

    /// Notes properties that the definition must not require. If it has been converted already, that is done again.
    fn note_removed(&mut self, reference: &str, removed: &[String]) {
        if removed.is_empty() {
            return;
        }
        let definition = reference::find(self.all.root, reference).ok().and_then(Value::as_object);
        let own = definition.map(|keywords| self.read_only(keywords)).unwrap_or_default();
        let known = self.removed.entry(reference.to_owned()).or_default();
        let before = known.len();
        known.extend(removed.iter().filter(|name| !own.contains(name)).cloned());
        if known.len() > before && !self.open.iter().any(|open| open == reference) {
            self.open.push(reference.to_owned());
        }
    }

    /// The name of the definition that a reference refers to.
    fn name(&mut self, reference: &str) -> Result<String, String> {
        if let Some(name) = self.names.get(reference) {
            return Ok(name.clone());
        }
        reference::find(self.all.root, reference)?;
        self.spend(reference.len() + 16)?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        // A name that needs no escapes in a reference.
        let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.');
        let plain: String =
            last.chars().map(|char| if is_plain(char) { char } else { '_' }).collect();
        let name = self.given.give(plain);
        self.names.insert(reference.to_owned(), name.clone());
        self.open.push(reference.to_owned());
        Ok(name)
    }

    /// Subtracts what is copied from the room that is left.
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let kib = |bytes: usize| bytes / crate::limits::KIB;
        self.all.room = self.all.room.checked_sub(bytes).ok_or_else(|| {
            let most = kib(DOCUMENT_SCHEMAS_BYTES_MAX);
            format!("the schemas of earlier operations already take {most} KiB, the limit")
        })?;
        self.room = self
            .room
            .checked_sub(bytes)
            .ok_or_else(|| format!("its schema takes more than {} KiB", kib(SCHEMA_BYTES_MAX)))?;
        Ok(())
    }

    /// The definitions that the converted schemas reach.
    ///
    /// # Errors
    /// Why one of them cannot be used.
    pub(super) fn finish(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        while let Some(reference) = self.open.pop() {
            let name = self.names[&reference].clone();
            let schema = reference::find(self.all.root, &reference)?;
            if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
                return Err(format!("{} is no schema", quote(&reference)));
            }
            let removed = self.removed.get(&reference).into_iter().flatten().cloned();
            let removed: Vec<String> = removed.collect();
            definitions.insert(name, self.convert_part(schema, &removed)?);
        }
        Ok(definitions)
    }
}

/// The schema, with `null` allowed as `nullable` did before 3.1. Strictly, that needed a `type` beside it, but many
/// documents have none, and an explicit null clears a field.
fn or_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if APPLICATORS.iter().any(|keyword| schema.contains_key(*keyword)) {
        let mut either = Map::new();
        for keyword in ANNOTATIONS {
            if let Some(value) = schema.shift_remove(*keyword) {
                either.insert((*keyword).to_owned(), value);
            }
        }
        either.insert("anyOf".to_owned(), json!([schema, { "type": "null" }]));
        return either;
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.iter().all(|kind| kind != "null") => {
            kinds.push("null".into());
        }
        Some(kind @ Value::String(_)) => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum")
        && !choices.contains(&Value::Null)
    {
        choices.push(Value::Null);
    }
    schema
}

/// About what [`or_null`] adds.
const OR_NULL_BYTES: usize = 32;

/// Limits as they were before 2020-12: a boolean said that they are exclusive.
fn exclusive_limits(keywords: &mut Map<String, Value>) {
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")]
    {
        let Some(Value::Bool(is_exclusive)) = keywords.get(exclusive) else { continue };
        let is_exclusive = *is_exclusive;
        keywords.shift_remove(exclusive);
        if is_exclusive && let Some(limit) = keywords.shift_remove(inclusive) {
            keywords.insert(exclusive.to_owned(), limit);
        }
    }
}

/// About how many bytes of JSON a value takes.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>()
        }
    }
}
