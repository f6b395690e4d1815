//! The body of the fuzz target `openapi_document`; an ordinary test replays its corpus.

use serde_json::{Map, Value, json};
use url::Url;

use super::{Document, OpenApiOptions, Operation};
use crate::tools::source::{EntryRules, Source, SourceKind};
use crate::tools::{check_parameters, is_tool_name};

/// The beginning of every address: no document and no argument may change it.
const BASE: &str = "https://api.example.org:8443/v2/";

/// Target `openapi_document`: every operation becomes a tool or is left out, a document means the same however
/// its JSON is written, and no argument leads a call away from the operation's own address.
///
/// The first byte chooses arguments; the rest is the document.
///
/// # Panics
/// If that does not hold.
pub fn openapi_document(data: &[u8]) {
    let Some((&choice, document)) = data.split_first() else { return };
    let options = OpenApiOptions {
        base_url: Url::parse(BASE).expect("an address"),
        include: Vec::new(),
        exclude: Vec::new(),
        credentials: Vec::new(),
        idempotency_header: Some("idempotency-key".to_owned()),
    };
    let Ok(document) = Document::read(document) else { return };
    let Ok(operations) = document.operations(&options) else { return };
    let written = serde_json::to_string_pretty(&document.root).expect("it is JSON");
    if let Ok(again) = Document::read(written.as_bytes()) {
        // A number may change when it is written and read.
        if again.root == document.root {
            let again = again.operations(&options).expect("as many operations");
            assert_eq!(format!("{again:?}"), format!("{operations:?}"), "written again");
        }
    }
    for operation in &operations.tools {
        check_operation(operation, choice);
    }
}

fn check_operation(operation: &Operation, choice: u8) {
    let rules = EntryRules::new(Source { kind: SourceKind::Http, name: "shop".into() });
    let declared = operation.declared.clone();
    let mut arguments = Map::new();
    let names = declared.parameters["properties"].as_object().into_iter().flatten();
    for ((name, _), at) in names.zip(usize::from(choice)..) {
        if let Some(value) = argument(at) {
            arguments.insert(name.clone(), value);
        }
    }
    if let Ok(spec) = rules.spec(declared) {
        assert!(is_tool_name(&spec.name), "{:?}", spec.name);
        // It must not panic. A tool whose schema is unusable is left out later.
        _ = check_parameters(&spec.parameters);
    }
    let request = &operation.request;
    let Ok(filled) = request.fill(&arguments) else { return };
    let url = Url::parse(&filled.url).unwrap_or_else(|error| panic!("{}: {error}", filled.url));
    assert_eq!(url.as_str(), filled.url, "the address reads as it was written");
    assert!(filled.url.starts_with(BASE), "{url}");
    assert!(url.fragment().is_none(), "{url}");
    let segments = url.path_segments().expect("it has a path").count();
    assert_eq!(segments, request.path.len(), "{url}: segments were added");
    for (name, value) in &filled.headers {
        let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        assert!(value.bytes().all(is_visible), "{name}: {value:?}");
    }
}

/// Values that try to break out of their place in the request.
fn argument(choice: usize) -> Option<Value> {
    let values = [
        json!("a"),
        json!(".."),
        json!("../admin"),
        json!("a/b?c=d#e"),
        json!("a\r\nX-Key: b"),
        json!("\u{e9}&key=1;%2e%2e"),
        json!(""),
        json!(7),
        json!(true),
        Value::Null,
        json!(["a", "b&c", ".."]),
        json!({ "key": "a&b", "..": "/" }),
        json!([{ "a": [1] }]),
        json!({ "a": { "b": ["c", {}] } }),
    ];
    values.into_iter().nth(choice % 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_openapi_document() {
        crate::corpus::replay("openapi_document", openapi_document);
    }
}
