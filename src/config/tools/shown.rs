//! JSON values that may have secrets in them.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::config::Secret;
use crate::config::raw::{self, Node};
use crate::config::reader::{Refused, json};

/// A JSON value, with every text that came from the environment replaced where it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    value: Value,
    shown: Value,
}

impl Shown {
    /// The value itself, for the one place that sends it.
    #[must_use]
    pub const fn reveal(&self) -> &Value {
        &self.value
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown.serialize(serializer)
    }
}

/// Reads any value.
pub(super) fn shown(node: &Node) -> Result<Shown, Refused> {
    Ok(Shown { value: json(node)?, shown: json(&redacted(node))? })
}

fn redacted(node: &Node) -> Node {
    let pair = |pair: &raw::Pair| raw::Pair {
        place: pair.place,
        key: pair.key.clone(),
        node: redacted(&pair.node),
    };
    let value = match &node.value {
        raw::Value::Substituted { .. } => raw::Value::Text(Secret::REDACTED.to_owned()),
        raw::Value::List(nodes) => raw::Value::List(nodes.iter().map(redacted).collect()),
        raw::Value::Map(pairs) => raw::Value::Map(pairs.iter().map(pair).collect()),
        other => other.clone(),
    };
    Node { place: node.place, value }
}
