//! Arguments as text: in paths, queries, forms and headers.
//!
//! The styles are those of `OpenAPI` (3.1.1, section 4.8.12.2); the plain ones are what operators
//! write too.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;

use crate::http::RESERVED;

/// What browsers encode in paths (WHATWG URL, path percent-encode set), for what an operator
/// wrote. A percent sign is kept, because it may begin an escape.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// How an array or object is written in a query or form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `x=1&x=2`. Objects cannot be written: their members would be fields.
    Plain,
    /// `x=1&x=2`; an object's members get fields of their own: `a=1&b=2`.
    Repeat,
    /// In one field: `x=1,2`, for objects `x=a,1,b,2`.
    Join(Separator),
    /// `x[a]=1&x[b]=2`.
    Deep,
    /// As JSON text.
    Json,
}

/// How an object is written in a path or header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// Not at all.
    Refused,
    /// `a,1,b,2`.
    Joined,
    /// `a=1,b=2`.
    Exploded,
}

/// What separates values in one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `,`
    Comma,
    /// ` `, as `%20`.
    Space,
    /// `|`, as `%7C`.
    Pipe,
}

impl Separator {
    const fn encoded(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Space => "%20",
            Self::Pipe => "%7C",
        }
    }
}

/// Encodes all but unreserved characters, so that the text is data wherever it goes.
pub(super) fn strict(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, RESERVED).into()
}

/// A part of a path that an operator wrote.
pub(super) fn path(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, PATH).into()
}

/// Whether a segment of a path means this folder or the one above (WHATWG URL, single-dot and
/// double-dot URL path segments; `%2e` is a dot).
pub(super) fn is_dot_segment(segment: &str) -> bool {
    matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..")
}

/// A value without parts as text; `None` for arrays and objects.
pub(super) fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Null => Some("".into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value in the style `simple` of paths and headers: `1,2`. `None` if it is an object that is
/// refused, or has arrays or objects inside.
pub(super) fn simple(
    value: &Value,
    objects: Objects,
    encode: impl Fn(&str) -> String,
) -> Option<String> {
    let text = |value: &Value| scalar(value).map(|text| encode(&text));
    let parts: Option<Vec<String>> = match value {
        Value::Array(items) => items.iter().map(text).collect(),
        Value::Object(members) => {
            let between = match objects {
                Objects::Refused => return None,
                Objects::Joined => ',',
                Objects::Exploded => '=',
            };
            let pair = |(key, value): (&String, &Value)| {
                Some(format!("{}{between}{}", encode(key), text(value)?))
            };
            members.iter().map(pair).collect()
        }
        scalar => return text(scalar),
    };
    Some(parts?.join(","))
}

/// Adds the fields of a value to an encoded query or form. `false` if the value cannot be written in
/// this style, and then nothing has been added.
pub(super) fn add_fields(out: &mut Vec<String>, name: &str, value: &Value, style: Style) -> bool {
    let field = |name: &str, value: &str| format!("{}={}", strict(name), strict(value));
    let fields: Option<Vec<String>> = match (style, value) {
        (Style::Json, value) => Some(vec![field(name, &value.to_string())]),
        (Style::Plain | Style::Repeat, Value::Array(items)) => {
            items.iter().map(|item| Some(field(name, &scalar(item)?))).collect()
        }
        (Style::Repeat, Value::Object(members)) => {
            members.iter().map(|(key, value)| Some(field(key, &scalar(value)?))).collect()
        }
        (Style::Join(separator), Value::Array(items)) => {
            let items: Option<Vec<_>> = items.iter().map(scalar).collect();
            items.map(|items| joined(name, items.iter().map(AsRef::as_ref), separator))
        }
        (Style::Join(separator), Value::Object(members)) => {
            let mut parts = Vec::new();
            let all = members.iter().all(|(key, value)| {
                let text = scalar(value);
                parts.extend([Some(Cow::from(key)), text.clone()].into_iter().flatten());
                text.is_some()
            });
            all.then(|| joined(name, parts.iter().map(AsRef::as_ref), separator))
        }
        (Style::Deep, Value::Object(members)) => members
            .iter()
            .map(|(key, value)| deep(&deep_name(name, key), value))
            .collect::<Option<Vec<_>>>()
            .map(|fields| fields.concat()),
        (_, value) => scalar(value).map(|text| vec![field(name, &text)]),
    };
    let is_written = fields.is_some();
    out.extend(fields.into_iter().flatten());
    is_written
}

/// One field with several values; none for no values.
fn joined<'v>(
    name: &str,
    values: impl Iterator<Item = &'v str>,
    separator: Separator,
) -> Vec<String> {
    let values: Vec<_> = values.map(strict).collect();
    if values.is_empty() {
        return Vec::new();
    }
    vec![format!("{}={}", strict(name), values.join(separator.encoded()))]
}

