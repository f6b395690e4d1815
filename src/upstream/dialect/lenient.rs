//! Lenient readers for fields that servers write differently from the standard. A value that
//! makes no sense counts as absent: if that breaks a call, the model hears about it, and the
//! turn goes on.

use serde_json::value::RawValue;

use super::json_string::unescape;
use crate::limits::upstream::ANSWERING_MODEL_BYTES_MAX;

/// A count: an integer, or a number like `0.0`, either of them also as a string.
pub(in crate::upstream) fn count(raw: &RawValue) -> Option<u64> {
    let text = raw.get();
    let text =
        text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text).trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|digit| digit == b'0').then(|| whole.parse().ok()).flatten()
}

/// A name or an id: the content of a string, or a number as written; otherwise empty.
pub(in crate::upstream) fn text(raw: &RawValue) -> String {
    match raw.get().as_bytes().first() {
        Some(b'"') => string(raw),
        Some(b'-' | b'0'..=b'9') => raw.get().to_owned(),
        _ => String::new(),
    }
}

/// A model's name: the content of a string, unless it is empty or too long for a name.
pub(in crate::upstream) fn model(raw: &RawValue) -> Option<String> {
    let name = if raw.get().starts_with('"') { string(raw) } else { String::new() };
    (1..=ANSWERING_MODEL_BYTES_MAX).contains(&name.len()).then_some(name)
}

/// The arguments' text: the content of a string, or any other value as written. The parser
/// rejects arguments that are not an object.
pub(in crate::upstream) fn arguments(raw: &RawValue) -> String {
    match raw.get() {
        "null" => String::new(),
        text if text.starts_with('"') => string(raw),
        text => text.to_owned(),
    }
}

fn string(raw: &RawValue) -> String {
    let body = raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut scratch = String::new();
    body.and_then(|body| unescape(body.as_bytes(), &mut scratch)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn counts() {
        for (json, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"7\"", Some(7)),
            ("\" 7.00 \"", Some(7)),
            ("-1", None),
            ("0.5", None),
            ("1e3", None),
            ("\"\"", None),
            ("\"a\"", None),
            ("null", None),
            ("[0]", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(count(&raw(json)), expected, "{json}");
        }
    }

    #[test]
    fn models() {
        let quoted = |length| format!("\"{}\"", "m".repeat(length));
        for (json, has_name) in [
            (quoted(1), true),
            (quoted(ANSWERING_MODEL_BYTES_MAX), true),
            (quoted(ANSWERING_MODEL_BYTES_MAX + 1), false),
            (quoted(0), false),
            ("null".to_owned(), false),
            ("7".to_owned(), false),
        ] {
            let name = has_name.then(|| json[1..json.len() - 1].to_owned());
            assert_eq!(model(&raw(&json)), name, "{json}");
        }
    }

    #[test]
    fn texts_and_arguments() {
        for (json, name, args) in [
            ("\"a\\u00e9\"", "a\u{e9}", "a\u{e9}"),
            ("\"\\ud83d\"", "\u{FFFD}", "\u{FFFD}"),
            ("7", "7", "7"),
            ("null", "", ""),
            ("true", "", "true"),
            ("[\"a\"]", "", "[\"a\"]"),
            ("{\"x\": 1.0}", "", "{\"x\": 1.0}"),
        ] {
            assert_eq!((&*text(&raw(json)), &*arguments(&raw(json))), (name, args), "{json}");
        }
    }
}
