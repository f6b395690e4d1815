//! References within a document. Other documents are never fetched.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::limits::openapi::REFERENCES_MAX;
use crate::text::quote;

/// What `$ref` refers to from anywhere in the document `root`, such as
/// `#/components/parameters/limit`.
pub(super) fn find<'d>(root: &'d Value, reference: &str) -> Result<&'d Value, String> {
    let Some(pointer) = reference.strip_prefix('#').filter(|rest| rest.starts_with('/')) else {
        let reference = quote(reference);
        return Err(format!("it refers to {reference}, and other documents are not read"));
    };
    let pointer = percent_decode_str(pointer).decode_utf8_lossy();
    root.pointer(&pointer)
        .ok_or_else(|| format!("it refers to {}, which is not there", quote(reference)))
}

/// The value itself and what it refers to, one after the other, and why the last of them leads
/// nowhere if it does.
pub(super) fn chain<'d>(root: &'d Value, value: &'d Value) -> (Vec<&'d Value>, Option<String>) {
    let mut chain = vec![value];
    let mut reference = value.get("$ref").and_then(Value::as_str);
    while let Some(next) = reference {
        match find(root, next) {
            Ok(_) if chain.len() > REFERENCES_MAX => return (chain, Some(CIRCLES.to_owned())),
            Ok(value) => {
                chain.push(value);
                reference = value.get("$ref").and_then(Value::as_str);
            }
            Err(reason) => return (chain, Some(reason)),
        }
    }
    (chain, None)
}

const CIRCLES: &str = "its references are circular";

/// The value itself, or what it refers to in the end.
pub(super) fn resolve<'d>(root: &'d Value, value: &'d Value) -> Result<&'d Value, String> {
    let mut value = value;
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
        value = find(root, reference)?;
    }
    Err(CIRCLES.to_owned())
}
