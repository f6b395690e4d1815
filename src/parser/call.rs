//! Reads a balanced payload: is it JSON, and is it a call?

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::arguments::{Arguments, Refused, repeated_key};
use super::examined;
use super::segment::{self, ErrorCode, ParseError, Segment};
use super::transition::Opened;
use crate::call_format::JsonKeys;

/// Why a payload, or an element of one, is not a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub code: ErrorCode,
    pub message: String,
}

impl Fault {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Reports the fault of call `index`, and quotes `raw`.
    pub(super) fn say(
        self,
        opened: Opened,
        index: u32,
        raw: &[u8],
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        sink(Segment::Error(ParseError {
            code: self.code,
            message: self.message,
            offset: opened.at,
            raw: segment::quote(raw),
            index: Some(index),
            at_line_start: opened.at_line_start,
        }));
    }

    fn call(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidCall, message)
    }

    fn json(error: &serde_json::Error) -> Self {
        // Valid JSON that cannot be decoded has a message of its own.
        let message = match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("not JSON: {error}"),
        };
        Self::new(ErrorCode::InvalidJson, message)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unreadable(error) => Self::json(&error),
            Refused::Twice(key) => Self::call(repeated_key(&key)),
        }
    }
}

/// What a balanced payload holds.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// One call: its name and arguments.
    Call(String, Arguments),
    /// The elements of an array, in order.
    Elements(Vec<Element<'a>>),
}

/// An element of an array: its text, and its name and arguments if it is a call.
pub(super) type Element<'a> = (&'a str, Result<(String, Arguments), Fault>);

/// Where the name and the arguments of a call are in its object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Keys<'k> {
    /// Under these keys.
    Of(&'k JsonKeys),
    /// The only key is the name, and its value the arguments.
    Name,
}

/// Reads a payload that is one call or, with `[`, several.
///
/// An error is the fault of the whole payload. The fault of one element takes that element's place.
pub(super) fn read<'a>(payload: &'a str, keys: Keys<'_>) -> Result<Content<'a>, Fault> {
    // `serde_json` skips over the payload and then over its elements; then the arguments are
    // checked.
    examined::note(3 * payload.len());
    if payload.starts_with('[') {
        let elements: Vec<&RawValue> =
            serde_json::from_str(payload).map_err(|e| Fault::json(&e))?;
        if elements.is_empty() {
            return Err(Fault::call("the array holds no call"));
        }
        let elements = elements.into_iter().map(|e| (e.get(), read_element(e.get(), keys)));
        return Ok(Content::Elements(elements.collect()));
    }
    read_object(payload, keys).map(|(name, arguments)| Content::Call(name, arguments))
}

/// Reads a payload that is the arguments of a call with this name.
pub(super) fn read_arguments_of<'a>(name: &str, payload: &str) -> Result<Content<'a>, Fault> {
    examined::note(2 * payload.len());
    let payload: &RawValue = serde_json::from_str(payload).map_err(|e| Fault::json(&e))?;
    let arguments = Arguments::new(payload).map_err(Fault::from)?;
    Ok(Content::Call(name.to_owned(), arguments))
}

/// The arguments of a call that was written as something else, as JSON.
pub(super) fn converted(json: &str) -> Result<Arguments, Fault> {
    Arguments::parse(json).map_err(|error| Fault::call(error.to_string()))
}

fn read_element(text: &str, keys: Keys<'_>) -> Result<(String, Arguments), Fault> {
    if text.starts_with('{') {
        read_object(text, keys)
    } else {
        Err(Fault::call("the element is not an object"))
    }
}

fn read_object(text: &str, keys: Keys<'_>) -> Result<(String, Arguments), Fault> {
    let keys = match keys {
        Keys::Of(keys) => keys,
        Keys::Name => return read_keyed(text),
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let envelope = EnvelopeVisitor(keys)
        .deserialize(&mut deserializer)
        .and_then(|envelope| deserializer.end().map(|()| envelope))
        .map_err(|e| Fault::json(&e))?;
    if let Some(key) = envelope.twice {
        return Err(Fault::call(repeated_key(key)));
    }
    let name = read_name(envelope.name, keys)?;
    if let Some(key) = envelope.stray.filter(|_| envelope.arguments.is_none_or(Member::is_null)) {
        return Err(Fault::call(format!(
            "`{key}` is not a key of a call; put its arguments in `{}`",
            keys.arguments[0]
        )));
    }
    let arguments = read_arguments(envelope.arguments, keys)?;
    Ok((name, arguments))
}

/// Reads an object whose only key is the name.
fn read_keyed(text: &str) -> Result<(String, Arguments), Fault> {
    let members: Vec<(String, &RawValue)> =
        serde_json::from_str(text).map(|Members(members)| members).map_err(|e| Fault::json(&e))?;
    let [(name, arguments)] = &members[..] else {
        return Err(Fault::call("the call must have one key, the tool's name"));
    };
    if name.is_empty() {
        return Err(Fault::call("the tool's name is empty"));
    }
    Ok((name.clone(), read_value(arguments, name)?))
}

/// The members of an object, in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(MembersVisitor).map(Members)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        std::iter::from_fn(|| map.next_entry().transpose()).collect()
    }
}

