//! `response_format` of Chat Completions, which Responses calls `text.format`.

use std::sync::Arc;

use serde_json::Value;

use crate::gateway::ResponseFormat;
use crate::server::refusal::Refusal;

const EXPECTED: &str = "must have the type \"text\", \"json_object\" or \"json_schema\"; \
                        \"json_schema\" also needs a schema";

/// Reads the form of the answer, which the API calls `param`. Responses has the fields of
/// `json_schema` beside the type.
pub(super) fn read(
    format: Option<Value>,
    param: &'static str,
) -> Result<Option<Arc<ResponseFormat>>, Refusal> {
    let refusal = |message: &str| Refusal::invalid(param, format!("{param} {message}"));
    let Some(mut format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    let format = match format["type"].as_str() {
        Some("text") => return Ok(None),
        Some("json_object") => ResponseFormat::json_object(),
        Some("json_schema") => {
            let mut given = match format.get_mut("json_schema") {
                Some(nested) => nested.take(),
                None => format,
            };
            let Some(schema) = given.get_mut("schema").map(Value::take) else {
                return Err(refusal(EXPECTED));
            };
            let name = given["name"].as_str().unwrap_or("answer");
            ResponseFormat::json_schema(name, schema)
                .map_err(|error| refusal(&format!("cannot be used: {error}")))?
        }
        _ => return Err(refusal(EXPECTED)),
    };
    Ok(Some(Arc::new(format)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_no_form() {
        for format in [None, Some(Value::Null), Some(json!({"type": "text"}))] {
            assert!(read(format, "response_format").unwrap().is_none());
        }
    }

    #[test]
    fn both_apis_are_read() {
        let schema = json!({"type": "object"});
        for format in [
            json!({"type": "json_object"}),
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}),
            json!({"type": "json_schema", "name": "a", "schema": schema, "strict": true}),
        ] {
            assert!(read(Some(format), "response_format").unwrap().is_some());
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let remote =
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.org"}}});
        for format in [
            json!("json"),
            json!(7),
            json!([]),
            json!({}),
            json!({"type": "xml"}),
            json!({"type": "json_schema"}),
            json!({"type": "json_schema", "json_schema": "x"}),
            json!({"type": "json_schema", "json_schema": {"name": "a"}}),
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": []}}),
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": remote}}),
        ] {
            let refused = read(Some(format.clone()), "response_format").unwrap_err();
            let is_named = matches!(refused, Refusal::Invalid { param: "response_format", .. });
            assert!(is_named, "{format}: {refused:?}");
        }
    }
}
