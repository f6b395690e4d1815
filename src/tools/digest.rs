//! Digests of JSON values: equal values have equal digests, whatever the order of their keys.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a value's canonical JSON, in hexadecimal.
pub(crate) fn of(value: &Value) -> String {
    of_text(&canonical(value))
}

/// A value as JSON without spaces, the keys of each object sorted by their bytes.
pub(crate) fn canonical(value: &Value) -> String {
    let mut json = String::new();
    push_canonical(&mut json, value);
    json
}

/// The SHA-256 of a text, in hexadecimal.
pub(crate) fn of_text(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Appends a value as JSON without spaces, the keys of each object sorted by their bytes.
fn push_canonical(json: &mut String, value: &Value) {
    match value {
        Value::Array(items) => {
            json.push('[');
            for (at, item) in items.iter().enumerate() {
                json.push_str(if at == 0 { "" } else { "," });
                push_canonical(json, item);
            }
            json.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            json.push('{');
            for (at, (key, member)) in members.into_iter().enumerate() {
                json.push_str(if at == 0 { "" } else { "," });
                let _ = write!(json, "{}:", Value::from(key.as_str()));
                push_canonical(json, member);
            }
            json.push('}');
        }
        scalar => _ = write!(json, "{scalar}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = parse(r#"{"a": {"c": [1, null], "d": "\u00e9"}, "b": true}"#);
        let other = parse(r#"{"b":true,"a":{"d":"é","c":[1,null]}}"#);
        assert_eq!(of(&one), of(&other));
        assert_ne!(of(&one), of(&json!({"b": true, "a": {"d": "é", "c": [null, 1]}})));
    }

    #[test]
    fn a_digest_is_the_hash_of_the_canonical_text() {
        // printf '%s' '{"a":[],"b":"\n"}' | sha256sum
        let value = json!({"b": "\n", "a": []});
        assert_eq!(of(&value), "2ceca04480cedc4be3706715357c78e51ebc7912b683dbb635f1e05caccdfb9a");
    }
}
