//! A call's arguments: a JSON object that keeps its text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::examined;
use crate::limits::parser::{DEPTH_MAX, REFUSED_CHARS_MAX};

/// A JSON object that keeps its text: numbers lose no digits, keys their order.
///
/// Every string in it is Unicode, every number fits an `f64`, and it is nested less than 128 levels
/// deep, so it can be read as a [`Value`]. No object in it repeats a key: JSON does not say which
/// value is meant, and nothing is run on a guess.
#[derive(Clone)]
pub struct Arguments(Box<RawValue>);

/// Why a JSON object is not accepted as arguments.
#[derive(Debug)]
pub(super) enum Refused {
    /// It holds something that no [`Value`] can.
    Unreadable(serde_json::Error),
    /// An object repeats this key.
    Twice(String),
}

impl Refused {
    fn into_error(self) -> serde_json::Error {
        match self {
            Self::Unreadable(error) => error,
            Self::Twice(key) => Error::custom(repeated_key(&key)),
        }
    }
}

impl Arguments {
    /// Reads an object from its text.
    ///
    /// # Errors
    /// If `text` is not a JSON object, holds something that no [`Value`] can, or repeats a key.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Map<String, Value>>(text)?;
        Self::new(serde_json::from_str(text)?).map_err(Refused::into_error)
    }

    /// The text as the model wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text, for `serde`.
    #[must_use]
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// The object as a value, for code that looks inside.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "it cannot: `check` has passed the text")]
    pub fn to_value(&self) -> Value {
        let Plain(value) = serde_json::from_str(self.as_str()).expect("`check` has passed it");
        value
    }

    /// The first integer in it of which a [`Value`] would lose digits: one that needs more than 64 bits.
    pub(crate) fn long_integer(&self) -> Option<&str> {
        let (json, mut at) = (self.as_str(), 0);
        let bytes = json.as_bytes();
        let begins = |byte: &u8| matches!(byte, b'"' | b'-' | b'0'..=b'9');
        while let Some(next) = bytes[at..].iter().position(begins) {
            let start = at + next;
            if bytes[start] == b'"' {
                at = string_end(bytes, start).0;
                continue;
            }
            at = number_end(bytes, start).0;
            let number = &json[start..at];
            let is_integer = !number.contains(['.', 'e', 'E']);
            if is_integer && number.parse::<u64>().is_err() && number.parse::<i64>().is_err() {
                return Some(number);
            }
        }
        None
    }

    /// Accepts an object's text if it can be read as a value, and in one way only.
    pub(super) fn new(text: &RawValue) -> Result<Self, Refused> {
        debug_assert!(text.get().starts_with('{'), "the caller looked");
        let may_repeat_keys = check(text.get()).map_err(Refused::Unreadable)?;
        match may_repeat_keys.then(|| twice(text.get())).flatten() {
            Some(key) => Err(Refused::Twice(key)),
            None => Ok(Self(text.to_owned())),
        }
    }

    pub(super) fn none() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("an object"))
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if !text.get().starts_with('{') {
            return Err(D::Error::custom("arguments are an object"));
        }
        Self::new(&text).map_err(|refused| D::Error::custom(refused.into_error()))
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Checks what [`RawValue`] skips over in valid JSON: lone surrogates, numbers beyond `f64`, depth.
/// Returns whether an object may repeat a key. Only what looks suspicious is decoded, so ordinary
/// arguments cost one pass and no allocation.
fn check(json: &str) -> Result<bool, serde_json::Error> {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0);
    let mut keys = [0_u128; DEPTH_MAX];
    let mut may_repeat_keys = false;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                let (end, decode) = string_end(bytes, at);
                at = end;
                if decode && serde_json::from_str::<String>(&json[start..end]).is_err() {
                    return Err(refused(&json[start..end], "is no Unicode text"));
                }
                if is_key(bytes, end) {
                    let key = &bytes[start + 1..end - 1];
                    let bit = key_bit(key);
                    // With escapes, the same key can be spelt in other ways.
                    may_repeat_keys |= keys[depth] & bit != 0 || key.contains(&b'\\');
                    keys[depth] |= bit;
                }
            }
            b'-' | b'0'..=b'9' => {
                let (end, decode) = number_end(bytes, at);
                at = end;
                if decode && serde_json::from_str::<f64>(&json[start..end]).is_err() {
                    return Err(refused(&json[start..end], "is a number too large to be read"));
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == DEPTH_MAX {
                    return Err(Error::custom(format_args!("nested {DEPTH_MAX} deep")));
                }
                keys[depth] = 0;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    Ok(may_repeat_keys)
}

/// Whether a string that ends here is a key.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// One of 128 bits, always the same one for the same key.
fn key_bit(key: &[u8]) -> u128 {
    let hash = key.iter().fold(0_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x9E37_79B1).rotate_left(13)
    });
    1 << (hash % u128::BITS)
}

