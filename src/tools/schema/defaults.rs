//! Fills in the defaults of required properties: the schema says what is meant, and descriptions lead models to leave such
//! a property out.

use serde_json::Value;

/// The arguments with the default of each required property that is missing, or `null` where that is refused. A default
/// that its own schema refuses stays out: models would read of a mistake that is not theirs.
pub(super) fn fill_in(parameters: &Value, mut arguments: Value) -> Value {
    let (Some(required), Value::Object(given)) =
        (parameters["required"].as_array(), &mut arguments)
    else {
        return arguments;
    };
    for name in required.iter().filter_map(Value::as_str) {
        let declared = &parameters["properties"][name];
        let may_be = |value: &Value| is_of(value, &declared["type"]);
        let is_missing = match given.get(name) {
            None => true,
            Some(Value::Null) => !may_be(&Value::Null),
            Some(_) => false,
        };
        match declared.get("default") {
            Some(default) if is_missing && may_be(default) => {
                given.insert(name.to_owned(), default.clone());
            }
            _ => {}
        }
    }
    arguments
}

/// Whether a value is of a declared type, or one of several. Anything is if none is declared.
fn is_of(value: &Value, declared: &Value) -> bool {
    match declared {
        Value::Array(types) => types.iter().any(|declared| is_of(value, declared)),
        Value::String(declared) => match &**declared {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: Value, expected: &Value) {
        let parameters = json!({
            "type": "object",
            "properties": {
                "scale": {"type": "string", "default": "css"},
                "depth": {"type": "integer", "default": 3},
                "nested": {"type": "object", "default": {"a": 1}},
                "note": {"type": ["string", "null"], "default": null},
                "odd": {"type": "integer", "default": "none"},
                "path": {"type": "string"},
            },
            "required": ["scale", "nested", "note", "odd", "path", "undeclared"],
        });
        assert_eq!(&fill_in(&parameters, arguments), expected);
    }

    #[test]
    fn a_required_property_with_a_default_may_be_left_out() {
        let filled = json!({"path": "a", "scale": "css", "nested": {"a": 1}, "note": null});
        check(json!({"path": "a"}), &filled);
        check(json!({"path": "a", "scale": null, "nested": null, "note": null}), &filled);
    }

    #[test]
    fn what_is_there_stays() {
        let given = json!({"scale": 7, "nested": {}, "note": "n", "depth": null, "odd": 1});
        check(given.clone(), &given);
        check(json!([]), &json!([]));
    }
}
