//! What schemas are made of: the keywords that hold other schemas, and all that is in a value.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// What a keyword holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    Schema,
    /// Before 2020-12, `items` may be a list.
    SchemaOrList,
    List,
    /// An object of schemas by name.
    Named,
}

/// What a keyword of any draft of JSON Schema holds, if that is schemas.
pub(crate) fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "items" => Holds::SchemaOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
        | "properties" => Holds::Named,
        _ => return None,
    })
}

/// The schemas that a schema holds: keyword, name or index, and schema.
pub(super) fn schemas(
    keywords: &Map<String, Value>,
) -> impl Iterator<Item = (&str, Option<Cow<'_, str>>, &Value)> {
    keywords.iter().flat_map(|(keyword, value)| {
        let held: Vec<(Option<Cow<'_, str>>, &Value)> = match (holds(keyword), value) {
            (Some(Holds::Named), Value::Object(named)) => {
                named.iter().map(|(name, held)| (Some(name.into()), held)).collect()
            }
            (Some(Holds::List | Holds::SchemaOrList), Value::Array(list)) => {
                let numbered = list.iter().enumerate();
                numbered.map(|(index, held)| (Some(index.to_string().into()), held)).collect()
            }
            (Some(Holds::Schema | Holds::SchemaOrList), held) => vec![(None, held)],
            _ => Vec::new(),
        };
        held.into_iter().map(|(name, held)| (keyword.as_str(), name, held))
    })
}

/// A value and all values in it, in no particular order.
pub(super) fn values(value: &Value) -> impl Iterator<Item = &Value> {
    let mut open = vec![value];
    std::iter::from_fn(move || {
        let value = open.pop()?;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
        Some(value)
    })
}
