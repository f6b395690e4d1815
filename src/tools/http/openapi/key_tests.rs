//! Keys that are optional, and parameters that they replace.

use serde_json::json;

use super::tests::{document, filled, options};
use super::*;
use crate::tools::ToolResult;

/// Operation `a` of a document whose keys are optional, with a key or without.
fn with_optional_key(place: &str, credentials: Credentials) -> Operation {
    let document = document(
        "3.1.0",
        &json!({
            "paths": { "/a": { "get": {
                "operationId": "a",
                "parameters": [{ "in": place, "name": "Key", "schema": {}, "required": true }],
                "security": [{}, { "s": [] }],
            } } },
            "components": { "securitySchemes": { "s": { "type": "apiKey", "in": place, "name": "Key" } } },
        }),
    );
    let mut operations = document.operations(&OpenApiOptions { credentials, ..options() }).unwrap();
    operations.tools.pop().unwrap()
}

#[test]
fn a_key_that_is_optional_is_sent_and_replaces_its_parameter() {
    for place in ["header", "query"] {
        let key = ("s".to_owned(), Credential::Key("secret-key".to_owned()));
        let tool = with_optional_key(place, vec![key]);
        let said = tool.request.keys.hide(Ok(ToolResult::error("no: secret-key"))).unwrap();
        assert_eq!(said.error.as_deref(), Some("no: [the key]"), "{place}");
        let parameters = &tool.declared.parameters;
        assert_eq!(parameters, &json!({ "type": "object", "properties": {} }), "{place}");
        let sent = filled(&tool, &json!({}));
        assert_eq!(format!("{} {:?}", sent.url, sent.headers).matches("secret").count(), 1);

        let tool = with_optional_key(place, Vec::new());
        assert_eq!(tool.declared.parameters["required"], json!(["Key"]), "{place}");
    }
}
