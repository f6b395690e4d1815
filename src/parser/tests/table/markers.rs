//! Markers other than the default.

use super::*;

#[test]
fn a_marker_that_overlaps_itself() {
    let settings = marked("aab");
    check(&settings, r#"aab{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"aaab{"name":"f"}"#, &["text «a»", "start 0@1", "call 0 f {}"]);
    check(&settings, r#"aaaaab{"name":"f"}"#, &["text «aaa»", "start 0@3", "call 0 f {}"]);
    check(&settings, "aaaa", &["text «aaaa»"]);
    check(&settings, r#"aacaab{"name":"f"}"#, &["text «aac»", "start 0@3", "call 0 f {}"]);
    check(
        &settings,
        r#"aabaab{"name":"f"}"#,
        &["error missing_payload@0 «aab»", "text «aab»", "start 0@3", "call 0 f {}"],
    );
    check(
        &settings,
        r#"aab{aaab{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «{a»", "start 1@5", "call 1 f {}"],
    );
}

#[test]
fn a_marker_with_a_period() {
    let settings = marked("abab");
    check(&settings, r#"abaabab{"name":"f"}"#, &["text «aba»", "start 0@3", "call 0 f {}"]);
    check(
        &settings,
        r#"ababab{"name":"f"}"#,
        &["error missing_payload@0 «abab»", r#"text «ababab{"name":"f"}»"#],
    );
    check(
        &settings,
        "abababab",
        &[
            "error missing_payload@0 «abab»",
            "text «abab»",
            "error missing_payload@4 mid-line «abab»",
            "text «abab»",
        ],
    );
    check(&settings, "aba<think>x", &["text «aba»", "reasoning «x»"]);
}

#[test]
fn a_marker_with_one_bracket_more() {
    let settings = marked("<<<function_call>>");
    check(
        &settings,
        r#"<<<<function_call>>{"name":"f"}"#,
        &["text «<»", "start 0@1", "call 0 f {}"],
    );
    check(
        &settings,
        r#"<<function_call>>{"name":"f"}"#,
        &[r#"text «<<function_call>>{"name":"f"}»"#],
    );
    check(&settings, "<<<<<", &["text «<<<<<»"]);
}

#[test]
fn a_marker_of_one_byte() {
    let settings = marked("!");
    check(
        &settings,
        r#"!{"name":"f"}!"#,
        &["start 0@0", "call 0 f {}", "error missing_payload@13 «!»", "text «!»"],
    );
    check(
        &settings,
        r#"!!{"name":"f"}"#,
        &["error missing_payload@0 «!»", "text «!»", "start 0@1", "call 0 f {}"],
    );
    check(
        &settings,
        "Hi! There!",
        &[
            "text «Hi»",
            "error missing_payload@2 mid-line «! »",
            "text «! There»",
            "error missing_payload@9 mid-line «!»",
            "text «!»",
        ],
    );
}

#[test]
fn a_marker_of_one_character() {
    let settings = marked("→");
    check(&settings, r#"→{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"€→{"name":"→"}€"#, &["text «€»", "start 0@3", "call 0 → {}", "text «€»"]);
    check(
        &settings,
        b"\xe2\x86{\xe2\xe2\x86\x92{\"name\":\"f\"}",
        &["text «�{�»", "start 0@4", "call 0 f {}"],
    );
    check(&settings, b"\xe2\x86", &["text «�»"]);
}

#[test]
fn a_marker_that_begins_the_tag() {
    let settings = marked("<th");
    check(
        &settings,
        r#"<think>{"name":"f"}"#,
        &["error missing_payload@0 «<th»", r#"text «<think>{"name":"f"}»"#],
    );
    check(&settings, r#"<th{"name":"f"}<t"#, &["start 0@0", "call 0 f {}", "text «<t»"]);
}

#[test]
fn a_marker_inside_the_tag() {
    let settings = marked("think");
    check(&settings, "<think>x</think>y", &["reasoning «x»", "text «y»"]);
    check(
        &settings,
        r#"<thinkx think{"name":"f"}"#,
        &[
            "text «<»",
            "error missing_payload@1 mid-line «think»",
            "text «thinkx »",
            "start 0@8",
            "call 0 f {}",
        ],
    );
    check(&settings, r#"<think{"name":"f"}"#, &["text «<»", "start 0@1", "call 0 f {}"]);
    check(
        &settings,
        "<think",
        &["text «<»", "error missing_payload@1 mid-line «think»", "text «think»"],
    );
}

#[test]
fn a_marker_in_the_middle_of_the_tag() {
    let settings = marked("hi");
    check(
        &settings,
        "<thinx",
        &["text «<t»", "error missing_payload@2 mid-line «hi»", "text «hinx»"],
    );
    check(
        &settings,
        "<thin",
        &["text «<t»", "error missing_payload@2 mid-line «hi»", "text «hin»"],
    );
    check(
        &settings,
        r#"<thi{"name":"f"}<think>x"#,
        &["text «<t»", "start 0@2", "call 0 f {}", "reasoning «x»"],
    );
    check(
        &settings,
        "<thin<think>x",
        &["text «<t»", "error missing_payload@2 mid-line «hi»", "text «hin»", "reasoning «x»"],
    );
}

#[test]
fn a_marker_with_a_quote_inside_a_payload() {
    let settings = marked("a\"b");
    let payload = r#"error invalid_json@0 of 0 «{a"x"b}»"#;
    check(&settings, r#"a"b{a"x"b}"#, &["start 0@0", payload]);
}

#[test]
fn a_marker_that_ends_behind_the_tag() {
    let settings = marked("ink>x");
    check(&settings, "<think>x</think>", &["reasoning «x»"]);
    check(&settings, r#"<thIink>x{"name":"f"}"#, &["text «<thI»", "start 0@4", "call 0 f {}"]);
}

#[test]
fn a_marker_around_the_tag() {
    let settings = marked("a<think>b");
    check(&settings, r#"a<think>b{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, "a<think>c", &["text «a»", "reasoning «c»"]);
    check(&settings, "a<think>", &["text «a»"]);
    check(&settings, "<think>a<think>b</think>", &["reasoning «a<think>b»"]);
}

#[test]
fn a_marker_that_is_the_tag() {
    let settings = marked("<think>");
    check(&settings, r#"<think>{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
}

#[test]
fn a_marker_with_brackets() {
    let settings = marked("[TOOL_CALLS]");
    check(&settings, r#"[TOOL_CALLS][{"name":"f"}]"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"[TOOL_CALLS] [TOOL_CALLS]{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «»", "start 1@13", "call 1 f {}"],
    );
    check(
        &settings,
        r#"[TOOL_CALLS]{"name":[TOOL_CALLS]{"name":"f"}"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"name":»"#,
            "start 1@20",
            "call 1 f {}",
        ],
    );
    check(&settings, "[x] [TOOL_", &["text «[x] [TOOL_»"]);
}

#[test]
fn a_marker_that_json_may_hold() {
    let settings = marked("{");
    check(
        &settings,
        r#"{{"name":"f","arguments":{"a":{}}}"#,
        &["start 0@0", r#"call 0 f {"a":{}}"#],
    );
    check(&settings, "{ x", &["error missing_payload@0 «{ »", "text «{ x»"]);
}

#[test]
fn a_marker_with_quotes() {
    let settings = marked(r#""q""#);
    check(&settings, r#""q"{"q":1,"name":"f","args":{}}"#, &["start 0@0", "call 0 f {}"]);
}
