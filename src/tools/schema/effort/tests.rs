use serde_json::{Map, json};

use super::*;
use crate::limits::tools::{CHECKS_MAX, MATCH_NS_MAX};
use crate::tools::schema::{Schema, SchemaError};

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

fn work(schema: &Value, value: &Value) -> Work {
    effort(schema).unwrap().of_checking(value)
}

fn effort(schema: &Value) -> Result<Effort, Unsupported> {
    Effort::of(&Arc::new(schema.clone()), CHECKS_MAX, MATCH_NS_MAX)
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
fn any_json_can_be_checked_however_long_and_deep_it_is() {
    let schema = json!({
        "$ref": "#/$defs/json",
        "$defs": { "json": { "anyOf": [
            { "type": ["string", "number", "boolean", "null"] },
            { "type": "array", "items": { "$ref": "#/$defs/json" } },
            { "type": "object", "additionalProperties": { "$ref": "#/$defs/json" } },
        ] } },
    });
    assert_eq!(work(&schema, &nested(100)), Work::Little);
    assert_eq!(work(&schema, &json!(vec![nested(3); 20_000])), Work::Much);
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
    assert_eq!(effort(&mixed).unwrap_err(), Unsupported::Drafts);
}

#[test]
fn one_draft_may_be_named_often_and_values_may_name_any() {
    let (latest, older) =
        ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema");
    for same in [
        json!({ "examples": [{ "$schema": older }], "default": { "$schema": older } }),
        json!({ "properties": { "$schema": { "const": older } } }),
        json!({ "$defs": { "a": { "$schema": latest }, "b": { "$schema": format!("{latest}#") } } }),
        json!({ "$schema": older, "definitions": { "a": { "$schema": format!("{older}#") } } }),
    ] {
        assert!(effort(&same).is_ok(), "{same}");
    }
    for other in [
        json!({ "$defs": { "a": { "$schema": older } } }),
        json!({ "$schema": older, "definitions": { "a": { "$schema": latest } } }),
        // A reference makes a schema of the example.
        json!({ "$ref": "#/examples/0/not", "examples": [{ "$schema": older, "not": {} }] }),
    ] {
        assert_eq!(effort(&other).unwrap_err(), Unsupported::Drafts, "{other}");
    }
}

#[test]
fn a_reference_with_a_typo_is_what_the_validator_says_it_is() {
    for name in ["#/$defs/strin", "#strin", "#/$defs/string/0"] {
        let union = json!({ "anyOf": [{ "type": "null" }, { "$ref": name }] });
        let schema =
            json!({ "properties": { "a": union }, "$defs": { "string": { "$anchor": "string" } } });
        let error = Schema::compile(&schema).unwrap_err();
        assert!(!matches!(error, SchemaError::Unsupported(_)), "{name}: {error}");
    }
    // Which of the two it means is not clear, nor what it weighs.
    let twice = json!({
        "anyOf": [{ "$ref": "#n" }],
        "$defs": { "a": { "$anchor": "n" }, "b": { "$anchor": "n" } },
    });
    assert_eq!(effort(&twice).unwrap_err(), Unsupported::MultiplyingReferences);
}

#[test]
fn what_depends_on_the_way_cannot_be_followed() {
    let schema = json!({ "properties": { "a": { "$dynamicRef": "#n" } } });
    assert_eq!(effort(&schema).unwrap_err(), Unsupported::DynamicRef);
}

#[test]
fn only_what_few_errors_can_explain_is_little_work() {
    let strings = json!({ "items": { "type": "string" } });
    assert_eq!(work(&strings, &json!(vec![0; 20_000])), Work::Little);
    assert_eq!(work(&strings, &json!(vec![0; 50_000])), Work::Much);
    // Errors have copies of these.
    let long = "x".repeat(50_000);
    for costly in [
        json!({ "not": { "description": long } }),
        json!({ "pattern": long }),
        json!({ "format": long }),
        json!({ "required": (0..1000).map(|n| n.to_string()).collect::<Vec<_>>() }),
    ] {
        assert_eq!(work(&json!({ "items": costly }), &json!(vec![0; 100])), Work::Much);
    }
}

#[test]
fn a_large_schema_without_references_can_be_too_much_for_a_large_value() {
    let many = json!({ "items": { "anyOf": vec![json!({ "type": "string" }); 1000] } });
    assert_eq!(work(&many, &json!(vec![0; 10])), Work::Little);
    assert_eq!(work(&many, &json!(vec![0; 1000])), Work::TooMuch);
    let unique = json!({ "anyOf": vec![json!({ "uniqueItems": true }); 1000] });
    assert_eq!(work(&unique, &json!(vec![0; 1000])), Work::TooMuch);
}

#[test]
fn unions_are_tried_again_on_each_level_to_explain_what_is_wrong() {
    let wide = json!({ "anyOf": vec![json!({ "type": "string" }); 1000] });
    let deep = (0..60).fold(wide.clone(), |inner, _| json!({ "anyOf": [inner] }));
    assert_eq!(work(&wide, &json!(0)), Work::Little);
    assert_eq!(work(&deep, &json!(0)), Work::Much);
}

#[test]
fn texts_that_are_matched_by_backtracking_are_few() {
    let texts = |count: usize| json!(vec!["a"; count]);
    for pattern in ["^(?=a)", "^(?!b)", "(?<!b)a", "(a)\\1"] {
        let schema = json!({ "items": { "pattern": pattern } });
        assert_eq!(work(&schema, &texts(100)), Work::Little);
        assert_eq!(work(&schema, &texts(1000)), Work::Much);
        assert_eq!(work(&schema, &texts(5001)), Work::TooMuch);
        let names: Map<_, _> = (0..5000).map(|n| (n.to_string(), json!(0))).collect();
        let names = Value::Object(names);
        for schema in [
            json!({ "propertyNames": { "pattern": pattern } }),
            json!({ "patternProperties": { pattern: {} } }),
        ] {
            assert_eq!(work(&schema, &names), Work::TooMuch);
        }
    }
    let schema = json!({ "items": { "pattern": "^(?:a)$" } });
    assert_eq!(work(&schema, &texts(5000)), Work::Little);
}

#[test]
fn a_pattern_takes_longer_with_a_longer_text() {
    for (pattern, short, long) in [
        (r"(?=(a+))\1b", 10_000, 100_000),
        (r"^(?!\s*$).+", 30_000, 100_000),
        ("^((?!<script).)*$", 30_000, 100_000),
        ("^[a-z]{1,4000}$", 4000, 50_000),
        ("^((a|aa)+)+(?=b)$", 30_000, 100_000),
    ] {
        let schema = json!({ "properties": { "text": { "pattern": pattern } } });
        let work = |length| work(&schema, &json!({ "text": "a".repeat(length) }));
        assert_eq!(work(short), Work::Little, "{pattern}");
        assert_eq!(work(long), Work::TooMuch, "{pattern}");
    }
}

#[test]
fn what_is_unevaluated_multiplies_without_references() {
    for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
        let nested =
            (0..40).fold(json!({}), |inner, _| json!({ "anyOf": [inner], keyword: false }));
        assert_eq!(work(&nested, &json!({ "a": 1 })), Work::TooMuch, "{keyword}");
        let level = |inner: Value| json!({ "anyOf": [{}], keyword: inner });
        let deep = (0..40).fold(json!(false), |inner, _| level(inner));
        for wrap in [|inner: Value| json!({ "a": inner }), |inner: Value| json!([inner])] {
            let value = (0..40).fold(json!(1), |inner, _| wrap(inner));
            let is_for_it = value.is_array() == (keyword == "unevaluatedItems");
            assert_eq!(work(&deep, &value) == Work::TooMuch, is_for_it, "{keyword}");
        }
    }
    let base = json!({ "properties": { "a": {} } });
    let usual = json!({ "allOf": [{ "$ref": "#/$defs/base" }], "unevaluatedProperties": false, "$defs": { "base": base } });
    assert_eq!(work(&usual, &json!({ "a": 1, "b": 2 })), Work::Little);
}

