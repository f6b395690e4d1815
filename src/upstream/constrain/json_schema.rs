//! `constrain: json_schema`: `response_format` with a JSON Schema of the calls, for servers that know no
//! other constraint (Ollama, LM Studio and most others).
//!
//! A schema describes a whole answer, so only an answer that must be a call can be held to it, and
//! only in formats whose calls may stand without an opener, as one JSON object.

use serde_json::{Map, Value, json};

use super::grammar::Callable;
use crate::call_format::{Body, CallFormat, JsonKeys};
use crate::limits::upstream::{GRAMMAR_SCHEMA_DEPTH_MAX, SCHEMA_BOUND_MAX};
use crate::upstream::ToolChoice;

/// The request fields that restrict a server to these calls. `None` if it cannot be asked to.
#[must_use]
pub(super) fn request_fields(
    Callable { tools, named }: Callable<'_>,
    choice: &ToolChoice,
    format: &CallFormat,
) -> Option<Map<String, Value>> {
    let row = format.row();
    let (Body::Json(keys), Some(bare)) = (&row.body, &row.bare) else { return None };
    if *choice == ToolChoice::Auto || bare.bracket != b'{' {
        return None;
    }
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let described = tools.iter().map(|tool| (&*tool.name, &tool.parameters));
    let by_name = named.iter().map(|name| (&**name, &nothing));
    let all: Vec<_> = described.chain(by_name).filter(|(name, _)| choice.allows(name)).collect();
    let schema = if let [(name, parameters)] = *all {
        call(keys, name, parameters, "#")
    } else {
        let place = |at| format!("#/anyOf/{at}");
        let calls = all.iter().enumerate();
        let calls = calls.map(|(at, (name, parameters))| call(keys, name, parameters, &place(at)));
        json!({ "anyOf": calls.collect::<Vec<_>>() })
    };
    let schema = json!({"name": "call", "strict": true, "schema": schema});
    let format = json!({"type": "json_schema", "json_schema": schema});
    Some(Map::from_iter([("response_format".to_owned(), format)]))
}

/// A call of one tool, at this place in the schema.
fn call(keys: &JsonKeys, name: &str, parameters: &Value, place: &str) -> Value {
    let (name_key, arguments_key) = (keys.name[0], keys.arguments[0]);
    let place = format!("{place}/properties/{arguments_key}");
    let arguments = Simplifier { parameters, place: &place }.schema(parameters, 0);
    json!({
        "type": "object",
        "properties": {
            name_key: {"type": "string", "enum": [name]},
            arguments_key: arguments,
        },
        "required": [name_key, arguments_key],
        "additionalProperties": false,
    })
}

/// Leaves out what some servers refuse: one keyword that they do not know makes every request fail. What is left
/// out is checked when the call is there.
struct Simplifier<'s> {
    /// The schema of a tool's arguments.
    parameters: &'s Value,
    /// Where it will be. References in it begin with this.
    place: &'s str,
}

