//! Values that entries of several kinds have: a tool's name, its schema, a path, variables.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::config::json::json;
use crate::config::raw::{self, Node};
use crate::config::reader::{Refused, text};
use crate::config::seconds;
use crate::tools::{check_parameters, is_tool_name};

/// Reads the name of a tool.
pub(super) fn tool_name(node: &Node) -> Result<String, Refused> {
    let name = text(node)?;
    if is_tool_name(name) {
        return Ok(name.to_owned());
    }
    Err(Refused::new(node, "a tool name: 1 to 64 characters from A-Z a-z 0-9 _ -"))
}

/// Reads what a tool does.
pub(super) fn words(node: &Node) -> Result<String, Refused> {
    let words = text(node)?;
    if words.trim().is_empty() {
        return Err(Refused::new(node, "a sentence that tells the model what the tool does"));
    }
    Ok(words.to_owned())
}

/// Reads a schema that can be compiled.
pub(super) fn parameters(node: &Node) -> Result<Value, Refused> {
    let parameters = json(node)?;
    match check_parameters(&parameters) {
        Ok(()) => Ok(parameters),
        Err(error) => Err(Refused::new(node, format!("a JSON Schema that can be used: {error}"))),
    }
}

/// Text, or a number as it would be written on a command line.
pub(super) fn scalar(node: &Node) -> Result<String, Refused> {
    match &node.value {
        raw::Value::Integer(number) => Ok(number.to_string()),
        _ => text(node).map(str::to_owned),
    }
}

/// Reads an absolute path.
pub(super) fn path(node: &Node) -> Result<PathBuf, Refused> {
    let path = PathBuf::from(text(node)?);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Refused::new(node, "an absolute path"))
}

/// Writes pairs as the map that they were read from.
pub(super) fn as_map<S: Serializer, T: Serialize>(
    pairs: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Writes seconds, or nothing.
#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(super) fn some_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}
