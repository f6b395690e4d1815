//! What a grammar accepts and rejects, according to a small GBNF matcher.
//!
//! `tests/real_model` checks on a real server that llama.cpp agrees.

mod every_format;
mod gbnf;

use serde_json::{Value, json};

use super::{Besides, Callable};
use crate::call_format::{CallFormat, HERMES};
use crate::limits::upstream::{GRAMMAR_CALLS_MAX, GRAMMAR_ITEMS_MAX, GRAMMAR_TOOL_BYTES_MAX};
use crate::upstream::{OfferedTool, ToolChoice};
use gbnf::Grammar;

const MARKER: &str = "<<function_call>>";

fn format() -> CallFormat {
    CallFormat::default()
}

/// The grammar of calls of these tools.
fn grammar(tools: &[OfferedTool], choice: &ToolChoice, format: &CallFormat) -> String {
    super::of_answers(Callable { tools, named: &[] }, choice, format, Besides::default())
}

fn tool(name: &str, parameters: Value) -> OfferedTool {
    OfferedTool { name: name.to_owned(), description: String::new(), parameters }
}

/// Checks which arguments the grammar of a tool with this schema accepts and rejects.
#[track_caller]
fn check(schema: Value, taken: &[&str], refused: &[&str]) {
    let text = grammar(&[tool("f", schema)], &ToolChoice::Auto, &format());
    let grammar = Grammar::parse(&text);
    let call =
        |arguments: &str| format!("{MARKER} {{\"name\": \"f\", \"arguments\": {arguments}}}");
    for arguments in taken {
        assert!(grammar.accepts(&call(arguments)), "refused: {arguments}\n{text}");
    }
    for arguments in refused {
        assert!(!grammar.accepts(&call(arguments)), "taken: {arguments}\n{text}");
    }
}

#[test]
fn calls_are_closed_if_the_format_closes_them() {
    let tools = [tool("f", json!({"type": "object", "properties": {}}))];
    let hermes = CallFormat::of(&HERMES);
    let mut calls = "Two of them.\n".to_owned();
    for _ in 0..2 {
        hermes.push_call(&mut calls, "f", "{}");
    }
    let [auto, required] = [ToolChoice::Auto, ToolChoice::Required]
        .map(|choice| Grammar::parse(&grammar(&tools, &choice, &hermes)));
    assert!(auto.accepts(&calls));
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    assert!(required.accepts(call));
    for refused in [
        &call[..call.len() - 1],
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n",
        "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
    ] {
        assert!(!auto.accepts(refused) && !required.accepts(refused), "{refused}");
    }
    assert!(auto.accepts("Words and </tool_call>") && !required.accepts("Words"));
}

#[test]
fn text_is_free_and_a_marker_in_it_begins_a_call() {
    let grammar = Grammar::parse(&grammar(
        &[tool("f", json!({"type": "object", "properties": {}}))],
        &ToolChoice::Auto,
        &format(),
    ));
    for free in [
        "",
        "Hello.",
        "a < b << c <<< d",
        "<<function",
        "<<<function_call>",
        "line\nline \u{1F600}",
        "<<function_call >>",
    ] {
        assert!(grammar.accepts(free), "{free:?}");
    }
    let call = "{\"name\": \"f\", \"arguments\": {}}";
    let calls = |count: usize| vec![format!("{MARKER} {call}"); count].join("\n");
    for taken in [
        format!("{MARKER} {call}"),
        format!("{MARKER}{call}"),
        format!("{MARKER}\n{call}\n"),
        format!("I will call. <{MARKER} {call}"),
        format!("{MARKER}{}", call.replace(' ', "")),
        calls(GRAMMAR_CALLS_MAX),
        calls(2) + "\n",
    ] {
        assert!(grammar.accepts(&taken), "{taken:?}");
    }
    for refused in [
        MARKER.to_owned(),
        format!("{MARKER}>{call}"),
        format!("{MARKER}  {call}"),
        format!("{MARKER} {{\"name\": \"g\", \"arguments\": {{}}}}"),
        format!("{MARKER} {{\"name\": \"f\"}}"),
        format!("{MARKER} {call} and so on"),
        format!("{MARKER} {call}{MARKER} {call}"),
        format!("{MARKER} {call}\nand {MARKER} {call}"),
        format!("{MARKER} {call}\n\n"),
        calls(GRAMMAR_CALLS_MAX + 1),
        format!("Write {MARKER} to call."),
        format!("<{MARKER} to call."),
        format!("<<func{MARKER} to call."),
    ] {
        assert!(!grammar.accepts(&refused), "{refused:?}");
    }
}

