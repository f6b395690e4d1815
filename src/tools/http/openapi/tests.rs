//! Documents, and the tools and requests made from them.

use serde_json::{Map, json};

use super::*;
use crate::limits::openapi::PARAMETERS_MAX;
use crate::tools::http::request::{FillError, Filled};
use crate::tools::oauth::{ClientCredentials, Proof};
use crate::tools::source::Effects;

pub(super) fn options() -> OpenApiOptions {
    OpenApiOptions {
        base_url: "https://api.example.org/v2/".parse().unwrap(),
        include: Vec::new(),
        exclude: Vec::new(),
        credentials: Vec::new(),
        idempotency_header: None,
    }
}

pub(super) fn document(version: &str, rest: &Value) -> Document {
    let mut root = json!({ "openapi": version, "info": { "title": "t", "version": "1" } });
    let (root_members, rest) = (root.as_object_mut().unwrap(), rest.as_object().unwrap());
    root_members.extend(rest.clone());
    Document::read(root.to_string().as_bytes()).unwrap()
}

/// The only operation of a document of version 3.1.
#[track_caller]
fn only(rest: &Value) -> Operation {
    let mut operations = document("3.1.0", rest).operations(&options()).unwrap();
    assert_eq!(operations.left_out, []);
    assert_eq!(operations.tools.len(), 1);
    operations.tools.remove(0)
}

/// An operation `GET /find` with these parameters.
#[track_caller]
fn finding(parameters: &Value) -> Operation {
    let operation = json!({ "operationId": "find", "parameters": parameters });
    only(&json!({ "paths": { "/find": { "get": operation } } }))
}

/// An operation `POST /send` with this body.
#[track_caller]
pub(super) fn sending(body: &Value, schemas: &Value) -> Operation {
    let operation = json!({ "operationId": "send", "requestBody": body });
    only(&json!({
        "paths": { "/send": { "post": operation } },
        "components": { "schemas": schemas },
    }))
}

