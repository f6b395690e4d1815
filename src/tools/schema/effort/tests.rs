use serde_json::json;

use super::*;

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

fn work(schema: &Value, value: &Value) -> Work {
    Effort::of(schema).unwrap().of_checking(value)
}

/// A chain of 40 parts, each of which refers twice to the next, at this place.
fn chain(place: &str) -> Map<String, Value> {
    let link = |at: usize| {
        let next = json!({ "$ref": format!("#{place}/d{}", at + 1) });
        (format!("d{at}"), json!({ "allOf": [next, next] }))
    };
    let mut parts: Map<String, Value> = (0..40).map(link).collect();
    parts.insert("d40".to_owned(), json!({}));
    parts
}

#[test]
fn work_that_doubles_with_each_level_becomes_too_much() {
    let branch = |required: &str| json!({ "properties": { "a": { "$ref": "#/$defs/n" } }, "required": [required] });
    let schema = json!({
        "$ref": "#/$defs/n",
        "$defs": { "n": { "anyOf": [branch("x"), branch("y")] } },
    });
    assert_eq!(work(&schema, &nested(8)), Work::Little);
    assert_eq!(work(&schema, &nested(14)), Work::Much);
    assert_eq!(work(&schema, &nested(60)), Work::TooMuch);
}

#[test]
fn work_that_doubles_without_any_level_is_too_much_wherever_it_is() {
    for schema in [
        json!({ "$ref": "#/$defs/d0", "$defs": chain("/$defs") }),
        json!({ "$ref": "#/x-defs/d0", "x-defs": chain("/x-defs") }),
        json!({ "$ref": "#/properties/default/d0", "properties": { "default": chain("/properties/default") } }),
        json!({ "$ref": "#/examples/0/d0", "examples": [chain("/examples/0")] }),
        json!({ "propertyNames": { "$ref": "#/$defs/d0" }, "$defs": chain("/$defs") }),
        json!({ "properties": { "enum": { "$ref": "#/$defs/d0" } }, "$defs": chain("/$defs") }),
    ] {
        let value = json!({ "enum": 1 });
        assert_eq!(work(&schema, &value), Work::TooMuch, "{schema}");
    }
}

#[test]
fn a_name_in_the_wrong_place_hides_nothing() {
    let heavy = json!({ "$ref": "#/$defs/d0" });
    for decoy in [
        json!({ "$anchor": "/$defs/d0" }),
        json!({ "$id": "#/$defs/d0" }),
        json!({ "$anchor": "n" }),
        json!({ "$id": "json-schema:///" }),
    ] {
        let mut schema = heavy.clone();
        schema["$defs"] = Value::Object(chain("/$defs"));
        schema["x-decoy"] = decoy.clone();
        assert_eq!(work(&schema, &json!({})), Work::TooMuch, "{decoy}");
        schema["$defs"]["decoy"] = decoy.clone();
        assert_eq!(work(&schema, &json!({})), Work::TooMuch, "{decoy}");
    }
}

#[test]
fn a_reference_to_itself_or_to_nothing_is_too_much() {
    for (name, n) in [
        ("#", json!({})),
        ("#/$defs/n", json!({ "$ref": "#/$defs/n" })),
        ("#n", json!({ "$anchor": "n", "$ref": "#n" })),
        ("https://a.example/n", json!({ "$id": "https://a.example/n", "$ref": "#" })),
        ("n", json!({ "$id": "n", "$ref": "#" })),
        ("#/$defs/none", json!({})),
    ] {
        let schema = json!({ "$ref": name, "$defs": { "n": n } });
        assert_eq!(work(&schema, &json!({})), Work::TooMuch, "{name}");
    }
}

#[test]
fn a_document_within_a_schema_has_references_of_its_own() {
    let inner = json!({ "$id": "b", "$ref": "#/$defs/n", "$defs": { "n": { "$ref": "#" } } });
    let schema = json!({ "$id": "a", "$ref": "b", "$defs": { "b": inner, "n": {} } });
    assert_eq!(work(&schema, &json!({})), Work::TooMuch);
}