/// The name of the field of a deep object's member.
pub(super) fn deep_name(name: &str, key: &str) -> String {
    format!("{name}[{key}]")
}

/// The fields of a member of a deep object: an array repeats its name.
fn deep(name: &str, value: &Value) -> Option<Vec<String>> {
    let field = |value: &Value| Some(format!("{}={}", strict(name), strict(&scalar(value)?)));
    match value {
        Value::Array(items) => items.iter().map(field).collect(),
        scalar => Some(vec![field(scalar)?]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(style: Style, value: &Value, expected: Option<&str>) {
        let mut fields = Vec::new();
        let is_written = add_fields(&mut fields, "x", value, style);
        assert_eq!(is_written.then(|| fields.join("&")).as_deref(), expected, "{style:?} {value}");
        assert!(is_written || fields.is_empty());
    }

    /// The table of `OpenAPI`'s section on styles, and what it leaves open.
    #[test]
    fn values_are_written_in_all_styles() {
        let list = json!(["blue", "a b", 3]);
        let object = json!({"R": 100, "G": "a&b"});
        let nested = json!({"a": {"b": 1}});
        let comma = Style::Join(Separator::Comma);
        check(Style::Repeat, &json!("a b&c=d+e"), Some("x=a%20b%26c%3Dd%2Be"));
        check(Style::Repeat, &json!(1.5), Some("x=1.5"));
        check(Style::Repeat, &json!(true), Some("x=true"));
        check(Style::Repeat, &json!(""), Some("x="));
        check(Style::Repeat, &list, Some("x=blue&x=a%20b&x=3"));
        check(Style::Repeat, &object, Some("R=100&G=a%26b"));
        check(Style::Repeat, &json!([]), Some(""));
        check(Style::Repeat, &json!([[1]]), None);
        check(Style::Repeat, &nested, None);
        check(Style::Plain, &list, Some("x=blue&x=a%20b&x=3"));
        check(Style::Plain, &object, None);
        check(Style::Plain, &json!([{"a": 1}]), None);
        check(comma, &list, Some("x=blue,a%20b,3"));
        check(comma, &object, Some("x=R,100,G,a%26b"));
        check(comma, &json!([]), Some(""));
        check(comma, &nested, None);
        check(Style::Join(Separator::Space), &list, Some("x=blue%20a%20b%203"));
        check(Style::Join(Separator::Pipe), &list, Some("x=blue%7Ca%20b%7C3"));
        check(Style::Deep, &object, Some("x%5BR%5D=100&x%5BG%5D=a%26b"));
        check(Style::Deep, &json!({"a": [1, 2]}), Some("x%5Ba%5D=1&x%5Ba%5D=2"));
        check(Style::Deep, &nested, None);
        check(Style::Deep, &json!(5), Some("x=5"));
        check(Style::Json, &object, Some("x=%7B%22R%22%3A100%2C%22G%22%3A%22a%26b%22%7D"));
    }

    #[test]
    fn the_simple_style_joins_with_commas() {
        let encode = |text: &str| strict(text).into_owned();
        for (value, objects, expected) in [
            (json!("a/b"), Objects::Joined, Some("a%2Fb")),
            (json!(["a,b", 2]), Objects::Refused, Some("a%2Cb,2")),
            (json!({"R": 1, "G": 2}), Objects::Joined, Some("R,1,G,2")),
            (json!({"R": 1, "G": 2}), Objects::Exploded, Some("R=1,G=2")),
            (json!({"R": 1}), Objects::Refused, None),
            (json!([[1]]), Objects::Joined, None),
        ] {
            assert_eq!(simple(&value, objects, encode).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn dots_are_recognised_in_all_their_forms() {
        for dots in [".", "..", "%2e", "%2E", ".%2e", "%2E.", "%2e%2E"] {
            assert!(is_dot_segment(dots), "{dots}");
        }
        for other in ["", "...", "a.", ".a", "%2f", "%252e"] {
            assert!(!is_dot_segment(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_form_is_read_back_as_it_was_written(name in "\\PC{1,8}", values: Vec<String>) {
            let mut fields = Vec::new();
            prop_assert!(add_fields(&mut fields, &name, &json!(values), Style::Repeat));
            let query = fields.join("&");
            let read: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
            prop_assert!(read.iter().all(|(read, _)| *read == name));
            prop_assert_eq!(read.into_iter().map(|(_, value)| value.into_owned()).collect::<Vec<_>>(), values);
        }
    }
}
