//! The way of a validator through a schema and a value, without judging anything.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::documents::Documents;
use super::matching::Shape;
use super::{DEPENDENT, SAME, UNEVALUATED, UNIONS};
use crate::limits::tools::CHECK_DEPTH_MAX;
use crate::tools::schema::parts::values;

/// Keywords with a schema for each item, or for each member.
const ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Keywords that are gone through, or copied into an error, as a whole.
const WHOLE: [&str; 7] =
    ["const", "dependentRequired", "enum", "format", "not", "pattern", "required"];

/// Bytes of a text that take about as long as a check: to copy it, and to read it.
const COPIED_BYTES: usize = 64;
const READ_BYTES: usize = 256;
/// Names that are looked up in the time of a check.
const NAMES: usize = 8;

/// The way through a schema and a value. Every step returns `None` once it is too long.
#[derive(Debug)]
pub(super) struct Walk<'s> {
    schema: &'s Value,
    documents: &'s Documents,
    /// What references mean, by their place in memory and the document that they are in.
    found: HashMap<(*const u8, usize), Option<(&'s Value, usize)>>,
    left: usize,
    /// Checks if what is wrong is explained.
    explained: usize,
    /// Unions that the part is in.
    unions: usize,
    /// Nanoseconds that are left to match patterns.
    match_ns: usize,
    /// Whether a pattern is matched by backtracking.
    has_backtracked: bool,
    depth: usize,
}

impl<'s> Walk<'s> {
    pub(super) fn new(
        schema: &'s Value,
        documents: &'s Documents,
        checks: usize,
        match_ns: usize,
    ) -> Self {
        Self {
            schema,
            documents,
            found: HashMap::new(),
            left: checks,
            explained: 0,
            unions: 0,
            match_ns,
            has_backtracked: false,
            depth: 0,
        }
    }

    /// How many checks it takes to explain what is wrong.
    pub(super) const fn explained(&self) -> usize {
        self.explained
    }

    pub(super) const fn has_backtracked(&self) -> bool {
        self.has_backtracked
    }

    fn spend(&mut self, checks: usize) -> Option<()> {
        self.left = self.left.checked_sub(checks)?;
        // Each union around is tried first, and explained only then.
        self.explained = self.explained.saturating_add(checks.saturating_mul(1 + self.unions));
        Some(())
    }

    /// Enters a part, which may be a document of its own. The caller decrements `depth` when it is
    /// done with the part.
    fn enter(&mut self, base: usize, part: &'s Value) -> Option<usize> {
        self.depth += 1;
        if self.depth > CHECK_DEPTH_MAX {
            return None;
        }
        self.documents.inside(base, part)
    }

