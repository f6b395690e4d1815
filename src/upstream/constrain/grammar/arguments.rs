//! The arguments of a tool that are written one by one, not as one value.

use serde_json::{Map, Value};

use super::schema::may_have_more_properties;

/// The arguments that a schema names, in its order.
pub(super) struct Arguments<'a> {
    /// Each with its schema, and whether it must be there.
    pub(super) named: Vec<(&'a str, &'a Value, bool)>,
    /// Whether others are allowed explicitly, or the schema does not say which there are.
    pub(super) may_have_others: bool,
}

impl<'a> Arguments<'a> {
    /// Those of a tool with these parameters.
    pub(super) fn of(schema: &'a Value) -> Self {
        const NOTHING: &Value = &Value::Null;
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
                && schema.get("patternProperties").is_none();
            let is_empty = is_closed || schema.as_object().is_some_and(says_nothing);
            return Self { named: Vec::new(), may_have_others: !is_empty };
        };
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        let named =
            properties.iter().map(|(key, schema)| (&**key, schema, required.contains(&&**key)));
        let unnamed = required.iter().filter(|key| !properties.contains_key(**key));
        let unnamed = unnamed.map(|key| (*key, NOTHING, true));
        let more = ["patternProperties", "additionalProperties"];
        let may_have_others = more
            .iter()
            .any(|key| schema.get(*key).is_some_and(|value| *value != Value::Bool(false)))
            || schema.as_object().is_some_and(may_have_more_properties);
        Self { named: named.chain(unnamed).collect(), may_have_others }
    }
}

/// Whether a schema is that of a tool that takes nothing.
fn says_nothing(keywords: &Map<String, Value>) -> bool {
    keywords.keys().all(|key| matches!(&**key, "type" | "$schema" | "title" | "description"))
}
