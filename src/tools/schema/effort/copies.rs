//! Whether a schema can be compiled: a validator copies what references mean into some places.
//!
//! That is so for `unevaluatedProperties` and `unevaluatedItems`, which have to know all that their
//! neighbours say of the value, and for unions, in which a validator looks for a member that tells
//! the branches apart. A reference that is there twice is copied twice, and so on within.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::documents::Documents;
use super::{DEPENDENT, SAME, SAME_EACH, UNEVALUATED, UNIONS, Unsupported};
use crate::limits::tools::{COPIES_MAX, COPY_DEPTH_MAX};
use crate::tools::schema::parts::schemas;

/// Copies for `unevaluated…` are kept, those for a union are only looked at.
const KEPT_WEIGHT: usize = 8;

/// # Errors
/// What in a schema must not be compiled.
pub(super) fn check(schema: &Value, documents: &Documents) -> Result<(), Unsupported> {
    Copies { documents, schema, known: HashMap::new() }.check()
}

/// How many parts are copied with a part, and how deep that goes.
#[derive(Debug, Clone, Copy)]
struct Weight {
    parts: usize,
    depth: usize,
}

const TOO_MANY: Weight = Weight { parts: COPIES_MAX + 1, depth: COPY_DEPTH_MAX + 1 };

#[derive(Debug)]
struct Copies<'s> {
    documents: &'s Documents,
    schema: &'s Value,
    /// By place in memory and document. While a part is weighed, it is too heavy: a circle.
    known: HashMap<(*const Value, usize), Weight>,
}

impl<'s> Copies<'s> {
    /// Adds up the copies for all parts that the schema uses.
    fn check(&mut self) -> Result<(), Unsupported> {
        let (mut open, mut seen) = (vec![(self.schema, self.documents.root())], HashSet::new());
        let mut all = 0;
        while let Some((part, base)) = open.pop() {
            let Value::Object(keywords) = part else { continue };
            if !seen.insert((std::ptr::from_ref(part), base)) {
                continue;
            }
            if let Some(each) = copied(keywords) {
                all += each * self.weigh(part, base, 0).parts;
                if all > COPIES_MAX {
                    return Err(Unsupported::MultiplyingReferences);
                }
            }
            let Some(base) = self.documents.inside(base, part) else {
                return Err(Unsupported::UnclearId);
            };
            open.extend(self.target(keywords, base).ok().flatten());
            // Definitions are used by references alone, and nobody checks the content of texts.
            let used = schemas(keywords).filter(|(keyword, ..)| {
                !["$defs", "definitions", "contentSchema"].contains(keyword)
            });
            open.extend(used.map(|(_, _, part)| (part, base)));
        }
        Ok(())
    }

    /// What the reference of a part means. An error if that is not clear. A validator refuses what
    /// means nothing, and says so.
    fn target(
        &self,
        keywords: &Map<String, Value>,
        base: usize,
    ) -> Result<Option<(&'s Value, usize)>, ()> {
        let Some(name) = keywords.get("$ref").and_then(Value::as_str) else { return Ok(None) };
        match self.documents.find(self.schema, base, name) {
            Some(found) => Ok(Some(found)),
            None if self.documents.is_elsewhere(base, name) => Ok(None),
            None if self.documents.is_nothing(self.schema, base, name) => Ok(None),
            None => Err(()),
        }
    }

    fn weigh(&mut self, part: &'s Value, base: usize, depth: usize) -> Weight {
        let Value::Object(keywords) = part else { return Weight { parts: 1, depth: 1 } };
        let key = (std::ptr::from_ref(part), base);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.known.insert(key, TOO_MANY);
        let weight = match self.documents.inside(base, part) {
            Some(base) if depth <= COPY_DEPTH_MAX => self.weigh_within(keywords, base, depth),
            _ => TOO_MANY,
        };
        self.known.insert(key, weight);
        weight
    }

    fn weigh_within(
        &mut self,
        keywords: &'s Map<String, Value>,
        base: usize,
        depth: usize,
    ) -> Weight {
        let Ok(target) = self.target(keywords, base) else { return TOO_MANY };
        let same = SAME.iter().filter_map(|name| keywords.get(*name));
        let each = SAME_EACH.iter().filter_map(|name| keywords.get(*name)?.as_array()).flatten();
        let dependent = DEPENDENT.iter().filter_map(|name| keywords.get(*name)?.as_object());
        let beside = same.chain(each).chain(dependent.flat_map(Map::values));
        let mut all = Weight { parts: 1, depth: 1 };
        for (part, base) in target.into_iter().chain(beside.map(|part| (part, base))) {
            let weight = self.weigh(part, base, depth + 1);
            all.parts += weight.parts;
            all.depth = all.depth.max(1 + weight.depth);
            if all.parts > COPIES_MAX || all.depth > COPY_DEPTH_MAX {
                return TOO_MANY;
            }
        }
        all
    }
}

/// How much a copy weighs, if there are copies for this part.
fn copied(keywords: &Map<String, Value>) -> Option<usize> {
    if UNEVALUATED.iter().any(|name| keywords.contains_key(*name)) {
        return Some(KEPT_WEIGHT);
    }
    UNIONS.iter().any(|name| keywords.contains_key(*name)).then_some(1)
}
