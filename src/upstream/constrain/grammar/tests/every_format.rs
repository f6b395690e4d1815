//! Random calls in every format. `tests/grammars` asks llama.cpp's own engine about the same cases.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::super::{Besides, Callable, of_answers};
use super::gbnf::Grammar;
use crate::call_format::{CallFormat, Header, ROWS};
use crate::limits::upstream::{GRAMMAR_ALTERNATIVES_MAX, GRAMMAR_TOOL_BYTES_MAX};
use crate::upstream::constrain::cases::{Case, Message, any_case};
use crate::upstream::constrain::structural_tag;
use crate::upstream::{OfferedTool, ToolChoice};

fn grammar_of(case: &Case, choice: &ToolChoice) -> String {
    let callable = Callable { tools: &case.tools, named: &[] };
    of_answers(callable, choice, &case.format, Besides::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn valid_calls_are_allowed_and_others_are_not((case, messages) in any_case()) {
        check(&case, &messages);
    }
}

#[track_caller]
fn check(case: &Case, messages: &[Message]) {
    for choice in [ToolChoice::Auto, ToolChoice::Required] {
        let text_of = grammar_of(case, &choice);
        let grammar = Grammar::parse(&text_of);
        for Message { text, is_valid, why } in messages {
            let name = case.format.row().name;
            assert_eq!(grammar.accepts(text), *is_valid, "{name}: {why}\n{text}\n{text_of}");
        }
    }
}

#[test]
fn words_are_free_until_a_call_is_required() {
    let tool = super::tool("f", json!({"type": "object", "properties": {}}));
    for row in ROWS {
        let (format, tools) = (CallFormat::of(row), vec![tool.clone()]);
        let case = Case { format, tools, calls: Vec::new() };
        let auto = Grammar::parse(&grammar_of(&case, &ToolChoice::Auto));
        let required = Grammar::parse(&grammar_of(&case, &ToolChoice::Required));
        for words in ["", "Hello, <b>world</b>.", "See [f](x), or {\"a\": 1}.", "function: funct"] {
            // Where the prompt has opened a header, the answer goes on with it.
            let is_name = row.header.as_ref().is_some_and(Header::is_name);
            let words = format!("{}{words}", if is_name { "all\n" } else { "" });
            assert!(auto.accepts(&words), "{}: {words}", row.name);
            assert!(!required.accepts(&words), "{}: {words}", row.name);
        }
    }
}

#[test]
fn a_call_that_is_required_follows_the_reasoning_that_the_prompt_has_begun() {
    let tool = super::tool("f", json!({"type": "object", "properties": {}}));
    let callable = Callable { tools: &[tool], named: &[] };
    for row in ROWS {
        let format = CallFormat::of(row);
        let [_, close] = row.reasoning[0];
        let reasoning = Besides { reasoning: Some(close), ..Besides::default() };
        let grammar = of_answers(callable, &ToolChoice::Required, &format, reasoning);
        let grammar = Grammar::parse(&grammar);
        let mut call = String::new();
        format.push_call(&mut call, "f", "{}");
        for between in ["", "\n\n"] {
            let text = format!("Let me see.{close}{between}{call}");
            assert!(grammar.accepts(&text), "{}: {text}", row.name);
        }
        assert!(!grammar.accepts(&format!("Let me see.{close}No.")), "{}", row.name);
    }
}

/// Answers that have to be JSON, in each format without headers: the tool that may be called, the answer's
/// schema, and messages.
fn answers_in_json() -> Vec<(CallFormat, OfferedTool, Value, Vec<Message>)> {
    let tool = super::tool("f", json!({"type": "object", "properties": {}}));
    let number = json!({"type": "integer"});
    let object = json!({"type": "object", "properties": {"size": number}, "required": ["size"]});
    let array = json!({"type": "array", "items": number});
    let answers =
        [(object, "{\"size\": 3}", "{\"size\": \"big\"}"), (array, "[1, 2]", "[1, true]")];
    let rows = ROWS.iter().filter(|row| row.header.is_none());
    let cases = rows.flat_map(|row| answers.iter().map(move |answer| (row, answer)));
    let cases = cases.map(|(row, (schema, right, wrong))| {
        let (format, mut call) = (CallFormat::of(row), String::new());
        format.push_call(&mut call, "f", "{}");
        let begins_like_a_call = row.is_bare() && call.starts_with(&right[..1]);
        let message = |text: &str, is_valid, why| Message { text: text.to_owned(), is_valid, why };
        let messages = vec![
            message(right, true, "the answer"),
            message(wrong, !begins_like_a_call, "another answer"),
            message(&call, true, "a call"),
            message("Hello.", true, "words"),
        ];
        (format, tool.clone(), schema.clone(), messages)
    });
    cases.collect()
}

#[test]
fn an_answer_may_be_the_json_that_a_client_has_asked_for() {
    for (format, tool, answer, messages) in answers_in_json() {
        let callable = Callable { tools: &[tool], named: &[] };
        let besides = Besides { answer: Some(&answer), ..Besides::default() };
        let grammar = Grammar::parse(&of_answers(callable, &ToolChoice::Auto, &format, besides));
        for Message { text, is_valid, why } in messages {
            assert_eq!(grammar.accepts(&text), is_valid, "{}: {why}: {text}", format.row().name);
        }
    }
}

/// A message as other engines are shown it.
fn shown(Message { text, is_valid, why }: Message) -> Value {
    json!({"text": text, "is_valid": is_valid, "why": why})
}

/// The same cases each time. With `TETHER_GRAMMAR_CASES`, the file of that name gets them, one JSON
/// object a line: `tests/grammars` shows them to other engines.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own knob")]
fn every_engine_can_be_asked_the_same() {
    let file = std::env::var_os("TETHER_GRAMMAR_CASES");
    let count = if file.is_some() { 2000 } else { 100 };
    let mut runner = TestRunner::deterministic();
    let mut lines = String::new();
    for _ in 0..count {
        let (case, messages) = any_case().new_tree(&mut runner).unwrap().current();
        check(&case, &messages);
        let grammars = [ToolChoice::Auto, ToolChoice::Required].map(|it| grammar_of(&case, &it));
        let callable = Callable { tools: &case.tools, named: &[] };
        let tags = [ToolChoice::Auto, ToolChoice::Required]
            .map(|choice| structural_tag::tree(callable, &choice, &case.format, None));
        let line = json!({
            "format": case.format.row().name,
            "structural_tags": tags,
            "grammars": grammars,
            "messages": messages.into_iter().map(shown).collect::<Vec<_>>(),
        });
        let _ = writeln!(lines, "{line}");
    }
    for (format, tool, answer, messages) in answers_in_json() {
        let callable = Callable { tools: &[tool], named: &[] };
        let besides = Besides { answer: Some(&answer), ..Besides::default() };
        let auto = ToolChoice::Auto;
        let line = json!({
            "format": format.row().name,
            "structural_tags": [structural_tag::tree(callable, &auto, &format, Some(&answer))],
            "grammars": [of_answers(callable, &auto, &format, besides)],
            "messages": messages.into_iter().map(shown).collect::<Vec<_>>(),
        });
        let _ = writeln!(lines, "{line}");
    }
    if let Some(file) = file {
        std::fs::write(file, lines).unwrap();
    }
}

#[test]
fn a_schema_that_holds_itself_is_bounded_in_every_format() {
    let itself = json!({"$ref": "#"});
    let either = json!({"anyOf": [itself, {"type": "array", "items": itself}]});
    let properties = json!({"a": itself, "b": either, "c": {"type": "string"}});
    let tool = super::tool("f", json!({"type": "object", "properties": properties}));
    for row in ROWS {
        let (format, tools) = (CallFormat::of(row), vec![tool.clone()]);
        let case = Case { format, tools, calls: Vec::new() };
        let grammar = grammar_of(&case, &ToolChoice::Required);
        assert!(grammar.len() < 2 * GRAMMAR_TOOL_BYTES_MAX, "{}: {}", row.name, grammar.len());
        Grammar::parse(&grammar);
    }
}

/// Checks in every format which arguments a call of a tool with these parameters may have.
#[track_caller]
fn check_arguments(parameters: &Value, arguments: &[(Value, bool)]) {
    for row in ROWS {
        let format = CallFormat::of(row);
        let tools = vec![super::tool("f", parameters.clone())];
        let case = Case { format, tools, calls: Vec::new() };
        let text_of = grammar_of(&case, &ToolChoice::Required);
        let grammar = Grammar::parse(&text_of);
        for (arguments, is_valid) in arguments {
            let mut call = String::new();
            case.format.push_call(&mut call, "f", &arguments.to_string());
            assert_eq!(grammar.accepts(&call), *is_valid, "{}: {call}\n{text_of}", row.name);
        }
    }
}

/// As Pydantic writes them, and many tools with it.
#[test]
fn enums_models_and_what_is_optional_hold_in_every_format() {
    let parameters = json!({
        "type": "object",
        "$defs": {
            "Colour": {"enum": ["red", "green"], "type": "string"},
            "Point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        },
        "properties": {
            "colour": {"$ref": "#/$defs/Colour"},
            "shade": {"allOf": [{"$ref": "#/$defs/Colour"}]},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "size": {"oneOf": [{"enum": ["big"]}, {"type": "integer"}]},
            "at": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
        },
    });
    check_arguments(
        &parameters,
        &[
            (json!({"colour": "red"}), true),
            (json!({"colour": "purple"}), false),
            (json!({"shade": "green"}), true),
            (json!({"shade": "dark"}), false),
            (json!({"count": 3}), true),
            (json!({"count": "many"}), false),
            (json!({"size": "big"}), true),
            (json!({"size": 3}), true),
            (json!({"size": "small"}), false),
            (json!({"at": {"x": 1}}), true),
            (json!({"at": "here"}), false),
        ],
    );
}

/// What stands beside a reference counts as well, and so does each of many alternatives.
#[test]
fn what_a_reference_does_not_say_can_be_written_in_every_format() {
    let base = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let y = json!({"y": {"type": "integer"}});
    let either = json!([{"type": "object", "required": ["y"]}, {"type": "object"}]);
    let numbers = |count: usize| -> Vec<_> { (0..count).map(|it| json!({"const": it})).collect() };
    let parameters = json!({
        "type": "object",
        "$defs": {"Base": base},
        "properties": {
            "more": {"$ref": "#/$defs/Base", "properties": y, "required": ["y"]},
            "either": {"oneOf": either, "properties": y},
            "null": {"enum": ["a", null]},
            "nested": {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "array"}]},
            "limit": {"anyOf": numbers(GRAMMAR_ALTERNATIVES_MAX)},
            "over": {"anyOf": numbers(GRAMMAR_ALTERNATIVES_MAX + 1)},
        },
    });
    check_arguments(
        &parameters,
        &[
            (json!({"more": {"y": 1}}), true),
            (json!({"either": {"y": 1}}), true),
            (json!({"null": "a"}), true),
            (json!({"null": null}), true),
            (json!({"nested": "text"}), true),
            (json!({"nested": null}), true),
            (json!({"nested": [1]}), true),
            (json!({"limit": GRAMMAR_ALTERNATIVES_MAX - 1}), true),
            (json!({"over": GRAMMAR_ALTERNATIVES_MAX}), true),
        ],
    );
}

