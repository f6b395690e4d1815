//! Reads a balanced payload: is it JSON, and is it a call?

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::format::Format;
use super::repair::Repair;
use super::segment::ErrorCode;

/// A call that a model has written.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its number in the stream, from 0; errors behind a
    /// [`CallStarted`](super::Segment::CallStarted) take numbers, too.
    pub index: u32,
    /// The tool's name, not empty. Whether there is such a tool is not known here.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
    /// What was mended, each kind once; empty with `strict_balancing`.
    pub repaired: Vec<Repair>,
}

/// A JSON object that keeps its text: numbers lose no digits, keys their order.
///
/// Every string in it is Unicode and every number fits an `f64`, so that it can be
/// read as a [`Value`].
#[derive(Clone)]
pub struct Arguments(Box<RawValue>);

impl Arguments {
    /// The text as the model wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text as a value for `serde`.
    #[must_use]
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// The object, for code that looks inside. Of keys that stand twice the last
    /// one counts.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let object: Result<Map<String, Value>, _> = serde_json::from_str(self.as_str());
        Value::Object(object.expect("`Arguments::new` has read it"))
    }

    /// Takes an object's text if it can be read as a value.
    fn new(text: Box<RawValue>) -> Result<Self, serde_json::Error> {
        debug_assert!(text.get().starts_with('{'), "the caller looked");
        serde_json::from_str::<Readable>(text.get())?;
        Ok(Self(text))
    }

    fn none() -> Self {
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

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Why a payload, or an element of one, is no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub code: ErrorCode,
    pub message: String,
}

impl Fault {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn call(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidCall, message)
    }

    fn json(error: &serde_json::Error) -> Self {
        Self::new(ErrorCode::InvalidJson, format!("not JSON: {error}"))
    }
}

/// What a balanced payload holds.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// One call: its name and arguments.
    Call(String, Arguments),
    /// The elements of an array, in order, each with its text.
    Elements(Vec<(&'a str, Result<(String, Arguments), Fault>)>),
}

/// Reads a payload that is one call or, with `[`, several of them.
///
/// An error is a fault of the whole; what is wrong with one element stands in its
/// place.
pub(super) fn read<'a>(payload: &'a str, format: &Format) -> Result<Content<'a>, Fault> {
    if payload.starts_with('[') {
        let elements: Vec<&RawValue> =
            serde_json::from_str(payload).map_err(|e| Fault::json(&e))?;
        if elements.is_empty() {
            return Err(Fault::call("the array holds no call"));
        }
        let elements = elements.into_iter().map(|e| (e.get(), read_element(e.get(), format)));
        return Ok(Content::Elements(elements.collect()));
    }
    read_object(payload, format).map(|(name, arguments)| Content::Call(name, arguments))
}

fn read_element(text: &str, format: &Format) -> Result<(String, Arguments), Fault> {
    if text.starts_with('{') {
        read_object(text, format)
    } else {
        Err(Fault::call("the element is no object"))
    }
}

fn read_object(text: &str, format: &Format) -> Result<(String, Arguments), Fault> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let envelope = EnvelopeVisitor(format)
        .deserialize(&mut deserializer)
        .and_then(|envelope| deserializer.end().map(|()| envelope))
        .map_err(|e| Fault::json(&e))?;
    if let Some(key) = envelope.twice {
        return Err(Fault::call(format!("the key `{key}` stands twice")));
    }
    let name = read_name(envelope.name, format)?;
    let arguments = read_arguments(envelope.arguments, format)?;
    Ok((name, arguments))
}

fn read_name(entry: Option<Entry<'_>>, format: &Format) -> Result<String, Fault> {
    let Some(entry) = entry else {
        return Err(Fault::call(format!("the key `{}` is missing", format.name_keys[0])));
    };
    let key = format.name_keys[entry.rank];
    let name: String = serde_json::from_str(entry.value.get())
        .map_err(|_| Fault::call(format!("`{key}` is no string")))?;
    if name.is_empty() {
        return Err(Fault::call(format!("`{key}` is empty")));
    }
    Ok(name)
}

fn read_arguments(entry: Option<Entry<'_>>, format: &Format) -> Result<Arguments, Fault> {
    let Some(entry) = entry else { return Ok(Arguments::none()) };
    let key = format.arguments_keys[entry.rank];
    let text = entry.value.get();
    match text.as_bytes().first() {
        Some(b'{') => Arguments::new(entry.value.to_owned()).map_err(|e| Fault::json(&e)),
        Some(b'n') => Ok(Arguments::none()),
        Some(b'"') => serde_json::from_str::<String>(text)
            .ok()
            .filter(|inner| inner.trim_start().starts_with('{'))
            .and_then(|inner| serde_json::from_str::<Box<RawValue>>(&inner).ok())
            .and_then(|object| Arguments::new(object).ok())
            .ok_or_else(|| Fault::call(format!("`{key}` is a string that holds no JSON object"))),
        _ => Err(Fault::call(format!("`{key}` is no object"))),
    }
}

/// A value with its key's place in the format's list.
#[derive(Clone, Copy)]
struct Entry<'a> {
    rank: usize,
    value: &'a RawValue,
}

/// What a call's object holds under the keys that count.
#[derive(Default)]
struct Envelope<'a> {
    name: Option<Entry<'a>>,
    arguments: Option<Entry<'a>>,
    /// A key that counts and stands twice. JSON leaves open which one is meant, and
    /// a call is not run on a guess.
    twice: Option<&'static str>,
}

struct EnvelopeVisitor<'f>(&'f Format);

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
        // A bit for each key that counts: those of the name first.
        let mut seen = 0_u32;
        while let Some(key) = map.next_key_seed(KeyVisitor(self.0))? {
            let (slot, rank, bit, key) = match key {
                Key::Name(rank) => (&mut envelope.name, rank, rank, self.0.name_keys[rank]),
                Key::Arguments(rank) => {
                    let bit = self.0.name_keys.len() + rank;
                    (&mut envelope.arguments, rank, bit, self.0.arguments_keys[rank])
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value()?;
            if seen & 1 << bit != 0 {
                envelope.twice = Some(key);
            }
            seen |= 1 << bit;
            if slot.is_none_or(|held| rank < held.rank) {
                *slot = Some(Entry { rank, value });
            }
        }
        Ok(envelope)
    }
}

/// A key of a call's object, with its place in the format's list.
enum Key {
    Name(usize),
    Arguments(usize),
    Other,
}

struct KeyVisitor<'f>(&'f Format);

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
        Ok(rank(self.0.name_keys)
            .map(Key::Name)
            .or_else(|| rank(self.0.arguments_keys).map(Key::Arguments))
            .unwrap_or(Key::Other))
    }
}

/// Anything that can be read as a [`Value`], read without making one. Skipping a
/// value, as [`RawValue`] does, leaves lone surrogates and numbers beyond `f64` alone.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}
