//! Values that may have secrets in them.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::config::Secret;
use crate::config::json::json;
use crate::config::raw::{self, Node};
use crate::config::reader::{Keys, Refused};

/// A value, with every text that came from the environment replaced where it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown<T = Value> {
    value: T,
    shown: Value,
}

impl<T> Shown<T> {
    pub(super) const fn new(value: T, shown: Value) -> Self {
        Self { value, shown }
    }

    /// The value itself, for the one place that sends it.
    #[must_use]
    pub const fn reveal(&self) -> &T {
        &self.value
    }
}

impl<T> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown.serialize(serializer)
    }
}

/// Reads any value. Where it is shown, texts from the environment are redacted.
pub(super) fn shown(node: &Node) -> Result<Shown, Refused> {
    let redacted = |_: &str| Secret::REDACTED.to_owned();
    Ok(Shown { value: json(node)?, shown: json(&replaced(node, &redacted))? })
}

/// Reads the value of a key that an operator has to recognise, such as an address. It is shown as
/// written.
pub(super) fn shown_as_written<T>(
    keys: &mut Keys<'_, '_>,
    key: &str,
    read: impl FnOnce(&mut Keys<'_, '_>) -> T,
) -> Shown<T> {
    let shown = keys.node(key).map(as_written).unwrap_or_default();
    Shown::new(read(keys), shown)
}

/// A node as it was written, with the names of variables, not their values.
pub(super) fn as_written(node: &Node) -> Value {
    json(&replaced(node, &str::to_owned)).unwrap_or_default()
}

/// A node whose texts from the environment are what `show` makes of them as written.
fn replaced(node: &Node, show: &impl Fn(&str) -> String) -> Node {
    let pair = |pair: &raw::Pair| raw::Pair {
        place: pair.place,
        key: pair.key.clone(),
        node: replaced(&pair.node, show),
    };
    let value = match &node.value {
        raw::Value::Substituted { written, .. } => raw::Value::Text(show(written)),
        raw::Value::List(nodes) => {
            raw::Value::List(nodes.iter().map(|node| replaced(node, show)).collect())
        }
        raw::Value::Map(pairs) => raw::Value::Map(pairs.iter().map(pair).collect()),
        other => other.clone(),
    };
    Node { place: node.place, value }
}
