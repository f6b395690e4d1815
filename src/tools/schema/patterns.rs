//! Patterns in schemas: each takes time and memory to prepare, so tools that come together have a common limit.

use serde_json::{Map, Value};

use super::parts::values;

/// The patterns that tools which come together may still have.
#[derive(Debug, Clone)]
pub(crate) struct PatternsLeft(usize);

impl PatternsLeft {
    pub(crate) const fn new(most: usize) -> Self {
        Self(most)
    }

    /// Takes those of these schemas. False if fewer are left; then none is taken.
    pub(crate) fn take<'s>(&mut self, schemas: impl IntoIterator<Item = &'s Value>) -> bool {
        let left = self.0.checked_sub(schemas.into_iter().map(patterns).sum());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// How many patterns are in a schema, and in what looks like one.
pub(super) fn patterns(schema: &Value) -> usize {
    let in_part = |part: &Value| {
        let names = part.get("patternProperties").and_then(Value::as_object);
        let own = usize::from(part.get("pattern").is_some_and(Value::is_string));
        own + names.map_or(0, Map::len)
    };
    values(schema).map(in_part).sum()
}
