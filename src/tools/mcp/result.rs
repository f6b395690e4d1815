//! The result of a call, out of what a server sends.

use serde_json::{Map, Value, json};

use crate::limits::mcp::ERROR_TEXT_BYTES_MAX;
use crate::text::cut;
use crate::tools::ToolResult;
use crate::tools::schema::Schema;

/// How a tool's results are read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// What its structured results must be.
    pub(super) output: Option<Schema>,
    /// Whether it may answer in the gateway's own shape, questions included.
    pub(super) is_trusted: bool,
}

/// Reads a complete result (`CallToolResult`).
///
/// # Errors
/// What is malformed about it.
pub(super) fn read(mut result: Value, reading: &Reading) -> Result<ToolResult, String> {
    let Some(members) = result.as_object_mut() else {
        return Err("it is not an object".to_owned());
    };
    let structured = members.remove("structuredContent").filter(|value| !value.is_null());
    let content = match members.remove("content") {
        Some(Value::Array(blocks)) => Content::read(blocks),
        None => Content::default(),
        Some(_) => return Err("its `content` is not a list".to_owned()),
    };
    let is_error = members.get("isError") == Some(&Value::Bool(true));
    if is_error {
        return Ok(failure(structured.as_ref(), &content));
    }
    if let (Some(schema), Some(value)) = (&reading.output, &structured)
        && let Err(violations) = schema.validate(value)
    {
        let told: Vec<String> = violations.iter().take(3).map(|it| it.of("result")).collect();
        return Err(format!("it does not fit the tool's own outputSchema: {}", told.join("; ")));
    }
    let mut data = match structured {
        Some(value @ Value::Object(_)) => {
            if reading.is_trusted && value.get("next_action").is_some() {
                return Ok(ToolResult::from_value(value));
            }
            value
        }
        Some(value) => json!({ "value": value }),
        None => content.data(),
    };
    content.add_to(&mut data);
    Ok(ToolResult::data(data))
}

fn failure(structured: Option<&Value>, content: &Content) -> ToolResult {
    let mut told = content.texts.join("\n");
    if told.trim().is_empty() {
        told = structured.map(Value::to_string).unwrap_or_default();
    }
    if told.trim().is_empty() {
        "the tool failed without saying why".clone_into(&mut told);
    }
    ToolResult::error(cut(told.trim(), ERROR_TEXT_BYTES_MAX))
}

/// The blocks of a result.
#[derive(Debug, Default, PartialEq)]
struct Content {
    texts: Vec<String>,
    links: Vec<Value>,
    /// What models cannot read, in words.
    files: Vec<Value>,
}

impl Content {
    fn read(blocks: Vec<Value>) -> Self {
        let mut content = Self::default();
        for block in blocks {
            content.add(&block);
        }
        content
    }

    fn add(&mut self, block: &Value) {
        let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
        match block.get("type").and_then(Value::as_str) {
            Some("text") => self.texts.extend(text(block, "text")),
            Some(kind @ ("image" | "audio")) => {
                let bytes = text(block, "data").map_or(0, |data| data.len() / 4 * 3);
                let mime_type = text(block, "mimeType").unwrap_or_default();
                self.files.push(json!({ "kind": kind, "mime_type": mime_type, "bytes": bytes }));
            }
            Some("resource_link") => self.links.push(link(block)),
            Some("resource") => {
                let resource = block.get("resource").unwrap_or(&Value::Null);
                match text(resource, "text") {
                    Some(words) => self.texts.push(words),
                    None => self.links.push(link(resource)),
                }
            }
            _ => {}
        }
    }

    /// What the texts say: one JSON object as data, anything else as text.
    fn data(&self) -> Value {
        if let [one] = &self.texts[..]
            && one.trim_start().starts_with('{')
            && let Ok(object @ Value::Object(_)) = serde_json::from_str(one)
        {
            return object;
        }
        let is_empty = self.texts.is_empty();
        if is_empty && !(self.links.is_empty() && self.files.is_empty()) {
            return json!({});
        }
        json!({ "text": self.texts.join("\n") })
    }

    fn add_to(self, data: &mut Value) {
        let Some(data) = data.as_object_mut() else { return };
        add(data, "links", self.links);
        add(data, "files", self.files);
    }
}

fn add(data: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() && !data.contains_key(key) {
        data.insert(key.to_owned(), list.into());
    }
}