#[test]
fn each_tool_has_its_own_arguments() {
    let tools = [
        tool(
            "time",
            json!({"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}),
        ),
        tool(
            "sum",
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
        ),
    ];
    let grammar = Grammar::parse(&grammar(&tools, &ToolChoice::Auto, &format()));
    let call = |name: &str, arguments: &str| {
        format!("{MARKER} {{\"name\": \"{name}\", \"arguments\": {arguments}}}")
    };
    assert!(grammar.accepts(&call("time", "{\"zone\": \"x\"}")));
    assert!(grammar.accepts(&call("sum", "{\"n\": 1}")));
    assert!(!grammar.accepts(&call("time", "{\"n\": 1}")));
    assert!(!grammar.accepts(&call("sum", "{\"zone\": \"x\"}")));
}

#[test]
fn properties_come_in_order_and_optional_ones_may_be_absent() {
    let schema = |required: Value| {
        let number = json!({"type": "integer"});
        json!({"type": "object", "properties": {"a": number, "b": number, "c": number}, "required": required})
    };
    let all = [
        "{}",
        "{\"a\": 1}",
        "{\"b\": 1}",
        "{\"c\": 1}",
        "{\"a\": 1, \"b\": 1}",
        "{\"a\": 1, \"c\": 1}",
        "{\"b\": 1, \"c\": 1}",
        "{\"a\": 1, \"b\": 1, \"c\": 1}",
    ];
    check(
        schema(json!([])),
        &all,
        &[
            "{\"b\": 1, \"a\": 1}",
            "{\"a\": 1, \"a\": 1}",
            "{\"d\": 1}",
            "{\"a\": 1,}",
            "{, \"a\": 1}",
            "{\"a\": 1 \"b\": 1}",
        ],
    );
    check(
        schema(json!(["a"])),
        &[all[1], all[4], all[5], all[7]],
        &[all[0], all[2], all[3], all[6]],
    );
    check(
        schema(json!(["b"])),
        &[all[2], all[4], all[6], all[7]],
        &[all[0], all[1], all[3], all[5]],
    );
    check(schema(json!(["a", "c"])), &[all[5], all[7]], &[all[0], all[1], all[3], all[4], all[6]]);
    check(schema(json!(["a", "b", "c"])), &[all[7], "{\"a\":1,\"b\":1,\"c\":1}"], &all[..7]);
    // Required but not described.
    check(schema(json!(["z"])), &["{\"z\": [1]}", "{\"c\": 1, \"z\": 1}"], &["{}"]);
}

#[test]
fn json_types_are_distinguished() {
    let with =
        |schema: Value| json!({"type": "object", "properties": {"v": schema}, "required": ["v"]});
    check(
        with(json!({"type": "string"})),
        &[r#"{"v": ""}"#, r#"{"v": "a \"b\" \\ \n \u00e9 é 😀"}"#],
        &[r#"{"v": 1}"#, r#"{"v": "a"b"}"#, "{\"v\": \"a\nb\"}", r#"{"v": "\x"}"#],
    );
    check(
        with(json!({"type": "integer"})),
        &[r#"{"v": 0}"#, r#"{"v": -12}"#],
        &[
            r#"{"v": 1.5}"#,
            r#"{"v": 01}"#,
            r#"{"v": "1"}"#,
            &format!("{{\"v\": {}}}", "1".repeat(19)),
        ],
    );
    check(
        with(json!({"type": "number"})),
        &[r#"{"v": 0}"#, r#"{"v": -1.25e-7}"#],
        &[r#"{"v": .5}"#, r#"{"v": 1.}"#],
    );
    check(
        with(json!({"type": "boolean"})),
        &[r#"{"v": true}"#, r#"{"v": false}"#],
        &[r#"{"v": null}"#, r#"{"v": True}"#],
    );
    check(with(json!({"type": "null"})), &[r#"{"v": null}"#], &[r#"{"v": 0}"#]);
    check(
        with(json!({"type": ["integer", "null"]})),
        &[r#"{"v": null}"#, r#"{"v": 3}"#],
        &[r#"{"v": "3"}"#],
    );
    check(with(json!({})), &[r#"{"v": null}"#, r#"{"v": {"a": [1, "b", {}]}}"#], &["{\"v\": }"]);
    check(with(json!(true)), &[r#"{"v": []}"#], &["{}"]);
    check(with(json!({"type": "date"})), &[r#"{"v": 1}"#], &["{}"]);
}

#[test]
fn enums_and_constants_are_written_as_they_are() {
    let with =
        |schema: Value| json!({"type": "object", "properties": {"v": schema}, "required": ["v"]});
    check(
        with(json!({"type": "string", "enum": ["human", "iso"]})),
        &[r#"{"v": "iso"}"#],
        &[r#"{"v": "is"}"#, r#"{"v": iso}"#],
    );
    check(
        with(json!({"enum": [1, null, "a\"b\\", [true]]})),
        &[r#"{"v": 1}"#, r#"{"v": null}"#, r#"{"v": "a\"b\\"}"#, r#"{"v": [true]}"#],
        &[r#"{"v": 2}"#],
    );
    check(with(json!({"const": "é"})), &[r#"{"v": "é"}"#], &[r#"{"v": "e"}"#]);
    check(with(json!({"enum": []})), &[r#"{"v": 1}"#], &[]);
}

#[test]
fn arrays_hold_their_items_and_their_bounds() {
    let with = |keywords: Value| {
        let mut schema = json!({"type": "array", "items": {"type": "integer"}});
        schema.as_object_mut().unwrap().extend(keywords.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"v": schema}, "required": ["v"]})
    };
    let of = |count: usize| format!("{{\"v\": [{}]}}", vec!["1"; count].join(", "));
    check(
        with(json!({})),
        &[&of(0), &of(1), &of(3)],
        &[r#"{"v": ["a"]}"#, r#"{"v": [1,]}"#, r#"{"v": [1 1]}"#],
    );
    check(with(json!({"minItems": 2})), &[&of(2), &of(5)], &[&of(0), &of(1)]);
    check(with(json!({"maxItems": 2})), &[&of(0), &of(1), &of(2)], &[&of(3)]);
    check(with(json!({"minItems": 2, "maxItems": 2})), &[&of(2)], &[&of(1), &of(3)]);
    check(with(json!({"minItems": 1, "maxItems": 1})), &[&of(1)], &[&of(0), &of(2)]);
    check(with(json!({"maxItems": 0})), &[&of(0)], &[&of(1)]);
    check(with(json!({"minItems": 3, "maxItems": 1})), &[&of(3)], &[]);
    // Bounds above the limit are not stated.
    check(
        with(json!({"maxItems": GRAMMAR_ITEMS_MAX + 1, "minItems": GRAMMAR_ITEMS_MAX + 1})),
        &[&of(0), &of(3)],
        &[],
    );
    check(
        json!({"type": "object", "properties": {"v": {"type": "array"}}}),
        &[r#"{"v": [1, "a"]}"#, "{}"],
        &[],
    );
}

#[test]
fn strings_hold_their_lengths() {
    let with =
        |schema: Value| json!({"type": "object", "properties": {"v": schema}, "required": ["v"]});
    check(with(json!({"type": "string", "minLength": 1})), &[r#"{"v": "a"}"#], &[r#"{"v": ""}"#]);
    check(
        with(json!({"type": "string", "maxLength": 2})),
        &[r#"{"v": ""}"#, r#"{"v": "é\n"}"#],
        &[r#"{"v": "abc"}"#],
    );
}

#[test]
fn objects_and_choices_nest() {
    check(
        json!({"type": "object", "properties": {
            "who": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}]},
            "when": {"oneOf": [{"const": "now"}, {"type": "integer"}]},
            "tags": {"type": "array", "items": {"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]}},
        }, "required": ["who"]}),
        &[
            r#"{"who": "me"}"#,
            r#"{"who": {"id": 1}, "when": "now"}"#,
            r#"{"who": "a", "tags": [{"t": "x"}, {"t": "y"}]}"#,
        ],
        &[
            r#"{"who": 1}"#,
            r#"{"who": {}}"#,
            r#"{"who": "a", "when": "later"}"#,
            r#"{"who": "a", "tags": [{}]}"#,
        ],
    );
    check(
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}]}),
        &[r#"{"a": null}"#],
        &["{}"],
    );
    check(
        json!({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        &[r#"{"a": 1, "b": 2}"#],
        &["1"],
    );
    // Which properties belong together is left to validation.
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        &[r#"{"a": 1}"#, r#"{"b": 1}"#],
        &[r#"{"a": "x"}"#],
    );
}

#[test]
fn items_after_a_prefix_say_nothing_about_the_prefix() {
    check(
        json!({"properties": {"v": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}}}),
        &[r#"{"v": ["a", 1]}"#],
        &[r#"{"v": 1}"#],
    );
}

#[test]
fn a_condition_that_names_no_other_property_leaves_the_rules_as_they_are() {
    let with = |more: Value| {
        let mut schema = json!({"type": "object", "required": ["kind"], "properties": {
            "kind": {"enum": ["file", "url"]}, "path": {"type": "string"}}});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let file = json!({"properties": {"kind": {"const": "file"}}});
    let wants_path = json!({"required": ["path"]});
    let wants_more = json!({"properties": {"more": {"type": "integer"}}, "required": ["more"]});
    for more in [
        json!({"if": file, "then": wants_path}),
        json!({"allOf": [{"if": file, "then": wants_path}]}),
        json!({"dependencies": {"kind": ["path"]}}),
        json!({"dependentSchemas": {"path": wants_path}}),
        json!({"if": file, "then": wants_more, "additionalProperties": false}),
    ] {
        check(
            with(more),
            &[r#"{"kind": "url"}"#, r#"{"kind": "file", "path": "a"}"#],
            &[r#"{"kind": "none"}"#, r#"{"kind": "url", "more": 1}"#],
        );
    }
    let or_null = with(json!({"type": ["object", "null"], "if": file, "then": wants_more}));
    check(
        json!({"properties": {"v": or_null}, "required": ["v"]}),
        &[r#"{"v": null}"#, r#"{"v": {"kind": "file", "more": 1}}"#],
        &[r#"{"v": 1}"#],
    );
}

#[test]
fn properties_beside_a_reference_are_not_lost() {
    check(
        json!({"$ref": "#/$defs/base", "properties": {"x": {"type": "integer"}}, "required": ["x"],
               "$defs": {"base": {"type": "object", "properties": {"y": {"type": "integer"}}}}}),
        &[r#"{"x": 1}"#, r#"{"y": 1, "x": 1}"#],
        &["1"],
    );
}

#[test]
fn undescribed_members_are_allowed_if_the_schema_says_so() {
    let number = json!({"type": "integer"});
    check(json!({"type": "object"}), &["{}", r#"{"a": 1, "b": []}"#], &["[]"]);
    check(json!({"type": "object", "properties": {}}), &["{}"], &[r#"{"a": 1}"#]);
    check(json!({"type": "object", "additionalProperties": false}), &["{}"], &[r#"{"a": 1}"#]);
    check(
        json!({"type": "object", "additionalProperties": number}),
        &["{}", r#"{"x": 1, "y": 2}"#],
        &[r#"{"x": "a"}"#],
    );
    check(
        json!({"type": "object", "properties": {"a": number}, "additionalProperties": number}),
        &["{}", r#"{"a": 1}"#, r#"{"x": 1}"#, r#"{"a": 1, "x": 2, "y": 3}"#],
        &[r#"{"x": "a"}"#, r#"{, "x": 1}"#],
    );
    check(
        json!({"type": "object", "properties": {"a": number}, "required": ["a"], "additionalProperties": true}),
        &[r#"{"a": 1}"#, r#"{"a": 1, "x": null}"#],
        &["{}"],
    );
    check(
        json!({"type": "object", "patternProperties": {"^x": number}}),
        &[r#"{"x1": 1}"#],
        &["[]"],
    );
    check(
        json!({"type": "object", "patternProperties": {"^x": number}, "additionalProperties": false}),
        &["{}", r#"{"x1": 1}"#],
        &["[]"],
    );
    check(json!({}), &["{}", r#"{"a": 1}"#], &["1", "[]", "null"]);
    check(json!(true), &["{}"], &["1"]);
}

#[test]
fn references_inside_the_schema_are_followed() {
    check(
        json!({"type": "object", "properties": {"from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/$defs/place"}}, "required": ["from", "to"],
               "$defs": {"place": {"enum": ["A", "B"]}}}),
        &[r#"{"from": "A", "to": "B"}"#],
        &[r#"{"from": "C", "to": "B"}"#],
    );
    let tree = json!({"$ref": "#/definitions/node", "definitions": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/definitions/node"}}}, "required": ["v"]}}});
    check(
        tree,
        &[r#"{"v": 1}"#, r#"{"v": 1, "children": [{"v": 2, "children": []}]}"#],
        &[r#"{"v": 1, "children": [{}]}"#],
    );
    check(
        json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}, "b": {"$ref": "#/$defs/none"}}}),
        &[r#"{"a": 1, "b": 2}"#],
        &[],
    );
}

#[test]
fn a_self_reference_is_not_left_recursive() {
    let nodes = json!({"a": {"$ref": "#/$defs/a"}, "b": {"anyOf": [{"$ref": "#/$defs/c"}, {"type": "null"}]}, "c": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "integer"}]}});
    for name in ["a", "b", "c"] {
        check(
            json!({"type": "object", "properties": {"v": {"$ref": format!("#/$defs/{name}")}, "w": {"$ref": "#/$defs/b"}}, "$defs": nodes}),
            &["{\"v\": 1}", "{\"v\": null, \"w\": null}"],
            &["{\"v\": }"],
        );
    }
    check(json!({"$ref": "#"}), &["{\"v\": 1}"], &[]);
    // The first way back leads through an object, and the second one does not.
    let nodes = json!({
        "a": {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/c"}}}, {"$ref": "#/$defs/c"}]},
        "c": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "integer"}]},
    });
    check(
        json!({"type": "object", "properties": {"v": {"$ref": "#/$defs/a"}}, "$defs": nodes}),
        &["{\"v\": 1}", "{\"v\": {\"x\": {\"x\": 1}}}"],
        &["{\"v\": }"],
    );
}

#[test]
fn hostile_names_stay_inside_their_literals() {
    let hostile = "x\" | [^\\n]* #\n root ::= [^]-] \\ \u{1F600}\0{0,99}";
    let tools = [tool(
        hostile,
        json!({"type": "object", "properties": {hostile: {"enum": [hostile]}}, "required": [hostile]}),
    )];
    let grammar = Grammar::parse(&grammar(&tools, &ToolChoice::Auto, &format()));
    let name = Value::from(hostile);
    let call = format!("{MARKER} {{\"name\": {name}, \"arguments\": {{{name}: {name}}}}}");
    assert!(grammar.accepts(&call));
    assert!(!grammar.accepts(&call.replace("99", "9")));
    assert!(!grammar.accepts(&format!("{MARKER} anything")));
}

#[test]
fn any_marker_can_be_the_trigger() {
    for marker in [
        "[TOOL_CALLS]",
        "^",
        "]",
        "-",
        "\\",
        "aab",
        "<tool_call>",
        "\u{ff5c}call\u{ff5c}",
        "\"",
        "aaa",
    ] {
        let grammar = Grammar::parse(&grammar(
            &[tool("f", json!({"type": "object", "properties": {}}))],
            &ToolChoice::Auto,
            &CallFormat::marker(marker),
        ));
        assert!(
            grammar.accepts(&format!("b{marker} {{\"name\": \"f\", \"arguments\": {{}}}}")),
            "{marker:?}"
        );
        assert!(!grammar.accepts(&format!("b{marker} no")), "{marker:?}");
        let begun_twice = format!("{}{marker} no", marker.chars().next().unwrap());
        assert!(!grammar.accepts(&begun_twice), "{marker:?}");
        assert!(grammar.accepts("plain text"), "{marker:?}");
    }
}

#[test]
fn a_required_call_is_enforced_from_the_first_byte() {
    let tools = ["f", "g"].map(|name| tool(name, json!({"type": "object"})));
    let of = |choice| Grammar::parse(&grammar(&tools, &choice, &format()));
    let call = |name| format!("{MARKER} {{\"name\": \"{name}\", \"arguments\": {{}}}}");
    let required = of(ToolChoice::Required);
    assert!(required.accepts(&call("f")) && required.accepts(&call("g")));
    let named = of(ToolChoice::Named("g".to_owned()));
    assert!(!named.accepts(&call("f")) && named.accepts(&call("g")));
    for grammar in [required, named] {
        assert!(!grammar.accepts("") && !grammar.accepts("Hello."));
        assert!(!grammar.accepts(&format!("So: {}", call("g"))));
    }
}

#[test]
fn tools_known_by_name_are_called_without_arguments() {
    let tools = [tool("f", json!({"type": "object"}))];
    let named = ["g".to_owned(), "h".to_owned()];
    let of = |choice| {
        let callable = Callable { tools: &tools, named: &named };
        Grammar::parse(&super::of_answers(callable, &choice, &format(), Besides::default()))
    };
    let call =
        |name, arguments| format!("{MARKER} {{\"name\": \"{name}\", \"arguments\": {arguments}}}");
    let any = of(ToolChoice::Auto);
    for name in ["f", "g", "h"] {
        assert!(any.accepts(&call(name, "{}")), "{name}");
    }
    assert!(any.accepts(&call("f", r#"{"a": 1}"#)) && !any.accepts(&call("g", r#"{"a": 1}"#)));
    assert!(!any.accepts(&call("i", "{}")));
    let only = of(ToolChoice::Named("h".to_owned()));
    assert!(only.accepts(&call("h", "{}")) && !only.accepts(&call("g", "{}")));
}

#[test]
fn a_schema_too_long_for_a_grammar_is_any_object() {
    let values =
        |count: usize| -> Value { (0..count).map(|value| format!("value {value:06}")).collect() };
    let schema = |count| json!({"type": "object", "properties": {"v": {"enum": values(count)}}, "required": ["v"]});
    let fits = GRAMMAR_TOOL_BYTES_MAX / 40;
    check(schema(fits), &[r#"{"v": "value 000000"}"#], &["{}"]);
    check(schema(GRAMMAR_TOOL_BYTES_MAX / 10), &["{}", r#"{"v": 1}"#], &["1"]);
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "object", "properties": {"v": deep}, "required": ["v"]});
    }
    check(deep, &[&format!("{}1{}", "{\"v\": ".repeat(40), "}".repeat(40))], &["{}"]);
}

/// `tests/real_model/record.py` sends the stored grammar to a real llama.cpp. So this grammar
/// is known to parse there, and to restrict a model.
#[test]
fn the_recorded_grammar_is_the_one_that_is_sent() {
    #[derive(serde::Deserialize)]
    struct Tool {
        name: String,
        parameters: Value,
    }
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/upstream");
    let tools = std::fs::read_to_string(format!("{data}/tools.json")).unwrap();
    let tools: Vec<Tool> = serde_json::from_str(&tools).unwrap();
    let tools: Vec<_> = tools.into_iter().map(|it| tool(&it.name, it.parameters)).collect();
    let kept = std::fs::read_to_string(format!("{data}/grammar.gbnf")).unwrap();
    let made = grammar(&tools, &ToolChoice::Auto, &format());
    assert_eq!(made, kept, "where the change is meant, keep this and record anew:\n{made}");
}
