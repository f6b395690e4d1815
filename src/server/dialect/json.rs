//! Reads JSON: the events of a log, and the bodies of other APIs' requests. Fields that we do not
//! know are skipped there: their clients send many.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::de::SliceRead;

use super::mismatch;
use super::object::Object;
use crate::limits::server::BODY_DEPTH_MAX;
use crate::server::refusal::Refusal;
use crate::session::log::encode::serialize;
use crate::text::is_deeper;

/// JSON of either kind: in memory of its own, or borrowed from a body.
pub(super) trait Json: Sized + fmt::Display {
    /// The member of an object. Of several with this key the last one counts.
    fn field(&self, key: &str) -> Option<&Self>;

    fn text(&self) -> Option<&str>;

    fn array(&self) -> Option<&[Self]>;

    fn is_object(&self) -> bool;

    fn is_null(&self) -> bool;

    fn is_number(&self) -> bool;

    /// The values of a list. An object counts as a list of one.
    fn listed(&self) -> &[Self] {
        let one = if self.is_object() { std::slice::from_ref(self) } else { &[] };
        self.array().unwrap_or(one)
    }

    /// A member that is a text.
    fn text_at(&self, key: &str) -> Option<&str> {
        self.field(key)?.text()
    }
}

impl Json for Value {
    fn field(&self, key: &str) -> Option<&Self> {
        self.get(key)
    }

    fn text(&self) -> Option<&str> {
        self.as_str()
    }

    fn array(&self) -> Option<&[Self]> {
        self.as_array().map(Vec::as_slice)
    }

    fn is_object(&self) -> bool {
        self.is_object()
    }

    fn is_null(&self) -> bool {
        self.is_null()
    }

    fn is_number(&self) -> bool {
        self.is_number()
    }
}

impl Json for serde_json_borrow::Value<'_> {
    fn field(&self, key: &str) -> Option<&Self> {
        let members = self.as_object()?.as_vec().iter().rev();
        members.map(|(name, value)| (&**name, value)).find(|(name, _)| *name == key).map(|it| it.1)
    }

    fn text(&self) -> Option<&str> {
        self.as_str()
    }

    fn array(&self) -> Option<&[Self]> {
        self.as_array()
    }

    fn is_object(&self) -> bool {
        self.is_object()
    }

    fn is_null(&self) -> bool {
        self.is_null()
    }

    fn is_number(&self) -> bool {
        self.is_number()
    }
}

/// Any JSON in a body. It borrows the texts that are written without escapes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Borrowed<'b>(
    #[serde(borrow)]
    #[schemars(with = "Value")]
    pub(super) serde_json_borrow::Value<'b>,
);

/// A body that can be read: not too deep, and of whole characters.
#[derive(Debug)]
pub(super) struct Body<'b>(Cow<'b, [u8]>);

impl<'b> Body<'b> {
    pub(super) fn new(body: &'b [u8]) -> Result<Self, Refusal> {
        if is_deeper(body, BODY_DEPTH_MAX) {
            let message = format!("the body is nested more than {BODY_DEPTH_MAX} levels deep");
            return Err(Refusal::BadJson { param: None, message });
        }
        Ok(Self(whole_characters(body)))
    }

    /// Reads a JSON object, which may borrow its texts. If it has another shape, the refusal names the
    /// field.
    pub(super) fn read<'a, T: Deserialize<'a> + JsonSchema>(&'a self) -> Result<T, Refusal> {
        read_object(&self.0, |body| {
            let mut reader = serde_json::Deserializer::from_slice(body);
            // The body's nesting has been checked.
            reader.disable_recursion_limit();
            reader
        })
    }
}

/// Reads a JSON object.
pub(super) fn read<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Refusal> {
    Body::new(body)?.read()
}

/// The same for the gateway's own requests, in which half a character is a mistake.
pub(super) fn read_strictly<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Refusal> {
    read_object(body, serde_json::Deserializer::from_slice)
}

/// Reads an object and nothing after it.
fn read_object<'a, T: Deserialize<'a> + JsonSchema>(
    body: &'a [u8],
    reader_of: impl Fn(&'a [u8]) -> serde_json::Deserializer<SliceRead<'a>>,
) -> Result<T, Refusal> {
    // Tracking the path of a fault costs a string for each key, and most bodies have no fault.
    let mut reader = reader_of(body);
    if let Ok(Object(value)) = Object::deserialize(&mut reader)
        && reader.end().is_ok()
    {
        return Ok(value);
    }
    let mut reader = reader_of(body);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, error) = (error.path(), error.inner());
        // Invalid JSON is not the fault of the field that contains it. A number in place of a word
        // that is one of several is reported as such.
        let is_json = error.is_data() || serde_json::from_slice::<Value>(body).is_ok();
        if !is_json {
            return Refusal::BadJson { param: None, message: mismatch::invalid(body, error) };
        }
        let param = path.iter().next().is_some().then(|| path.to_string());
        Refusal::BadJson { param, message: mismatch::explain::<T>(path, error) }
    })?;
    let ended = reader.end();
    ended.map_err(|error| Refusal::BadJson {
        param: None,
        message: mismatch::invalid(body, &error),
    })?;
    Ok(value)
}

