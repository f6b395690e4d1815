//! The result of a call, made from what a server sends.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value, json};

use super::said::Said;
use crate::limits::mcp::ERROR_TEXT_BYTES_MAX;
use crate::text::cut;
use crate::tools::schema::{Refusal, Schema};
use crate::tools::{ListedFile, ToolFile, ToolResult};

/// The longest name or media type of a file, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The longest value in a link, in bytes.
const URI_BYTES_MAX: usize = 2048;

/// How a tool's results are read.
#[derive(Debug, Default)]
pub(in crate::tools::mcp) struct Reading {
    /// What its structured results must be.
    pub(in crate::tools::mcp) output: Option<Schema>,
    /// Whether it may answer in the gateway's own shape, questions included.
    pub(in crate::tools::mcp) is_trusted: bool,
}

/// Reads a complete result (`CallToolResult`).
///
/// # Errors
/// What is malformed about it.
pub(in crate::tools::mcp) fn read(
    mut result: Value,
    reading: &Reading,
) -> Result<ToolResult, String> {
    let Some(members) = result.as_object_mut() else {
        return Err("it is not an object".to_owned());
    };
    let structured = members.remove("structuredContent").filter(|value| !value.is_null());
    let content = match members.remove("content") {
        Some(Value::Array(blocks)) => Content::read(&blocks),
        // Some servers write an empty list so.
        None | Some(Value::Null) => Content::default(),
        Some(_) => return Err("its `content` is not a list".to_owned()),
    };
    let is_error = members.get("isError") == Some(&Value::Bool(true));
    if is_error {
        return Ok(failure(structured.as_ref(), &content));
    }
    if let (Some(schema), Some(value)) = (&reading.output, &structured)
        // A call that has succeeded is no failure because its result cannot be checked.
        && let Err(Refusal::Violations(violations)) = schema.check(value)
    {
        let told: Vec<String> = violations.iter().take(3).map(|it| it.of("result")).collect();
        return Err(format!("it does not fit the tool's own outputSchema: {}", told.join("; ")));
    }
    let mut result = match structured {
        Some(value) if reading.is_trusted && ToolResult::is_claimed_by(&value) => {
            ToolResult::from_value(value)
        }
        Some(mut value) => {
            let more = content.texts_beside(&value);
            content.take_files_out_of(&mut value);
            let mut data = if value.is_object() { value } else { json!({ "value": value }) };
            if let (Some(more), Some(data)) = (more, data.as_object_mut()) {
                // Its own member of that name stays.
                let key = if data.contains_key("text") { "content" } else { "text" };
                data.entry(key).or_insert(more.into());
            }
            ToolResult::data(data)
        }
        None => ToolResult::data(content.data()),
    };
    if let Some(data) = &mut result.data {
        content.add_to(data);
    }
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for Encoded { file, .. } in content.files {
        match file {
            Ok(file) => files.push(file),
            Err(listed) => unreadable.push(listed),
        }
    }
    result.list_files(unreadable);
    Ok(result.with_files(files).with_texts_for_user(content.for_user))
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
    /// Texts that are for the user alone.
    for_user: Vec<String>,
    links: Vec<Value>,
    files: Vec<Encoded>,
}

/// A file, and how it was sent.
#[derive(Debug, PartialEq)]
struct Encoded {
    /// The file, or how it is listed if it cannot be read.
    file: Result<ToolFile, ListedFile>,
    base64: String,
}

impl Content {
    fn read(blocks: &[Value]) -> Self {
        let mut content = Self::default();
        for block in blocks {
            content.add(block);
        }
        content
    }

    fn add(&mut self, block: &Value) {
        let resource = block.get("resource").unwrap_or(&Value::Null);
        match text(block, "type") {
            Some("text") => self.add_text(block, text(block, "text")),
            Some("image" | "audio") => self.add_file(block, text(block, "data"), None),
            Some("resource_link") => self.links.push(link(block)),
            Some("resource") => match (text(resource, "text"), text(resource, "blob")) {
                (Some(words), _) => self.add_text(block, Some(words)),
                (None, Some(blob)) => {
                    let name = text(resource, "uri").and_then(|uri| uri.rsplit('/').next());
                    self.add_file(resource, Some(blob), name);
                }
                (None, None) => self.links.push(link(resource)),
            },
            _ => {}
        }
    }

