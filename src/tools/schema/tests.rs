use proptest::prelude::*;
use serde_json::json;

use super::*;

fn trip() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 2},
            "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 30},
            "style": {"enum": ["cheap", "fine"]},
            "budget": {"anyOf": [{"type": "number"}, {"type": "string"}]},
            "stops": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/stop"}},
            "day": {"type": "string", "format": "date"},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"}
        },
        "required": ["city"],
        "additionalProperties": false,
        "$defs": {"stop": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "odd name": {"type": "boolean"}},
            "required": ["name"]
        }}
    })
}

/// Checks the violations of `arguments`, written as `path: expected; received`.
#[track_caller]
fn check(arguments: &Value, expected: &[&str]) {
    let schema = Schema::compile(&trip()).unwrap();
    let violations = schema.validate(arguments).err().unwrap_or_default();
    let mut told: Vec<String> = violations
        .into_iter()
        .map(|violation| Violation { schema_line: None, ..violation }.to_string())
        .collect();
    told.sort();
    let mut expected: Vec<_> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(told, expected);
}

#[test]
fn good_arguments_pass() {
    check(&json!({"city": "Rome"}), &[]);
    check(
        &json!({
            "city": "Rome", "days": null, "style": "fine", "budget": 5.5,
            "stops": [{"name": "Pisa", "odd name": true}], "day": "2026-02-28", "code": "FCO"
        }),
        &[],
    );
}