    /// Goes through what a part of the schema, in the document `base`, says of a value.
    pub(super) fn check(&mut self, part: &'s Value, base: usize, value: &Value) -> Option<()> {
        self.spend(1)?;
        let Value::Object(keywords) = part else { return Some(()) };
        let base = self.enter(base, part)?;
        let whole = WHOLE.iter().filter_map(|name| keywords.get(*name));
        self.spend(whole.map(size).sum())?;
        self.check_same(keywords, base, value)?;
        match value {
            Value::Array(items) => {
                if keywords.contains_key("uniqueItems") {
                    self.spend(values(value).count())?;
                }
                self.check_items(keywords, base, items)?;
            }
            Value::Object(members) => self.check_members(keywords, base, members, value)?,
            Value::String(text) => {
                self.spend(text.len() / READ_BYTES)?;
                if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str) {
                    self.match_pattern(pattern, text)?;
                }
            }
            _ => {}
        }
        if UNEVALUATED.iter().any(|name| keywords.contains_key(*name)) {
            self.mark(part, base, value)?;
        }
        self.depth -= 1;
        Some(())
    }

    /// Goes through a part once more, to find out which items or members are already evaluated.
    fn mark(&mut self, part: &'s Value, base: usize, value: &Value) -> Option<()> {
        self.spend(1)?;
        let Value::Object(keywords) = part else { return Some(()) };
        let base = self.enter(base, part)?;
        if let Some((part, base)) = self.target(keywords, base)? {
            self.mark(part, base, value)?;
        }
        for (_, part) in same(keywords) {
            self.check(part, base, value)?;
            self.mark(part, base, value)?;
        }
        match value {
            Value::Array(items) => {
                let again = ["contains", "unevaluatedItems"].map(|name| keywords.get(name));
                for (part, item) in again.into_iter().flatten().flat_map(|part| with(part, items)) {
                    self.check(part, base, item)?;
                }
            }
            Value::Object(members) => {
                self.spend(members.len() / NAMES)?;
                let again = keywords.get("unevaluatedProperties").into_iter();
                for (part, member) in again.flat_map(|part| with(part, members.values())) {
                    self.check(part, base, member)?;
                }
                for part in dependent(keywords, members) {
                    self.mark(part, base, value)?;
                }
            }
            _ => {}
        }
        self.depth -= 1;
        Some(())
    }

    /// What the reference of a part means, if it has one that is not to be found elsewhere.
    #[expect(clippy::option_option, reason = "no reference is different from an unclear one")]
    fn target(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: usize,
    ) -> Option<Option<(&'s Value, usize)>> {
        let Some(name) = keywords.get("$ref").and_then(Value::as_str) else { return Some(None) };
        let (documents, schema) = (self.documents, self.schema);
        let found = self.found.entry((name.as_ptr(), base));
        match *found.or_insert_with(|| documents.find(schema, base, name)) {
            // The standard's own schemas are harmless.
            None if !documents.is_standard(base, name) => None,
            found => Some(found),
        }
    }

    /// The keywords for the value itself.
    fn check_same(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: usize,
        value: &Value,
    ) -> Option<()> {
        if let Some((part, base)) = self.target(keywords, base)? {
            self.check(part, base, value)?;
        }
        for (keyword, part) in same(keywords) {
            let unions = usize::from(UNIONS.contains(&keyword));
            self.unions += unions;
            self.check(part, base, value)?;
            self.unions -= unions;
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
        let names = of("properties").map_or(0, Map::len) + members.len();
        self.spend(names / NAMES)?;
        for (name, part) in of("properties").into_iter().flatten() {
            if let Some(member) = members.get(name) {
                self.check(part, base, member)?;
            }
        }
        for (pattern, part) in of("patternProperties").into_iter().flatten() {
            for (name, member) in members {
                self.match_pattern(pattern, name)?;
                // Any name may match.
                self.check(part, base, member)?;
            }
        }
        for part in MEMBERS.iter().filter_map(|name| keywords.get(*name)) {
            for member in members.values() {
                self.check(part, base, member)?;
            }
        }
        if let Some(part) = keywords.get("propertyNames") {
            for name in members.keys() {
                self.check(part, base, &Value::String(name.clone()))?;
            }
        }
        for part in dependent(keywords, members) {
            self.check(part, base, value)?;
        }
        Some(())
    }

    fn match_pattern(&mut self, pattern: &str, text: &str) -> Option<()> {
        self.spend((pattern.len() + text.len()) / COPIED_BYTES)?;
        let shape = Shape::of(pattern);
        self.has_backtracked |= shape.backtracks();
        self.match_ns = self.match_ns.checked_sub(shape.time(text.len()))?;
        Some(())
    }
}

/// The keywords of a part for the value itself, and what they hold.
fn same(keywords: &Map<String, Value>) -> impl Iterator<Item = (&'static str, &Value)> {
    let one = SAME.into_iter().filter_map(|name| Some((name, keywords.get(name)?)));
    let each = super::SAME_EACH.into_iter().flat_map(|name| {
        let parts = keywords.get(name).and_then(Value::as_array);
        parts.into_iter().flatten().map(move |part| (name, part))
    });
    one.chain(each)
}

/// Parts for the value itself because of its members.
fn dependent<'s>(
    keywords: &'s Map<String, Value>,
    members: &Map<String, Value>,
) -> impl Iterator<Item = &'s Value> {
    let named = DEPENDENT.iter().filter_map(|name| keywords.get(*name)?.as_object()).flatten();
    named.filter(|(name, _)| members.contains_key(*name)).map(|(_, part)| part)
}

fn with<'s, 'v>(
    part: &'s Value,
    values: impl IntoIterator<Item = &'v Value>,
) -> impl Iterator<Item = (&'s Value, &'v Value)> {
    values.into_iter().map(move |value| (part, value))
}

/// How many checks it takes to go through a value, or to copy it.
fn size(value: &Value) -> usize {
    let bytes = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Object(members) => members.keys().map(String::len).sum(),
        _ => 0,
    };
    values(value).map(|value| 1 + bytes(value) / COPIED_BYTES).sum()
}