#[test]
fn any_json_is_little_work_however_long_and_deep_it_is() {
    let schema = json!({
        "$ref": "#/$defs/json",
        "$defs": { "json": { "anyOf": [
            { "type": ["string", "number", "boolean", "null"] },
            { "type": "array", "items": { "$ref": "#/$defs/json" } },
            { "type": "object", "additionalProperties": { "$ref": "#/$defs/json" } },
        ] } },
    });
    assert_eq!(work(&schema, &nested(100)), Work::Little);
    assert_eq!(work(&schema, &json!(vec![nested(3); 20_000])), Work::Little);
}

#[test]
fn trees_of_many_kinds_of_nodes_can_be_checked() {
    let kind = |name: String| json!({ "properties": { "type": { "const": name }, "children": { "type": "array", "items": { "$ref": "#/$defs/node" } } } });
    let kinds: Vec<Value> = (0..12).map(|n| kind(format!("k{n}"))).collect();
    let schema = json!({ "$ref": "#/$defs/node", "$defs": { "node": { "oneOf": kinds } } });
    let tree = (0..3)
        .fold(json!({ "type": "k1" }), |inner, _| json!({ "type": "k2", "children": [inner] }));
    assert_ne!(work(&schema, &tree), Work::TooMuch);
}

#[test]
fn references_are_uris() {
    for (id, inner, name) in [
        ("https://a.example/s/root.json", "https://a.example/s/address", "address"),
        ("https://a.example/c.json", "unused", "c.json#/$defs/x"),
        ("https://a.example/c.json#", "unused", "https://a.example/c.json#/$defs/x"),
        ("https://a.example/c.json", "https://a.example/x", "https://a.example/x#anchor"),
        ("https://a.example/a%20b", "unused", "#/$defs/with%20space"),
    ] {
        let schema = json!({
            "$id": id, "$ref": name,
            "$defs": { "x": { "$id": inner, "$anchor": "anchor" }, "with space": {} },
        });
        assert_eq!(work(&schema, &json!({})), Work::Little, "{name} in {id}");
    }
    let draft_4 = json!({ "$schema": "http://json-schema.org/draft-04/schema#", "id": "https://a.example/d4", "$ref": "#x", "definitions": { "x": { "id": "#x" } } });
    assert_eq!(work(&draft_4, &json!({})), Work::Little);
}

#[test]
fn values_have_no_references_and_those_of_the_standard_need_not_be_there() {
    let schema = json!({ "x-meta": { "$ref": "Foo" }, "example": { "$ref": "x" }, "$ref": "http://json-schema.org/draft-07/schema#" });
    assert_eq!(work(&schema, &nested(60)), Work::Little);
}

#[test]
fn keywords_of_another_draft_hide_nothing() {
    let draft = |draft: &str, decoy: &str| {
        json!({
            "$schema": draft, "$ref": "#/definitions/decoy",
            "definitions": {
                "decoy": { decoy: "decoy", "$ref": "#/definitions/heavy", "definitions": { "heavy": {} } },
                "heavy": { "$ref": "#/definitions/heavy" },
            },
        })
    };
    for (named, decoy) in [
        ("https://json-schema.org/draft/2020-12/schema", "id"),
        ("http://json-schema.org/draft-07/schema#", "$id"),
        ("http://json-schema.org/draft-07/schema#", "id"),
        ("http://json-schema.org/draft-04/schema#", "$id"),
    ] {
        assert_eq!(work(&draft(named, decoy), &json!({})), Work::TooMuch, "{decoy} in {named}");
    }
    let mixed =
        json!({ "$defs": { "a": { "$schema": "http://json-schema.org/draft-04/schema#" } } });
    assert_eq!(Effort::of(&mixed).unwrap_err(), "more than one $schema");
}

#[test]
fn what_depends_on_the_way_cannot_be_followed() {
    let schema = json!({ "properties": { "a": { "$dynamicRef": "#n" } } });
    assert_eq!(Effort::of(&schema).unwrap_err(), "$dynamicRef");
}