#[test]
fn a_schema_whose_copies_would_fill_the_memory_is_not_compiled() {
    let long: Map<String, Value> = (0..5000)
        .map(|at| (format!("d{at}"), json!({ "$ref": format!("#/$defs/d{}", at + 1) })))
        .chain([("d5000".to_owned(), json!({}))])
        .collect();
    let wide = json!({ "allOf": vec![json!({ "$ref": "#/$defs/d1" }); 1000] });
    let wide = json!({ "d0": wide, "d1": { "allOf": vec![json!({}); 1000] } });
    let circle = json!({ "d0": { "allOf": [{ "$ref": "#/$defs/d0" }] } });
    let used = json!({ "$ref": "#/$defs/d0" });
    for defs in [Value::Object(chain("/$defs")), Value::Object(long), wide, circle] {
        for schema in [
            json!({ "unevaluatedProperties": false, "$ref": "#/$defs/d0" }),
            json!({ "properties": { "a": { "unevaluatedItems": {}, "not": used } } }),
            json!({ "items": { "anyOf": [{}, {}, used] } }),
            json!({ "dependencies": { "a": { "oneOf": [{}, {}, used] } } }),
        ] {
            let mut schema = schema;
            schema["$defs"] = defs.clone();
            assert_eq!(effort(&schema).unwrap_err(), Unsupported::MultiplyingReferences);
        }
    }
}

