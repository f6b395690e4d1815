//! Schemas of a document as JSON Schema (2020-12) that stands on its own.
//!
//! References are kept: `#/components/schemas/Pet` becomes `#/$defs/Pet`, and what is reached is
//! copied, each schema once. A schema may therefore refer to itself, and takes no more room than in
//! the document.

use std::collections::BTreeMap;

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
        let Value::Object(keywords) = schema else {
            // `true`, `false`, or names in `dependencies`.
            self.spend(weight(schema))?;
            return Ok(schema.clone());
        };
        if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| keywords.contains_key(**keyword)) {
            return Err(format!("its schema has {keyword}, which is not supported"));
        }
        let mut converted = Map::new();
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            let name = self.name(reference)?;
            converted.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
            if self.all.is_3_0 {
                return Ok(converted.into());
            }
        }
        let removed = self.read_only(keywords);
        for (keyword, value) in keywords {
            let is_dropped = DROPPED.contains(&&**keyword) || keyword.starts_with("x-");
            if keyword == "$ref" || is_dropped {
                continue;
            }
            self.spend(keyword.len() + 4)?;
            let value = self.keyword(keyword, value, &removed)?;
            converted.insert(keyword.clone(), value);
        }
        old_keywords(&mut converted, keywords.get("nullable") == Some(&Value::Bool(true)));
        Ok(converted.into())
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

    /// The names of properties that only answers have.
    pub(super) fn read_only(&self, keywords: &Map<String, Value>) -> Vec<String> {
        let Some(Value::Object(properties)) = keywords.get("properties") else { return Vec::new() };
        let says = |schema: &Value| schema.get("readOnly") == Some(&Value::Bool(true));
        let is_read_only = |schema: &Value| {
            says(schema) || reference::resolve(self.all.root, schema).is_ok_and(says)
        };
        let properties = properties.iter().filter(|(_, schema)| is_read_only(schema));
        properties.map(|(name, _)| name.clone()).collect()
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
            definitions.insert(name, self.convert(schema)?);
        }
        Ok(definitions)
    }
}

/// Keywords as they were before 2020-12: `nullable`, and limits that are exclusive.
fn old_keywords(keywords: &mut Map<String, Value>, is_nullable: bool) {
    if is_nullable && let Some(Value::String(kind)) = keywords.get("type") {
        let kinds = json!([kind, "null"]);
        keywords.insert("type".to_owned(), kinds);
    }
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
