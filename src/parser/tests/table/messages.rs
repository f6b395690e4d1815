//! Messages with headers: what ends one whose call is not closed.

use super::rows::named;
use super::*;

const LAST: &str = "<|start|>assistant<|channel|>final<|message|>Done.";

#[test]
fn a_string_that_never_ends_leaves_the_next_message_alone() {
    let harmony = named("harmony");
    let call = "<|channel|>commentary to=functions.f<|message|>";
    let refused = |raw: &str| format!("error unbalanced_payload@0 of 0 «{{\"s\":\"x}}{raw}»");
    for (end, raw) in [("<|call|>", ""), ("<|end|>", ""), ("<|end|><|call|>", "<|end|>")] {
        let input = format!("{call}{{\"s\":\"x}}{end}{LAST}");
        check(&harmony, &input, &["start 0@0", &refused(raw), "text «Done.»"]);
    }
    // The next message is another call.
    check(
        &harmony,
        format!("{call}{{\"s\":\"x}}<|call|><|start|>assistant to=g<|message|>{{}}<|call|>"),
        &["start 0@0", &refused(""), "start 1@63", "call 1 g {}"],
    );
    let small = Settings { max_payload_bytes: 7, ..harmony };
    check(
        &small,
        format!("{call}{{\"s\":\"long}}<|call|>{LAST}"),
        &["start 0@0", "error payload_too_large@0 of 0 «{\"s\":\"l»", "text «Done.»"],
    );
}

#[test]
fn a_value_that_never_ends_leaves_the_next_message_alone() {
    let call = " to=f<|channel|>analysis<|message|><rfl:parameter name=\"s\">x";
    check(
        &named("beam"),
        format!("{call}<|call|>{LAST}"),
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «<rfl:parameter name=\"s\">x»",
            "text «Done.»",
        ],
    );
    let call =
        " to=f<|message|><atem:function_calls><atem:invoke name=\"f\"><atem:parameter name=\"s\">x";
    let last = "<|start|>assistant to=user<|message|>Done.";
    for end in ["", "</atem:invoke>\n</atem:function_calls>"] {
        let raw = format!("<atem:parameter name=\"s\">x{end}").replace('\n', "\\n");
        check(
            &named("muse"),
            format!("{call}{end}<|eom|>{last}"),
            &["start 0@0", &format!("error unbalanced_payload@0 of 0 «{raw}»"), "text «Done.»"],
        );
    }
}

/// A string may be about the format.
#[test]
fn a_mark_alone_is_part_of_a_string() {
    for string in [
        "<|call|>",
        "<|end|> <|start|>",
        "<|call|>\\n<|start|>assistant",
        "<|call|>\\u003c|start|>",
        "<|call|><|start",
        "<|call\\u007c><|start|>",
        "<|start|><|call|>",
        "<<|call|<|call|>",
    ] {
        let arguments = format!("{{\"s\":\"{string}\"}}");
        let input = format!("<|channel|>commentary to=functions.f<|message|>{arguments}<|call|>");
        check(&named("harmony"), input, &["start 0@0", &format!("call 0 f {arguments}")]);
    }
}