pub(super) fn json_body(schema: &Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

#[track_caller]
pub(super) fn filled(operation: &Operation, arguments: &Value) -> Filled {
    operation.request.fill(arguments.as_object().unwrap()).unwrap()
}

#[track_caller]
fn check_url(operation: &Operation, arguments: &Value, rest: &str) {
    let url = filled(operation, arguments).url;
    assert_eq!(url, format!("https://api.example.org/v2/{rest}"));
}

#[track_caller]
pub(super) fn check_body(operation: &Operation, arguments: &Value, expected: Option<(&str, &str)>) {
    let body = filled(operation, arguments).body;
    let body = body.map(|(kind, bytes)| (kind, String::from_utf8(bytes).unwrap()));
    let body = body.as_ref().map(|(kind, text)| (kind.as_str(), text.as_str()));
    assert_eq!(body, expected);
}

/// Why the only operation of a document is left out.
#[track_caller]
fn left_out(rest: &Value) -> String {
    let operations = document("3.0.3", rest).operations(&options()).unwrap();
    assert!(operations.tools.is_empty());
    operations.left_out.into_iter().next().unwrap().reason
}

#[test]
fn only_documents_of_openapi_3_are_read() {
    for (document, says) in [
        ("swagger: '2.0'", "Swagger 2.0, which has to be converted"),
        ("openapi: 2.0.0", "this is OpenAPI 2.0.0"),
        ("info: {}", "it has no `openapi` at its top"),
        ("openapi: 4.0.0", "this is OpenAPI 4.0.0"),
        ("- 1", "it has no `openapi` at its top"),
    ] {
        let error = Document::read(document.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let read = Document::read(b"openapi: 3.0.3\npaths: {}").unwrap();
    assert_eq!(read.version(), "3.0.3");
    assert!(read.operations(&options()).unwrap().tools.is_empty());
}

#[test]
fn an_operation_is_named_by_its_id_or_else_by_its_path() {
    let paths = json!({ "paths": {
        "/pets/{petId}": {
            "parameters": [{ "in": "path", "name": "petId", "required": true, "schema": {} }],
            "get": { "operationId": "showPet", "summary": "One pet." },
            "delete": { "description": "Removes it." },
        },
        "/": { "get": {} },
    } });
    let operations = document("3.1.0", &paths).operations(&options()).unwrap();
    let told: Vec<_> = operations
        .tools
        .iter()
        .map(|tool| (tool.declared.name.as_str(), tool.declared.description.as_str()))
        .collect();
    assert_eq!(
        told,
        [("showPet", "One pet."), ("delete_pets_by_petId", "Removes it."), ("get", "GET /")]
    );
    check_url(&operations.tools[0], &json!({ "petId": "a/b" }), "pets/a%2Fb");
    check_url(&operations.tools[2], &json!({}), "");
    let Effects::Known(policy) = operations.tools[1].declared.effects else { panic!() };
    assert!(policy.mutates && policy.destructive && policy.idempotent);
}

#[test]
fn a_summary_and_a_description_are_told_once() {
    let told = |operation: Value| {
        only(&json!({ "paths": { "/a": { "get": operation } } })).declared.description
    };
    let both = |summary: &str, description: &str| {
        told(json!({ "summary": summary, "description": description }))
    };
    assert_eq!(both("Finds pets", "By tag."), "Finds pets. By tag.");
    assert_eq!(both("Finds pets.", "Finds pets"), "Finds pets.");
    assert_eq!(both("Finds pets", "Finds pets by tag."), "Finds pets by tag.");
    assert_eq!(both(" ", "By tag."), "By tag.");
    assert_eq!(told(json!({})), "GET /a");
}

#[test]
fn parameters_with_the_same_name_are_prefixed_with_their_place() {
    let text = json!({ "type": "string" });
    let operation = only(&json!({ "paths": { "/{id}": {
        "parameters": [
            { "in": "header", "name": "id", "schema": text },
            { "in": "query", "name": "id", "schema": text },
            { "in": "path", "name": "id", "required": true, "schema": text },
            { "in": "query", "name": "filter[name]", "schema": text },
        ],
        "get": {},
    } } }));
    let names: Vec<_> =
        operation.declared.parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "query_id", "filter_name", "header_id"]);
    assert_eq!(operation.declared.parameters["required"], json!(["id"]));
    let arguments = json!({ "id": "1", "query_id": "2", "header_id": "3", "filter_name": "4" });
    check_url(&operation, &arguments, "1?id=2&filter%5Bname%5D=4");
    assert_eq!(filled(&operation, &arguments).headers, [("id".to_owned(), "3".to_owned())]);
}

#[test]
fn an_operation_has_only_so_many_parameters() {
    let operation = |count: usize| {
        let parameter = |at| json!({ "in": "query", "name": format!("p{at}") });
        let parameters: Vec<_> = (0..count).map(parameter).collect();
        json!({ "paths": { "/a": { "get": { "operationId": "a", "parameters": parameters } } } })
    };
    let most = only(&operation(PARAMETERS_MAX));
    assert_eq!(most.declared.parameters["properties"].as_object().unwrap().len(), PARAMETERS_MAX);
    let reason = left_out(&operation(PARAMETERS_MAX + 1));
    assert!(reason.contains("more than 256 parameters"), "{reason}");
}

#[test]
fn an_operations_own_parameter_replaces_its_paths() {
    let operation = only(&json!({ "paths": { "/a": {
        "parameters": [{ "in": "query", "name": "q", "schema": { "type": "string" } }],
        "get": { "parameters": [{ "$ref": "#/components/parameters/q" }] },
    } }, "components": { "parameters": { "q": {
        "in": "query", "name": "q", "required": true, "description": "How many.",
        "schema": { "type": "integer" },
    } } } }));
    assert_eq!(
        operation.declared.parameters,
        json!({
            "type": "object",
            "properties": { "q": { "type": "integer", "description": "How many." } },
            "required": ["q"],
        })
    );
}

#[test]
fn lists_and_objects_are_written_in_the_parameters_style() {
    let list = json!({ "x": ["a b", "c"] });
    let object = json!({ "x": { "a": 1, "b": "&" } });
    for (style, explode, of_list, of_object) in [
        (None, None, "x=a%20b&x=c", "a=1&b=%26"),
        (Some("form"), Some(false), "x=a%20b,c", "x=a,1,b,%26"),
        (Some("spaceDelimited"), Some(false), "x=a%20b%20c", "x=a%201%20b%20%26"),
        (Some("pipeDelimited"), Some(false), "x=a%20b%7Cc", "x=a%7C1%7Cb%7C%26"),
        (Some("pipeDelimited"), Some(true), "x=a%20b&x=c", "a=1&b=%26"),
        (Some("deepObject"), Some(true), "", "x%5Ba%5D=1&x%5Bb%5D=%26"),
    ] {
        let mut parameter = json!({ "in": "query", "name": "x", "schema": {} });
        if let Some(style) = style {
            parameter["style"] = style.into();
        }
        if let Some(explode) = explode {
            parameter["explode"] = explode.into();
        }
        let operation = finding(&json!([parameter]));
        if !of_list.is_empty() {
            check_url(&operation, &list, &format!("find?{of_list}"));
        }
        check_url(&operation, &object, &format!("find?{of_object}"));
    }
    let content = json!([{ "in": "query", "name": "x", "content": { "application/json": {} } }]);
    check_url(&finding(&content), &json!({ "x": [1] }), "find?x=%5B1%5D");
}

#[test]
fn headers_that_are_the_gateways_own_are_no_arguments() {
    let header = |name: &str| json!({ "in": "header", "name": name, "schema": {} });
    let names = ["Accept", "content-type", "Authorization", "Host", "X-Trace"];
    let operation = finding(&names.map(header).into());
    let properties = operation.declared.parameters["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["X-Trace"]);
}

#[test]
fn the_members_of_a_json_body_are_arguments() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "age": { "type": "integer" },
            "id": { "type": "integer", "readOnly": true },
        },
        "required": ["name", "id"],
    });
    let operation = sending(
        &json_body(&json!({ "$ref": "#/components/schemas/Pet" })),
        &json!({ "Pet": schema }),
    );
    let parameters = &operation.declared.parameters;
    assert_eq!(
        parameters["properties"],
        json!({
            "name": { "type": "string" }, "age": { "type": "integer" },
        })
    );
    assert_eq!(parameters["required"], json!(["name"]));
    let json = "application/json";
    check_body(&operation, &json!({ "name": "Rex" }), Some((json, r#"{"name":"Rex"}"#)));
}

#[test]
fn other_json_bodies_are_one_argument() {
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let open = json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": true });
    let either = json!({ "oneOf": [{ "type": "object" }] });
    for schema in [list, open, either] {
        let operation = sending(&json_body(&schema), &json!({}));
        let properties = operation.declared.parameters["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["body"], "{schema}");
        let body = Some(("application/json", "[1]"));
        check_body(&operation, &json!({ "body": [1] }), body);
    }
}

#[test]
fn an_optional_body_is_absent_if_its_members_are() {
    let schema = json!({ "type": "object", "properties": { "a": {} } });
    let mut body = json_body(&schema);
    body["required"] = false.into();
    let operation = sending(&body, &json!({}));
    check_body(&operation, &json!({}), None);
    check_body(&operation, &json!({ "a": 1 }), Some(("application/json", r#"{"a":1}"#)));
    check_body(
        &sending(&json_body(&schema), &json!({})),
        &json!({}),
        Some(("application/json", "{}")),
    );

    body["content"]["application/json"]["schema"]["required"] = json!(["a"]);
    let operation = sending(&body, &json!({}));
    assert_eq!(operation.declared.parameters["properties"]["body"]["required"], json!(["a"]));
    assert_eq!(operation.declared.parameters.get("required"), None);
}

#[test]
fn a_form_is_encoded_as_its_styles_say() {
    let form = "application/x-www-form-urlencoded";
    let schema = json!({ "type": "object", "properties": { "to": {}, "tags": {}, "more": {} } });
    let encoding = json!({
        "tags": { "style": "form", "explode": false },
        "more": { "contentType": "application/json" },
    });
    let content = json!({ form: { "schema": schema, "encoding": encoding } });
    let operation = sending(&json!({ "required": true, "content": content }), &json!({}));
    let arguments = json!({ "to": "a b", "tags": ["x", "y"], "more": { "z": 1 } });
    let expected = "to=a%20b&tags=x,y&more=%7B%22z%22%3A1%7D";
    check_body(&operation, &arguments, Some((form, expected)));
}

#[track_caller]
fn check_clash(operation: &Operation, arguments: &Value, object: &str, member: &str) {
    let error = operation.request.fill(arguments.as_object().unwrap()).unwrap_err();
    assert_eq!(error, FillError::Clash(object.to_owned(), member.to_owned()), "{arguments}");
}

#[test]
fn members_of_an_object_cannot_be_fields_of_the_query_that_are_there() {
    let operation = finding(&json!([
        { "in": "query", "name": "role", "schema": { "const": "user" } },
        { "in": "query", "name": "filter", "schema": { "type": "object" } },
        { "in": "query", "name": "more", "schema": { "type": "object" } },
        { "in": "query", "name": "deep", "style": "deepObject", "schema": { "type": "object" } },
        { "in": "query", "name": "deep[role]", "schema": { "const": "user" } },
    ]));
    check_url(&operation, &json!({ "filter": { "a": 1 }, "more": { "b": 2 } }), "find?a=1&b=2");
    check_clash(&operation, &json!({ "filter": { "role": "admin" } }), "filter", "role");
    check_clash(&operation, &json!({ "filter": { "filter": 1 } }), "filter", "filter");
    check_clash(&operation, &json!({ "filter": { "a": 1 }, "more": { "a": 2 } }), "more", "a");
    check_clash(&operation, &json!({ "deep": { "role": "admin" } }), "deep", "role");
}

#[test]
fn members_of_an_object_cannot_be_fields_of_a_form_that_are_there() {
    let form = |schema: &Value| {
        let content = json!({ "application/x-www-form-urlencoded": { "schema": schema } });
        sending(&json!({ "required": true, "content": content }), &json!({}))
    };
    let properties = json!({ "role": { "const": "user" }, "filter": { "type": "object" } });
    let merged = form(&json!({ "type": "object", "properties": properties }));
    check_clash(&merged, &json!({ "filter": { "role": "admin" } }), "filter", "role");
    let whole = form(&json!({ "type": "object", "allOf": [{ "properties": properties }] }));
    let body = |body: Value| json!({ "body": body });
    check_clash(&whole, &body(json!({ "filter": { "role": "admin" } })), "filter", "role");
    check_clash(&whole, &body(json!({ "filter": { "x": 1 }, "x": 2 })), "filter", "x");
    let kind = "application/x-www-form-urlencoded";
    let arguments = body(json!({ "role": "user", "filter": { "x": 1 }, "y": 2 }));
    check_body(&whole, &arguments, Some((kind, "x=1&role=user&y=2")));
}

#[test]
fn schemas_that_refer_to_themselves_are_copied_once() {
    let schemas = json!({
        "Node": { "type": "object", "properties": {
            "left": { "$ref": "#/components/schemas/Node" },
            "label": { "$ref": "#/components/schemas/a~1b" },
        } },
        "a/b": { "type": "string" },
    });
    let node = json!({ "$ref": "#/components/schemas/Node" });
    let operation = sending(&json_body(&json!({ "type": "array", "items": node })), &schemas);
    let definitions = operation.declared.parameters["$defs"].as_object().unwrap();
    assert_eq!(definitions.len(), 2);
    assert_eq!(definitions["Node"]["properties"]["left"]["$ref"], "#/$defs/Node");
    assert!(definitions.values().any(|schema| *schema == json!({ "type": "string" })));
}

#[test]
fn schemas_of_3_0_become_those_of_today() {
    let parameter = |schema: Value| {
        let paths = json!({ "paths": { "/a": { "get": { "parameters": [
            { "in": "query", "name": "x", "schema": schema },
        ] } } } });
        let operations = document("3.0.3", &paths).operations(&options()).unwrap();
        operations.tools[0].declared.parameters["properties"]["x"].clone()
    };
    let old = json!({
        "type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true, "maximum": 9,
        "exclusiveMaximum": false, "example": 3, "xml": {}, "x-more": 1,
    });
    let new = json!({ "type": ["integer", "null"], "exclusiveMinimum": 1, "maximum": 9 });
    assert_eq!(parameter(old), new);
}

#[test]
fn what_cannot_be_a_tool_says_why() {
    let operation = |operation: Value| json!({ "paths": { "/a/{x}": { "post": operation } } });
    let body = |content: Value| operation(json!({ "requestBody": { "content": content } }));
    let path = json!({ "in": "path", "name": "x", "required": true, "schema": {} });
    let with = |parameter: Value| operation(json!({ "parameters": [path, parameter] }));
    for (document, says) in [
        (operation(json!({ "deprecated": true })), "it is deprecated"),
        (body(json!({ "multipart/form-data": {} })), "its body is multipart/form-data"),
        (body(json!({ "image/png": {}, "text/csv": {} })), "its body is image/png or text/csv"),
        (operation(json!({})), "its path has {x}, which no parameter describes"),
        (
            with(json!({ "in": "cookie", "name": "c", "required": true, "schema": {} })),
            "its parameter `c` is a cookie",
        ),
        (
            with(json!({ "in": "query", "name": "q", "style": "odd", "schema": {} })),
            "its parameter `q` has the style `odd`",
        ),
        (with(json!({ "$ref": "https://example.org/p.json" })), "other documents are not read"),
        (
            with(json!({ "in": "query", "name": "q", "schema": { "$ref": "other.json#/a" } })),
            "other documents are not read",
        ),
        (with(json!({ "$ref": "#/components/parameters/none" })), "which is not there"),
        (
            with(json!({ "$ref": "#/paths/~1a~1{x}/post/parameters/1" })),
            "its references are circular",
        ),
        (
            operation(json!({ "parameters": [path], "security": [{ "key": [] }] })),
            "it needs a key for `key` in `auth`",
        ),
    ] {
        let reason = left_out(&document);
        assert!(reason.contains(says), "{reason}");
    }
}

#[test]
fn a_path_whose_item_leads_nowhere_says_why() {
    let paths = json!({ "paths": {
        "/a": { "$ref": "other.json#/a" },
        "/b": { "$ref": "#/paths/~1b" },
        "/c": { "$ref": "#/components/pathItems/none", "get": { "operationId": "c" } },
    } });
    let document = document("3.1.0", &paths);
    let operations = document.operations(&options()).unwrap();
    let said = operations.left_out.iter().map(|it| format!("{}: {}", it.name, it.reason));
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            "/a: it refers to \"other.json#/a\", and other documents are not read",
            "/b: its references are circular",
            "/c: it refers to \"#/components/pathItems/none\", which is not there",
        ]
    );
    assert_eq!(operations.tools[0].declared.name, "c", "its own operations are there");
    let exclude = vec![Select::parse("/a"), Select::parse("* /b"), Select::parse("GET /c")];
    let left_out = document.operations(&OpenApiOptions { exclude, ..options() }).unwrap().left_out;
    assert_eq!(left_out.len(), 1, "{left_out:?}");
}

#[test]
fn a_method_that_is_not_supported_is_left_out() {
    let document =
        json!({ "paths": { "/a": { "trace": {}, "summary": "s", "x-get": {}, "servers": [] } } });
    let reason = "its method is \"trace\", not one of get, head, options, post, put, patch, delete";
    assert_eq!(left_out(&document), reason);
}

#[test]
fn an_item_and_what_it_refers_to_are_one() {
    let id = json!({ "in": "path", "name": "id", "required": true, "schema": {} });
    let limit = |schema: Value| json!({ "in": "query", "name": "limit", "schema": schema });
    let paths = json!({
        "paths": { "/a/{id}": {
            "$ref": "#/components/pathItems/A",
            "get": { "operationId": "own" },
            "parameters": [limit(json!({ "type": "integer" }))],
        } },
        "components": { "pathItems": { "A": {
            "get": { "operationId": "other" },
            "delete": { "operationId": "remove" },
            "parameters": [id, limit(json!({}))],
        } } },
    });
    let operations = document("3.1.0", &paths).operations(&options()).unwrap();
    assert_eq!(operations.left_out, []);
    let names = operations.tools.iter().map(|tool| tool.declared.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["own", "remove"]);
    for tool in &operations.tools {
        let properties = &tool.declared.parameters["properties"];
        assert_eq!(*properties, json!({ "id": {}, "limit": { "type": "integer" } }));
    }
}

#[test]
fn an_operation_that_fails_does_not_affect_the_others() {
    let paths = json!({ "paths": {
        "/a": { "get": { "operationId": "a", "requestBody": { "content": { "x/y": {} } } } },
        "/b": { "get": { "operationId": "b" } },
        "/c": null,
        "/d": { "get": 5, "$ref": "nowhere", "parameters": "none" },
    } });
    let operations = document("3.1.0", &paths).operations(&options()).unwrap();
    assert!(operations.tools.iter().any(|tool| tool.declared.name == "b"));
    assert!(operations.left_out.iter().any(|tool| tool.name == "a"));
}

#[test]
fn keys_go_where_their_scheme_says_and_are_no_arguments() {
    let scheme = |scheme: Value, security: Value| {
        let document = document(
            "3.1.0",
            &json!({
                "paths": { "/a": { "get": {
                    "operationId": "a",
                    "parameters": [{ "in": "header", "name": "X-Key", "schema": {} }],
                } } },
                "security": security,
                "components": { "securitySchemes": { "s": scheme, "other": { "type": "mutualTLS" } } },
            }),
        );
        let credential = Credential::Key("se same".to_owned());
        let credentials =
            vec![("s".to_owned(), credential.clone()), ("other".to_owned(), credential)];
        let operations = document.operations(&OpenApiOptions { credentials, ..options() }).unwrap();
        let mut tools = operations.tools;
        match tools.pop() {
            Some(tool) => Ok(filled(&tool, &json!({}))),
            None => Err(operations.left_out[0].reason.clone()),
        }
    };
    let one = json!([{ "s": [] }]);
    let header = |scheme_of: Value| scheme(scheme_of, one.clone()).unwrap().headers;
    let authorization = |value: &str| [("authorization".to_owned(), value.to_owned())];
    assert_eq!(
        header(json!({ "type": "apiKey", "in": "header", "name": "X-Key" })),
        [("x-key".to_owned(), "se same".to_owned())]
    );
    assert_eq!(
        header(json!({ "type": "http", "scheme": "Bearer" })),
        authorization("Bearer se same")
    );
    assert_eq!(
        header(json!({ "type": "http", "scheme": "basic" })),
        authorization("Basic c2Ugc2FtZQ==")
    );
    assert_eq!(header(json!({ "type": "oauth2", "flows": {} })), authorization("Bearer se same"));
    let in_query = json!({ "type": "apiKey", "in": "query", "name": "k" });
    assert!(scheme(in_query, one.clone()).unwrap().url.ends_with("/a?k=se%20same"));

    let cookie = json!({ "type": "apiKey", "in": "cookie", "name": "k" });
    assert!(scheme(cookie, one.clone()).unwrap_err().contains("is not supported"));
    let bearer = json!({ "type": "http", "scheme": "bearer" });
    assert_eq!(scheme(bearer.clone(), json!([])).unwrap().headers, []);
    assert_eq!(scheme(bearer.clone(), json!([{ "none": [] }, {}])).unwrap().headers, []);
    let reason = scheme(bearer.clone(), json!([{ "s": [], "other": [] }])).unwrap_err();
    assert!(reason.contains("`other` is not supported"), "{reason}");
    let either = json!([{ "other": [] }, { "s": [] }]);
    assert_eq!(scheme(bearer, either).unwrap().headers, authorization("Bearer se same"));
}

#[test]
fn client_credentials_are_for_schemes_that_take_tokens() {
    let bearer = || {
        let credentials = ClientCredentials {
            issuer: None,
            client_id: "me".to_owned(),
            proof: Proof::Secret("sesame".to_owned()),
            scopes: Vec::new(),
            allow_private: Vec::new(),
        };
        Bearer::new(credentials, Url::parse("https://id.example.org/token").unwrap())
    };
    let tool = |scheme: Value| {
        let document = document(
            "3.1.0",
            &json!({
                "paths": { "/a": { "get": { "operationId": "a", "security": [{ "s": [] }] } } },
                "components": { "securitySchemes": { "s": scheme } },
            }),
        );
        let credentials = vec![("s".to_owned(), Credential::Client(Arc::new(bearer())))];
        document.operations(&OpenApiOptions { credentials, ..options() }).unwrap().tools.pop()
    };
    for scheme in [
        json!({ "type": "oauth2", "flows": {} }),
        json!({ "type": "openIdConnect" }),
        json!({ "type": "http", "scheme": "bearer" }),
    ] {
        assert!(tool(scheme.clone()).unwrap().bearer.is_some(), "{scheme}");
    }
    for scheme in [
        json!({ "type": "http", "scheme": "basic" }),
        json!({ "type": "apiKey", "in": "header", "name": "X-Key" }),
    ] {
        assert!(tool(scheme.clone()).is_none(), "{scheme}");
    }
}

/// Each takes time and memory to prepare.
#[test]
fn the_patterns_of_a_document_are_limited() {
    let path = |at: usize| {
        let parameter =
            json!({"name": "q", "in": "query", "schema": {"type": "string", "pattern": "^a"}});
        (
            format!("/{at}"),
            json!({"get": {"operationId": format!("o{at}"), "parameters": [parameter]}}),
        )
    };
    let paths: Map<_, _> = (0..=DOCUMENT_PATTERNS_MAX).map(path).collect();
    let operations = document("3.1.0", &json!({ "paths": paths })).operations(&options()).unwrap();
    assert_eq!((operations.tools.len(), operations.left_out.len()), (DOCUMENT_PATTERNS_MAX, 1));
    assert!(operations.left_out[0].reason.contains("256 patterns"), "{:?}", operations.left_out);
}