    fn add_text(&mut self, block: &Value, words: Option<&str>) {
        let audience = block["annotations"]["audience"].as_array();
        let is_for_user = audience.is_some_and(|all| all.len() == 1 && all[0] == "user");
        let texts = if is_for_user { &mut self.for_user } else { &mut self.texts };
        texts.extend(words.map(str::to_owned));
    }

    fn add_file(&mut self, block: &Value, base64: Option<&str>, name: Option<&str>) {
        let base64 = base64.unwrap_or_default();
        let bytes = decode(base64);
        let mime_type = text(block, "mimeType").filter(|it| !it.is_empty());
        let file = ToolFile {
            name: name.filter(|name| !name.is_empty()).map(|name| cut(name, NAME_BYTES_MAX)),
            mime_type: cut(mime_type.unwrap_or("application/octet-stream"), NAME_BYTES_MAX),
            bytes: bytes.clone().unwrap_or_default().into(),
        };
        let file = match bytes {
            Some(_) => Ok(file),
            None => Err(ListedFile { error: Some("it is not base64".to_owned()), ..file.listed() }),
        };
        self.files.push(Encoded { file, base64: base64.to_owned() });
    }

    /// Removes files that are also among the blocks. Servers repeat them, and nobody can read them
    /// there.
    fn take_files_out_of(&self, value: &mut Value) {
        match value {
            Value::String(text) if self.has_file(text) => "(see artifacts)".clone_into(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_files_out_of(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.take_files_out_of(member));
            }
            _ => {}
        }
    }

    fn has_file(&self, base64: &str) -> bool {
        !base64.is_empty() && self.files.iter().any(|file| file.base64 == base64)
    }

    /// The texts that say more than the structured content.
    fn texts_beside(&self, structured: &Value) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let said = Said::of(structured);
        let more: Vec<&str> =
            self.texts.iter().map(String::as_str).filter(|text| !said.has(text)).collect();
        (!more.is_empty()).then(|| more.join("\n"))
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
        let has_more = [self.links.len(), self.files.len(), self.for_user.len()] != [0, 0, 0];
        if is_empty && has_more {
            return json!({});
        }
        json!({ "text": self.texts.join("\n") })
    }

    fn add_to(&self, data: &mut Value) {
        let Some(data) = data.as_object_mut() else { return };
        if !self.links.is_empty() {
            // Its own member of that name stays, as HAL and JSON:API have one.
            let key = if data.contains_key("links") { "resource_links" } else { "links" };
            data.entry(key).or_insert(self.links.clone().into());
        }
    }
}

