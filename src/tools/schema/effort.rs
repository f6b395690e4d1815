//! How much work it is to check a value, found out before the value is checked.
//!
//! A few lines of schema can make a validator work for hours:
//!
//! ```text
//! {"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]},
//!                            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]}]}}}
//! ```
//! Each level of a value doubles the work, since both branches look at all that is below. So the
//! same way is gone beforehand, without judging anything, and given up once it is too long.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::limits::tools::{CHECK_DEPTH_MAX, CHECKS_MIN, CHECKS_PER_VALUE};

/// The parts of a schema that others refer to by name. Empty for a schema without references,
/// for which every value is little work.
#[derive(Debug, Default)]
pub(super) struct References {
    has_any: bool,
    /// JSON pointers to the parts with an `$id` or an anchor, by that name.
    named: HashMap<String, String>,
}

impl References {
    /// The references of a schema, or one that cannot be followed.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut references = Self::default();
        let mut used = Vec::new();
        references.collect(schema, "", schema, &mut used);
        references.has_any = !used.is_empty();
        let is_lost = |(base, name): &(&Value, &str)| {
            !is_standard(name) && references.find(schema, base, name).is_none()
        };
        let lost = used.into_iter().find(is_lost);
        lost.map_or(Ok(references), |(_, name)| Err(name.to_owned()))
    }

    /// Collects names, and the references with the document that they are in.
    fn collect<'s>(
        &mut self,
        schema: &'s Value,
        at: &str,
        mut base: &'s Value,
        used: &mut Vec<(&'s Value, &'s str)>,
    ) {
        if is_document(schema) {
            base = schema;
        }
        if let Value::Object(members) = schema {
            for (key, value) in members.iter().filter(|(key, _)| !VALUES.contains(&key.as_str())) {
                match (key.as_str(), value.as_str()) {
                    (key, Some(name)) if REFERENCES.contains(&key) => used.push((base, name)),
                    ("$anchor" | "$dynamicAnchor", Some(name)) => {
                        self.named.insert(format!("#{name}"), at.to_owned());
                    }
                    ("$id", Some(name)) => {
                        self.named.insert(name.to_owned(), at.to_owned());
                    }
                    _ => {}
                }
                let key = key.replace('~', "~0").replace('/', "~1");
                self.collect(value, &format!("{at}/{key}"), base, used);
            }
        }
        for (index, value) in schema.as_array().into_iter().flatten().enumerate() {
            self.collect(value, &format!("{at}/{index}"), base, used);
        }
    }

    /// The part that a reference in the document `base` means.
    fn find<'s>(&self, schema: &'s Value, base: &'s Value, name: &str) -> Option<&'s Value> {
        if let Some(pointer) = self.named.get(name) {
            return schema.pointer(pointer);
        }
        let (document, pointer) = name.split_once('#')?;
        let start = match document {
            "" => base,
            id => schema.pointer(self.named.get(id)?)?,
        };
        start.pointer(&percent_decode_str(pointer).decode_utf8_lossy())
    }

    /// Whether checking the value takes more work than a value of its size may take.
    pub(super) fn is_too_much(&self, schema: &Value, value: &Value) -> bool {
        if !self.has_any {
            return false;
        }
        let left = CHECKS_MIN + CHECKS_PER_VALUE * count(value);
        let mut walk = Walk { references: self, schema, left, depth: 0 };
        walk.check(schema, schema, value).is_none()
    }
}

/// Keywords that refer to a part.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose values are no schemas, whatever they look like.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];

/// Whether a schema is a document of its own, in which `#` is its own beginning.
fn is_document(schema: &Value) -> bool {
    schema.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'))
}

/// Whether a reference means a schema of the standard's own. They are harmless.
fn is_standard(name: &str) -> bool {
    let rest = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
}

/// How many values are in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Keywords with one schema for the value itself.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with several.
const SAME_EACH: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a schema for each item, or for each member.
const ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// The way through a schema and a value. Every step returns `None` once it is too long.
struct Walk<'s> {
    references: &'s References,
    schema: &'s Value,
    left: usize,
    depth: usize,
}