/// Replaces an escaped half of a character, and is just as long.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// The body without halves of characters. Programs that cut a text in the middle of an emoji write
/// such a half, and send it with every later request.
fn whole_characters(body: &[u8]) -> Cow<'_, [u8]> {
    let may_be_half = |at: usize| matches!(body.get(at + 2), Some(b'd' | b'D'));
    if !memmem::find_iter(body, b"\\u").any(may_be_half) {
        return Cow::Borrowed(body);
    }
    let mut body = Cow::Borrowed(body);
    let mut at = 0;
    while at < body.len() {
        at += match (body[at], half(&body[at..]), body.get(at + 6..).and_then(half)) {
            (b'\\', Some(Half::First), Some(Half::Second)) => 2 * REPLACEMENT.len(),
            (b'\\', Some(_), _) => {
                body.to_mut()[at..at + REPLACEMENT.len()].copy_from_slice(REPLACEMENT);
                REPLACEMENT.len()
            }
            (b'\\', None, _) => 2,
            _ => 1,
        };
    }
    body
}

/// A half of a character that UTF-16 writes in two.
#[derive(Debug, Clone, Copy)]
enum Half {
    First,
    Second,
}

/// The half that is escaped here.
fn half(bytes: &[u8]) -> Option<Half> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    match unit {
        0xD800..=0xDBFF => Some(Half::First),
        0xDC00..=0xDFFF => Some(Half::Second),
        _ => None,
    }
}

/// Reads an event of a log. Our own bounds on nesting are higher than those of `serde_json`.
pub(in crate::server) fn event(data: &[u8]) -> Value {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    deserializer.disable_recursion_limit();
    Value::deserialize(&mut deserializer).unwrap_or_default()
}

/// A text member; empty if it is absent.
pub(super) fn text_of<'v>(data: &'v Value, key: &str) -> &'v str {
    data[key].as_str().unwrap_or_default()
}

/// A text as it is inside of JSON, without its quotation marks.
pub(super) fn escaped(text: &str) -> Vec<u8> {
    let mut escaped = Vec::new();
    serialize(&mut escaped, &text);
    escaped.pop();
    escaped.remove(0);
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &Value) {
        assert_eq!(read::<Value>(body.as_bytes()).unwrap(), *expected);
    }

    #[test]
    fn half_a_character_is_replaced() {
        check(r#"{"a":"\ud83d"}"#, &json!({"a": "\u{fffd}"}));
        check(r#"{"a":"\uDE00\ud83d!"}"#, &json!({"a": "\u{fffd}\u{fffd}!"}));
        check(r#"{"a":"\ud83d\ud83d\ude00"}"#, &json!({"a": "\u{fffd}\u{1f600}"}));
        check(r#"{"a\ud83d":1}"#, &json!({"a\u{fffd}": 1}));
    }

    #[test]
    fn whole_characters_and_what_looks_like_half_of_one_stay() {
        check(r#"{"a":"\ud83d\ude00"}"#, &json!({"a": "\u{1f600}"}));
        check(r#"{"a":"\\ud83d"}"#, &json!({"a": "\\ud83d"}));
        check(r#"{"a":"\\\ud83d"}"#, &json!({"a": "\\\u{fffd}"}));
        check(r#"{"a":"\ud7ff ud83d"}"#, &json!({"a": "\u{d7ff} ud83d"}));
    }

    #[test]
    fn as_deep_as_may_be_and_one_more() {
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            read::<Value>(format!("{{\"a\":{open}{close}}}").as_bytes())
        };
        assert!(nested(BODY_DEPTH_MAX).is_ok());
        assert!(matches!(nested(BODY_DEPTH_MAX + 1), Err(Refusal::BadJson { param: None, .. })));
        let brackets = format!("{{\"a\":\"\\\"{}\"}}", "[".repeat(BODY_DEPTH_MAX));
        assert!(read::<Value>(brackets.as_bytes()).is_ok());
        assert!(read::<Value>("[".repeat(1_000_000).as_bytes()).is_err());
    }
}
