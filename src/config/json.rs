//! Values that are passed on as JSON.

use super::raw::{Node, Pair, Value};
use super::reader::{Refused, repeated, shorten};

/// Any value, as JSON.
pub(super) fn json(node: &Node) -> Result<serde_json::Value, Refused> {
    Ok(match &node.value {
        Value::Null | Value::Unreadable => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(number) => {
            let small = i64::try_from(*number).map(serde_json::Value::from);
            let number = small.or_else(|_| u64::try_from(*number).map(serde_json::Value::from));
            number.map_err(|_| Refused::new(node, "a number of at most 64 bits"))?
        }
        Value::Decimal(number) => serde_json::Number::from_f64(*number)
            .map(serde_json::Value::Number)
            .ok_or_else(|| Refused::new(node, "a finite number"))?,
        Value::Text(text) | Value::Substituted { text, .. } => text.as_str().into(),
        Value::List(nodes) => {
            serde_json::Value::Array(nodes.iter().map(json).collect::<Result<_, _>>()?)
        }
        Value::Map(pairs) => {
            if let Some((pair, _)) = repeated(pairs).next() {
                let found = format!("the key `{}` twice", shorten(&pair.key));
                return Err(Refused { found, expected: "each key once".to_owned() });
            }
            let member = |pair: &Pair| Ok((pair.key.clone(), json(&pair.node)?));
            serde_json::Value::Object(pairs.iter().map(member).collect::<Result<_, Refused>>()?)
        }
    })
}