/// The first key that an object repeats.
pub(crate) fn twice(json: &str) -> Option<String> {
    examined::note(json.len());
    let mut found = None;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let _ = Distinct(&mut found).deserialize(&mut deserializer);
    found
}

/// The error for valid JSON that cannot be decoded. It names no position, because `serde_json`
/// would count from the value and not from the payload.
fn refused(value: &str, why: &str) -> serde_json::Error {
    Error::custom(format_args!("{} {why}", shown(value)))
}

/// What is wrong with an object that repeats this key.
pub(super) fn repeated_key(key: &str) -> String {
    format!("the key `{}` occurs twice", shown(key))
}

/// As much of the model's own text as an error message quotes.
fn shown(text: &str) -> String {
    let end = text.char_indices().nth(REFUSED_CHARS_MAX).map(|(at, _)| at);
    end.map_or_else(|| text.to_owned(), |end| format!("{}...", &text[..end]))
}

/// The end of a string, and whether it has a `\u` escape.
fn string_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let (mut at, mut escaped) = (start + 1, false);
    while let Some(stop) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += stop + 1;
        if bytes[at - 1] == b'"' {
            return (at, escaped);
        }
        escaped |= bytes[at] == b'u';
        at += 1;
    }
    unreachable!("the JSON is valid")
}

/// The end of a number, and whether it may be beyond `f64`.
fn number_end(bytes: &[u8], start: usize) -> (usize, bool) {
    /// This many digits before the point always fit.
    const DIGITS: usize = 300;
    let rest = bytes[start..].iter();
    let length = rest.take_while(|b| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
    let end = start + length.count();
    let number = &bytes[start..end];
    (end, number.len() > DIGITS || number.iter().any(|b| matches!(b, b'e' | b'E')))
}

/// Reads a value up to the first key that an object repeats.
struct Distinct<'f>(&'f mut Option<String>);

impl<'de> DeserializeSeed<'de> for Distinct<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Distinct<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Distinct(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(Key(key)) = map.next_key()? {
            if keys.contains(&key) {
                *self.0 = Some(key.into_owned());
                return Err(Error::custom("a key occurs twice"));
            }
            keys.insert(key);
            map.next_value_seed(Distinct(self.0))?;
        }
        Ok(())
    }
}