/// Reads base64 as programs write it: perhaps in lines, and without padding.
fn decode(base64: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let joined: Vec<u8> = base64.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    LENIENT.decode(joined).ok()
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

/// A link to a resource, with what tells people and models what it is.
fn link(resource: &Value) -> Value {
    let mut link = Map::new();
    for (from, to) in [("uri", "uri"), ("name", "name"), ("mimeType", "mime_type")] {
        if let Some(value) = resource.get(from).and_then(Value::as_str) {
            link.insert(to.to_owned(), cut(value, URI_BYTES_MAX).into());
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
    fn texts_beside_structured_content_are_told_if_they_say_more() {
        let with = |texts: &[&str], structured: Value| {
            let blocks: Vec<Value> = texts.iter().map(|words| text(words)).collect();
            json!({ "content": blocks, "structuredContent": structured })
        };
        let items = json!({ "result": [{ "a": 1 }, "b"] });
        check(with(&["{\"a\": 1}", "b"], items.clone()), items);
        let noted = with(&["{\"a\": 1}", "Units are metres."], json!({ "a": 1 }));
        check(noted, json!({ "a": 1, "text": "Units are metres." }));
        check(with(&["One."], json!([1])), json!({ "value": [1], "text": "One." }));
        check(with(&["b"], json!({ "text": "a" })), json!({ "text": "a", "content": "b" }));
    }

    #[test]
    fn links_are_named() {
        let linked = json!({ "type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/plain" });
        let links = json!([{ "uri": "a://b", "name": "b", "mime_type": "text/plain" }]);
        check(json!({ "content": [linked] }), json!({ "links": links }));
        let both = json!({ "content": [linked], "structuredContent": { "links": {} } });
        check(both, json!({ "links": {}, "resource_links": links }));
        let embedded =
            json!({ "type": "resource", "resource": { "uri": "a://b", "text": "words" } });
        check(json!({ "content": [embedded] }), json!({ "text": "words" }));
        check(json!({ "content": [{ "type": "new" }, 5] }), json!({ "text": "" }));
    }

    #[test]
    fn files_travel_beside_the_data() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let blob = json!({ "type": "resource",
            "resource": { "uri": "demo://a/b.gz", "mimeType": "application/gzip", "blob": "AAA=" } });
        let result = json!({ "content": [text("See."), image, blob] });
        let read = read(result, &Reading::default()).unwrap();
        assert_eq!(read.data, Some(json!({ "text": "See." })));
        let files: Vec<_> = read
            .files
            .iter()
            .map(|file| (file.name.as_deref(), &*file.mime_type, file.bytes.len()))
            .collect();
        assert_eq!(files, [(None, "image/png", 3), (Some("b.gz"), "application/gzip", 2)]);
    }

    #[test]
    fn base64_may_have_lines_and_lack_padding() {
        for (base64, bytes) in [("AAEC\nAwQ=\r\n", 5), ("AAE", 2), ("AAE=", 2), (" ", 0)] {
            assert_eq!(decode(base64).map(|bytes| bytes.len()), Some(bytes), "{base64}");
        }
    }

    #[test]
    fn a_file_that_is_not_base64_costs_nothing_else() {
        let broken = json!({ "type": "image", "data": "?", "mimeType": "image/png" });
        let sound = json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" });
        let result = json!({ "content": [text("See."), broken, sound] });
        let read = read(result, &Reading::default()).unwrap();
        assert_eq!(read.data, Some(json!({ "text": "See." })));
        assert_eq!(read.files[0].mime_type, "audio/wav");
        let listed = &read.artifacts[0];
        assert_eq!((&*listed.kind, listed.error.as_deref()), ("image", Some("it is not base64")));
    }

    #[test]
    fn a_file_is_not_repeated_in_the_data() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let structured = json!({ "pictures": [{ "data": "AAAA", "width": 1 }] });
        let result = json!({ "content": [image], "structuredContent": structured });
        check(result, json!({ "pictures": [{ "data": "(see artifacts)", "width": 1 }] }));
    }

    #[test]
    fn what_is_for_the_user_alone_is_kept_apart() {
        let for_both = |audience: Value| {
            let note =
                json!({ "type": "text", "text": "b", "annotations": { "audience": audience } });
            json!({ "content": [text("a"), note] })
        };
        check(for_both(json!(["user"])), json!({ "text": "a" }));
        let for_user = read(for_both(json!(["user"])), &Reading::default()).unwrap().for_user;
        assert_eq!(for_user, ["b"]);
        check(for_both(json!(["user", "assistant"])), json!({ "text": "a\nb" }));
        check(for_both(json!(["assistant"])), json!({ "text": "a\nb" }));
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

    /// Services have fields of these names.
    #[test]
    fn an_object_in_another_shape_is_data_even_of_a_trusted_server() {
        let trusting = Reading { output: None, is_trusted: true };
        for object in [
            json!({ "customer": "Ann", "next_action": "call back Monday" }),
            json!({ "success": true, "deleted": 3 }),
        ] {
            let result = json!({ "structuredContent": object });
            assert_eq!(read(result, &trusting).unwrap(), ToolResult::data(object));
        }
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
