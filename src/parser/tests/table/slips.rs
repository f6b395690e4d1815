//! What models get wrong in formats with tags and labels, and talk that looks like a call.

use super::rows::named;
use super::*;

#[test]
fn a_tag_without_an_end_spoils_its_call_alone() {
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=f>\n<parameter=s\nx\n</parameter>\n</function>\n</tool_call>\nDone.",
        &[
            "start 0@0",
            "error invalid_call@0 of 0 «<parameter=s\\nx\\n</parameter>\\n»",
            "text «Done.»",
        ],
    );
    check(
        &named("glm47"),
        "<tool_call>f<arg_key>s<arg_value>x</arg_value></tool_call><tool_call>g</tool_call>",
        &[
            "start 0@0",
            "error invalid_call@0 of 0 «<arg_key>s<arg_value>x</arg_value>»",
            "start 1@58",
            "call 1 g {}",
        ],
    );
    let long = "s".repeat(257);
    let input =
        format!("<tool_call>f<arg_key>{long}</arg_key><arg_value>x</arg_value></tool_call>!");
    let raw = format!("<arg_key>{long}</arg_key><arg_value>x</arg_value>");
    check(
        &named("glm47"),
        &input,
        &["start 0@0", &format!("error invalid_call@0 of 0 «{raw}»"), "text «!»"],
    );
}

#[test]
fn a_word_in_a_tag_may_be_as_long_as_a_label() {
    let long = "s".repeat(256);
    check(
        &named("glm47"),
        format!("<tool_call>f<arg_key>{long}</arg_key><arg_value>x</arg_value></tool_call>"),
        &["start 0@0", &format!("call 0 f {{\"{long}\":\"x\"}}")],
    );
}

#[test]
fn a_value_without_its_closing_tag_spoils_its_call_alone() {
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>\n\
         <tool_call>\n<function=g>\n<parameter=s>\ny\n</parameter>\n</function>\n</tool_call>",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «<parameter=s>\\nx\\n»",
            "start 1@66",
            "call 1 g {\"s\":\"y\"}",
        ],
    );
    check(
        &named("minimax_m2"),
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">x</invoke>\n\
         <invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «<parameter name=\"s\">x»",
            "start 1@69",
            "call 1 g {}",
        ],
    );
}

#[test]
fn a_value_without_its_closing_tag_does_not_swallow_the_answer() {
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>\nI wrote it.",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «<parameter=s>\\nx\\n»",
            "text «I wrote it.»",
        ],
    );
    // Nothing closes anything: the model was cut off.
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=f>\n<parameter=s>\nx\n</func",
        &["start 0@0", "error incomplete_payload@0 of 0 «<parameter=s>\\nx\\n</func»"],
    );
}

#[test]
fn a_value_may_show_calls_and_their_ends() {
    for value in [
        "<function=g></function>",
        "<tool_call>\n<function=g>\n<parameter=s>\ny\n</function>\n</tool_call>",
        "END = '</function></tool_call>'; START = '<tool_call>'",
        "</parameter> is the end of a value",
        "</function>\nor\n<function=g>",
    ] {
        let input = format!("<function=f>\n<parameter=s>\n{value}\n</parameter>\n</function>");
        let call = format!("call 0 f {}", visible(&serde_json::json!({ "s": value }).to_string()));
        check(&named("qwen3_coder"), &input, &["start 0@0", &call]);
    }
}

#[test]
fn a_name_alone_is_a_call_only_if_it_is_a_tools() {
    for (format, input) in [
        ("glm45", "Put it between <tool_call> and </tool_call>."),
        ("glm47", "`<tool_call>x</tool_call>`"),
        ("qwen3_coder", "It begins with `<function=name></function>`."),
        ("minimax_m2", "```\n<invoke name=\"x\">\n</invoke>\n```"),
        ("kimi_k2", "<|tool_call_begin|>x:0<|tool_call_argument_begin|><|tool_call_end|>"),
        ("functionary_v31", "An empty <function=name></function> is no call."),
    ] {
        let record = read_every_way(&named(format), input.as_bytes());
        let is_talk =
            |event: &Event| matches!(event, Event::Text(_) | Event::Error { index: None, .. });
        assert!(record.events.iter().all(is_talk), "{format}: {:?}", record.events);
        assert_eq!(reference::events(&named(format), input.as_bytes()), record.events);
    }
    check(&named("qwen3_coder"), "<function=f></function>", &["start 0@0", "call 0 f {}"]);
    check(&named("glm47"), "<tool_call>f</tool_call>", &["start 0@0", "call 0 f {}"]);
    // In its frame, and with arguments, it is a call whatever its name.
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=x>\n</function>\n</tool_call>",
        &["start 0@0", "call 0 x {}"],
    );
    check(
        &named("glm47"),
        "<tool_call>x<arg_key>s</arg_key><arg_value>y</arg_value></tool_call>",
        &["start 0@0", "call 0 x {\"s\":\"y\"}"],
    );
}

#[test]
fn arguments_before_a_closer_may_be_left_out() {
    check(
        &named("kimi_k2"),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0\
         <|tool_call_argument_begin|> <|tool_call_end|><|tool_calls_section_end|>Done.",
        &["start 0@0", "call 0 f {}", "text «Done.»"],
    );
    check(&named("functionary_v31"), "<function=f></function>", &["start 0@0", "call 0 f {}"]);
}

#[test]
fn a_refused_payload_takes_its_fence_along() {
    let head = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n";
    let end = "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>Done.";
    check(
        &named("deepseek_v3"),
        format!("{head}{{\"a\": ]{end}"),
        &["start 0@0", "error unbalanced_payload@0 of 0 «{\"a\": ]»", "text «Done.»"],
    );
    let small = Settings { max_payload_bytes: 4, ..named("deepseek_v3") };
    check(
        &small,
        format!("{head}{{\"a\": 1}}{end}"),
        &["start 0@0", "error payload_too_large@0 of 0 «{\"a\"»", "text «Done.»"],
    );
}

#[test]
fn what_cannot_be_decoded_stays_text() {
    check(
        &named("glm47"),
        "<tool_call>f<arg_key>n</arg_key><arg_value>1e400</arg_value><arg_key>o</arg_key>\
         <arg_value>[\"\\ud800\"]</arg_value></tool_call>",
        &["start 0@0", r#"call 0 f {"n":"1e400","o":["�"]}"#],
    );
}

#[test]
fn a_call_ends_reasoning_where_models_leave_it_open() {
    let call = "<tool_call>\n<function=f>\n</function>\n</tool_call>";
    check(
        &named("qwen3_coder"),
        format!("<think>Hm. {call}\nDone."),
        &["reasoning «Hm. »", "start 0@11", "call 0 f {}", "text «Done.»"],
    );
    // Not where it is only mentioned.
    check(
        &named("qwen3_coder"),
        "<think>A <tool_call> begins it.</think>Yes.",
        &[
            "reasoning «A »",
            "error missing_payload@9 mid-line «<tool_call> »",
            "reasoning «<tool_call> begins it.»",
            "text «Yes.»",
        ],
    );
    check(
        &named("glm47"),
        "<think>Hm. <tool_call>f</tool_call></think>Yes.",
        &["reasoning «Hm. <tool_call>f</tool_call>»", "text «Yes.»"],
    );
}

#[test]
fn a_line_break_may_come_before_a_name() {
    check(
        &named("glm45"),
        "<tool_call>\nf\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        &["start 0@0", "call 0 f {\"s\":\"x\"}"],
    );
}