fn read_name(entry: Option<Member<'_>>, keys: &JsonKeys) -> Result<String, Fault> {
    let Some(entry) = entry else {
        return Err(Fault::call(format!("the key `{}` is missing", keys.name[0])));
    };
    let key = keys.name[entry.rank];
    let name: String = serde_json::from_str(entry.value.get())
        .map_err(|_| Fault::call(format!("`{key}` is no string")))?;
    if name.is_empty() {
        return Err(Fault::call(format!("`{key}` is empty")));
    }
    Ok(name)
}

fn read_arguments(entry: Option<Member<'_>>, keys: &JsonKeys) -> Result<Arguments, Fault> {
    let Some(entry) = entry else { return Ok(Arguments::none()) };
    read_value(entry.value, keys.arguments[entry.rank])
}

/// The arguments under this key: an object, the text of one, or nothing.
fn read_value(value: &RawValue, key: &str) -> Result<Arguments, Fault> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{') => Arguments::new(value).map_err(Fault::from),
        Some(b'n') => Ok(Arguments::none()),
        Some(b'"') => match read_string(text) {
            Some(Err(refused @ Refused::Twice(_))) => Err(refused.into()),
            Some(Ok(arguments)) => Ok(arguments),
            Some(Err(Refused::Unreadable(_))) | None => {
                Err(Fault::call(format!("`{key}` is a string that holds no JSON object")))
            }
        },
        _ => Err(Fault::call(format!("`{key}` is not an object"))),
    }
}

/// The object in a string; `None` if it holds something else.
pub(super) fn read_string(text: &str) -> Option<Result<Arguments, Refused>> {
    let inner: String = serde_json::from_str(text).ok()?;
    let is_object = inner.trim_start().starts_with('{');
    Some(Arguments::new(is_object.then(|| serde_json::from_str(&inner).ok())??))
}

/// A value, with its key's index in the format's list.
#[derive(Clone, Copy)]
struct Member<'a> {
    rank: usize,
    value: &'a RawValue,
}

impl Member<'_> {
    fn is_null(self) -> bool {
        self.value.get() == "null"
    }
}

/// The values of the keys that count.
#[derive(Default)]
struct Envelope<'a> {
    name: Option<Member<'a>>,
    arguments: Option<Member<'a>>,
    /// A key that counts and is repeated. JSON does not say which value is meant, and a call is not
    /// run on a guess.
    twice: Option<&'static str>,
    /// The first key of no known meaning. If the call has no arguments, they may be under it.
    stray: Option<String>,
}

struct EnvelopeVisitor<'f>(&'f JsonKeys);

impl<'de> DeserializeSeed<'de> for EnvelopeVisitor<'_> {
    type Value = Envelope<'de>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EnvelopeVisitor<'_> {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        // One bit for each key that counts, beginning with those of the name.
        let mut seen = 0_u32;
        while let Some(key) = map.next_key_seed(KeyVisitor(self.0))? {
            let is_arguments = matches!(key, Key::Arguments(_));
            let (slot, rank, bit, key) = match key {
                Key::Name(rank) => (&mut envelope.name, rank, rank, self.0.name[rank]),
                Key::Arguments(rank) => {
                    let bit = self.0.name.len() + rank;
                    (&mut envelope.arguments, rank, bit, self.0.arguments[rank])
                }
                Key::Extra => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                Key::Stray(key) => {
                    map.next_value::<IgnoredAny>()?;
                    envelope.stray.get_or_insert(key);
                    continue;
                }
            };
            let member = Member { rank, value: map.next_value()? };
            if seen & 1 << bit != 0 {
                envelope.twice = Some(key);
            }
            seen |= 1 << bit;
            // Arguments that are null are as good as absent.
            let order = |it: Member<'_>| (is_arguments && it.is_null(), it.rank);
            if slot.is_none_or(|held| order(member) < order(held)) {
                *slot = Some(member);
            }
        }
        Ok(envelope)
    }
}

/// A key of a call's object, with its index in the format's list.
enum Key {
    Name(usize),
    Arguments(usize),
    /// One of [`EXTRA_KEYS`].
    Extra,
    /// Any other: the call's arguments may be under it.
    Stray(String),
}

struct KeyVisitor<'f>(&'f JsonKeys);

impl<'de> DeserializeSeed<'de> for KeyVisitor<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Key, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyVisitor<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Key, E> {
        let rank = |keys: &[&str]| keys.iter().position(|&k| k == key);
        Ok(rank(self.0.name)
            .map(Key::Name)
            .or_else(|| rank(self.0.arguments).map(Key::Arguments))
            .unwrap_or_else(|| match key {
                key if EXTRA_KEYS.contains(&key) => Key::Extra,
                stray => Key::Stray(stray.to_owned()),
            }))
    }
}

/// Keys that models add to a call, and never put arguments under.
const EXTRA_KEYS: [&str; 4] = ["id", "type", "index", "description"];
