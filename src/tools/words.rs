//! JSON values in words that a small model understands.

use serde_json::Value;

use crate::limits::tools::QUOTED_BYTES_MAX;

/// A value's type with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value with its type, cut where it is long: `a string: "Tokio"`.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => format!("a string: {}", quote(text)),
        other => format!("{}: {}", kind(other), cut(&other.to_string(), QUOTED_BYTES_MAX)),
    }
}

/// Text between quotation marks, escaped as JSON, cut where it is long.
pub(crate) fn quote(text: &str) -> String {
    Value::from(cut(text, QUOTED_BYTES_MAX)).to_string()
}

/// At most `bytes_max` bytes of `text`, and an ellipsis where that is not all.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_described_with_their_type() {
        for (value, words) in [
            (json!(null), "null"),
            (json!(true), "a boolean: true"),
            (json!(5), "an integer: 5"),
            (json!(0.5), "a number: 0.5"),
            (json!("a\"b"), r#"a string: "a\"b""#),
            (json!([1, 2]), "an array: [1,2]"),
            (json!({"a": 1}), r#"an object: {"a":1}"#),
        ] {
            assert_eq!(describe(&value), words);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö…");
        assert_eq!(cut("äöü", 1), "…");
    }
}
