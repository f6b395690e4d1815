//! Reasoning in a field of its own.

use proptest::prelude::*;

use super::*;
use crate::call_format::{ROWS, Row};

const CALL: &str = "<tool_call>\n<function=f>\n</function>\n</tool_call>";

fn named(name: &str) -> Settings {
    Settings { format: CallFormat::of(Row::named(name).unwrap()), ..settings() }
}

/// Reads reasoning and then an answer, in chunks of these many characters.
fn read(settings: &Settings, reasoning: &str, answer: &str, length: usize) -> Record {
    let mut parser = Parser::new(settings.clone()).unwrap();
    let mut record = Record::default();
    for chunk in chunks(reasoning, length) {
        parser.push_reasoning(&chunk, |segment| record.take(segment));
    }
    parser.end_reasoning(|segment| record.take(segment));
    for chunk in chunks(answer, length) {
        parser.push_str(&chunk, |segment| record.take(segment));
    }
    parser.finish(|segment| record.take(segment));
    record
}

fn chunks(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(length).map(|chunk| chunk.iter().collect()).collect()
}

#[track_caller]
fn check(settings: &Settings, reasoning: &str, answer: &str, expected: &[&str]) {
    for length in 1..=reasoning.len().max(answer.len()).max(1) {
        let record = read(settings, reasoning, answer, length);
        check_calls(settings, &record);
        let events: Vec<String> = record.events.iter().map(table::show).collect();
        assert_eq!(events, expected, "in chunks of {length}");
    }
}

#[test]
fn a_call_counts_where_models_leave_reasoning_open() {
    let events = ["reasoning «Hm. »", "start 0@4", "call 0 f {}", "reasoning «Next.»"];
    check(&named("qwen3_coder"), &format!("Hm. {CALL}\nNext."), "", &events);
    let answered = [&events[..], &["text «Done.»"]].concat();
    check(&named("qwen3_coder"), &format!("Hm. {CALL}\nNext."), "Done.", &answered);
    check(
        &named("glm47"),
        "Hm. <tool_call>f</tool_call>",
        "",
        &["reasoning «Hm. <tool_call>f</tool_call>»"],
    );
}

#[test]
fn a_call_counts_if_calls_inside_reasoning_do() {
    let call = |name: &str| format!("<<function_call>>{{\"name\":\"{name}\"}}\n");
    let (thought, said) = (format!("a {}", call("f")), call("g"));
    let settings = Settings { tools_in_reasoning: true, ..settings() };
    let expected = ["reasoning «a »", "start 0@2", "call 0 f {}", "start 1@32", "call 1 g {}"];
    check(&settings, &thought, &said, &expected);
    let through = format!("reasoning «{}»", table::visible(&thought));
    check(&super::settings(), &thought, "b", &[&through, "text «b»"]);
}

#[test]
fn half_a_call_is_no_call_once_the_answer_begins() {
    let settings = Settings { tools_in_reasoning: true, strict_balancing: false, ..settings() };
    let payload = r#"{"name":"f","arguments":{"a":1"#;
    let error = format!("error incomplete_payload@0 of 0 «{payload}»");
    check(
        &settings,
        &format!("<<function_call>>{payload}"),
        "b}}",
        &["start 0@0", &error, "text «b}}»"],
    );
    check(
        &settings,
        "a <<func",
        "tion_call>> b",
        &["reasoning «a <<func»", "text «tion_call>> b»"],
    );
}

/// The server has taken the tags out. Whatever looks like one is no end.
#[test]
fn a_tag_does_not_end_it() {
    let settings = Settings { tools_in_reasoning: true, ..settings() };
    check(&settings, "a</think>b", "c", &["reasoning «ab»", "text «c»"]);
}

#[test]
fn an_answer_may_still_begin_with_a_call_without_an_opener() {
    let settings = Settings {
        tools: Tools::of([("f", &serde_json::Value::Null)]),
        tools_in_reasoning: true,
        ..named("llama3")
    };
    check(
        &settings,
        "Hm.",
        r#"{"name":"f","parameters":{}}"#,
        &["reasoning «Hm.»", "start 0@3", "call 0 f {}"],
    );
}

#[test]
fn a_mention_of_the_opener_leaves_nothing_for_the_answer() {
    let settings =
        Settings { tools_in_reasoning: true, strict_balancing: false, ..named("hermes") };
    check(
        &settings,
        "So <tool_call> here",
        "Hello",
        &[
            "reasoning «So »",
            "error missing_payload@3 mid-line «<tool_call> here»",
            "reasoning «<tool_call> here»",
            "text «Hello»",
        ],
    );
}

/// Between two pieces of the answer, too. A call that has begun there is not interrupted.
#[test]
fn it_may_come_within_an_answer() {
    let mut parser = Parser::new(named("qwen3_coder")).unwrap();
    let mut record = Record::default();
    let (head, rest) = CALL.split_at(20);
    parser.push_str("a", |segment| record.take(segment));
    parser.push_reasoning("b", |segment| record.take(segment));
    parser.end_reasoning(|segment| record.take(segment));
    parser.push_str(head, |segment| record.take(segment));
    parser.push_reasoning(CALL, |segment| record.take(segment));
    parser.push_str(rest, |segment| record.take(segment));
    parser.finish(|segment| record.take(segment));
    let through = format!("reasoning «b{}»", table::visible(CALL));
    let expected = ["text «a»", &through, "start 0@2", "call 0 f {}"];
    let events: Vec<String> = record.events.iter().map(table::show).collect();
    assert_eq!(events, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever it is cut, the same comes out of it, and where calls inside reasoning count, each byte
    /// ends up in one place.
    #[test]
    fn cuts_do_not_matter(
        format in prop::sample::select(ROWS),
        pieces in prop::collection::vec(0_usize..13, 0..16),
        answer in 0_usize..16,
        tools_in_reasoning in any::<bool>(),
        strict_balancing in any::<bool>(),
        length in 1_usize..9,
    ) {
        let format = CallFormat::of(format);
        let tools = Tools::of([("f", &serde_json::Value::Null)]);
        let mut call = String::new();
        format.push_call(&mut call, "f", "{\"x\": 1}");
        let half: String = call.chars().take(call.chars().count() / 2).collect();
        let opener = format.opener().to_owned();
        let own =
            ["a", " ", "\n", "é", "<", "{", "}", "\"", "<think>", "</think>", &opener, &call, &half];
        let words: Vec<&str> = pieces.iter().map(|&piece| own[piece]).collect();
        let (reasoning, answer) = words.split_at(answer.min(words.len()));
        let (reasoning, answer) = (reasoning.concat(), answer.concat());
        let settings =
            Settings { format, tools, strict_balancing, tools_in_reasoning, ..settings() };
        let whole = read(&settings, &reasoning, &answer, usize::MAX);
        let mut cut = read(&settings, &reasoning, &answer, length);
        cut.deltas.clone_from(&whole.deltas);
        cut.names.clone_from(&whole.names);
        prop_assert_eq!(&cut, &whole);
        let has_calls = Syntax::new(settings.clone()).unwrap().has_calls_in_reasoning();
        let input = if has_calls { [reasoning, answer].concat() } else { answer };
        if has_calls || has_no_reasoning(&whole) {
            check_conservation(&settings, input.as_bytes(), &whole);
        }
    }
}

fn has_no_reasoning(record: &Record) -> bool {
    !record.events.iter().any(|event| matches!(event, Event::Reasoning(_)))
}