impl Simplifier<'_> {
    fn schema(&self, schema: &Value, depth: usize) -> Value {
        let Value::Object(keywords) = schema else { return json!({}) };
        if depth >= GRAMMAR_SCHEMA_DEPTH_MAX {
            return json!({});
        }
        let mut kept = Map::new();
        for (keyword, value) in keywords {
            let value = match &**keyword {
                "type" | "required" | "enum" | "const" => value.clone(),
                "$ref" => match self.reference(value) {
                    Some(reference) => reference.into(),
                    None => continue,
                },
                "properties" | "$defs" | "definitions" => self.all(value, depth),
                "additionalProperties" if value.is_boolean() => value.clone(),
                "items" | "additionalProperties" => self.schema(value, depth + 1),
                "anyOf" | "oneOf" | "allOf" => {
                    let schemas = value.as_array().into_iter().flatten();
                    schemas.map(|schema| self.schema(schema, depth + 1)).collect()
                }
                "minItems" | "maxItems" | "minLength" | "maxLength"
                    if value.as_u64().is_some_and(|bound| bound <= SCHEMA_BOUND_MAX) =>
                {
                    value.clone()
                }
                _ => continue,
            };
            kept.insert(keyword.clone(), value);
        }
        Value::Object(kept)
    }

    fn all(&self, schemas: &Value, depth: usize) -> Value {
        let schemas = schemas.as_object().into_iter().flatten();
        let schemas = schemas.map(|(key, schema)| (key.clone(), self.schema(schema, depth + 1)));
        Value::Object(schemas.collect())
    }

    /// A reference as it has to be at the new place. `None` if it leads to nothing that is kept.
    fn reference(&self, written: &Value) -> Option<String> {
        let pointer = written.as_str()?.strip_prefix('#')?;
        let first = pointer.split('/').nth(1);
        let is_kept = first.is_none_or(|first| {
            let kept = ["properties", "$defs", "definitions", "items", "anyOf", "oneOf", "allOf"];
            kept.contains(&first)
        });
        // An anchor has no slash, and no schema is there.
        let is_there = self.parameters.pointer(pointer).is_some();
        (is_kept && is_there).then(|| format!("{}{pointer}", self.place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::{HERMES, Row};
    use crate::upstream::OfferedTool;

    fn fields(row: &'static Row, choice: &ToolChoice, schemas: &[(&str, Value)]) -> Option<Value> {
        let tools: Vec<_> = schemas
            .iter()
            .map(|(name, parameters)| OfferedTool {
                name: (*name).to_owned(),
                description: String::new(),
                parameters: parameters.clone(),
            })
            .collect();
        let callable = Callable { tools: &tools, named: &["late".to_owned()] };
        let fields = request_fields(callable, choice, &CallFormat::of(row))?;
        Some(fields["response_format"]["json_schema"]["schema"].clone())
    }

    #[test]
    fn an_answer_that_must_be_a_call_is_one_of_the_calls() {
        let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let schema = fields(&HERMES, &ToolChoice::Required, &[("f", parameters.clone())]).unwrap();
        let calls = schema["anyOf"].as_array().unwrap();
        assert_eq!(calls[0]["properties"]["name"]["enum"], json!(["f"]));
        assert_eq!(calls[0]["properties"]["arguments"], parameters);
        assert_eq!(calls[1]["properties"]["name"]["enum"], json!(["late"]));
        let named = ToolChoice::Named("f".to_owned());
        let only = fields(&HERMES, &named, &[("f", parameters)]).unwrap();
        assert_eq!(only["required"], json!(["name", "arguments"]));
        let llama = Row::named("llama3").unwrap();
        let schema = fields(llama, &named, &[("f", json!({}))]).unwrap();
        assert_eq!(schema["required"], json!(["name", "parameters"]));
    }

    #[test]
    fn an_answer_that_may_be_words_is_free() {
        assert_eq!(fields(&HERMES, &ToolChoice::Auto, &[("f", json!({}))]), None);
        for name in ["qwen3_coder", "xlam", "mistral_args"] {
            let row = Row::named(name).unwrap();
            assert_eq!(fields(row, &ToolChoice::Required, &[("f", json!({}))]), None, "{name}");
        }
    }

    #[test]
    fn references_lead_to_where_the_definitions_are() {
        let parameters = json!({
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/place"},
                "inside": {"$ref": "#"},
                "nowhere": {"$ref": "#/$defs/none"},
                "anchored": {"$ref": "#place"},
                "left_out": {"$ref": "#/x-more/place"},
                "data": {"enum": [{"$ref": "#/$defs/place"}]},
            },
            "$defs": {"place": {"type": "string"}},
            "x-more": {"place": {"type": "string"}},
        });
        let tools = [("f", parameters)];
        for (choice, place) in
            [(ToolChoice::Named("f".to_owned()), ""), (ToolChoice::Required, "/anyOf/0")]
        {
            let schema = fields(&HERMES, &choice, &tools).unwrap();
            let arguments = format!("{place}/properties/arguments");
            let reads = &schema.pointer(&arguments).unwrap()["properties"];
            for (name, target) in [("at", json!({"type": "string"})), ("inside", Value::Null)] {
                let reference = reads[name]["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
                let found = schema.pointer(reference).unwrap();
                let expected =
                    if target.is_null() { schema.pointer(&arguments).unwrap() } else { &target };
                assert_eq!(found, expected, "{reference}");
            }
            for name in ["nowhere", "anchored", "left_out"] {
                assert_eq!(reads[name], json!({}), "{name}");
            }
            assert_eq!(reads["data"]["enum"][0], json!({"$ref": "#/$defs/place"}));
        }
    }

    #[test]
    fn keywords_that_servers_refuse_are_left_out() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "mail": {"type": "string", "format": "email", "pattern": "@", "maxLength": 10_000},
                "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 3},
                "any": {"anyOf": [{"type": "string", "pattern": "x"}, {"not": {}}]},
                "true": true,
            },
            "patternProperties": {"^x": {}},
            "additionalProperties": false,
            "required": ["mail"],
        });
        assert_eq!(
            Simplifier { parameters: &schema, place: "#" }.schema(&schema, 0),
            json!({
                "type": "object",
                "properties": {
                    "mail": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 3},
                    "any": {"anyOf": [{"type": "string"}, {}]},
                    "true": {},
                },
                "additionalProperties": false,
                "required": ["mail"],
            })
        );
    }
}
