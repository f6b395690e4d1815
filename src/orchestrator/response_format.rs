//! The form in which a client wants the answer: JSON, perhaps with a schema.
//!
//! Only the answer has a form. A model that could write nothing but JSON could not call tools. So
//! tools are offered first, and nothing of what the model writes beside them is shown. An answer in
//! the right form is the turn's answer. Otherwise the model is asked for it in a round without
//! tools, which the model server holds to the form if it can.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::limits::tools::SCHEMA_BYTES_MAX;
use crate::text::json_len;
use crate::tools::SchemaError;
use crate::tools::schema::{PatternsLeft, Schema};

/// See the module docs.
#[derive(Debug)]
pub struct ResponseFormat {
    schema: Option<(Value, Schema)>,
    /// What a model server is sent as `response_format`.
    field: Value,
}

/// Why a format cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ResponseFormatError {
    /// The schema is not usable.
    #[error("its schema cannot be used: {0}")]
    Schema(#[from] SchemaError),
    /// The schema is too long.
    #[error("its schema is longer than {SCHEMA_BYTES_MAX} bytes")]
    TooLong,
}

impl ResponseFormat {
    /// Any JSON object.
    #[must_use]
    pub fn json_object() -> Self {
        Self { schema: None, field: json!({ "type": "json_object" }) }
    }

    /// JSON that fits a schema. `name` is told to the model server.
    ///
    /// # Errors
    /// If the schema cannot be used.
    pub fn json_schema(name: &str, schema: Value) -> Result<Self, ResponseFormatError> {
        if json_len(&schema) > SCHEMA_BYTES_MAX {
            return Err(ResponseFormatError::TooLong);
        }
        let compiled = Schema::of_client(&schema, &mut PatternsLeft::default())?;
        let given = json!({ "name": name, "schema": schema, "strict": true });
        let field = json!({ "type": "json_schema", "json_schema": given });
        Ok(Self { schema: Some((schema, compiled)), field })
    }

    /// What a model server is sent as `response_format`.
    #[must_use]
    pub(crate) const fn field(&self) -> &Value {
        &self.field
    }

    /// The format of such a field, if it is one of ours.
    #[must_use]
    pub(crate) fn of_field(field: &Value) -> Option<Self> {
        let given = &field["json_schema"];
        match field["type"].as_str()? {
            "json_object" => Some(Self::json_object()),
            "json_schema" => {
                Self::json_schema(given["name"].as_str()?, given["schema"].clone()).ok()
            }
            _ => None,
        }
    }

    /// The fields of a request that ask a model server for the form.
    #[must_use]
    pub(super) fn fields(&self) -> Map<String, Value> {
        Map::from_iter([("response_format".to_owned(), self.field.clone())])
    }

    /// A schema of the answer.
    #[must_use]
    pub(super) fn schema(&self) -> Value {
        match &self.schema {
            Some((schema, _)) => schema.clone(),
            None => json!({"type": "object"}),
        }
    }

    /// What the model is told.
    #[must_use]
    pub(super) fn instruction(&self) -> String {
        match &self.schema {
            None => {
                "Write the answer to the user as one JSON object, without any other words.".into()
            }
            Some((schema, _)) => format!(
                "Write the answer to the user as JSON, without any other words. It must fit this \
                 JSON Schema: {schema}"
            ),
        }
    }

    /// Where the JSON is in an answer that has the form. Models like to fence it as code.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub(super) fn find_in(&self, answer: &str) -> Result<Range<usize>, String> {
        let range = unfenced(answer);
        let value: Value = serde_json::from_str(&answer[range.clone()])
            .map_err(|error| format!("it is not JSON: {error}"))?;
        match &self.schema {
            None if value.is_object() => Ok(range),
            None => Err("it is not a JSON object".to_owned()),
            Some((_, schema)) => schema.validate(&value).map(|()| range).map_err(|violations| {
                let told: Vec<String> = violations.iter().map(|it| it.of("answer")).collect();
                told.join("; ")
            }),
        }
    }
}

/// The text without white space around it, and without the fence of a block of code.
fn unfenced(text: &str) -> Range<usize> {
    let trimmed = |range: Range<usize>| {
        let inside = &text[range.clone()];
        let start = range.start + (inside.len() - inside.trim_start().len());
        start..start + inside.trim().len()
    };
    let whole = trimmed(0..text.len());
    let body = text[whole.clone()].strip_prefix("```").and_then(|it| it.strip_suffix("```"));
    match body.and_then(|body| body.find('\n')) {
        Some(line) => trimmed(whole.start + 3 + line..whole.end - 3),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> ResponseFormat {
        let size = json!({"type": "integer", "minimum": 1});
        let schema = json!({"type": "object", "properties": {"size": size}, "required": ["size"]});
        ResponseFormat::json_schema("size", schema).unwrap()
    }

    #[track_caller]
    fn check(format: &ResponseFormat, answer: &str, expected: Result<&str, &str>) {
        let found = format.find_in(answer).map(|range| &answer[range]);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(told), Err(expected)) => assert!(told.contains(expected), "{told}"),
            (found, _) => panic!("{found:?} for {answer:?}"),
        }
    }

    #[test]
    fn an_object_is_any_object() {
        let object = ResponseFormat::json_object();
        check(&object, " {\"a\": [1]}\n", Ok("{\"a\": [1]}"));
        check(&object, "[1]", Err("not a JSON object"));
        check(&object, "It is {}.", Err("not JSON"));
        check(&object, "", Err("not JSON"));
        check(&object, &"[".repeat(100_000), Err("not JSON"));
    }

    #[test]
    fn a_schema_is_checked() {
        check(&size(), "{\"size\": 2}", Ok("{\"size\": 2}"));
        check(&size(), "{\"size\": 0}", Err("answer.size: expected"));
        check(&size(), "{}", Err("size"));
    }

    #[test]
    fn a_fence_is_taken_off() {
        let object = ResponseFormat::json_object();
        for fenced in ["```json\n{}\n```", "\n```\n{}```\n", "``` JSON \n {} \n```"] {
            check(&object, fenced, Ok("{}"));
        }
        for other in
            ["```{}```", "```json\n{}", "So:\n```json\n{}\n```", "``````", "```", "```\n```"]
        {
            check(&object, other, Err("not JSON"));
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused() {
        for schema in [
            json!(7),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}),
            json!({"type": "object", "properties": {"a": {"type": "number", "minimum": "x"}}}),
        ] {
            assert!(ResponseFormat::json_schema("x", schema.clone()).is_err(), "{schema}");
        }
        let schema = |bytes: usize| {
            let rest = json_len(&json!({"type": "object", "title": ""}));
            json!({"type": "object", "title": "x".repeat(bytes - rest)})
        };
        assert!(ResponseFormat::json_schema("x", schema(SCHEMA_BYTES_MAX)).is_ok());
        let over = ResponseFormat::json_schema("x", schema(SCHEMA_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(over, ResponseFormatError::TooLong);
    }
}
