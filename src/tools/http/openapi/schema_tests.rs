//! Schemas of bodies: fields that may be cleared, and fields that only answers have.

use serde_json::json;

use super::tests::{check_body, document, json_body, options, sending};
use super::*;
use crate::tools::schema::Schema;

/// The only operation of a document of version 3.0 with this body.
#[track_caller]
fn sending_3_0(schema: &Value, schemas: &Value) -> Operation {
    let document = document(
        "3.0.3",
        &json!({
            "paths": { "/send": { "post": { "operationId": "send", "requestBody": json_body(schema) } } },
            "components": { "schemas": schemas },
        }),
    );
    document.operations(&options()).unwrap().tools.remove(0)
}

/// An explicit null clears a field. Without this, it would be dropped, and the call would succeed.
#[test]
fn a_nullable_field_takes_null_whatever_else_its_schema_says() {
    let user = json!({ "$ref": "#/components/schemas/User" });
    for field in [
        json!({ "nullable": true, "type": "string" }),
        json!({ "nullable": true, "type": "string", "enum": ["low", "high"] }),
        json!({ "nullable": true, "enum": ["low", "high"] }),
        json!({ "nullable": true, "allOf": [user] }),
        json!({ "nullable": true, "type": "object", "oneOf": [user] }),
        json!({ "nullable": true, "$ref": "#/components/schemas/User" }),
        json!({ "$ref": "#/components/schemas/NoUser" }),
    ] {
        let schemas = json!({
            "User": { "type": "object", "properties": { "id": { "type": "integer" } } },
            "NoUser": { "nullable": true, "anyOf": [user] },
        });
        let body = json!({ "type": "object", "properties": { "it": field } });
        let operation = sending_3_0(&body, &schemas);
        let arguments = json!({ "it": null });
        let schema = Schema::compile(&operation.declared.parameters).unwrap();
        assert_eq!(schema.without_refused_nulls(arguments.clone()), arguments, "{field}");
        check_body(&operation, &arguments, Some(("application/json", r#"{"it":null}"#)));
        assert!(schema.validate(&json!({ "it": [7] })).is_err(), "{field}");
    }
}

#[test]
fn a_nullable_field_keeps_its_description() {
    let field = json!({ "nullable": true, "description": "Who.", "allOf": [{ "type": "string" }] });
    let body = json!({ "type": "object", "properties": { "it": field } });
    let operation = sending_3_0(&body, &json!({}));
    let either = json!([{ "allOf": [{ "type": "string" }] }, { "type": "null" }]);
    let expected = json!({ "description": "Who.", "anyOf": either });
    assert_eq!(operation.declared.parameters["properties"]["it"], expected);
}

/// Models do not see it, so no call would ever be valid.
#[test]
fn a_field_that_only_answers_have_is_required_by_no_part_of_the_schema() {
    let id = json!({ "type": "object", "properties": { "id": { "type": "integer", "readOnly": true } } });
    let named = json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["id", "name"],
    });
    let refer = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let schemas = json!({
        "Id": id, "Named": named, "Both": { "allOf": [refer("Id"), refer("Named")] },
        "Deep": { "allOf": [refer("Named")] },
    });
    for body in [
        json!({ "allOf": [id, named] }),
        json!({ "allOf": [refer("Id"), named] }),
        json!({ "allOf": [named, refer("Id")] }),
        json!({ "allOf": [refer("Named"), refer("Id")] }),
        json!({ "allOf": [refer("Deep"), refer("Id")] }),
        json!({ "allOf": [refer("Id")], "required": ["id", "name"] }),
        json!({ "allOf": [{ "$ref": "#/components/schemas/Id", "required": ["id", "name"] }] }),
        json!({ "type": "object", "properties": { "it": refer("Named"), "all": refer("Both") }, "allOf": [refer("Both")] }),
    ] {
        let operation = sending(&json_body(&body), &schemas);
        let schema = Schema::compile(&operation.declared.parameters).unwrap();
        let told = operation.declared.parameters.to_string();
        assert_eq!(schema.validate(&json!({ "body": { "name": "Rex" } })), Ok(()), "{told}");
        assert!(schema.validate(&json!({ "body": {} })).is_err(), "{told}");
    }
}