/// A key, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A [`Value`] in which the key that `serde_json` reserves for its [`RawValue`] means nothing
/// special: a model may write a member of that name.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Plain(element)) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((key, Plain(value))) = map.next_entry()? {
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_readable(json: &str, readable: bool) {
        let arguments = Arguments::new(serde_json::from_str(json).unwrap());
        assert_eq!(arguments.is_ok(), readable, "{json}");
        assert_eq!(serde_json::from_str::<Value>(json).is_ok(), readable, "serde_json: {json}");
        if let Ok(arguments) = arguments {
            assert_eq!(arguments.to_value(), serde_json::from_str::<Value>(json).unwrap());
        }
    }

    #[test]
    fn what_is_taken_can_be_read() {
        check_readable(r#"{"a":[1,-2,-2.5e3,"x\"\u00e9\ud83e\udd80",null,true,{}]}"#, true);
        check_readable(r#"{"a":1e308,"b":-1e-999,"c":0.1e+2}"#, true);
        check_readable(r#"{"a":"1e999 \\ud800"}"#, true);
        check_readable(&format!(r#"{{"a":{}}}"#, "9".repeat(309)), false);
        check_readable(&format!(r#"{{"a":{}.5}}"#, "9".repeat(308)), true);
        check_readable(r#"{"a":[1e309]}"#, false);
        check_readable(r#"{"a":-1E400}"#, false);
        check_readable(r#"{"a":"\ud800"}"#, false);
        check_readable(r#"{"a":"\udc00\ud800"}"#, false);
        check_readable(r#"{"\ud800":1}"#, false);
        let nested = |depth| format!("{}{}", "{\"a\":".repeat(depth), "1") + &"}".repeat(depth);
        check_readable(&nested(DEPTH_MAX - 1), true);
        check_readable(&nested(DEPTH_MAX), false);
        check_readable(&format!(r#"{{"a":[{}0]}}"#, "[],".repeat(DEPTH_MAX)), true);
    }

    #[track_caller]
    fn check_twice(json: &str, expected: Option<&str>) {
        let found = match Arguments::new(serde_json::from_str(json).unwrap()) {
            Ok(_) => None,
            Err(Refused::Twice(key)) => Some(key),
            Err(Refused::Unreadable(error)) => panic!("{json}: {error}"),
        };
        assert_eq!(found.as_deref(), expected, "{json}");
        assert_eq!(Arguments::parse(json).is_err(), expected.is_some(), "{json}");
    }

    #[test]
    fn a_key_stands_once_in_each_object() {
        check_twice(r#"{"a":1,"b":{"a":[{"a":1},{"a":2}]},"":"a","c":"a"}"#, None);
        check_twice(r#"{"a":1,"b":2,"a":1}"#, Some("a"));
        check_twice(r#"{"a":1,"b":{},"a":1}"#, Some("a"));
        check_twice(
            r#"{"a" : 1 , "b":{"a":2}, "a"
            :3}"#,
            Some("a"),
        );
        check_twice(r#"{"b":[0,{"x":{"y":[{"a":1,"a":2}]}}]}"#, Some("a"));
        check_twice(r#"{"":1,"":2}"#, Some(""));
        check_twice(r#"{"a":1,"\u0061":2}"#, Some("a"));
        check_twice(r#"{"a\"b":1,"a\u0022b":2}"#, Some("a\"b"));
        check_twice(r#"{"a\n":1,"a\\n":2}"#, None);
        check_twice(r#"{"\/":1,"/":2}"#, Some("/"));
        let many = |last: usize| {
            let keys: Vec<String> =
                (0..1000).chain([last]).map(|k| format!("\"k{k}\":0")).collect();
            format!("{{{}}}", keys.join(","))
        };
        check_twice(&many(1000), None);
        check_twice(&many(0), Some("k0"));
        check_twice(&many(999), Some("k999"));
    }

    #[test]
    fn integers_beyond_64_bits_are_found() {
        for (json, found) in [
            (r#"{"a":[1,-2.5,{"b":18446744073709551615}],"c":-9223372036854775808}"#, None),
            (r#"{"a":18446744073709551616}"#, Some("18446744073709551616")),
            (r#"{"a":[0,{"b":-9223372036854775809}]}"#, Some("-9223372036854775809")),
            (r#"{"99999999999999999999":"99999999999999999999"}"#, None),
            (r#"{"a":1e30,"b":99999999999999999999.5}"#, None),
            ("{}", None),
        ] {
            assert_eq!(Arguments::parse(json).unwrap().long_integer(), found, "{json}");
        }
    }

    #[test]
    fn arguments_are_their_text() {
        let read = serde_json::from_str::<Arguments>;
        let (text, other) = (r#"{"a": 1.0}"#, r#"{"a":1.0}"#);
        let arguments = read(text).unwrap();
        assert_eq!(format!("{arguments:?}"), text);
        assert_eq!(serde_json::to_string(&arguments).unwrap(), text);
        assert_eq!(arguments, read(text).unwrap());
        assert_ne!(arguments, read(other).unwrap());
        for other in ["[1]", "null", r#"{"a":1,"a":2}"#] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_reserved_key_is_a_member_like_any_other() {
        let text = r#"{"a":{"$serde_json::private::RawValue":"not JSON"}}"#;
        let arguments = Arguments::new(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(arguments.to_value()["a"]["$serde_json::private::RawValue"], "not JSON");
    }
}
