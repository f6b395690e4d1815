//! How much work it is to check a value, found out before the value is checked.
//!
//! A few lines of schema can make a validator work for hours:
//!
//! ```text
//! {"$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]},
//!                            {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]}]}}}
//! ```
//! Each level of a value doubles the work, since both branches look at all that is below. So the
//! same way is gone beforehand, without judging anything, and given up once it is too long. Where
//! it is not clear what a reference means, that is too long as well: a validator may see more in it.

mod documents;

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::documents::Documents;
use super::parts::values;
use crate::limits::tools::{CHECK_DEPTH_MAX, CHECKS_EXPLAINED_MIN, CHECKS_MAX, CHECKS_PER_VALUE};

/// How much work it is to check a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// What is wrong with it can be told, too.
    Little,
    /// It can be told whether something is wrong.
    Much,
    /// It must not be checked.
    TooMuch,
}

/// How much work a schema makes.
#[derive(Debug)]
pub(super) struct Effort {
    /// The schema with its documents, if it has references. Without them, every value is little
    /// work.
    referring: Option<(Value, Documents)>,
}

impl Effort {
    /// The effort of a schema, or a keyword in it whose references cannot be followed.
    pub(super) fn of(schema: &Value) -> Result<Self, &'static str> {
        let has = |keyword: &str| values(schema).any(|part| is_text(part.get(keyword)));
        if let Some(keyword) = DYNAMIC.into_iter().find(|keyword| has(keyword)) {
            return Err(keyword);
        }
        let draft = schema.get("$schema");
        let mut drafts = values(schema).map(|part| part.get("$schema"));
        if drafts.any(|named| is_text(named) && named != draft) {
            return Err("more than one $schema");
        }
        let referring = has("$ref").then(|| (schema.clone(), Documents::of(schema)));
        Ok(Self { referring })
    }

    /// How much work it is to check the value.
    pub(super) fn of_checking(&self, value: &Value) -> Work {
        let Some((schema, documents)) = &self.referring else { return Work::Little };
        let more = CHECKS_PER_VALUE * values(value).count();
        let mut walk =
            Walk { documents, schema, found: HashMap::new(), left: CHECKS_MAX + more, depth: 0 };
        match walk.check(schema, documents.root(), value) {
            None => Work::TooMuch,
            Some(()) if CHECKS_MAX - CHECKS_EXPLAINED_MIN < walk.left => Work::Little,
            Some(()) => Work::Much,
        }
    }
}

/// Keywords whose meaning depends on how a validator got there.
const DYNAMIC: [&str; 2] = ["$dynamicRef", "$recursiveRef"];

fn is_text(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_string)
}

/// Keywords with one schema for the value itself.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with several.
const SAME_EACH: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a schema for each item, or for each member.
const ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Keywords for which the others are gone through once more.
const UNEVALUATED: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

/// The way through a schema and a value. Every step returns `None` once it is too long.
struct Walk<'s> {
    documents: &'s Documents,
    schema: &'s Value,
    /// What references mean, by their place in memory and the document that they are in.
    found: HashMap<(*const u8, usize), Option<(&'s Value, usize)>>,
    left: usize,
    depth: usize,
}

impl<'s> Walk<'s> {
    /// Goes through what a part of the schema, in the document `base`, says of a value.
    fn check(&mut self, part: &'s Value, mut base: usize, value: &Value) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let Value::Object(keywords) = part else { return Some(()) };
        if self.documents.is_document(part) {
            base = self.documents.within(base, part)?;
        }
        self.depth += 1;
        if self.depth > CHECK_DEPTH_MAX {
            return None;
        }
        let rounds = 1 + usize::from(UNEVALUATED.iter().any(|name| keywords.contains_key(*name)));
        for _ in 0..rounds {
            self.check_same(keywords, base, value)?;
        }
        match value {
            Value::Array(items) => self.check_items(keywords, base, items)?,
            Value::Object(members) => self.check_members(keywords, base, members, value)?,
            _ => {}
        }
        self.depth -= 1;
        Some(())
    }

    /// The keywords for the value itself.
    fn check_same(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: usize,
        value: &Value,
    ) -> Option<()> {
        if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
            let (documents, schema) = (self.documents, self.schema);
            let found = self.found.entry((name.as_ptr(), base));
            let found = found.or_insert_with(|| documents.find(schema, base, name));
            match *found {
                Some((part, base)) => self.check(part, base, value)?,
                // The standard's own schemas are harmless.
                None if is_standard(name) => {}
                None => return None,
            }
        }
        let several = SAME_EACH.iter().filter_map(|name| keywords.get(*name)?.as_array());
        let same = SAME.iter().filter_map(|name| keywords.get(*name));
        for part in same.chain(several.flatten()) {
            self.check(part, base, value)?;
        }
        Some(())
    }

    fn check_items(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: usize,
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
        base: usize,
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
        if let Some(part) = keywords.get("propertyNames") {
            for _ in members {
                // A name is a text, about which nothing more matters here.
                self.check(part, base, &Value::Null)?;
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

/// Whether a reference means a schema of the standard's own.
fn is_standard(name: &str) -> bool {
    let rest = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
}

#[cfg(test)]
mod tests;
