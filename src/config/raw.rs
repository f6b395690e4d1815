//! What a configuration file says, before any of it is checked: a tree in which every key and
//! value knows its place.
//!
//! A derived `Deserialize` for the whole file would stop at the first mistake and forget where
//! the good values were, so an operator would discover the mistakes one run at a time. Instead,
//! the file becomes this tree first, and [`check`](super::check) reads all of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

/// A position in a file; lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Decimal(f64),
    Text(String),
    /// Text with a `${NAME}` substituted. Unlike plain text, it may be read as a number or
    /// boolean, and it is never shown, because it may be a secret.
    Substituted {
        written: String,
        text: String,
    },
    /// A `${NAME}` that could not be substituted; the mistake has already been reported.
    Unreadable,
    List(Vec<Node>),
    /// In file order, including repeated keys.
    Map(Vec<Pair>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) node: Node,
}

impl Node {
    /// An empty map, the value of an empty file.
    pub(super) const fn empty() -> Self {
        Self { place: Place { line: 1, column: 1 }, value: Value::Map(Vec::new()) }
    }

    /// A value that was read from this node, as messages may show it: if it comes from a variable, its name instead of
    /// its content.
    pub(super) fn written<'v>(&'v self, value: &'v str) -> &'v str {
        self.substituted(value).unwrap_or(value)
    }

    /// How the text that became this value was written.
    fn substituted(&self, value: &str) -> Option<&str> {
        match &self.value {
            Value::Substituted { written, text } => (text == value).then_some(&**written),
            Value::List(nodes) => nodes.iter().find_map(|node| node.substituted(value)),
            Value::Map(pairs) => pairs.iter().find_map(|pair| pair.node.substituted(value)),
            _ => None,
        }
    }
}

impl From<&serde_yaml::Location> for Place {
    fn from(location: &serde_yaml::Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { place: Place::from(&spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Decimal(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let place = Place::from(&key.referenced);
            entries.push(Pair { place, key: key.value, node: map.next_value()? });
        }
        Ok(Value::Map(entries))
    }
}
