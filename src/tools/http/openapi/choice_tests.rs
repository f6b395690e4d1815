//! Which operations of a document an entry chooses.

use serde_json::{Map, json};

use super::tests::{document, options};
use super::*;

/// An operation that was to be left out would be offered.
#[test]
fn what_the_entry_names_and_the_document_does_not_have_is_reported() {
    let document = document(
        "3.1.0",
        &json!({
            "paths": { "/pets/{id}": { "delete": { "operationId": "deletePet", "tags": ["pets"] } }, "/else": { "$ref": "else.yml" } },
            "components": { "securitySchemes": { "api_key": {} } },
        }),
    );
    let select = |written: &[&str]| written.iter().map(|it| Select::parse(it)).collect();
    let key = |name: &str| (name.to_owned(), Credential::Key("k".to_owned()));
    let options = OpenApiOptions {
        include: select(&["deletePet", "tag:pets", "DELETE /pets/{id}", "tag:stores", "get*"]),
        exclude: select(&[
            "deletPet",
            "DELETE /pet/{id}",
            "/pets/{ids}",
            "* /pets/{id}",
            "GET /else",
        ]),
        credentials: vec![key("api_key"), key("apikey")],
        ..options()
    };
    assert_eq!(
        document.operations(&options).unwrap().unmatched,
        [
            "`include` names `tag:stores`, but there is no such operation",
            "`exclude` names `deletPet`, but there is no such operation; did you mean `deletePet`?",
            "`exclude` names `DELETE /pet/{id}`, but there is no such operation; did you mean \
             `DELETE /pets/{id}`?",
            "`exclude` names `/pets/{ids}`, but there is no such operation; did you mean \
             `/pets/{id}`?",
            "`auth` names `apikey`, but there is no such security scheme; did you mean `api_key`?",
        ]
    );
}

#[test]
fn operations_are_included_and_excluded() {
    let paths = json!({ "paths": {
        "/a": { "get": { "operationId": "getA", "tags": ["x"] }, "post": { "operationId": "setA" } },
        "/b": { "get": { "operationId": "getB" } },
    } });
    let document = document("3.1.0", &paths);
    let chosen = |include: &[&str], exclude: &[&str]| -> Vec<String> {
        let select = |written: &[&str]| written.iter().map(|it| Select::parse(it)).collect();
        let options =
            OpenApiOptions { include: select(include), exclude: select(exclude), ..options() };
        let operations = document.operations(&options).unwrap();
        operations.tools.into_iter().map(|tool| tool.declared.name).collect()
    };
    assert_eq!(chosen(&[], &[]), ["getA", "setA", "getB"]);
    assert_eq!(chosen(&["get*"], &[]), ["getA", "getB"]);
    assert_eq!(chosen(&["tag:x", "/b"], &[]), ["getA", "getB"]);
    assert_eq!(chosen(&[], &["POST *", "getB"]), ["getA"]);
}

#[test]
fn many_operations_are_chosen_or_warned_about() {
    let paths = |count: usize| {
        let item = |at: usize| (format!("/{at}"), json!({ "get": {} }));
        let paths: Map<String, Value> = (0..count).map(item).collect();
        document("3.1.0", &json!({ "paths": paths }))
    };
    let warning = |count| paths(count).operations(&options()).unwrap().warning;
    assert_eq!(warning(OPERATIONS_USUAL), None);
    assert!(warning(OPERATIONS_USUAL + 1).unwrap().contains("`include`"));
    assert_eq!(paths(OPERATIONS_MAX).operations(&options()).unwrap().tools.len(), OPERATIONS_MAX);
    let error = paths(OPERATIONS_MAX + 1).operations(&options()).unwrap_err();
    assert_eq!(error, OpenApiError::TooMany);
}
