//! Every format: calls exactly as models write them, and talk about calls, which stays text.

use super::*;
use crate::call_format::{Bare, Body, Label, ROWS, Row};

pub(super) fn of(row: &'static Row) -> Settings {
    let schema = serde_json::json!({"properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "b": {"type": ["boolean", "null"]},
        "o": {"anyOf": [{"type": "object"}, {"type": "array"}]},
    }});
    let tools = Tools::of([("f", &schema), ("g", &schema)]);
    Settings { format: CallFormat::of(row), tools, ..settings() }
}

pub(super) fn named(name: &str) -> Settings {
    of(Row::named(name).expect("a row"))
}

/// A call's name and arguments.
type Made = (&'static str, &'static str);

/// What a model wrote in a format, the text around calls, and the calls.
type Written = (&'static str, &'static str, &'static str, &'static [Made]);

const WRITTEN: &[Written] = &[
    (
        "hermes",
        "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
         <tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
        "Sure.\n",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    // EXAONE 4 writes no line breaks, Granite 4 arguments as a string.
    (
        "hermes",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
        "",
        &[("f", "{\"a\": 1}")],
    ),
    (
        "longcat",
        "<longcat_tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</longcat_tool_call>\nDone.",
        "Done.",
        &[("f", "{}")],
    ),
    (
        "tool_calls",
        "<tool_calls>[\n  {\"name\": \"f\", \"arguments\": {}, \"id\": \"1\"}, {\"name\": \"g\"}]</tool_calls>!",
        "!",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "toolcall",
        "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": \"</TOOLCALL>\"}}]</TOOLCALL>",
        "",
        &[("f", "{\"a\": \"</TOOLCALL>\"}")],
    ),
    ("granite3", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "", &[("f", "{}")]),
    ("granite3", "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]", "", &[("f", "{}")]),
    (
        "granite20b",
        "<function_call> {\"name\": \"f\", \"arguments\": {}} <function_call> {\"name\": \"g\"}",
        " ",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "cohere",
        "<|START_THINKING|>I will look.<|END_THINKING|><|START_ACTION|>[\n    \
         {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"q\": \"x\"}}\n]<|END_ACTION|>",
        "",
        &[("f", "{\"q\": \"x\"}")],
    ),
    (
        "mistral_array",
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcdefghi\"}]",
        "",
        &[("f", "{}")],
    ),
    (
        "internlm",
        "Let me.<|action_start|> <|plugin|>\n{\"name\": \"f\", \"parameters\": {\"a\": []}}\n<|action_end|>",
        "Let me.",
        &[("f", "{\"a\": []}")],
    ),
    (
        "gigachat3",
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {}}",
        "",
        &[("f", "{}")],
    ),
    ("gigachat31", "<|function_call|>{\"name\": \"f\", \"arguments\": {}}", "", &[("f", "{}")]),
    (
        "mistral_args",
        "[THINK]Hm.[/THINK]Yes.[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[ARGS]{}",
        "Yes.",
        &[("f", "{\"a\": \"[TOOL_CALLS]\"}"), ("g", "{}")],
    ),
    (
        "mistral_args_id",
        "[TOOL_CALLS]f[CALL_ID]aB3dE6gH9[ARGS]{}[TOOL_CALLS]g[ARGS]{}",
        "",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```\
         <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```\
         <｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    (
        "deepseek_v31",
        "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
         <｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.",
        "Ok.Done.",
        &[("f", "{}"), ("g", "{\"b\": 2}")],
    ),
    // Without the frame, and without its end.
    ("deepseek_v31", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}", "", &[("f", "{}")]),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
        "",
        &[("f", "{}")],
    ),
    (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:0<|tool_call_argument_begin|>\
         {\"x\": 1}<|tool_call_end|><|tool_call_begin|>functions.c:12<|tool_call_argument_begin|>{}\
         <|tool_call_end|><|tool_calls_section_end|>",
        "",
        &[("a.b", "{\"x\": 1}"), ("c", "{}")],
    ),
    // The section's marks in the singular, no prefix, white space.
    (
        "kimi_k2",
        "<|tool_call_section_begin|>\n<|tool_call_begin|> f:0 <|tool_call_argument_begin|> {} \
         <|tool_call_end|>\n<|tool_call_section_end|>",
        "",
        &[("f", "{}")],
    ),
    (
        "functionary_v31",
        "<function=f>{\"a\": 1}</function><function=g>{}</function>.",
        ".",
        &[("f", "{\"a\": 1}"), ("g", "{}")],
    ),
    (
        "qwen3_coder",
        "Ok.\n<tool_call>\n<function=f>\n<parameter=s>\n1\n2\n</parameter>\n<parameter=n>\n3\n\
         </parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
        "Ok.\n",
        &[("f", r#"{"s":"1\n2","n":3}"#), ("g", "{}")],
    ),
    // Without its frame, and a file that mentions the tag.
    (
        "qwen3_coder",
        "<function=f>\n<parameter=s>\na </parameter> b\n\n</parameter>\n</function>",
        "",
        &[("f", r#"{"s":"a </parameter> b\n"}"#)],
    ),
    // A tag that is closed twice is closed once, at its end.
    (
        "qwen3_coder",
        "<function=f><parameter=s>a</parameter></parameter></parameter> </function>",
        "",
        &[("f", r#"{"s":"a</parameter></parameter>"}"#)],
    ),
    // An empty value means that it was left out.
    (
        "qwen3_coder",
        "<tool_call>\n<function=f>\n<parameter=n>\n\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n\
         <parameter=o>\n{'a': None}\n</parameter>\n<parameter=u>\n7\n</parameter>\n</function>\n</tool_call>",
        "",
        &[("f", r#"{"b":true,"o":{"a":null},"u":"7"}"#)],
    ),
    (
        "mimo",
        "<tool_call><function=f><parameter=s>\nx</parameter><parameter=b>None</parameter></function></tool_call>",
        "",
        &[("f", r#"{"s":"\nx","b":null}"#)],
    ),
    (
        "seed_oss",
        "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n\
         </function>\n</seed:tool_call>",
        "",
        &[("f", r#"{"n":5}"#)],
    ),
    (
        "minimax_m2",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a &amp; b</parameter>\n</invoke>\n\
         <invoke name=\"g\">\n<parameter name=\"n\">-1</parameter>\n</invoke>\n</minimax:tool_call>Done.",
        "Done.",
        &[("f", r#"{"s":"a &amp; b"}"#), ("g", r#"{"n":-1}"#)],
    ),
    (
        "dsml_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n\
         <｜DSML｜parameter name=\"s\" string=\"true\">5</｜DSML｜parameter>\n\
         <｜DSML｜parameter name=\"n\" string=\"false\">5</｜DSML｜parameter>\n\
         </｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "",
        &[("f", r#"{"s":"5","n":5}"#)],
    ),
    (
        "dsml_v4",
        "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\
         <｜DSML｜parameter name=\"o\" string=\"false\">[1, 2]</｜DSML｜parameter>\n\
         </｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
        "",
        &[("f", r#"{"o":[1, 2]}"#), ("g", "{}")],
    ),
    (
        "dsml_v41",
        "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\
         <｜DSML｜ parameter name=\"b\" string=\"false\">true</｜DSML｜ parameter>\n\
         </｜DSML｜ invoke>\n</｜DSML｜ calls>",
        "",
        &[("f", r#"{"b":true}"#)],
    ),
    (
        "gcml",
        "<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"f\">\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
        "",
        &[("f", "{}")],
    ),
    (
        "glm45",
        "<think>Hm.</think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n\
         <arg_key>n</arg_key>\n<arg_value>3.0</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
        "\n",
        &[("f", r#"{"s":"x","n":3.0}"#), ("g", "{}")],
    ),
    (
        "glm47",
        "<tool_call>f<arg_key>s</arg_key><arg_value>null</arg_value></tool_call><tool_call>g</tool_call>!",
        "!",
        &[("f", r#"{"s":"null"}"#), ("g", "{}")],
    ),
    (
        "lfm2",
        "Ok.<|tool_call_start|>[f(s='it\\'s', n=-1.5, b=True, o={\"a\": [None, (1, 2)]}), g()]<|tool_call_end|>.",
        "Ok..",
        &[("f", r#"{"s":"it's","n":-1.5,"b":true,"o":{"a":[null,[1,2]]}}"#), ("g", "{}")],
    ),
    (
        "lfm2",
        "<|tool_call_start|>[Calendar.create_event(title=\"a ] b\", day='}')]<|tool_call_end|>",
        "",
        &[("Calendar.create_event", r#"{"title":"a ] b","day":"}"}"#)],
    ),
    (
        "gemma4",
        "<|channel>thought\nHm.<channel|><|tool_call>call:f{s:<|\"|>say \"}\"<|\"|>,n:1,b:true,o:{a:[1,<|\"|>x<|\"|>]}}<tool_call|>",
        "",
        &[("f", r#"{"s":"say \"}\"","n":1,"b":true,"o":{"a":[1,"x"]}}"#)],
    ),
    (
        "functiongemma",
        "<start_function_call>call:f{s:<escape>a\\b<escape>,n:2}<end_function_call><start_function_call>call:g{}<end_function_call>",
        "",
        &[("f", r#"{"s":"a\\b","n":2}"#), ("g", "{}")],
    ),
    (
        "ernie45",
        "<think>Hm.</think><response>\nI will look.\n</response>\n<tool_call>\n\
         {\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
        "I will look.\n",
        &[("f", "{}")],
    ),
    (
        "apertus",
        "<|inner_prefix|>Hm.<|inner_suffix|><|tools_prefix|>[{\"f\": {\"s\": \"x\"}}, {\"g\": {}}]<|tools_suffix|>",
        "",
        &[("f", "{\"s\": \"x\"}"), ("g", "{}")],
    ),
    (
        "apertus",
        "<|tools_prefix|>[{\"f\": \"{\\\"s\\\": 1}\"}, {\"g\": null}]<|tools_suffix|>",
        "",
        &[("f", "{\"s\": 1}"), ("g", "{}")],
    ),
    (
        "cohere_r_plus",
        "Plan: I will look.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \
         \"parameters\": {\n            \"s\": \"x\"\n        }\n    }\n]\n```\nDone.",
        "Plan: I will look.\nDone.",
        &[("f", "{\n            \"s\": \"x\"\n        }")],
    ),
    (
        "inkling",
        "<|message_model|>f<|content_invoke_tool_json|>{\"name\": \"f\", \"args\": {\"n\": 1}}<|end_message|>",
        "",
        &[("f", "{\"n\": 1}")],
    ),
    (
        "plamo3",
        "<|plamo:begin_think:plamo|>Hm.<|plamo:end_think:plamo|><|plamo:begin_tool_requests:plamo|>\
         <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>\
         <|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{\"s\": \"x\"}\
         <|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
         <|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>g<|plamo:end_tool_name:plamo|>\
         <|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{}\
         <|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>\
         <|plamo:end_tool_requests:plamo|>",
        "",
        &[("f", "{\"s\": \"x\"}"), ("g", "{}")],
    ),
    (
        "step3",
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"f\">\
         <steptml:parameter name=\"s\">x</steptml:parameter><steptml:parameter name=\"n\">5</steptml:parameter>\
         </steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        "",
        &[("f", r#"{"s":"x","n":5}"#)],
    ),
    (
        "step5",
        "<tool_call><function=f><parameter=b>None</parameter></function></tool_call>",
        "",
        &[("f", r#"{"b":null}"#)],
    ),
    (
        "hunyuan",
        "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call>\n\
         <tool_call>g<tool_sep>\n</tool_call>\n</tool_calls>",
        "",
        &[("f", r#"{"s":"x"}"#), ("g", "{}")],
    ),
    // Hunyuan 4.
    (
        "hunyuan",
        "<tool_calls>\n<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>\n</tool_call>\n</tool_calls>",
        "",
        &[("f", r#"{"n":5}"#)],
    ),
    (
        "hunyuan_opensource",
        "<think:opensource>Hm.</think:opensource><tool_calls:opensource>\n<tool_call:opensource>f\
         <tool_sep:opensource>\n<arg_key:opensource>s</arg_key:opensource>\n\
         <arg_value:opensource>x</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        "",
        &[("f", r#"{"s":"x"}"#)],
    ),
    (
        "k2_horizon",
        "<ifm|think_fast>Hm.</ifm|think_fast><ifm|tool_calls>\n<ifm|tool_call>f\n<ifm|arg_key>s</ifm|arg_key>\n\
         <ifm|arg_value>x</ifm|arg_value>\n<ifm|arg_key>u</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type>\
         <ifm|arg_value>5</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>",
        "",
        &[("f", r#"{"s":"x","u":5}"#)],
    ),
    (
        "kimi_k3",
        "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>I will look.<|close|>response<|sep|>\
         <|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>\
         <|open|>argument key=\"s\" type=\"string\"<|sep|>5<|close|>argument<|sep|>\
         <|open|>argument key=\"u\" type=\"number\"<|sep|>5<|close|>argument<|sep|><|close|>call<|sep|>\
         <|open|>call tool=\"g\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|end_of_msg|>",
        "I will look.",
        &[("f", r#"{"s":"5","u":5}"#), ("g", "{}")],
    ),
    (
        "dots",
        "<dots_function_call>\n<invoke name=\"f\">\n<parameter name=\"s\">x</parameter>\n</invoke>\n</dots_function_call>",
        "",
        &[("f", r#"{"s":"x"}"#)],
    ),
    (
        "minicpm5",
        "<function name=\"f\"><param name=\"s\"><![CDATA[a < b && c]]></param><param name=\"n\">5</param></function>\
         <function name=\"g\"></function>",
        "",
        &[("f", r#"{"s":"a < b && c","n":5}"#), ("g", "{}")],
    ),
    (
        "llama3",
        "{\"name\": \"f\", \"parameters\": {\"s\": \"}\"}}; {\"name\": \"g\", \"parameters\": {}}",
        "",
        &[("f", "{\"s\": \"}\"}"), ("g", "{}")],
    ),
    (
        "llama3",
        "\n\n{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}<|eom_id|>",
        "\n\n",
        &[("f", "{}")],
    ),
    (
        "llama3",
        "I will look.<|python_tag|>{\"name\": \"f\", \"arguments\": {}}<|eom_id|>",
        "I will look.",
        &[("f", "{}")],
    ),
    (
        "xlam",
        "<think>Hm.</think>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
        "",
        &[("f", "{}"), ("g", "{}")],
    ),
    (
        "xlam",
        "```json\n[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]\n```",
        "",
        &[("f", "{\"n\": 1}")],
    ),
    ("xlam", "Yes. [TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]", "Yes. ", &[("f", "{}")]),
    (
        "functools",
        " functools[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
        " ",
        &[("f", "{\"n\": 1}"), ("g", "{}")],
    ),
    ("pythonic", "[f(s='x', n=1), g()]", "", &[("f", r#"{"s":"x","n":1}"#), ("g", "{}")]),
];

/// The text and the calls in what was read.
pub(super) fn said(record: &Record) -> (String, Vec<(String, String)>) {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in &record.events {
        match event {
            Event::Text(words) => text.push_str(words),
            Event::Completed { name, arguments, .. } => {
                calls.push((name.clone(), arguments.clone()));
            }
            _ => {}
        }
    }
    (text, calls)
}

#[test]
fn calls_as_models_write_them() {
    for (row, input, text, calls) in WRITTEN {
        let (words, made) = said(&read_every_way(&named(row), input.as_bytes()));
        let calls: Vec<_> =
            calls.iter().map(|(name, args)| ((*name).to_owned(), (*args).to_owned())).collect();
        assert_eq!((&*words, made), (*text, calls), "{row}: {input}");
    }
}

#[test]
fn every_format_has_a_case() {
    for row in ROWS.iter().filter(|row| !row.is_taught) {
        assert!(WRITTEN.iter().any(|(name, ..)| *name == row.name), "{}", row.name);
    }
}

/// Answers that look like calls without an opener, and are none.
fn bare_talk(row: &'static Row, bare: &Bare) -> Vec<String> {
    let example = CallFormat::of(row).example();
    let call = if row.is_bare() {
        example
    } else {
        let [start, end] = [example.find('{').unwrap(), example.rfind('}').unwrap()];
        example[start..=end].to_owned()
    };
    let known = call.replace("tool_name", "f");
    let bracket = char::from(bare.bracket);
    let mut talk: Vec<String> = [
        "{\"answer\": 42}",
        "{\"name\": 5}",
        "{\"name\": \"Ada\", \"age\": 36}",
        "{\"type\": \"object\", \"name\": {}}",
        "{\"type\": \"function\"}",
        "{f: 1}",
        "[1, 2]",
        "[a link](https://example.org)",
        "[f](g) and [f]",
        "[\"f\"]",
        "[{\"name\": \"Ada\"}]",
        "```json\n{\"name\": \"Ada\"}\n```",
        "```rust\nf(1)\n```",
        "functools is a module",
        "functools.cache",
        "f(a=1)",
        "{}",
        "[]",
    ]
    .map(str::to_owned)
    .to_vec();
    // Other tools, and real calls in the middle of an answer.
    talk.extend([
        call.clone(),
        format!("Like this: {known}"),
        format!("`{known}`"),
        call.replace("tool_name", ""),
    ]);
    talk.extend([bracket.to_string(), format!("{}{bracket}{bracket}", bare.word)]);
    talk.extend([known[..known.find('f').unwrap()].to_owned(), " ".repeat(257) + &known]);
    talk
}

/// Talk about calls in a format: nothing of it is a call, and all of it is text.
fn talk(row: &'static Row) -> Vec<String> {
    let without_opener = row.bare.as_ref().map(|bare| bare_talk(row, bare)).unwrap_or_default();
    if row.is_bare() {
        return without_opener;
    }
    let format = CallFormat::of(row);
    let (opener, call) = (format.opener(), format.example());
    let end = row.label.as_ref().map_or("", Label::end);
    let after = call.find(opener).unwrap() + opener.len();
    let body = after
        + match &row.body {
            Body::Tagged(tags) => call[after..].find(tags.key[0]).unwrap(),
            _ => call[after..].find(['{', '[']).unwrap(),
        };
    let mut talk = vec![
        format!("The marker {opener} begins a call."),
        format!("`{opener}`"),
        format!("\"{opener}\", then JSON"),
        format!("```\n{opener}\n```\n"),
        format!("{opener}(see [the docs](https://example.org))"),
        format!("{opener} <div class=\"a\">{{\"name\": 1}}</div>"),
        format!("| {opener} | a table |"),
        format!("{opener}\n\n# Heading\n"),
        format!("- {opener}: the {{name}} follows"),
        opener.to_owned(),
        call[..body].to_owned(),
        "[a link](https://example.org), [TOOL] [1] [x] {} {\"name\": \"f\"}".to_owned(),
        "#include <functional> <tool> <call> <|end|> <function> [ARG] <｜x｜>".to_owned(),
    ];
    // If it could be an array, a second one means that the model has started over.
    if row.label.is_some() || !opener.starts_with('[') {
        talk.extend([format!("{opener} {opener} {opener}"), format!("{opener}{opener}")]);
    }
    // Half an opener, wherever it stops.
    talk.extend(opener.char_indices().skip(1).map(|(at, _)| format!("So {}", &opener[..at])));
    talk.extend(opener.char_indices().skip(1).map(|(at, _)| format!("{}! Or not.", &opener[..at])));
    for mark in format.marks().filter(|mark| *mark != opener).chain([end]) {
        talk.push(format!("a {mark} b"));
        talk.push(format!("`{mark}`{mark}"));
    }
    talk.extend(without_opener);
    talk
}

#[test]
fn talk_about_calls_stays_text() {
    for row in ROWS {
        let talk = talk(row);
        assert!(talk.len() >= 20, "{}", row.name);
        for input in talk {
            for lengths in [&[][..], &[1], &[2], &[3], &[1, 5]] {
                let record = record(&of(row), input.as_bytes(), lengths, How::Bytes);
                check_conservation(&of(row), input.as_bytes(), &record);
                assert_eq!(said(&record), (input.clone(), Vec::new()), "{}: {input}", row.name);
            }
        }
    }
}

/// A call whose arguments mention the format's own marks.
#[test]
fn marks_in_strings_are_arguments() {
    for row in ROWS {
        let format = CallFormat::of(row);
        // A delimiter of texts cannot be written in one.
        let is_quote = |mark: &&str| matches!(row.body, Body::Loose(quote) if quote == *mark);
        let marks = format.marks().chain(row.reasoning_tags()).filter(|mark| !is_quote(mark));
        let marks: Vec<&str> = marks.collect();
        let arguments = serde_json::json!({ "s": marks.join(" ") }).to_string();
        let mut call = String::new();
        format.push_call(&mut call, "f", &arguments);
        format.push_call(&mut call, "g", &arguments);
        let (text, calls) = said(&read_every_way(&of(row), call.as_bytes()));
        let made = ["f", "g"].map(|name| (name.to_owned(), arguments.clone()));
        assert_eq!((text.trim(), calls), ("", made.to_vec()), "{}", row.name);
    }
}

/// What models forget, and write twice.
#[test]
fn a_missing_or_doubled_end_changes_nothing() {
    for row in ROWS {
        let mut call = String::new();
        let arguments = "{\"s\":\"x\"}";
        CallFormat::of(row).push_call(&mut call, "f", arguments);
        let last = match &row.body {
            Body::Tagged(tags) => tags.value[1],
            Body::Pythonic(_) => ")",
            _ => "}",
        };
        let body_end = call.rfind(last).unwrap() + last.len();
        let closer = row.closer.as_ref().map_or("", |closer| closer.text);
        let array_end = if row.is_array { "]" } else { "" };
        for input in [
            call.trim_end().to_owned(),
            format!("{}{array_end}", &call[..body_end]),
            format!("{}{array_end}\n{closer}\n{closer}", &call[..body_end]),
        ] {
            let (text, calls) = said(&read_every_way(&of(row), input.as_bytes()));
            let made = vec![("f".to_owned(), arguments.to_owned())];
            assert_eq!((text.trim(), calls), ("", made), "{}: {input}", row.name);
        }
    }
}
