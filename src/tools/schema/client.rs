//! Schemas of clients' tools. Anyone may send them with every request, so together their patterns
//! have little room, and calls little time to be checked. What does not fit is left to the client, which knows what
//! it takes.

use serde_json::{Map, Value, json};

use super::parts::values;
use super::patterns::{PatternsLeft, patterns};
use super::{Room, Schema, SchemaError};
use crate::limits::tools::{
    CLIENT_CHECKS_MAX, CLIENT_MATCH_NS_MAX, CLIENT_PATTERN_BYTES_MAX, CLIENT_PATTERNS_MAX,
};

impl Default for PatternsLeft {
    /// For the tools of a client.
    fn default() -> Self {
        Self::new(CLIENT_PATTERNS_MAX)
    }
}

impl Schema {
    /// Compiles the parameters of a client's tool.
    pub(crate) fn of_client(
        parameters: &Value,
        left: &mut PatternsLeft,
    ) -> Result<Self, SchemaError> {
        let room = Room {
            pattern_bytes: CLIENT_PATTERN_BYTES_MAX,
            checks: CLIENT_CHECKS_MAX,
            match_ns: CLIENT_MATCH_NS_MAX,
            is_of_client: true,
        };
        if patterns(parameters) == 0 {
            return Self::compile_in(parameters, room);
        }
        if left.take([parameters]) {
            match Self::compile_in(parameters, room) {
                Err(SchemaError::Invalid { .. }) => {}
                compiled => return compiled,
            }
        }
        // An error beside the patterns is still one without them.
        Self::compile_in(&without_patterns(parameters), room)
    }
}

/// The schema without its patterns. It accepts whatever the schema accepts, and more.
fn without_patterns(schema: &Value) -> Value {
    if values(schema).any(depends_on_refusals) {
        // The type is still that of the schema, or the error about it.
        return schema.get("type").map_or_else(|| json!({}), |it| json!({ "type": it }));
    }
    let by_name = values(schema).any(|part| part.get("patternProperties").is_some());
    let mut schema = schema.clone();
    let mut open = vec![&mut schema];
    while let Some(part) = open.pop() {
        match part {
            Value::Array(items) => open.extend(items),
            Value::Object(keywords) => {
                remove(keywords, by_name);
                open.extend(keywords.values_mut());
            }
            _ => {}
        }
    }
    schema
}

/// Whether a schema may accept less because a part of it accepts more, or has values that are not
/// schemas.
fn depends_on_refusals(part: &Value) -> bool {
    ["not", "oneOf", "if", "maxContains", "const", "enum"].iter().any(|it| {
        // These are also names of properties, which does no harm here.
        part.get(it).is_some_and(|value| match *it {
            "const" | "enum" => patterns(value) > 0,
            _ => true,
        })
    })
}

fn remove(keywords: &mut Map<String, Value>, by_name: bool) {
    if keywords.get("pattern").is_some_and(Value::is_string) {
        keywords.shift_remove("pattern");
    }
    if by_name {
        // Names that only a pattern allows would be refused.
        for keyword in ["patternProperties", "additionalProperties", "unevaluatedProperties"] {
            keywords.shift_remove(keyword);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::tools::PATTERNS_MAX;

    fn with(count: usize, pattern: &str) -> Value {
        let pattern = json!({"type": "string", "pattern": pattern});
        let properties: Map<_, _> = (0..count).map(|n| (n.to_string(), pattern.clone())).collect();
        json!({ "properties": properties, "required": ["0"] })
    }

    #[track_caller]
    fn check(schema: &Value, left: &mut PatternsLeft, arguments: &Value, is_right: bool) {
        let schema = Schema::of_client(schema, left).unwrap();
        assert_eq!(schema.validate(arguments).is_ok(), is_right, "{arguments}");
    }

    #[test]
    fn all_patterns_of_a_client_share_one_room() {
        let mut left = PatternsLeft::default();
        check(&with(CLIENT_PATTERNS_MAX - 1, "^[a-z]+$"), &mut left, &json!({"0": "1"}), false);
        check(&with(2, "^[a-z]+$"), &mut left, &json!({"0": "1"}), true);
        check(&with(1, "^[a-z]+$"), &mut left, &json!({"0": "1"}), false);
        check(&with(1, "^[a-z]+$"), &mut left, &json!({"0": "1"}), true);
        check(&with(1, "^[a-z]+$"), &mut left, &json!({"0": 1}), false);
        check(&with(PATTERNS_MAX + 1, "^[a-z]+$"), &mut left, &json!({}), false);
    }

    #[test]
    fn what_is_no_pattern_here_is_left_to_the_client() {
        // The last one would take seconds to prepare.
        let many_classes = "\\s".repeat(1000);
        for pattern in ["(", "^\\p{L}{1000}$", "(\\w{1000}){100}", &many_classes] {
            let left = &mut PatternsLeft::default();
            check(&with(1, pattern), left, &json!({"0": "1"}), true);
        }
        let error = Schema::of_client(
            &json!({"properties": {"a": {"type": "strnig", "pattern": "a"}}}),
            &mut PatternsLeft::default(),
        );
        assert!(matches!(error, Err(SchemaError::Invalid { .. })));
    }

    #[test]
    fn without_patterns_nothing_more_is_refused() {
        for schema in [
            json!({"patternProperties": {"^a$": {}}, "additionalProperties": false}),
            json!({"properties": {"a": {"not": {"pattern": "("}}}}),
            json!({"properties": {"a": {"oneOf": [{"pattern": "("}, {"pattern": "a"}]}}}),
            json!({"properties": {"a": {"enum": ["1", {"pattern": "("}]}}}),
        ] {
            let left = &mut PatternsLeft::new(0);
            check(&schema, left, &json!({"a": "1"}), true);
        }
    }
}