impl<'s> Walk<'s> {
    /// Goes through what a part of the schema, in the document `base`, says of a value.
    fn check(&mut self, part: &'s Value, mut base: &'s Value, value: &Value) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let Value::Object(keywords) = part else { return Some(()) };
        if is_document(part) {
            base = part;
        }
        self.depth += 1;
        if self.depth > CHECK_DEPTH_MAX {
            return None;
        }
        for name in REFERENCES.iter().filter_map(|name| keywords.get(*name)?.as_str()) {
            if let Some(part) = self.references.find(self.schema, base, name) {
                self.check(part, base, value)?;
            }
        }
        let several = SAME_EACH.iter().filter_map(|name| keywords.get(*name)?.as_array());
        let same = SAME.iter().filter_map(|name| keywords.get(*name));
        for part in same.chain(several.flatten()) {
            self.check(part, base, value)?;
        }
        match value {
            Value::Array(items) => self.check_items(keywords, base, items)?,
            Value::Object(members) => self.check_members(keywords, base, members, value)?,
            _ => {}
        }
        self.depth -= 1;
        Some(())
    }

    fn check_items(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: &'s Value,
        items: &[Value],
    ) -> Option<()> {
        for keyword in ITEMS.iter().filter_map(|name| keywords.get(*name)) {
            for (at, item) in items.iter().enumerate() {
                match keyword {
                    // Before 2020-12, `items` may be one schema for each.
                    Value::Array(each) => match each.get(at) {
                        Some(part) => self.check(part, base, item)?,
                        None => break,
                    },
                    part => self.check(part, base, item)?,
                }
            }
        }
        let each = keywords.get("prefixItems").and_then(Value::as_array);
        for (part, item) in each.into_iter().flatten().zip(items) {
            self.check(part, base, item)?;
        }
        Some(())
    }

    fn check_members(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: &'s Value,
        members: &Map<String, Value>,
        value: &Value,
    ) -> Option<()> {
        let of = |name: &str| keywords.get(name).and_then(Value::as_object);
        for (name, part) in of("properties").into_iter().flatten() {
            if let Some(member) = members.get(name) {
                self.check(part, base, member)?;
            }
        }
        // Any name may match.
        let patterns = of("patternProperties").into_iter().flat_map(Map::values);
        let others = MEMBERS.iter().filter_map(|name| keywords.get(*name));
        for part in patterns.chain(others) {
            for member in members.values() {
                self.check(part, base, member)?;
            }
        }
        let dependent = of("dependentSchemas").into_iter().chain(of("dependencies"));
        for (name, part) in dependent.flatten() {
            if members.contains_key(name) {
                self.check(part, base, value)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    fn is_too_much(schema: &Value, value: &Value) -> bool {
        References::of(schema).unwrap().is_too_much(schema, value)
    }

    #[test]
    fn work_that_doubles_with_each_level_is_too_much() {
        let branch = |required: &str| json!({ "properties": { "a": { "$ref": "#/$defs/n" } }, "required": [required] });
        let schema = json!({
            "$ref": "#/$defs/n",
            "$defs": { "n": { "anyOf": [branch("x"), branch("y")] } },
        });
        assert!(!is_too_much(&schema, &nested(8)));
        assert!(is_too_much(&schema, &nested(60)));
    }

    #[test]
    fn work_that_doubles_without_any_level_is_too_much() {
        let link = |at: usize| {
            let next = json!({ "$ref": format!("#/$defs/d{}", at + 1) });
            (format!("d{at}"), json!({ "allOf": [next, next] }))
        };
        let mut defs: Map<String, Value> = (0..40).map(link).collect();
        defs.insert("d40".to_owned(), json!({}));
        assert!(is_too_much(&json!({ "$ref": "#/$defs/d0", "$defs": defs }), &json!({})));
    }

    #[test]
    fn a_reference_to_itself_is_too_much() {
        for (name, n) in [
            ("#", json!({})),
            ("#/$defs/n", json!({ "$ref": "#/$defs/n" })),
            ("#n", json!({ "$anchor": "n", "$ref": "#n" })),
            ("https://a.example/n", json!({ "$id": "https://a.example/n", "$ref": "#" })),
        ] {
            let schema = json!({ "$ref": name, "$defs": { "n": n } });
            assert!(is_too_much(&schema, &json!({})), "{name}");
        }
    }

    #[test]
    fn any_json_is_little_work_however_long_and_deep_it_is() {
        let schema = json!({
            "$ref": "#/$defs/json",
            "$defs": { "json": { "anyOf": [
                { "type": ["string", "number", "boolean", "null"] },
                { "type": "array", "items": { "$ref": "#/$defs/json" } },
                { "type": "object", "additionalProperties": { "$ref": "#/$defs/json" } },
            ] } },
        });
        assert!(!is_too_much(&schema, &nested(100)));
        assert!(!is_too_much(&schema, &json!(vec![nested(3); 20_000])));
    }

    #[test]
    fn a_document_within_a_schema_has_references_of_its_own() {
        let inner = json!({ "$id": "b", "$ref": "#/$defs/n", "$defs": { "n": { "$ref": "#" } } });
        let schema = json!({ "$id": "a", "$ref": "b", "$defs": { "b": inner, "n": {} } });
        assert!(is_too_much(&schema, &json!({})));
    }

    #[test]
    fn values_have_no_references_and_those_of_the_standard_need_not_be_there() {
        let schema = json!({ "default": { "$ref": "x" }, "$ref": "http://json-schema.org/draft-07/schema#" });
        assert!(!is_too_much(&schema, &nested(60)));
    }

    #[test]
    fn a_reference_that_leads_nowhere_is_named() {
        let schema = json!({ "properties": { "a": { "$ref": "#/$defs/a%20b" } } });
        assert_eq!(References::of(&schema).unwrap_err(), "#/$defs/a%20b");
        let schema = json!({ "$defs": { "a b": {} }, "$ref": "#/$defs/a%20b" });
        assert!(References::of(&schema).is_ok());
    }
}
