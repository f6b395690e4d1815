//! Numbers in arguments, as programs and services read integers.

use serde_json::{Number, Value};

/// The arguments with each `10.0` as `10`. To JSON Schema they are the same integer, so models may write either. On a
/// command line and in an address, and for many readers of JSON, only the latter is one.
pub(super) fn written(mut arguments: Value) -> Value {
    let mut rest = vec![&mut arguments];
    while let Some(value) = rest.pop() {
        match value {
            Value::Number(number) => {
                if let Some(integer) = integer(number) {
                    *number = integer;
                }
            }
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.values_mut()),
            _ => {}
        }
    }
    arguments
}

/// `None` if it is an integer already, has a fraction, or is too large to say which integer was meant.
fn integer(number: &Number) -> Option<Number> {
    /// 2^53. From here on, floating-point numbers leave integers out.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_whole = float.fract() == 0.0 && float.abs() < EXACT_MAX;
    let integer: i64 = is_whole.then(|| format!("{float:.0}"))?.parse().ok()?;
    Some(integer.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_without_a_fraction_are_written_as_integers() {
        for (number, expected) in [
            ("10.0", "10"),
            ("1e3", "1000"),
            ("-2.0", "-2"),
            ("-0.0", "0"),
            ("9007199254740991.0", "9007199254740991"),
            ("9007199254740992.0", "9007199254740992.0"),
            ("1e300", "1e+300"),
            ("2.5", "2.5"),
            ("7", "7"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            let number: Value = serde_json::from_str(number).unwrap();
            assert_eq!(written(number).to_string(), expected);
        }
        let arguments = json!({"a": [1.0, {"b": 2.0}], "c": "3.0", "d": null});
        let expected = json!({"a": [1, {"b": 2}], "c": "3.0", "d": null});
        assert_eq!(written(arguments), expected);
    }
}
