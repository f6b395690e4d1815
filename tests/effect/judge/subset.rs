//! Compares arguments: with those that a task wants, and with each other.

use serde_json::{Map, Value};

/// Whether `given` contains `wanted`: an object its keys, an array its elements, a string its text
/// in any case, a number its value.
pub(crate) fn holds(wanted: &Value, given: &Value) -> bool {
    match (wanted, given) {
        (Value::Object(wanted), given) => holds_all(wanted, given),
        (Value::Array(wanted), Value::Array(given)) => {
            wanted.iter().all(|wanted| given.iter().any(|given| holds(wanted, given)))
        }
        (Value::String(wanted), Value::String(given)) => {
            given.to_lowercase().contains(&wanted.to_lowercase())
        }
        (wanted, given) => equal(wanted, given),
    }
}

/// The same for an object's fields.
pub(crate) fn holds_all(wanted: &Map<String, Value>, given: &Value) -> bool {
    wanted.iter().all(|(key, wanted)| given.get(key).is_some_and(|given| holds(wanted, given)))
}

/// Whether two values are equal; `1` and `1.0` are the same number.
pub(crate) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(key, value)| other.get(key).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(wanted: &Value, given: &Value, expected: bool) {
        assert_eq!(holds(wanted, given), expected, "{wanted} {given}");
    }

    #[test]
    fn some_of_the_arguments_are_enough() {
        check(&json!({}), &json!({"a": 1}), true);
        check(&json!({"city": "berlin"}), &json!({"city": "Europe/Berlin", "days": 1}), true);
        check(&json!({"city": "berlin"}), &json!({"city": "Bern"}), false);
        check(&json!({"city": "berlin"}), &json!({}), false);
        check(&json!({"n": 2}), &json!({"n": 2.0}), true);
        check(&json!({"n": 2}), &json!({"n": 20}), false);
        check(&json!({"n": 2}), &json!({"n": "2"}), false);
        check(&json!({"to": ["ann"]}), &json!({"to": ["bob", "Ann"]}), true);
        check(&json!({"to": {"name": "ann"}}), &json!({"to": {"name": "Ann", "id": 1}}), true);
    }

    #[test]
    fn equal_is_all_of_them() {
        assert!(equal(&json!({"a": 1, "b": [2.0]}), &json!({"b": [2], "a": 1.0})));
        assert!(!equal(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!equal(&json!("Oslo"), &json!("oslo")));
    }
}
