//! Reads JSON: the events of a log, and the bodies of other APIs' requests. Fields that we do not
//! know are skipped there: their clients send many.

use serde::Deserialize;
use serde_json::Value;

use super::object::Object;
use crate::server::refusal::Refusal;
use crate::session::log::encode::serialize;

/// Reads a JSON object. If it has another shape, the refusal names the field.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path();
        // Invalid JSON is not the fault of the field that contains it.
        let is_field = error.inner().is_data() && path.iter().next().is_some();
        let param = is_field.then(|| path.to_string());
        Refusal::BadJson { param, error: error.inner().to_string() }
    })?;
    let ended = reader.end();
    ended.map_err(|error| Refusal::BadJson { param: None, error: error.to_string() })?;
    Ok(value)
}

/// Reads an event of a log. Our own bounds on nesting are higher than those of `serde_json`.
pub(super) fn event(data: &[u8]) -> Value {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    deserializer.disable_recursion_limit();
    Value::deserialize(&mut deserializer).unwrap_or_default()
}

/// A text as it is inside of JSON, without its quotation marks.
pub(super) fn escaped(text: &str) -> Vec<u8> {
    let mut escaped = Vec::new();
    serialize(&mut escaped, &text);
    escaped.pop();
    escaped.remove(0);
    escaped
}
