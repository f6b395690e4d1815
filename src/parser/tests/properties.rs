//! On random inputs with random cuts, the parser agrees with the plain reference.

use proptest::prelude::*;

use super::*;
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
    "[TOOL_CALLS]",
    "{",
    "→",
    "\"",
    "```",
];

fn inputs() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        9 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        1 => prop::sample::select(PIECES).prop_flat_map(|piece| {
            (0..=piece.len()).prop_map(move |n| piece.as_bytes()[..n].to_vec())
        }),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Any marker, or a format with a closer.
fn formats() -> impl Strategy<Value = CallFormat> {
    prop_oneof![
        3 => prop::sample::select(MARKERS).prop_map(CallFormat::marker),
        2 => Just(CallFormat::of(&HERMES)),
    ]
}

prop_compose! {
    fn any_settings()(
        format in formats(),
        flags in any::<[bool; 6]>(),
        max_payload_bytes in prop_oneof![3 => Just(65536_usize), 1 => 1_usize..80],
    ) -> Settings {
        Settings {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn says_what_the_reference_says(
        settings in any_settings(),
        input in inputs(),
        lengths in prop::collection::vec(1_usize..12, 0..6),
        as_text in any::<bool>(),
    ) {
        let expected = reference::events(&settings, &input);
        let how = if as_text { How::Text } else { How::Bytes };
        let cut = record(&settings, &input, &lengths, how);
        check_conservation(&settings, &input, &cut);
        prop_assert_eq!(&cut.events, &expected, "{}", String::from_utf8_lossy(&input));
        // Without spans, plain chunks take a shortcut.
        let quiet = Settings { spans: false, ..settings };
        let quick = record(&quiet, &input, &lengths, how);
        prop_assert_eq!(&quick.events, &expected, "{}", String::from_utf8_lossy(&input));
    }

    #[test]
    fn fuzz_bodies_hold_on_random_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        parser_chunks(&data);
        parser_repair(&data);
    }
}