#[test]
fn what_is_copied_as_deep_as_may_be_can_be_compiled() {
    let deep = |depth: usize| {
        let link = |at: usize| {
            (format!("d{at}"), json!({ "anyOf": [{ "$ref": format!("#/$defs/d{}", at + 1) }] }))
        };
        let mut defs: Map<String, Value> = (0..depth).map(link).collect();
        defs.insert(format!("d{depth}"), json!({}));
        json!({ "unevaluatedProperties": false, "$ref": "#/$defs/d0", "$defs": defs })
    };
    let schema = Schema::compile(&deep(31)).unwrap();
    assert_eq!(schema.validate(&json!({})), Ok(()));
    assert!(effort(&deep(32)).is_err());
}

#[test]
fn what_a_reference_means_is_clear_or_too_much() {
    let heavy = json!({ "$ref": "#/$defs/d0" });
    let with = |mut schema: Value| {
        schema["$defs"]["d0"] = json!({ "$ref": "#/$defs/d0" });
        schema
    };
    let document = |id: &str| json!({ "$id": id, "$ref": "#", "items": {} });
    let long = format!("http://json-schema.org/{}x", "./".repeat(1100));
    for schema in [
        with(
            json!({ "$ref": "#n", "additionalItems": { "$anchor": "n" }, "contentSchema": { "$anchor": "n", "allOf": [heavy] } }),
        ),
        json!({ "$ref": long, "$defs": { "x": document("http://json-schema.org/x") } }),
        json!({ "$ref": "http://json-schema.org/x", "$defs": { "x": document("http://json-schema.org/x"), "y": { "$id": "http://json-schema.org/x" } } }),
        json!({ "$ref": "http://a.example/%78", "$defs": { "x": { "$id": "http://a.example/%78" } } }),
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#x",
            "definitions": { "h": { "$id": "#x", "$ref": "#/definitions/h" }, "decoy": { "$anchor": "x" } },
        }),
    ] {
        assert_eq!(work(&schema, &json!({ "a": {} })), Work::TooMuch, "{schema}");
    }
}

#[test]
fn a_document_with_the_name_of_another_is_not_compiled() {
    for id in ["#", "", "json-schema:///"] {
        let schema = json!({ "properties": { "a": { "$id": id, "$ref": "#/$defs/b" } } });
        assert_eq!(effort(&schema).unwrap_err(), Unsupported::UnclearId, "{id}");
    }
}

/// A validator remembers what it has found out about a value that references come back to, and
/// whether it fits. Without that, this would take longer than anybody waits.
#[test]
fn much_work_is_less_for_a_validator_than_it_seems() {
    let branch = |required: &str| json!({ "properties": { "a": { "$ref": "#/$defs/n" } }, "required": [required] });
    let schema =
        json!({ "$ref": "#/$defs/n", "$defs": { "n": { "anyOf": [branch("x"), branch("y")] } } });
    assert!(!jsonschema::is_valid(&schema, &nested(100)));
}
