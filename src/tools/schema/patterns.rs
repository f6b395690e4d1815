//! Patterns in schemas: each takes time and memory to prepare, so tools that come together have a common limit.

use serde_json::{Map, Value};

use super::parts::values;
use crate::limits::tools::{PATTERN_BYTES_PER_WEIGHT, PATTERN_CLASSES_PER_WEIGHT};

/// The patterns that tools which come together may still have. A long one counts as [several](weight).
#[derive(Debug, Clone)]
pub(crate) struct PatternsLeft(usize);

impl PatternsLeft {
    pub(crate) const fn new(most: usize) -> Self {
        Self(most)
    }

    /// Takes those of these schemas. False if fewer are left; then none is taken.
    pub(crate) fn take<'s>(&mut self, schemas: impl IntoIterator<Item = &'s Value>) -> bool {
        let left = self.0.checked_sub(schemas.into_iter().map(weights).sum());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// How many patterns are in a schema, and in what looks like one.
pub(super) fn patterns(schema: &Value) -> usize {
    sum_of_patterns(schema, |_| 1)
}

/// The same, where a long pattern counts as several.
pub(super) fn weights(schema: &Value) -> usize {
    sum_of_patterns(schema, weight)
}

fn sum_of_patterns(schema: &Value, of_pattern: impl Fn(&str) -> usize) -> usize {
    let in_part = |part: &Value| {
        let own = part.get("pattern").and_then(Value::as_str).map_or(0, &of_pattern);
        let names = part.get("patternProperties").and_then(Value::as_object);
        let names = names.into_iter().flat_map(Map::keys);
        own + names.map(|name| of_pattern(name)).sum::<usize>()
    };
    values(schema).map(in_part).sum()
}

/// How many ordinary patterns this one counts as. `jsonschema` translates classes (`\s`, `\d`) one by one and rereads the
/// whole pattern after each, so the time grows with the square of their number: a thousand take seconds.
fn weight(pattern: &str) -> usize {
    let is_class = |pair: &[u8]| pair[0] == b'\\' && pair[1].is_ascii_alphabetic();
    let classes = pattern.as_bytes().windows(2).filter(|pair| is_class(pair)).count();
    1 + pattern.len() / PATTERN_BYTES_PER_WEIGHT + (classes / PATTERN_CLASSES_PER_WEIGHT).pow(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pattern_counts_as_several() {
        for (pattern, expected) in [
            ("^[a-z]+$".to_owned(), 1),
            (r"^\d{4}-\d{2}-\d{2}$".to_owned(), 1),
            ("a".repeat(PATTERN_BYTES_PER_WEIGHT - 1), 1),
            ("a".repeat(PATTERN_BYTES_PER_WEIGHT), 2),
            (r"\s".repeat(PATTERN_CLASSES_PER_WEIGHT - 1), 1),
            (r"\s".repeat(PATTERN_CLASSES_PER_WEIGHT), 2),
            (r"\s".repeat(8 * PATTERN_CLASSES_PER_WEIGHT), 65),
        ] {
            assert_eq!(weight(&pattern), expected, "{pattern}");
        }
    }
}