/// A link to a resource, with what tells people and models what it is.
fn link(resource: &Value) -> Value {
    let mut link = Map::new();
    for (from, to) in [("uri", "uri"), ("name", "name"), ("mimeType", "mime_type")] {
        if let Some(value) = resource.get(from).and_then(Value::as_str) {
            link.insert(to.to_owned(), cut(value, 2048).into());
        }
    }
    link.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &str) -> Value {
        json!({ "type": "text", "text": words })
    }

    #[track_caller]
    fn check(result: Value, expected: Value) {
        let read = read(result, &Reading::default()).unwrap();
        assert_eq!((read.success, read.data), (true, Some(expected)));
    }

    #[test]
    fn texts_and_structured_content_become_data() {
        check(json!({ "content": [text("a"), text("b")] }), json!({ "text": "a\nb" }));
        check(json!({ "content": [text("{\"a\": 1}")] }), json!({ "a": 1 }));
        check(json!({ "content": [text("[1]")] }), json!({ "text": "[1]" }));
        check(
            json!({ "content": [text("{\"a\": 1}"), text("b")] }),
            json!({ "text": "{\"a\": 1}\nb" }),
        );
        check(json!({ "content": [] }), json!({ "text": "" }));
        check(json!({}), json!({ "text": "" }));
        let both = json!({ "content": [text("{\"a\":1}")], "structuredContent": { "a": 1 } });
        check(both, json!({ "a": 1 }));
        check(json!({ "structuredContent": [1, 2] }), json!({ "value": [1, 2] }));
    }

    #[test]
    fn links_and_files_are_named() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let files = json!([{ "kind": "image", "mime_type": "image/png", "bytes": 3 }]);
        check(json!({ "content": [image] }), json!({ "files": files }));
        check(
            json!({ "content": [text("See."), image] }),
            json!({ "text": "See.", "files": files }),
        );
        let linked = json!({ "type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/plain" });
        let links = json!([{ "uri": "a://b", "name": "b", "mime_type": "text/plain" }]);
        check(json!({ "content": [linked] }), json!({ "links": links }));
        let embedded =
            json!({ "type": "resource", "resource": { "uri": "a://b", "text": "words" } });
        check(json!({ "content": [embedded] }), json!({ "text": "words" }));
        check(json!({ "content": [{ "type": "new" }, 5] }), json!({ "text": "" }));
    }

    #[test]
    fn errors_are_told_in_the_servers_words() {
        let told = |result: Value| read(result, &Reading::default()).unwrap().error.unwrap();
        assert_eq!(
            told(json!({ "isError": true, "content": [text("no such file")] })),
            "no such file"
        );
        assert_eq!(told(json!({ "isError": true, "structuredContent": { "a": 1 } })), "{\"a\":1}");
        assert_eq!(told(json!({ "isError": true })), "the tool failed without saying why");
        let long = told(
            json!({ "isError": true, "content": [text(&"x".repeat(ERROR_TEXT_BYTES_MAX + 1))] }),
        );
        assert_eq!(long.len(), ERROR_TEXT_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn malformed_results_say_what_is_wrong() {
        for (result, says) in
            [(json!([]), "not an object"), (json!({ "content": "text" }), "not a list")]
        {
            assert!(read(result, &Reading::default()).unwrap_err().contains(says));
        }
        let output = Schema::compile(
            &json!({ "type": "object", "properties": { "a": { "type": "integer" } } }),
        );
        let reading = Reading { output: Some(output.unwrap()), is_trusted: false };
        assert!(read(json!({ "structuredContent": { "a": 1 } }), &reading).is_ok());
        let error = read(json!({ "structuredContent": { "a": "x" } }), &reading).unwrap_err();
        assert!(error.contains("outputSchema: result.a"), "{error}");
    }

    #[test]
    fn only_trusted_servers_answer_in_the_gateways_shape() {
        let question = json!({ "success": true, "next_action": "clarification_needed",
            "clarification": { "type": "choice", "question": "Which?", "options": [{ "id": "1", "title": "One" }] } });
        let result = json!({ "structuredContent": question });
        let trusting = Reading { output: None, is_trusted: true };
        assert!(read(result.clone(), &trusting).unwrap().clarification.is_some());
        assert_eq!(read(result, &Reading::default()).unwrap().data, Some(question));
    }
}
