//! Compares arguments with the values that BFCL accepts, by the rules of its `ast_checker`.

use serde_json::{Map, Value};

/// Whether `arguments` have an accepted value for every parameter, and no others. A parameter may
/// be absent if its accepted values include the empty string.
pub(super) fn accepts(accepted: &Map<String, Value>, arguments: &Value) -> bool {
    let Value::Object(arguments) = arguments else { return false };
    let is_accepted = |(name, values): (&String, &Value)| match arguments.get(name) {
        Some(given) => values.as_array().is_some_and(|v| v.iter().any(|v| matches(v, given))),
        None => may_be_absent(values),
    };
    accepted.iter().all(is_accepted) && arguments.keys().all(|name| accepted.contains_key(name))
}

fn may_be_absent(values: &Value) -> bool {
    values.as_array().is_some_and(|values| values.iter().any(|value| value == ""))
}

/// Whether `given` is this accepted value. In an object, each field has a list of accepted values.
fn matches(accepted: &Value, given: &Value) -> bool {
    match (accepted, given) {
        (Value::String(accepted), Value::String(given)) => plain(accepted) == plain(given),
        (Value::Number(accepted), Value::Number(given)) => {
            accepted == given || accepted.as_f64() == given.as_f64()
        }
        (Value::Array(accepted), Value::Array(given)) => {
            accepted.len() == given.len()
                && accepted.iter().zip(given).all(|(accepted, given)| matches(accepted, given))
        }
        (Value::Object(accepted), given) => accepts(accepted, given),
        (accepted, given) => accepted == given,
    }
}

/// A string without what BFCL ignores: case, spaces, some punctuation, and the kind of quotes.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|char| !" ,./-_*^".contains(*char)).collect();
    text.to_lowercase().replace('\'', "\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(accepted: &Value, arguments: &Value, expected: bool) {
        let accepted = accepted.as_object().unwrap();
        assert_eq!(accepts(accepted, arguments), expected, "{accepted:?} {arguments}");
    }

    #[test]
    fn strings_are_compared_without_case_and_punctuation() {
        let accepted = json!({"date": ["April 1, 2024", "04/01/2024"]});
        check(&accepted, &json!({"date": "april 1 2024"}), true);
        check(&accepted, &json!({"date": "04-01-2024"}), true);
        check(&accepted, &json!({"date": "April 2, 2024"}), false);
        check(&json!({"of": ["x^2 * 'a'"]}), &json!({"of": "x2\"a\""}), true);
    }

    #[test]
    fn numbers_are_compared_by_value() {
        check(&json!({"n": [5]}), &json!({"n": 5.0}), true);
        check(&json!({"n": [0.5]}), &json!({"n": 0.5}), true);
        check(&json!({"n": [5]}), &json!({"n": "5"}), false);
        check(&json!({"n": [5]}), &json!({"n": 6}), false);
        check(&json!({"b": [true]}), &json!({"b": true}), true);
        check(&json!({"b": [true]}), &json!({"b": 1}), false);
    }

    #[test]
    fn parameters_are_absent_only_where_they_may_be() {
        let accepted = json!({"n": [5], "unit": ["cm", ""]});
        check(&accepted, &json!({"n": 5}), true);
        check(&accepted, &json!({"n": 5, "unit": "cm"}), true);
        check(&accepted, &json!({"n": 5, "unit": "m"}), false);
        check(&accepted, &json!({"unit": "cm"}), false);
        check(&accepted, &json!({"n": 5, "more": 1}), false);
    }

    #[test]
    fn lists_are_compared_element_by_element() {
        let accepted = json!({"of": [["New York", "Rome"], [1, 2]]});
        check(&accepted, &json!({"of": ["new york", "rome"]}), true);
        check(&accepted, &json!({"of": [1.0, 2]}), true);
        check(&accepted, &json!({"of": ["Rome", "New York"]}), false);
        check(&accepted, &json!({"of": ["New York"]}), false);
        check(&accepted, &json!({"of": "New York"}), false);
    }

    #[test]
    fn objects_hold_lists_of_accepted_values() {
        let accepted = json!({"at": [{"x": [1, 2], "y": [3, ""]}]});
        check(&accepted, &json!({"at": {"x": 2}}), true);
        check(&accepted, &json!({"at": {"x": 1, "y": 3}}), true);
        check(&accepted, &json!({"at": {"y": 3}}), false);
        check(&accepted, &json!({"at": {"x": 1, "z": 3}}), false);
        let list = json!({"all": [[{"x": [1]}, {"x": [2]}]]});
        check(&list, &json!({"all": [{"x": 1}, {"x": 2}]}), true);
        check(&list, &json!({"all": [{"x": 2}, {"x": 1}]}), false);
    }
}
