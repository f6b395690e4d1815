//! Random calls in every format. `tests/grammars` asks llama.cpp's own engine about the same cases.

use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::super::{Callable, of_answers};
use super::gbnf::Grammar;
use crate::call_format::{CallFormat, Header, ROWS};
use crate::limits::upstream::GRAMMAR_TOOL_BYTES_MAX;
use crate::upstream::ToolChoice;
use crate::upstream::constrain::cases::{Case, Message, any_case};
use crate::upstream::constrain::structural_tag;

fn grammar_of(case: &Case, choice: &ToolChoice) -> String {
    of_answers(Callable { tools: &case.tools, named: &[] }, choice, &case.format, None)
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
        let grammar = of_answers(callable, &ToolChoice::Required, &format, Some(close));
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
        let messages = messages.into_iter().map(|Message { text, is_valid, why }| {
            json!({"text": text, "is_valid": is_valid, "why": why})
        });
        let callable = Callable { tools: &case.tools, named: &[] };
        let tags = [ToolChoice::Auto, ToolChoice::Required]
            .map(|choice| structural_tag::tree(callable, &choice, &case.format));
        let line = json!({
            "format": case.format.row().name,
            "structural_tags": tags,
            "grammars": grammars,
            "messages": messages.collect::<Vec<_>>(),
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