#[test]
fn each_violation_says_where_what_was_expected_and_what_was_received() {
    check(&json!([]), &["arguments: expected an object; received an array: []"]);
    check(&json!({}), &["arguments.city: expected a string (it is required); received nothing"]);
    check(&json!({"city": 5}), &["arguments.city: expected a string; received an integer: 5"]);
    check(
        &json!({"city": "X"}),
        &[r#"arguments.city: expected a string of at least 2 characters; received a string: "X""#],
    );
    check(
        &json!({"city": "Rome", "days": "three"}),
        &[r#"arguments.days: expected an integer or null; received a string: "three""#],
    );
    check(
        &json!({"city": "Rome", "days": 0}),
        &["arguments.days: expected at least 1; received an integer: 0"],
    );
    check(
        &json!({"city": "Rome", "style": "posh"}),
        &[r#"arguments.style: expected one of "cheap", "fine"; received a string: "posh""#],
    );
    check(
        &json!({"city": "Rome", "budget": []}),
        &["arguments.budget: expected a value that fits one of the forms: a number, a string; \
           received an array: []"],
    );
    check(
        &json!({"city": "Rome", "day": "tomorrow"}),
        &[
            r#"arguments.day: expected a string in the format "date"; received a string: "tomorrow""#,
        ],
    );
    check(
        &json!({"city": "Rome", "code": "fco"}),
        &[
            r#"arguments.code: expected a string that matches the pattern "^[A-Z]{3}$"; received a string: "fco""#,
        ],
    );
    check(
        &json!({"city": "Rome", "stops": [{"name": "a"}, {"odd name": 1}]}),
        &[
            "arguments.stops[1].name: expected a string (it is required); received nothing",
            r#"arguments.stops[1]["odd name"]: expected a boolean; received an integer: 1"#,
        ],
    );
}

#[test]
fn all_violations_are_reported_at_once() {
    check(
        &json!({"place": "Rome", "days": 31, "q": null}),
        &[
            "arguments.city: expected a string (it is required); received nothing",
            "arguments.days: expected at most 30; received an integer: 31",
            r#"arguments.place: expected only the names "city", "days", "style", "budget", "stops", "day", "code"; received a string: "Rome""#,
            r#"arguments.q: expected only the names "city", "days", "style", "budget", "stops", "day", "code"; received null"#,
        ],
    );
}

#[test]
fn a_violation_carries_the_schema_line_of_its_parameter() {
    let schema = Schema::compile(&trip()).unwrap();
    for (arguments, line) in [
        (json!({"city": 5}), Some(r#""city": {"type":"string","minLength":2}"#)),
        (json!({}), Some(r#""city": {"type":"string","minLength":2}"#)),
        (json!({"city": "Rome", "stops": [{"name": 1}]}), Some(r#""name": {"type":"string"}"#)),
        (json!({"city": "Rome", "unknown": 1}), None),
    ] {
        let violations = schema.validate(&arguments).unwrap_err();
        assert_eq!(violations[0].schema_line.as_deref(), line, "{arguments}");
    }
    let told = schema.validate(&json!({"city": 5})).unwrap_err()[0].to_string();
    assert_eq!(
        told,
        r#"arguments.city: expected a string; received an integer: 5; its schema is "city": {"type":"string","minLength":2}"#
    );
}

#[test]
fn an_invented_name_is_quoted_up_to_64_bytes() {
    let schema = Schema::compile(&trip()).unwrap();
    let path = |length: usize| {
        let arguments = json!({"city": "Rome", "n".repeat(length): 1});
        schema.validate(&arguments).unwrap_err()[0].path.clone()
    };
    assert_eq!(path(64), format!("arguments.{}", "n".repeat(64)));
    assert_eq!(path(65), format!("arguments[\"{}…\"]", "n".repeat(64)));
}

#[test]
fn violations_are_bounded() {
    for parameters in [
        json!({"additionalProperties": false}),
        json!({"properties": {"a": {}}, "additionalProperties": false}),
    ] {
        check_bounded(&Schema::compile(&parameters).unwrap());
    }
}

#[track_caller]
fn check_bounded(schema: &Schema) {
    let many = |count: usize| -> Value {
        Value::Object((0..count).map(|n| (format!("x{n}"), json!(n))).collect())
    };
    assert_eq!(schema.validate(&many(VIOLATIONS_MAX - 1)).unwrap_err().len(), VIOLATIONS_MAX - 1);
    assert_eq!(schema.validate(&many(VIOLATIONS_MAX)).unwrap_err().len(), VIOLATIONS_MAX);
    assert_eq!(schema.validate(&many(VIOLATIONS_MAX + 1)).unwrap_err().len(), VIOLATIONS_MAX);
}

#[test]
fn a_schema_that_reaches_outside_is_refused_by_name() {
    for (schema, uri) in [
        (
            json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}),
            "https://example.com/a.json",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "file:///etc/passwd"),
        (
            json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/x.json#/b"}}}),
            "http://127.0.0.1:1/x.json",
        ),
        (json!({"$schema": "https://example.com/own-dialect"}), "https://example.com/own-dialect"),
    ] {
        let error = Schema::compile(&schema).unwrap_err();
        assert_eq!(error, SchemaError::RemoteReference { uri: uri.into() }, "{schema}");
    }
}

#[test]
fn references_inside_a_schema_work() {
    let own_id = json!({
        "$id": "https://example.com/root.json",
        "type": "object",
        "properties": {"a": {"$ref": "https://example.com/root.json#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}}
    });
    let schema = Schema::compile(&own_id).unwrap();
    assert_eq!(schema.validate(&json!({"a": 1})), Ok(()));
    assert!(schema.validate(&json!({"a": "x"})).is_err());

    let round = json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/a"}}, "additionalProperties": false}}});
    let schema = Schema::compile(&round).unwrap();
    assert_eq!(
        schema.validate(&json!({"b": {"b": {"c": 1}}})).unwrap_err()[0].path,
        "arguments.b.b.c"
    );
}

#[test]
fn a_value_whose_check_would_take_hours_is_refused_at_once() {
    let branch = |required: &str| json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [required]});
    let schema = json!({
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"anyOf": [branch("x"), branch("y")]}},
    });
    let schema = Schema::compile(&schema).unwrap();
    let arguments = (0..60).fold(json!(null), |inner, _| json!({"a": inner}));
    let violations = schema.validate(&arguments).unwrap_err();
    assert!(violations[0].expected.contains("a smaller value"), "{violations:?}");
    assert_eq!(schema.without_refused_nulls(arguments.clone()), arguments);
}

#[test]
fn a_schema_whose_references_multiply_is_refused() {
    let twice = |next: usize| vec![json!({"$ref": format!("#/$defs/d{next}")}); 2];
    let chain = (0..40).map(|at| (format!("d{at}"), json!({"allOf": twice(at + 1)})));
    let defs: serde_json::Map<_, _> = chain.chain([("d40".to_owned(), json!({}))]).collect();
    let schema = json!({"$ref": "#/$defs/d0", "unevaluatedProperties": false, "$defs": defs});
    let error = Schema::compile(&schema).unwrap_err();
    assert_eq!(error, SchemaError::Unsupported(Unsupported::MultiplyingReferences));
}

#[test]
fn a_value_that_cannot_be_checked_is_no_violation_by_itself() {
    let schema = Schema::compile(&json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}));
    let deep = (0..400).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(schema.unwrap().check(&deep), Err(Refusal::Unchecked));
}

#[test]
fn patterns_are_bounded() {
    let patterns = |count: usize| {
        let properties: serde_json::Map<_, _> =
            (0..count).map(|n| (n.to_string(), json!({"pattern": "^[a-z]+$"}))).collect();
        Schema::compile(&json!({ "properties": properties }))
    };
    assert!(patterns(PATTERNS_MAX).is_ok());
    assert_eq!(patterns(PATTERNS_MAX + 1).unwrap_err(), SchemaError::Patterns);
    let classes = |count: usize| {
        Schema::compile(&json!({"type": "object", "patternProperties": {"\\d".repeat(count): {}}}))
    };
    assert!(classes(63).is_ok());
    assert_eq!(classes(64).unwrap_err(), SchemaError::Patterns);
    let huge = json!({"properties": {"a": {"pattern": "(\\w{1000}){100}"}}});
    assert!(matches!(Schema::compile(&huge), Err(SchemaError::Invalid { .. })));
    let words = json!({"properties": {"a": {"pattern": "^(?=.*[0-9])[\\w .-]{1,64}$"}}});
    let schema = Schema::compile(&words).unwrap();
    assert_eq!(schema.validate(&json!({"a": "room 7"})), Ok(()));
}

#[test]
fn invalid_schemas_are_refused() {
    for (schema, error) in [
        (json!(true), SchemaError::NotAnObject("a boolean: true".into())),
        (json!({"type": "string"}), SchemaError::NotAnObject("of type \"string\"".into())),
        (
            json!({"properties": {"a": {"type": "strnig"}}}),
            SchemaError::Invalid {
                path: "/properties/a/type".into(),
                message: r#""strnig" is not valid under any of the schemas listed in the 'anyOf' keyword"#.into(),
            },
        ),
    ] {
        assert_eq!(Schema::compile(&schema).unwrap_err(), error);
    }
    assert!(matches!(
        Schema::compile(&json!({"properties": {"a": {"pattern": "("}}})),
        Err(SchemaError::Invalid { .. })
    ));
    assert!(matches!(
        Schema::compile(&json!({"properties": {"a": {"$ref": "#/$defs/none"}}})),
        Err(SchemaError::Invalid { .. })
    ));
}

proptest! {
    #[test]
    fn any_arguments_are_answered(text in any::<String>(), name in any::<String>(), n in any::<f64>()) {
        let schema = Schema::compile(&trip()).unwrap();
        let arguments = json!({name: n, "city": text, "stops": [text, {"name": n}]});
        for violation in schema.validate(&arguments).err().unwrap_or_default() {
            prop_assert!(violation.path.starts_with("arguments"));
            prop_assert!(violation.to_string().len() < 4096);
        }
    }
}

/// Anyone may send such tools, and the thread does nothing else meanwhile.
#[test]
fn the_tools_of_a_client_have_less_work_to_be_checked() {
    let node = json!({"anyOf": [
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["x"]},
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["y"]},
    ]});
    let schema = json!({"type": "object", "$defs": {"n": node}, "$ref": "#/$defs/n"});
    let own = Schema::compile(&schema).unwrap();
    let clients = Schema::of_client(&schema, &mut PatternsLeft::default()).unwrap();
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    let deep = (1..64).find(|depth| clients.check(&nested(*depth)) == Err(Refusal::Unchecked));
    let deep = nested(deep.unwrap());
    assert_eq!(clients.validate(&deep), Ok(()), "the client checks it");
    assert!(
        matches!(own.check(&deep), Err(Refusal::Violations(_))),
        "it is not too much for others"
    );
}

/// Each that is tried takes as long as saying what is wrong.
#[test]
fn nulls_stay_if_trying_without_them_takes_too_long() {
    let node = json!({"allOf": [
        {"properties": {"a": {"$ref": "#/$defs/n"}}},
        {"properties": {"a": {"$ref": "#/$defs/n"}}},
    ]});
    let schema = json!({
        "type": "object",
        "$defs": {"n": node},
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"type": "string"}},
    });
    let schema = Schema::compile(&schema).unwrap();
    for (depth, is_dropped) in [(2, true), (14, false)] {
        let mut value = (0..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
        value["b"] = Value::Null;
        let left = schema.without_refused_nulls(value);
        assert_eq!(left.get("b").is_none(), is_dropped, "{depth} levels");
    }
}
