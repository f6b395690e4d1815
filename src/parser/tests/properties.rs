//! On random inputs with random cuts, the parser agrees with the plain reference.

use proptest::prelude::*;

use super::*;
use crate::call_format::{Body, Hint, ROWS, Row, ValueType};
use crate::parser::fuzz::{parser_chunks, parser_repair};

/// The pieces of inputs: whole things, halves of them, and whatever might upset them.
const PIECES: &[&str] = &[
    "<<function_call>>",
    "<<function",
    "_call>>",
    "<",
    "<<",
    "<think>",
    "</think>",
    "`<think>",
    "<thi",
    "</",
    " ",
    "\n",
    "\r\n",
    "\r",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "'",
    ",",
    ":",
    "`",
    "```",
    "```json\n",
    "json",
    "{}",
    "[]",
    "{\"name\":\"f\"}",
    "{\"name\":\"f\",\"arguments\":{\"a\":[1,2.50,\"}\"]}}",
    "{\"name\":\"f\",\"arguments\":\"{\\\"b\\\":1}\"}",
    "{\"name\":\"f\",\"arguments\":{\"b\":1,\"\\u0062\":2}}",
    "{\"tool\":\"g\",\"args\":{\"é\":\"→\"},}",
    "[{\"name\":\"a\"},{\"name\":\"b\",\"input\":{}},7]",
    "{'name': 'f', 'arguments': {'x': True}}",
    "\"name\":",
    "\"arguments\":",
    "\"<<function_call>>\"",
    "\\u00e9",
    "\\ud800",
    "1e999",
    "null",
    "None",
    "words of text",
    "é",
    "→",
    "日本語",
    "🦀",
    "aab",
    "aaab",
    "[TOOL_CALLS]",
    "<tool_call>",
    "</tool_call>",
    "<tool_call>\n{\"name\":\"f\"}\n</tool_call>\n",
    "<tool_call>{\"name\":\"f\",",
    "}\n</tool_",
    "tool_call>",
    "\"<tool_call></tool_call>\"",
];

const MARKERS: &[&str] = &[
    "<<function_call>>",
    "<<function_call>>",
    "<<<function_call>>",
    "aab",
    "<",
    "think",
    "hi",
    "<think>",
    "a<think>b",
    "`<think>b",
    "[TOOL_CALLS]",
    "{",
    "→",
    "\"",
    "```",
];

/// Pieces for this format: those above, its own marks, and calls.
fn pieces(format: &CallFormat) -> Vec<String> {
    let mut pieces: Vec<String> = PIECES.iter().map(|&piece| piece.to_owned()).collect();
    // As often as all others together.
    let marks = format
        .marks()
        .chain(format.row().reasoning_tags())
        .chain(format.row().hidden.iter().map(|it| -> &str { it }))
        .map(str::to_owned);
    let mut own: Vec<String> = marks.collect();
    for (name, arguments) in [("f", "{}"), ("a.b", "{\"x\": [1]}")] {
        let mut call = String::new();
        format.push_call(&mut call, name, arguments);
        own.push(call);
    }
    if let Some(label) = &format.row().label {
        own.extend(
            [label.prefix, "now", ":0", "[CALL_ID]", "\" index=\"1", "0\" name=\""]
                .map(str::to_owned),
        );
        own.extend(label.ends.iter().map(|&end| end.to_owned()));
    }
    if let Body::Nested(elements) = &format.row().body {
        own.extend([elements.open, elements.close, elements.end].map(str::to_owned));
        for kind in [ValueType::Text, ValueType::Object, ValueType::Array] {
            own.extend([elements.opening_tag(Some("x"), kind), elements.closing_tag(Some("x"))]);
            own.extend([elements.opening_tag(None, kind), elements.closing_tag(None)]);
        }
    }
    if let Row { header: Some(header), closer, .. } = format.row() {
        let ends = closer.iter().map(|closer| closer.text).chain([header.message_end]);
        own.extend(ends.map(|end| format!("{end}{}", header.openers[0])));
        let words =
            [" to=", " to=f", "functions.f", "assistant", "commentary", "final", "f\n", "all\n"];
        own.extend(words.map(str::to_owned));
        own.extend(
            ["<|channel|>analysis to=python code<|message|>", ">>>python\n"].map(str::to_owned),
        );
        own.extend(["<|channel|>analysis<|message|>", "self<|message|>"].map(str::to_owned));
    }
    own.retain(|piece| !piece.is_empty());
    let times = pieces.len() / own.len();
    pieces.extend((0..times).flat_map(|_| own.clone()));
    pieces
}

