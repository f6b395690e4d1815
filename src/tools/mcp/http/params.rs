//! Arguments that are repeated in the headers of a call (MCP 2026-07-28, `x-mcp-header`), so that
//! proxies can route by them.

use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::text::quote;

/// The argument at a path of properties, and the header that repeats it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools::mcp) struct Param {
    path: Vec<String>,
    header: HeaderName,
}

/// The headers of one call. They travel with the request inside rmcp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::tools::mcp) struct ParamHeaders(pub(super) Vec<(HeaderName, HeaderValue)>);

/// The parameters that a tool's schema wants in headers.
///
/// # Errors
/// Why the schema is not allowed to want them; such a tool must not be offered.
pub(in crate::tools::mcp) fn params(schema: &Value) -> Result<Vec<Param>, String> {
    let Some(root) = schema.as_object() else { return Ok(Vec::new()) };
    if root.contains_key(ANNOTATION) {
        return Err("its `x-mcp-header` is not on a property".to_owned());
    }
    if is_elsewhere(root, true) {
        return Err("its `x-mcp-header` is inside something other than `properties`".to_owned());
    }
    let mut collected = Collected::default();
    collected.add(root, &mut Vec::new())?;
    Ok(collected.params)
}

const ANNOTATION: &str = "x-mcp-header";

/// The parameters found so far.
#[derive(Debug, Default)]
struct Collected {
    params: Vec<Param>,
    headers: HashSet<HeaderName>,
}

impl Collected {
    fn add(&mut self, schema: &Map<String, Value>, path: &mut Vec<String>) -> Result<(), String> {
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, property) in properties {
            let Some(property) = property.as_object() else { continue };
            path.push(name.clone());
            if let Some(annotation) = property.get(ANNOTATION) {
                let header = header(annotation, property)?;
                if !self.headers.insert(header.clone()) {
                    return Err(format!("two of its `x-mcp-header` are {header}"));
                }
                self.params.push(Param { path: path.clone(), header });
            }
            self.add(property, path)?;
            path.pop();
        }
        Ok(())
    }
}

fn header(annotation: &Value, property: &Map<String, Value>) -> Result<HeaderName, String> {
    let kind = property.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("string" | "integer" | "boolean")) {
        return Err("its `x-mcp-header` is not on a string, an integer or a boolean".to_owned());
    }
    let name = annotation.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("its `x-mcp-header` is not a name")?;
    HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes())
        .map_err(|_| format!("its `x-mcp-header` {} is not a header's name", quote(name)))
}

/// Whether there is an annotation that is not reached through `properties` alone.
fn is_elsewhere(schema: &Map<String, Value>, on_path: bool) -> bool {
    let any = |value: &Value, on_path| match value {
        Value::Object(schema) => is_elsewhere(schema, on_path),
        Value::Array(items) => items
            .iter()
            .any(|item| item.as_object().is_some_and(|schema| is_elsewhere(schema, false))),
        _ => false,
    };
    let named = |value: &Value, on_path| {
        value.as_object().is_some_and(|named| named.values().any(|schema| any(schema, on_path)))
    };
    schema.iter().any(|(key, value)| match key.as_str() {
        ANNOTATION => !on_path,
        "properties" => named(value, on_path),
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
            named(value, false)
        }
        // Data and names, not schemas.
        "const" | "default" | "dependentRequired" | "enum" | "examples" => false,
        _ => any(value, false),
    })
}

impl ParamHeaders {
    /// The headers of a call with these arguments. Those that are absent or null have none.
    pub(in crate::tools::mcp) fn of(params: &[Param], arguments: &Value) -> Self {
        let header = |param: &Param| {
            let value = param.path.iter().try_fold(arguments, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                _ => return None,
            };
            Some((param.header.clone(), HeaderValue::from_str(&encoded(&text)).ok()?))
        };
        Self(params.iter().filter_map(header).collect())
    }
}

/// A value as it may be in a header: as it is, or in Base64 between marks.
fn encoded(text: &str) -> String {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = text.as_bytes();
    let needs_marks = bytes.iter().any(|byte| !matches!(byte, b' '..=b'~'))
        || is_blank(bytes.first())
        || is_blank(bytes.last())
        || (text.starts_with("=?base64?") && text.ends_with("?="));
    if needs_marks {
        return format!("=?base64?{}?=", BASE64_STANDARD.encode(text));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_refused(schema: &Value, says: &str) {
        let reason = params(schema).unwrap_err();
        assert!(reason.contains(says), "{reason}");
    }

    #[test]
    fn annotations_are_on_plain_properties_alone() {
        let text = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        for (schema, says) in [
            (json!({ "x-mcp-header": "A" }), "not on a property"),
            (
                json!({ "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }),
                "not on a string",
            ),
            (json!({ "properties": { "a": { "x-mcp-header": "A" } } }), "not on a string"),
            (json!({ "properties": { "a": text("") } }), "not a name"),
            (json!({ "properties": { "a": text("a b") } }), "not a header's name"),
            (json!({ "properties": { "a": text("A"), "b": text("a") } }), "two of its"),
            (json!({ "properties": { "a": { "items": text("A") } } }), "something other than"),
            (json!({ "anyOf": [{ "properties": { "a": text("A") } }] }), "something other than"),
            (json!({ "$defs": { "a": text("A") } }), "something other than"),
        ] {
            check_refused(&schema, says);
        }
        assert_eq!(
            params(&json!({ "properties": { "a": { "default": { "x-mcp-header": 1 } } } })),
            Ok(vec![])
        );
    }

    #[test]
    fn arguments_are_repeated_as_text() {
        let schema = json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": "A" },
            "b": { "type": "object", "properties": { "c": { "type": "integer", "x-mcp-header": "C" } } },
            "d": { "type": "boolean", "x-mcp-header": "D" },
        } });
        let params = params(&schema).unwrap();
        let headers = |arguments: Value| -> Vec<String> {
            let ParamHeaders(headers) = ParamHeaders::of(&params, &arguments);
            headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect()
        };
        assert_eq!(
            headers(json!({ "a": "x y", "b": { "c": 5 }, "d": false })),
            ["mcp-param-a: x y", "mcp-param-c: 5", "mcp-param-d: false"]
        );
        assert_eq!(headers(json!({ "a": null, "b": {} })), [] as [&str; 0]);
        for (text, expected) in [
            ("ü", "=?base64?w7w=?="),
            (" x", "=?base64?IHg=?="),
            ("x\r\ny", "=?base64?eA0KeQ==?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(headers(json!({ "a": text })), [format!("mcp-param-a: {expected}")]);
        }
    }
}
