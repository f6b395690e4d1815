//! Text, reasoning, and the calls between them.

#![expect(clippy::too_many_lines, reason = "rows")]

use super::rows::named;
use super::*;

#[test]
fn text_passes_through() {
    let settings = settings();
    check(&settings, "", &[]);
    check(&settings, "Hello, world.", &["text «Hello, world.»"]);
    check(&settings, "line\nline\r\nline\rline", &[r"text «line\nline\r\nline\rline»"]);
    check(&settings, "日本語 🦀 é → naïve", &["text «日本語 🦀 é → naïve»"]);
    check(
        &settings,
        r#"{"name":"f"} without a marker"#,
        &[r#"text «{"name":"f"} without a marker»"#],
    );
    check(&settings, "[1] and {2} and `x`", &["text «[1] and {2} and `x`»"]);
    check(&settings, "<function_call> {}", &["text «<function_call> {}»"]);
    check(&settings, "a < b << c <<< d", &["text «a < b << c <<< d»"]);
    check(
        &settings,
        r#"<<function_call> {"name":"f"}"#,
        &[r#"text «<<function_call> {"name":"f"}»"#],
    );
    check(&settings, "<< function_call>>{}", &["text «<< function_call>>{}»"]);
    check(&settings, "\0 and \u{7f}", &["text «\\0 and \u{7f}»"]);
}

#[test]
fn invalid_utf8_is_replaced_by_maximal_subparts() {
    let settings = settings();
    check(&settings, b"a\xffb", &["text «a�b»"]);
    check(&settings, b"a\xe2\x82", &["text «a�»"]);
    check(&settings, b"\xe2\x82\xe2\x82\xac", &["text «�€»"]);
    check(&settings, b"\xf0\x9f\xa6<", &["text «�<»"]);
    check(&settings, b"\xf0\x9f\xa6\x80\xf0\x9f", &["text «🦀�»"]);
    check(&settings, b"\xed\xa0\x80x", &["text «���x»"]);
    check(&settings, b"\xc0\xaf", &["text «��»"]);
    check(&settings, b"\xf8\x88\x80\x80\x80", &["text «�����»"]);
    check(&settings, b"\x80\x80", &["text «��»"]);
    check(
        &settings,
        b"\xe2\x82<think>\x82\xac</think>\xac",
        &["text «�»", "reasoning «��»", "text «�»"],
    );
    check(
        &settings,
        b"\xe2<<function_call>>\x82\xac",
        &[
            "text «�»",
            "error missing_payload@1 mid-line «<<function_call>>»",
            "text «<<function_call>>��»",
        ],
    );
    check(
        &settings,
        b"\xf0\x9f<<function_call>>{\"name\":\"f\"}\xa6\x80",
        &["text «�»", "start 0@2", "call 0 f {}", "text «��»"],
    );
    check(&settings, b"\xe2\x82<<function\x80", &["text «�<<function�»"]);
    check(&settings, b"<think>a\xf0\x9f\xa6", &["reasoning «a�»"]);
    check(
        &settings,
        b"<<function_call>>\n\xe2\x82",
        &[r"error missing_payload@0 «<<function_call>>\n»", r"text «<<function_call>>\n�»"],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"f\"}\r\xe2\x82",
        &["start 0@0", "call 0 f {}", r"text «\r�»"],
    );
    check(&settings, b"\xef\xbb<think>\xbf", &["text «�»", "reasoning «�»"]);
}

#[test]
fn a_byte_order_mark_is_text_like_any_other() {
    let settings = settings();
    check(&settings, "\u{feff}", &["text «\u{feff}»"]);
    check(&settings, "\u{feff}§{\"name\":\"f\"}", &["text «\u{feff}»", "start 0@3", "call 0 f {}"]);
    check(
        &settings,
        "\u{feff}§ talk",
        &[
            "text «\u{feff}»",
            "error missing_payload@3 mid-line «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
    check(
        &settings,
        "§\u{feff}{}",
        &["error missing_payload@0 «<<function_call>>»", "text «<<function_call>>\u{feff}{}»"],
    );
}

#[test]
fn nul_bytes() {
    let settings = settings();
    check(&settings, "<\0<think>\0</think>", &[r"text «<\0»", r"reasoning «\0»"]);
    check(
        &settings,
        "§\0{}",
        &["error missing_payload@0 «<<function_call>>»", r"text «<<function_call>>\0{}»"],
    );
    check(
        &settings,
        "§{\"name\":\"f\"\0}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f"\0}»"#],
    );
    check(
        &settings,
        "§{\"name\":\"\0\"}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"\0"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\u0000"}}"#,
        &["start 0@0", r#"call 0 f {"a":"\u0000"}"#],
    );
}

#[test]
fn lines_that_end_in_cr_lf() {
    let settings = settings();
    check(
        &settings,
        "a\r\n§\r\n{\"name\":\"f\"}\r\nb",
        &[r"text «a\r\n»", "start 0@3", "call 0 f {}", "text «b»"],
    );
    check(
        &settings,
        "a\r\n§\r\nb",
        &[
            r"text «a\r\n»",
            r"error missing_payload@3 «<<function_call>>\r\n»",
            r"text «<<function_call>>\r\nb»",
        ],
    );
    // A CR alone does not end a line.
    check(
        &settings,
        "a\r§\r",
        &[
            r"text «a\r»",
            r"error missing_payload@2 mid-line «<<function_call>>\r»",
            r"text «<<function_call>>\r»",
        ],
    );
    check(
        &settings,
        "§{\"name\":\"f\"}\r§{\"name\":\"g\"}",
        &["start 0@0", "call 0 f {}", r"text «\r»", "start 1@30", "call 1 g {}"],
    );
}

#[test]
fn a_call_and_the_text_around_it() {
    let settings = settings();
    check(&settings, r#"§{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§ {"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        "Let me check. § {\"name\":\"f\",\"arguments\":{\"a\":1}}\nDone, bye.",
        &["text «Let me check. »", "start 0@14", r#"call 0 f {"a":1}"#, "text «Done, bye.»"],
    );
    check(&settings, "§{\"name\":\"f\"}\n\nMore", &["start 0@0", "call 0 f {}", r"text «\nMore»"]);
    check(&settings, "§{\"name\":\"f\"}\r\nMore", &["start 0@0", "call 0 f {}", "text «More»"]);
    check(&settings, "§{\"name\":\"f\"}\rMore", &["start 0@0", "call 0 f {}", r"text «\rMore»"]);
    check(
        &settings,
        "§{\"name\":\"f\"}\r\r\nMore",
        &["start 0@0", "call 0 f {}", r"text «\r\r\nMore»"],
    );
    check(&settings, "§{\"name\":\"f\"}\r", &["start 0@0", "call 0 f {}", r"text «\r»"]);
    check(&settings, "§{\"name\":\"f\"}\n", &["start 0@0", "call 0 f {}"]);
    check(&settings, "§{\"name\":\"f\"} \nMore", &["start 0@0", "call 0 f {}", r"text « \nMore»"]);
    check(&settings, r#"§{"name":"f"}}"#, &["start 0@0", "call 0 f {}", "text «}»"]);
    check(
        &settings,
        "§ {\"name\":\"a\"}\n§ {\"name\":\"b\"}\n",
        &["start 0@0", "call 0 a {}", "start 1@31", "call 1 b {}"],
    );
    check(
        &settings,
        r#"§{"name":"a"}§{"name":"b"}"#,
        &["start 0@0", "call 0 a {}", "start 1@29", "call 1 b {}"],
    );
    check(
        &settings,
        "x§{\"name\":\"a\"}\ny§{\"name\":\"b\"}\nz",
        &[
            "text «x»",
            "start 0@1",
            "call 0 a {}",
            "text «y»",
            "start 1@32",
            "call 1 b {}",
            "text «z»",
        ],
    );
    check(&settings, r#"é§{"name":"é"}é"#, &["text «é»", "start 0@2", "call 0 é {}", "text «é»"]);
}

#[test]
fn the_gap() {
    let settings = settings();
    check(&settings, "§ \t\r\n {\"name\":\"f\"}", &["start 0@0", "call 0 f {}"]);
    check(&settings, "§\n{\"name\":\"f\"}", &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        "§",
        &["error missing_payload@0 «<<function_call>>»", "text «<<function_call>>»"],
    );
    check(
        &settings,
        "§ ",
        &["error missing_payload@0 «<<function_call>> »", "text «<<function_call>> »"],
    );
    check(
        &settings,
        "§\n\n",
        &[r"error missing_payload@0 «<<function_call>>\n\n»", r"text «<<function_call>>\n\n»"],
    );
    check(
        &settings,
        "Use § to call.",
        &[
            "text «Use »",
            "error missing_payload@4 mid-line «<<function_call>> »",
            "text «<<function_call>> to call.»",
        ],
    );
    check(
        &settings,
        "the `§` marker",
        &[
            "text «the `»",
            "error missing_payload@5 mid-line «<<function_call>>»",
            "text «<<function_call>>` marker»",
        ],
    );
    check(
        &settings,
        "a\n§ b",
        &[
            r"text «a\n»",
            "error missing_payload@2 «<<function_call>> »",
            "text «<<function_call>> b»",
        ],
    );
    check(
        &settings,
        "a\n § b",
        &[
            r"text «a\n »",
            "error missing_payload@3 mid-line «<<function_call>> »",
            "text «<<function_call>> b»",
        ],
    );
    check(
        &settings,
        r#"§§{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>>»",
            "text «<<function_call>>»",
            "start 0@17",
            "call 0 f {}",
        ],
    );
    check(
        &settings,
        r#"§ §{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> »",
            "text «<<function_call>> »",
            "start 0@18",
            "call 0 f {}",
        ],
    );
    check(
        &settings,
        "§ § §",
        &[
            "error missing_payload@0 «<<function_call>> »",
            "text «<<function_call>> »",
            "error missing_payload@18 mid-line «<<function_call>> »",
            "text «<<function_call>> »",
            "error missing_payload@36 mid-line «<<function_call>>»",
            "text «<<function_call>>»",
        ],
    );
    check(
        &settings,
        "§<think>x</think>",
        &[
            "error missing_payload@0 «<<function_call>>»",
            "text «<<function_call>>»",
            "reasoning «x»",
        ],
    );
    check(
        &settings,
        "§<<function_call",
        &["error missing_payload@0 «<<function_call>>»", "text «<<function_call>><<function_call»"],
    );
    check(
        &settings,
        "§\u{a0}{}",
        &["error missing_payload@0 «<<function_call>>»", "text «<<function_call>>\u{a0}{}»"],
    );
    check(
        &settings,
        "§\u{b}{}",
        &["error missing_payload@0 «<<function_call>>»", "text «<<function_call>>\u{b}{}»"],
    );
    check(
        &settings,
        r#"§:{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>>»",
            r#"text «<<function_call>>:{"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ "name""#,
        &["error missing_payload@0 «<<function_call>> »", r#"text «<<function_call>> "name"»"#],
    );
    check(
        &settings,
        "§ ```json\n{\"name\":\"f\"}\n```",
        &[
            "error missing_payload@0 «<<function_call>> »",
            r#"text «<<function_call>> ```json\n{"name":"f"}\n```»"#,
        ],
    );
    check(
        &settings,
        r#"§ json {"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> »",
            r#"text «<<function_call>> json {"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§(§{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>>»",
            "text «<<function_call>>(»",
            "start 0@18",
            "call 0 f {}",
        ],
    );
}

#[test]
fn marker_pieces_are_text_after_all() {
    let settings = settings();
    check(&settings, "<", &["text «<»"]);
    check(&settings, "<<", &["text «<<»"]);
    check(&settings, "<<function_call>", &["text «<<function_call>»"]);
    check(
        &settings,
        r#"<<<function_call>>{"name":"f"}"#,
        &["text «<»", "start 0@1", "call 0 f {}"],
    );
    check(
        &settings,
        r#"<<<<function_call>>{"name":"f"}"#,
        &["text «<<»", "start 0@2", "call 0 f {}"],
    );
    check(
        &settings,
        r#"<<function_<<function_call>>{"name":"f"}"#,
        &["text «<<function_»", "start 0@11", "call 0 f {}"],
    );
    check(
        &settings,
        r#"<<function_call><<function_call>>{"name":"f"}"#,
        &["text «<<function_call>»", "start 0@16", "call 0 f {}"],
    );
    check(&settings, "<<func<think>x", &["text «<<func»", "reasoning «x»"]);
    check(
        &settings,
        r#"<thin<<function_call>>{"name":"f"}"#,
        &["text «<thin»", "start 0@5", "call 0 f {}"],
    );
    check(
        &settings,
        r#"<<FUNCTION_CALL>> {"name":"f"}"#,
        &[r#"text «<<FUNCTION_CALL>> {"name":"f"}»"#],
    );
    check(&settings, "</think>", &["text «</think>»"]);
}

#[test]
fn reasoning() {
    let settings = settings();
    check(&settings, "<think>why</think>because", &["reasoning «why»", "text «because»"]);
    check(&settings, "<think>", &[]);
    check(&settings, "<think>open", &["reasoning «open»"]);
    check(&settings, "<think></think>", &[]);
    check(
        &settings,
        "a<think>b</think>c<think>d</think>e",
        &["text «a»", "reasoning «b»", "text «c»", "reasoning «d»", "text «e»"],
    );
    check(&settings, "a</think>b", &["text «a</think>b»"]);
    check(&settings, "<think>a<think>b</think>c", &["reasoning «a<think>b»", "text «c»"]);
    check(
        &settings,
        "<think>a</thin>b</thinkx</think>c",
        &["reasoning «a</thin>b</thinkx»", "text «c»"],
    );
    check(&settings, "<think>a<</think>b", &["reasoning «a<»", "text «b»"]);
    check(
        &settings,
        r#"<think>§{"name":"f"}</think>x"#,
        &[r#"reasoning «<<function_call>>{"name":"f"}»"#, "text «x»"],
    );
    check(
        &settings,
        "<think>x</think>§{\"name\":\"f\"}\n",
        &["reasoning «x»", "start 0@16", "call 0 f {}"],
    );
    check(
        &settings,
        r#"§{"name":"f"}<think>x</think>"#,
        &["start 0@0", "call 0 f {}", "reasoning «x»"],
    );
    check(
        &settings,
        "<think>x</think>§ talk",
        &[
            "reasoning «x»",
            "error missing_payload@16 «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
    check(&settings, "<think>\n\n</think>\n\nHi", &[r"reasoning «\n\n»", r"text «\n\nHi»"]);
    check(&settings, r#"§{"name":"<think>"}x"#, &["start 0@0", "call 0 <think> {}", "text «x»"]);
    check(&settings, "<thinker>", &["text «<thinker>»"]);
    check(&settings, "< think>x</think>", &["text «< think>x</think>»"]);
}

#[test]
fn a_reasoning_tag_in_quotes_is_written_about() {
    let settings = settings();
    for quote in ["`", "\"", "'"] {
        let input = format!("Write {quote}<think>{quote} and {quote}</think>{quote}.");
        check(&settings, &input, &[&format!("text «{input}»")]);
    }
    check(
        &settings,
        "A `<think>` tag.<think>b</think>`<think>`",
        &["text «A `<think>` tag.»", "reasoning «b»", "text «`<think>`»"],
    );
    check(&settings, "`` <think>b", &["text «`` »", "reasoning «b»"]);
    check(
        &settings,
        "\"§{\"name\":\"f\"}<think>b",
        &["text «\"»", "start 0@1", "call 0 f {}", "reasoning «b»"],
    );
    check(
        &settings,
        "\"§<think>",
        &[
            "text «\"»",
            "error missing_payload@1 mid-line «<<function_call>>»",
            "text «<<function_call>>»",
        ],
    );
    let settings = marked("`<think>!");
    check(&settings, "a`<think>b", &["text «a`<think>b»"]);
    check(
        &settings,
        "a`<think>`<think>!{\"name\":\"f\"}",
        &["text «a`<think>»", "start 0@9", "call 0 f {}"],
    );
    check(&named("mistral_args"), "The `[THINK]` tag", &["text «The `[THINK]` tag»"]);
}

#[test]
fn reasoning_is_a_setting() {
    let settings = with(|s| s.reasoning = false);
    check(&settings, "<think>a</think>b", &["text «<think>a</think>b»"]);
    check(
        &settings,
        r#"<think>§{"name":"f"}</think>"#,
        &["text «<think>»", "start 0@7", "call 0 f {}", "text «</think>»"],
    );
}

#[test]
fn without_calls_a_marker_is_text() {
    let settings = with(|s| s.calls = false);
    check(&settings, r#"§ {"name":"f"}"#, &[r#"text «<<function_call>> {"name":"f"}»"#]);
    check(&settings, "<think>§{}</think>b", &["reasoning «<<function_call>>{}»", "text «b»"]);
    let nothing = with(|s| (s.calls, s.reasoning) = (false, false));
    check(&nothing, "\0§{}<think>\0\0", &["text «\\0<<function_call>>{}<think>\\0\\0»"]);
}

#[test]
fn a_syntax_without_calls_is_otherwise_the_same() {
    let changed = with(|s| s.max_payload_bytes = 9);
    let syntax = Syntax::new(changed.clone()).unwrap();
    assert_eq!(syntax.settings(), &changed);
    assert_eq!(syntax.without_calls().settings(), &Settings { calls: false, ..changed });
}

#[test]
fn a_stream_that_begins_in_reasoning() {
    let settings = with(|s| s.starts_in_reasoning = true);
    check(&settings, "why</think>because", &["reasoning «why»", "text «because»"]);
    check(&settings, "why", &["reasoning «why»"]);
    check(
        &settings,
        r#"§{"name":"f"}</think>§{"name":"g"}"#,
        &[r#"reasoning «<<function_call>>{"name":"f"}»"#, "start 0@37", "call 0 g {}"],
    );
    check(&settings, "a<think>b</think>c", &["reasoning «a<think>b»", "text «c»"]);
}

#[test]
fn calls_inside_reasoning() {
    let settings = with(|s| s.tools_in_reasoning = true);
    check(
        &settings,
        "<think>a§{\"name\":\"f\"}\nb</think>c",
        &["reasoning «a»", "start 0@8", "call 0 f {}", "reasoning «b»", "text «c»"],
    );
    check(
        &settings,
        "<think>§ talk</think>x",
        &[
            "error missing_payload@7 «<<function_call>> »",
            "reasoning «<<function_call>> talk»",
            "text «x»",
        ],
    );
    check(
        &settings,
        "<think>§</think>x",
        &[
            "error missing_payload@7 «<<function_call>>»",
            "reasoning «<<function_call>>»",
            "text «x»",
        ],
    );
    check(
        &settings,
        r#"<think>§{"a":"#,
        &["start 0@7", r#"error incomplete_payload@7 of 0 «{"a":»"#],
    );
    check(
        &settings,
        "<think>§{]x</think>y",
        &["start 0@7", "error unbalanced_payload@7 of 0 «{]»", "reasoning «x»", "text «y»"],
    );
}