/// Of an object whose schema says in some other way what else it may hold.
#[test]
fn properties_that_are_allowed_on_a_condition_can_be_written_in_every_format() {
    let kind = json!({"kind": {"enum": ["file", "url"]}});
    let path = json!({"properties": {"path": {"type": "string"}}, "required": ["path"]});
    let is_file = json!({"properties": {"kind": {"const": "file"}}});
    let whens = [
        json!({"if": is_file, "then": path}),
        json!({"allOf": [{"if": is_file, "then": path}]}),
        json!({"oneOf": [path, {"required": ["kind"]}]}),
        json!({"anyOf": [{"required": ["kind"]}, {"allOf": [path]}]}),
        json!({"dependentSchemas": {"kind": path}}),
        json!({"dependencies": {"kind": path}}),
    ];
    for when in whens {
        let mut object = json!({"type": "object", "properties": kind, "required": ["kind"]});
        object.as_object_mut().unwrap().extend(when.as_object().unwrap().clone());
        let nested = json!({"type": "object", "properties": {"what": object}});
        let arguments = r#"{"kind": "file", "path": "a b"}"#;
        for (schema, arguments) in
            [(object, arguments.to_owned()), (nested, format!(r#"{{"what": {arguments}}}"#))]
        {
            let tool = super::tool("f", schema);
            for row in ROWS {
                let (format, tools) = (CallFormat::of(row), vec![tool.clone()]);
                let mut call = String::new();
                format.push_call(&mut call, "f", &arguments);
                let case = Case { format, tools, calls: Vec::new() };
                let text_of = grammar_of(&case, &ToolChoice::Required);
                let is_allowed = Grammar::parse(&text_of).accepts(&call);
                assert!(is_allowed, "{}: {call}\n{when}\n{text_of}", row.name);
            }
        }
    }
}
