//! Drops the `null`s that small models write for optional parameters.

use std::collections::BTreeSet;

use jsonschema::Validator;
use jsonschema::paths::Location;
use serde_json::Value;

use crate::limits::tools::NULLS_DROPPED_MAX;

/// The arguments without each optional property that is `null` although its schema refuses that.
/// Required properties stay, and are reported, as do those beyond so many tries.
pub(super) fn drop_refused(validator: &Validator, arguments: Value, tries: usize) -> Value {
    let refused: Vec<Location> = validator
        .iter_errors(&arguments)
        .filter(|error| error.instance().is_null())
        .map(|error| error.instance_path().clone())
        .collect();
    if refused.is_empty() {
        return arguments;
    }
    let refused: BTreeSet<&str> = refused.iter().map(Location::as_str).collect();
    let (mut kept, mut errors) = (arguments.clone(), validator.iter_errors(&arguments).count());
    for pointer in refused.into_iter().take(tries.min(NULLS_DROPPED_MAX)) {
        let mut shorter = kept.clone();
        remove(&mut shorter, pointer);
        let left = validator.iter_errors(&shorter).count();
        // A property whose absence is also an error was not optional.
        if left < errors {
            (kept, errors) = (shorter, left);
        }
    }
    kept
}

/// Removes the property at this JSON pointer. An element of an array stays: the others would move.
fn remove(value: &mut Value, pointer: &str) {
    let Some((holder, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = value.pointer_mut(holder) {
        members.shift_remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::tools::schema::Schema;

    #[track_caller]
    fn check(arguments: Value, expected: &Value) {
        let parameters = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "loud": {"type": "boolean"},
                "size": {"enum": ["s", "l"]},
                "note": {"type": ["string", "null"]},
                "a/b": {"type": "integer"},
                "to": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                    "required": ["city"],
                },
                "list": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["name"],
        });
        let schema = Schema::compile(&parameters).unwrap();
        assert_eq!(&schema.without_refused_nulls(arguments), expected);
    }

    #[test]
    fn an_optional_null_that_is_refused_counts_as_absent() {
        check(json!({"name": "a", "loud": null}), &json!({"name": "a"}));
        check(json!({"name": "a", "size": null, "a/b": null}), &json!({"name": "a"}));
        check(
            json!({"name": "a", "to": {"city": "c", "zip": null}}),
            &json!({"name": "a", "to": {"city": "c"}}),
        );
    }

    #[test]
    fn a_null_that_is_accepted_stays() {
        let arguments = json!({"name": "a", "note": null, "other": null});
        check(arguments.clone(), &arguments);
    }

    #[test]
    fn a_required_null_stays_and_is_reported() {
        for arguments in [
            json!({"name": null}),
            json!({"name": "a", "to": {"city": null}}),
            json!({"name": "a", "list": ["x", null]}),
        ] {
            check(arguments.clone(), &arguments);
        }
    }

    #[test]
    fn a_required_null_keeps_no_optional_one() {
        check(json!({"name": null, "loud": null}), &json!({"name": null}));
    }

    #[test]
    fn no_more_are_tried_than_a_bound() {
        let nulls = |count: usize| -> Value {
            (0..count).map(|n| (format!("n{n:03}"), Value::Null)).collect()
        };
        let schema = Schema::compile(&json!({"additionalProperties": {"type": "string"}})).unwrap();
        for (count, left) in [(NULLS_DROPPED_MAX, 0), (NULLS_DROPPED_MAX + 1, 1)] {
            let kept = schema.without_refused_nulls(nulls(count));
            assert_eq!(kept.as_object().unwrap().len(), left);
        }
    }

    #[test]
    fn other_mistakes_do_not_keep_a_null() {
        check(json!({"name": 7, "loud": null}), &json!({"name": 7}));
    }
}
