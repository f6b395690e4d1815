//! What kinds of content an operation answers with.

use serde_json::Value;

use super::parameters::is_json;
use super::reference;
use crate::tools::http::request::Header;

/// The header that asks an operation for an answer: JSON if it has any, or whatever it has. Strict
/// servers refuse to be asked for anything else. Nothing if the document leaves it open.
pub(super) fn accept(root: &Value, operation: &Value) -> Option<Header> {
    let kinds = kinds(root, operation);
    let json = kinds.iter().find(|kind| is_json(kind) && !kind.contains('*'));
    let value = json.map_or_else(|| kinds.join(", "), |json| (*json).to_owned());
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_told = !value.is_empty() && !kinds.contains(&"*/*");
    (is_told && value.bytes().all(is_plain)).then(|| Header::constant("accept".to_owned(), value))
}

/// The media types of the answers to requests that succeed, in the order of the document.
fn kinds<'d>(root: &'d Value, operation: &'d Value) -> Vec<&'d str> {
    let Some(answers) = operation.get("responses").and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut kinds = Vec::new();
    for (_, answer) in answers.iter().filter(|(status, _)| status.starts_with('2')) {
        let answer = reference::resolve(root, answer).ok();
        let content = answer.and_then(|answer| answer.get("content")?.as_object());
        for kind in content.into_iter().flat_map(|content| content.keys()) {
            if !kinds.contains(&kind.as_str()) {
                kinds.push(kind);
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(responses: &Value, expected: Option<&str>) {
        let page = json!({ "content": { "text/html": {} } });
        let root = json!({ "components": { "responses": { "page": page } } });
        let header = accept(&root, &json!({ "responses": responses }));
        assert_eq!(header.as_ref().and_then(|header| header.value.constant()), expected);
    }

    fn ok(kinds: &[&str]) -> Value {
        let content: Value = kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect();
        json!({ "200": { "content": content } })
    }

    #[test]
    fn json_is_asked_for_alone() {
        check(&ok(&["application/json"]), Some("application/json"));
        check(&ok(&["text/xml", "application/hal+json"]), Some("application/hal+json"));
    }

    #[test]
    fn whatever_else_there_is_for_a_success_is_asked_for() {
        check(&ok(&["text/csv", "image/*"]), Some("text/csv, image/*"));
        check(&json!({ "200": { "$ref": "#/components/responses/page" } }), Some("text/html"));
        let csv = json!({ "content": { "text/csv": {} } });
        let error = json!({ "content": { "application/json": {} } });
        check(&json!({ "200": csv, "202": csv, "404": error }), Some("text/csv"));
    }

    #[test]
    fn a_document_may_leave_it_open() {
        check(&json!({}), None);
        check(&json!({ "204": { "description": "done" } }), None);
        check(&json!({ "200": { "$ref": "#/nowhere" } }), None);
        check(&ok(&["*/*"]), None);
        check(&ok(&["text/plain\r\nx: y"]), None);
    }
}