fn inputs(format: &CallFormat) -> impl Strategy<Value = Vec<u8>> + use<> {
    let pieces = pieces(format);
    let piece = prop_oneof![
        9 => prop::sample::select(pieces.clone()).prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        1 => prop::sample::select(pieces).prop_flat_map(|piece| {
            (0..=piece.len()).prop_map(move |n| piece.as_bytes()[..n].to_vec())
        }),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Settings, and an input for their format.
fn cases() -> impl Strategy<Value = (Settings, Vec<u8>)> {
    any_settings().prop_flat_map(|settings| {
        let input = inputs(&settings.format);
        (Just(settings), input)
    })
}

/// Any marker, or any row.
fn formats() -> impl Strategy<Value = CallFormat> {
    prop_oneof![
        3 => prop::sample::select(MARKERS).prop_map(CallFormat::marker),
        3 => prop::sample::select(ROWS).prop_map(CallFormat::of),
    ]
}

/// The tools that the pieces call.
fn tools() -> Tools {
    let schema = serde_json::json!({"properties": {
        "x": {"type": ["array", "null"]}, "n": {"type": "integer"}, "b": {"type": "string"},
    }});
    Tools::of([("f", &schema), ("a.b", &schema), ("python", &schema)])
}

prop_compose! {
    fn any_settings()(
        format in formats(),
        flags in any::<[bool; 6]>(),
        max_payload_bytes in prop_oneof![3 => Just(65536_usize), 1 => 1_usize..80],
    ) -> Settings {
        Settings {
            tools: tools(),
            format,
            calls: flags[5],
            strict_balancing: flags[0],
            max_payload_bytes,
            tools_in_reasoning: flags[1],
            reasoning: flags[2],
            starts_in_reasoning: flags[3],
            argument_deltas: flags[4],
            spans: true,
        }
    }
}

/// Inputs that begin like a call with arguments in tags, and go on with its marks in any order.
fn tagged_cases() -> impl Strategy<Value = (Settings, Vec<u8>)> {
    let rows: Vec<&'static Row> =
        ROWS.iter().copied().filter(|row| matches!(row.body, Body::Tagged(_))).collect();
    let case = (any_settings(), prop::sample::select(rows)).prop_flat_map(|(settings, row)| {
        let Body::Tagged(tags) = &row.body else { unreachable!("they have been selected") };
        let format = CallFormat::of(row);
        let mut call = String::new();
        format.push_call(&mut call, "f", "{\"x\": \"y\"}");
        let head = call[..call.find(tags.key[0]).unwrap()].to_owned();
        let open = format!("{}x{}", tags.key[0], tags.key[1]);
        let argument = &call[head.len()..call.rfind(tags.value[1]).unwrap() + tags.value[1].len()];
        let mut pieces: Vec<String> = format.marks().map(str::to_owned).collect();
        pieces.extend([open, argument.to_owned(), argument.replace('x', "n")]);
        pieces.extend([" ", "\n", "5", "<", "</", "null", "\""].map(str::to_owned));
        pieces.extend([tags.value[1].to_owned(), tags.value[0].to_owned()]);
        let hint = tags.hint.and_then(Hint::open).into_iter().chain(tags.hint.map(Hint::close));
        pieces.extend(hint.chain(tags.wrap.into_iter().flatten()).map(str::to_owned));
        let settings = Settings { format, calls: true, ..settings };
        let rest = prop::collection::vec(prop::sample::select(pieces), 0..12);
        (Just(settings), rest.prop_map(move |rest| (head.clone() + &rest.concat()).into_bytes()))
    });
    case.boxed()
}

/// Inputs of messages with headers.
fn message_cases() -> impl Strategy<Value = (Settings, Vec<u8>)> {
    let rows: Vec<&'static Row> = ROWS.iter().copied().filter(|row| row.header.is_some()).collect();
    let case = (any_settings(), prop::sample::select(rows)).prop_flat_map(|(settings, row)| {
        let format = CallFormat::of(row);
        let mut call = String::new();
        format.push_call(&mut call, "f", "{\"x\": \"y\"}");
        let open = call[..call.rfind('y').unwrap()].to_owned();
        let code = ["<|channel|>analysis to=python code<|message|>", ">>>python\n"];
        let heads = [String::new(), open].into_iter().chain(code.map(str::to_owned));
        let heads: Vec<String> = heads.collect();
        let rest = inputs(&format);
        let settings = Settings { format, calls: true, ..settings };
        let input = (prop::sample::select(heads), rest)
            .prop_map(|(head, rest)| [head.into_bytes(), rest].concat());
        (Just(settings), input)
    });
    case.boxed()
}

/// Inputs that begin like a call without an opener, and go on with its parts in any order.
fn bare_cases() -> impl Strategy<Value = (Settings, Vec<u8>)> {
    let rows: Vec<&'static Row> = ROWS.iter().copied().filter(|row| row.bare.is_some()).collect();
    let case = (any_settings(), prop::sample::select(rows)).prop_flat_map(|(settings, row)| {
        let format = CallFormat::of(row);
        let mut call = String::new();
        format.push_call(&mut call, "f", "{\"x\": \"y\"}");
        let mut pieces: Vec<String> = [
            "{",
            "[",
            "}",
            "]",
            "\"name\"",
            ":",
            "\"f\"",
            "\"type\":\"function\",",
            "f(",
            "f",
            "x=1",
            ")",
            ", ",
            "; ",
            " ",
            "\n",
            "```json\n",
            "```",
            "functools",
            "<think>",
            "</think>",
            "\"parameters\"",
            "{\"name\":",
            "[{\"name\": \"f\"",
            "{}",
            "words",
            "é",
            "\u{a0}",
        ]
        .map(str::to_owned)
        .to_vec();
        pieces.extend([call.clone(), call.trim().to_owned(), call.replace('f', "g")]);
        pieces.push(" ".repeat(250));
        let settings = Settings { format, calls: true, ..settings };
        let rest = prop::collection::vec(prop::sample::select(pieces), 0..10);
        (Just(settings), rest.prop_map(|rest| rest.concat().into_bytes()))
    });
    case.boxed()
}

fn agrees(
    settings: Settings,
    input: &[u8],
    lengths: &[usize],
    how: How,
) -> Result<(), TestCaseError> {
    let expected = reference::events(&settings, input);
    let cut = record(&settings, input, lengths, how);
    check_conservation(&settings, input, &cut);
    prop_assert_eq!(&cut.events, &expected, "{}", String::from_utf8_lossy(input));
    // Without spans, plain chunks take a shortcut.
    let quiet = Settings { spans: false, ..settings };
    let quick = record(&quiet, input, lengths, how);
    prop_assert_eq!(&quick.events, &expected, "{}", String::from_utf8_lossy(input));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn says_what_the_reference_says(
        (settings, input) in cases(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
        as_text in any::<bool>(),
    ) {
        agrees(settings, &input, &lengths, if as_text { How::Text } else { How::Bytes })?;
    }

    #[test]
    fn reads_arguments_in_tags_as_the_reference_does(
        (settings, input) in tagged_cases(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        agrees(settings, &input, &lengths, How::Bytes)?;
    }

    #[test]
    fn reads_messages_as_the_reference_does(
        (settings, input) in message_cases(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        agrees(settings, &input, &lengths, How::Bytes)?;
    }

    #[test]
    fn looks_for_calls_without_an_opener_as_the_reference_does(
        (settings, input) in bare_cases(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
    ) {
        agrees(settings, &input, &lengths, How::Bytes)?;
    }

    #[test]
    fn fuzz_bodies_hold_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        parser_chunks(&data);
        parser_repair(&data);
    }
}
