//! What comes out for what goes in, a row each. Every row runs whole, byte by byte
//! and cut at every single position, as bytes and as text.
//!
//! `§` in a row stands for the default marker. An event is written as
//! `text «...»`, `reasoning «...»`, `start INDEX@OFFSET`, `call INDEX NAME ARGUMENTS`
//! with `mended [...]` behind it, or `error CODE@OFFSET` with `of INDEX` where a call
//! had started, `mid-line` where the marker did not begin a line, and the quoted bytes.

use super::*;

#[track_caller]
fn check(settings: &Settings, input: impl AsRef<[u8]>, expected: &[&str]) {
    let input = expand(input.as_ref());
    let record = read_every_way(settings, &input);
    let events: Vec<String> = record.events.iter().map(show).collect();
    assert_eq!(events, expected, "{:?}", String::from_utf8_lossy(&input));
    // The naive reference has the same opinion.
    assert_eq!(reference::events(settings, &input), record.events);
}

fn expand(input: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(input) {
        Ok(text) => text.replace('§', "<<function_call>>").into_bytes(),
        Err(_) => input.to_vec(),
    }
}

fn show(event: &Event) -> String {
    match event {
        Event::Text(text) => format!("text «{}»", visible(text)),
        Event::Reasoning(text) => format!("reasoning «{}»", visible(text)),
        Event::Started { index, offset } => format!("start {index}@{offset}"),
        Event::Completed { index, name, arguments, repaired } => {
            let mended: Vec<_> = repaired.iter().map(|repair| repair.name()).collect();
            let mended = if mended.is_empty() {
                String::new()
            } else {
                format!(" mended [{}]", mended.join(", "))
            };
            format!("call {index} {name} {}{mended}", visible(arguments))
        }
        Event::Error { code, offset, index, raw, at_line_start } => {
            let index = index.map_or(String::new(), |index| format!(" of {index}"));
            let line = if *at_line_start { "" } else { " mid-line" };
            format!("error {}@{offset}{index}{line} «{}»", code.name(), visible(raw))
        }
    }
}

/// Line ends, which would break a row, are escaped.
fn visible(text: &str) -> String {
    text.replace('\r', "\\r").replace('\n', "\\n").replace('\0', "\\0")
}

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = settings();
    change(&mut settings);
    settings
}

fn lenient() -> Settings {
    with(|s| s.strict_balancing = false)
}

fn marked(marker: &str) -> Settings {
    with(|s| s.marker = marker.to_owned())
}

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

#[test]
fn brackets_of_the_wrong_kind() {
    let settings = settings();
    check(&settings, "§{]", &["start 0@0", "error unbalanced_payload@0 of 0 «{]»"]);
    check(
        &settings,
        "§{]\nmore",
        &["start 0@0", "error unbalanced_payload@0 of 0 «{]»", r"text «\nmore»"],
    );
    check(
        &settings,
        r#"a§{"name":"f"]} b"#,
        &[
            "text «a»",
            "start 0@1",
            r#"error unbalanced_payload@1 of 0 mid-line «{"name":"f"]»"#,
            "text «} b»",
        ],
    );
    check(&settings, "§[}", &["start 0@0", "error unbalanced_payload@0 of 0 «[}»"]);
    check(&settings, "§[{]}", &["start 0@0", "error unbalanced_payload@0 of 0 «[{]»", "text «}»"]);
    check(
        &settings,
        r#"§{"a":[1,2}}"#,
        &["start 0@0", r#"error unbalanced_payload@0 of 0 «{"a":[1,2}»"#, "text «}»"],
    );
    check(
        &settings,
        r#"§{]§{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «{]»", "start 1@19", "call 1 f {}"],
    );
}

#[test]
fn a_marker_inside_a_payload() {
    let settings = settings();
    check(
        &settings,
        r#"§{"name":"f", §{"name":"g"}"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"name":"f", »"#,
            "start 1@30",
            "call 1 g {}",
        ],
    );
    check(
        &settings,
        "§{§",
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «{»",
            "error missing_payload@18 mid-line «<<function_call>>»",
            "text «<<function_call>>»",
        ],
    );
    check(
        &settings,
        r#"§{§{§{"name":"f"}"#,
        &[
            "start 0@0",
            "error unbalanced_payload@0 of 0 «{»",
            "start 1@18",
            "error unbalanced_payload@18 of 1 mid-line «{»",
            "start 2@36",
            "call 2 f {}",
        ],
    );
    check(&settings, r#"§{"name":"§"}"#, &["start 0@0", "call 0 <<function_call>> {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":{"t":"a § {\"b\""}}"#,
        &["start 0@0", r#"call 0 f {"t":"a <<function_call>> {\"b\""}"#],
    );
    check(
        &settings,
        r#"§{"a":"\\"§ talk"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"a":"\\"»"#,
            "error missing_payload@26 mid-line «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
    check(
        &settings,
        r#"§{"name":"f"<<function_call> }"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f"<<function_call> }»"#],
    );
    check(
        &settings,
        r#"§{<<<function_call>>{"name":"f"}"#,
        &["start 0@0", "error unbalanced_payload@0 of 0 «{<»", "start 1@19", "call 1 f {}"],
    );
    check(
        &settings,
        "§{\n§ talk",
        &[
            "start 0@0",
            r"error unbalanced_payload@0 of 0 «{\n»",
            "error missing_payload@19 «<<function_call>> »",
            "text «<<function_call>> talk»",
        ],
    );
}

#[test]
fn the_stream_ends_inside_a_payload() {
    let settings = settings();
    check(&settings, "§{", &["start 0@0", "error incomplete_payload@0 of 0 «{»"]);
    check(&settings, "§[", &["start 0@0", "error incomplete_payload@0 of 0 «[»"]);
    check(
        &settings,
        r#"§{"name":"f""#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f"»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"city":"Os"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"city":"Os»"#],
    );
    check(&settings, r#"§{"a":"\"#, &["start 0@0", r#"error incomplete_payload@0 of 0 «{"a":"\»"#]);
    check(
        &settings,
        "a §{\"name\":\"f\"}\n§{\"na",
        &[
            "text «a »",
            "start 0@2",
            "call 0 f {}",
            "start 1@32",
            r#"error incomplete_payload@32 of 1 «{"na»"#,
        ],
    );
    check(
        &settings,
        r#"§{"name":"f"<<function_"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f"<<function_»"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"\xe2\x82",
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"�»"#],
    );
}

#[test]
fn payloads_that_are_not_json() {
    let settings = settings();
    check(&settings, "§{name:f}", &["start 0@0", "error invalid_json@0 of 0 «{name:f}»"]);
    check(
        &settings,
        r#"§{"name":"f",}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f",}»"#],
    );
    check(
        &settings,
        "§{\"name\":\"f\" \"b\":1}\nx",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f" "b":1}»"#, "text «x»"],
    );
    check(&settings, "§{'name':'f'}", &["start 0@0", "error invalid_json@0 of 0 «{'name':'f'}»"]);
    check(
        &settings,
        "§{\"name\":\"a\nb\"}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"a\nb"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":True}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":True}}»"#],
    );
    check(
        &settings,
        r#"§{"name":"\x"}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"\x"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":01}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":01}}»"#],
    );
    check(
        &settings,
        r#"§[{"name":"f"},]"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «[{"name":"f"},]»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1e999}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":1e999}}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\ud800"}}"#,
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"f","arguments":{"a":"\ud800"}}»"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"\xff\"} ok",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"�"}»"#, "text « ok»"],
    );
    check(&settings, "§{} {}", &["start 0@0", "error invalid_call@0 of 0 «{}»", "text « {}»"]);
    check(&settings, r#"§{"a"}"#, &["start 0@0", r#"error invalid_json@0 of 0 «{"a"}»"#]);
}

#[test]
fn json_that_is_no_call() {
    let settings = settings();
    check(&settings, "§{}", &["start 0@0", "error invalid_call@0 of 0 «{}»"]);
    check(&settings, "§{}\nx", &["start 0@0", "error invalid_call@0 of 0 «{}»", "text «x»"]);
    check(
        &settings,
        r#"§{"arguments":{}}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"arguments":{}}»"#],
    );
    check(
        &settings,
        r#"§{"name":""}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":""}»"#],
    );
    check(&settings, r#"§{"name":7}"#, &["start 0@0", r#"error invalid_call@0 of 0 «{"name":7}»"#]);
    check(
        &settings,
        r#"§{"name":null,"tool":"f"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":null,"tool":"f"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":[]}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":[]}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":7}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":7}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":true}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":true}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"text"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"text"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":""}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":""}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"[1]"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"[1]"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","name":"g"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","name":"g"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{},"arguments":{"a":1}}"#,
        &[
            "start 0@0",
            r#"error invalid_call@0 of 0 «{"name":"f","arguments":{},"arguments":{"a":1}}»"#,
        ],
    );
    check(
        &settings,
        r#"§{"Name":"f"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"Name":"f"}»"#],
    );
    check(&settings, "§[]", &["start 0@0", "error invalid_call@0 of 0 «[]»"]);
    check(&settings, "§[ ]\nx", &["start 0@0", "error invalid_call@0 of 0 «[ ]»", "text «x»"]);
    check(&settings, "§[1]", &["start 0@0", "error invalid_call@0 of 0 «1»"]);
    check(
        &settings,
        r#"§[[{"name":"f"}]]"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «[{"name":"f"}]»"#],
    );
    check(
        &settings,
        r#"§{"function":{"name":"f","arguments":{}}}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"function":{"name":"f","arguments":{}}}»"#],
    );
}

#[test]
fn keys_of_a_call() {
    let settings = settings();
    check(&settings, r#"§{"tool_name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"tool":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"function":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"name":"f","args":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    check(
        &settings,
        r#"§{"name":"f","parameters":{"a":1}}"#,
        &["start 0@0", r#"call 0 f {"a":1}"#],
    );
    check(&settings, r#"§{"name":"f","tool_args":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    check(&settings, r#"§{"name":"f","input":{"a":1}}"#, &["start 0@0", r#"call 0 f {"a":1}"#]);
    check(&settings, r#"§{"tool":"a","name":"f","function":"b"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","input":{"a":1},"arguments":{"b":2},"args":{"c":3}}"#,
        &["start 0@0", r#"call 0 f {"b":2}"#],
    );
    check(
        &settings,
        r#"§{"input":{"a":1},"arguments":{"b":2},"name":"f"}"#,
        &["start 0@0", r#"call 0 f {"b":2}"#],
    );
    check(&settings, r#"§{"function":"b","tool":"a"}"#, &["start 0@0", "call 0 a {}"]);
    check(&settings, r#"§{"name":"f","arguments":null}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":null,"args":{"a":1}}"#,
        &["start 0@0", "call 0 f {}"],
    );
    check(&settings, r#"§{"id":"x","name":"f","type":"function"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"n\u0061me":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(&settings, r#"§{"name":"\u00e9"}"#, &["start 0@0", "call 0 é {}"]);
    check(&settings, r#"§{"name":" "}"#, &["start 0@0", "call 0   {}"]);
}

#[test]
fn arguments_keep_their_text() {
    let settings = settings();
    check(
        &settings,
        r#"§{"name":"f","arguments":{ "b" : 1.50 , "a":12345678901234567890.10 }}"#,
        &["start 0@0", r#"call 0 f { "b" : 1.50 , "a":12345678901234567890.10 }"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"z":1,"a":2,"z":3}}"#,
        &["start 0@0", r#"call 0 f {"z":1,"a":2,"z":3}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"e":"\u00e9\/"}}"#,
        &["start 0@0", r#"call 0 f {"e":"\u00e9\/"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"}]{["}}x"#,
        &["start 0@0", r#"call 0 f {"a":"}]{["}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\"}"}}x"#,
        &["start 0@0", r#"call 0 f {"a":"\"}"}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"\\"}}x"#,
        &["start 0@0", r#"call 0 f {"a":"\\"}"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"</tool_call> 日本語 🦀"}}"#,
        &["start 0@0", r#"call 0 f {"a":"</tool_call> 日本語 🦀"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":"{\"a\": 1}"}"#,
        &["start 0@0", r#"call 0 f {"a": 1}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":" {\n\"a\":\"\u00e9\"} "}"#,
        &["start 0@0", r#"call 0 f {\n"a":"é"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":{"b":[{"c":[]}]}}}"#,
        &["start 0@0", r#"call 0 f {"a":{"b":[{"c":[]}]}}"#],
    );
}

#[test]
fn arrays_of_calls() {
    let settings = settings();
    check(&settings, r#"§[{"name":"a"}]"#, &["start 0@0", "call 0 a {}"]);
    check(
        &settings,
        "x§[{\"name\":\"a\"}, {\"name\":\"b\",\"arguments\":{\"c\":1}}]\ny",
        &["text «x»", "start 0@1", "call 0 a {}", "start 1@1", r#"call 1 b {"c":1}"#, "text «y»"],
    );
    check(
        &settings,
        r#"§[{"name":"a"},7,{"name":"b"}]"#,
        &[
            "start 0@0",
            "call 0 a {}",
            "start 1@0",
            "error invalid_call@0 of 1 «7»",
            "start 2@0",
            "call 2 b {}",
        ],
    );
    check(
        &settings,
        r#"§[7,{"name":"b"}]"#,
        &["start 0@0", "error invalid_call@0 of 0 «7»", "start 1@0", "call 1 b {}"],
    );
    check(
        &settings,
        r#"§[{},"x",null]"#,
        &[
            "start 0@0",
            "error invalid_call@0 of 0 «{}»",
            "start 1@0",
            r#"error invalid_call@0 of 1 «"x"»"#,
            "start 2@0",
            "error invalid_call@0 of 2 «null»",
        ],
    );
    check(
        &settings,
        r#"§[{"name":"a"}]§[{"name":"b"}]"#,
        &["start 0@0", "call 0 a {}", "start 1@31", "call 1 b {}"],
    );
    check(
        &settings,
        r#"§[{"name":"a"},{"name":"b""#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «[{"name":"a"},{"name":"b"»"#],
    );
    check(
        &settings,
        r#"§[{"name":"a","arguments":{"n":1e999}},{"name":"b"}]"#,
        &[
            "start 0@0",
            r#"error invalid_json@0 of 0 «{"name":"a","arguments":{"n":1e999}}»"#,
            "start 1@0",
            "call 1 b {}",
        ],
    );
}

#[test]
fn payloads_that_are_too_large() {
    let settings = with(|s| s.max_payload_bytes = 12);
    check(&settings, r#"§{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f" } x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"f" »"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":"fgh"}x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f, {}}"}x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"f, »"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":["f"]} x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":["f"»"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":"long§"} x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"lon»"#, "text « x»"],
    );
    check(
        &settings,
        r#"§{"name":["f", §{"name":""}"#,
        &[
            "start 0@0",
            r#"error payload_too_large@0 of 0 «{"name":["f"»"#,
            "start 1@31",
            r#"error invalid_call@31 of 1 mid-line «{"name":""}»"#,
        ],
    );
    check(
        &settings,
        r#"§{"name":"this never ends"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"thi»"#],
    );
    check(
        &settings,
        r#"§{"name":"fgh"]x"#,
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, "text «x»"],
    );
    check(
        &settings,
        "§{\"name\":\"fgh\"}\nx",
        &["start 0@0", r#"error payload_too_large@0 of 0 «{"name":"fgh»"#, r"text «\nx»"],
    );
    check(&settings, r#"§         {"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
}

#[test]
fn lenient_drops_fences_and_language_words() {
    let settings = lenient();
    check(
        &settings,
        "§```json\n{\"name\":\"f\"}\n```\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§ ```\n{\"name\":\"f\"}\n```x",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§\n```tool_call\r\n{\"name\":\"f\"}\r\n```\r\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(&settings, r#"§```{"name":"f"}```"#, &["start 0@0", "call 0 f {} mended [code_fence]"]);
    check(
        &settings,
        "§```json{\"name\":\"f\"}\n``x",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «``x»"],
    );
    check(
        &settings,
        r#"§```json {"name":"f"}`x"#,
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «`x»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\rx",
        &["start 0@0", "call 0 f {} mended [code_fence]", r"text «\rx»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\nx",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «x»"],
    );
    check(
        &settings,
        "§```json {\"name\":\"f\"}\n``",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «``»"],
    );
    check(
        &settings,
        "§json\n{\"name\":\"f\"}\n```",
        &["start 0@0", "call 0 f {} mended [language_word]", "text «```»"],
    );
    check(
        &settings,
        r#"§ JSON {"name":"f"}"#,
        &["start 0@0", "call 0 f {} mended [language_word]"],
    );
    check(&settings, r#"§ json{"name":"f"}"#, &["start 0@0", "call 0 f {} mended [language_word]"]);
    check(
        &settings,
        r#"§ is {"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> is»",
            r#"text «<<function_call>> is {"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ json is {"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> json »",
            r#"text «<<function_call>> json is {"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ ``{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ``»",
            r#"text «<<function_call>> ``{"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        r#"§ ``` ```{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ``` »",
            r#"text «<<function_call>> ``` ```{"name":"f"}»"#,
        ],
    );
    check(
        &settings,
        "§ ```json\nx",
        &[
            r"error missing_payload@0 «<<function_call>> ```json\n»",
            r"text «<<function_call>> ```json\nx»",
        ],
    );
    check(
        &settings,
        "the `§` marker",
        &[
            "text «the `»",
            "error missing_payload@5 mid-line «<<function_call>>`»",
            "text «<<function_call>>` marker»",
        ],
    );
    check(
        &settings,
        "§ json",
        &["error missing_payload@0 «<<function_call>> json»", "text «<<function_call>> json»"],
    );
    check(
        &settings,
        r#"§ ````{"name":"f"}"#,
        &[
            "error missing_payload@0 «<<function_call>> ```»",
            r#"text «<<function_call>> ````{"name":"f"}»"#,
        ],
    );
}

#[test]
fn lenient_mends_payloads() {
    let settings = lenient();
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":[1,2}]}x"#,
        &["start 0@0", r#"call 0 f {"a":[1,2]} mended [bracket_order]"#, "text «x»"],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":[1,2,],},}"#,
        &["start 0@0", r#"call 0 f {"a":[1,2]} mended [trailing_comma]"#],
    );
    check(
        &settings,
        r#"§{'name':'f','arguments':{'a':'it\'s "x"'}}"#,
        &["start 0@0", r#"call 0 f {"a":"it's \"x\""} mended [single_quotes]"#],
    );
    check(
        &settings,
        "§{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\tz\u{1}\"}}",
        &["start 0@0", r#"call 0 f {"a":"x\ny\tz\u0001"} mended [control_character]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":True,"b":False,"c":None}}"#,
        &["start 0@0", r#"call 0 f {"a":true,"b":false,"c":null} mended [python_literal]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"True"}}"#,
        &["start 0@0", r#"call 0 f {"a":"True"}"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1}"#,
        &["start 0@0", r#"call 0 f {"a":1} mended [open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os\"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"Os\u00"#,
        &["start 0@0", r#"call 0 f {"a":"Os"} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":1,"#,
        &["start 0@0", r#"call 0 f {"a":1} mended [trailing_comma, open_bracket]"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"a":»"#],
    );
    check(
        &settings,
        r#"§{"name":"f","arguments":{"a":tru"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f","arguments":{"a":tru»"#],
    );
    check(
        &settings,
        r#"§{"name":"f"#,
        &["start 0@0", r#"error incomplete_payload@0 of 0 «{"name":"f»"#],
    );
    check(&settings, "§{", &["start 0@0", "error incomplete_payload@0 of 0 «{»"]);
    check(
        &settings,
        r#"§[{"name":"a"},{"name":"b"},]"#,
        &[
            "start 0@0",
            "call 0 a {} mended [trailing_comma]",
            "start 1@0",
            "call 1 b {} mended [trailing_comma]",
        ],
    );
    check(&settings, r#"§[{"name":"a"}"#, &["start 0@0", "call 0 a {} mended [open_bracket]"]);
    check(&settings, r#"§{name:"f"}"#, &["start 0@0", r#"error invalid_json@0 of 0 «{name:"f"}»"#]);
    check(&settings, r#"§{"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
    check(
        &settings,
        r#"§{"name":"f","arguments":"{'a':1}"}"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"name":"f","arguments":"{'a':1}"}»"#],
    );
    check(
        &settings,
        r#"§{"name":"f", §{"name":"g"}"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"name":"f", »"#,
            "start 1@30",
            "call 1 g {}",
        ],
    );
    check(
        &settings,
        "§{'a':'§'}",
        &["start 0@0", "error invalid_call@0 of 0 «{'a':'<<function_call>>'}»"],
    );
    check(
        &settings,
        "§```json\n{\"name\":\"f\",}\n```",
        &["start 0@0", "call 0 f {} mended [code_fence, trailing_comma]"],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"f\",\"arguments\":{\"a\":\"\xe2\x82",
        &["start 0@0", r#"call 0 f {"a":""} mended [open_string, open_bracket]"#],
    );
    check(
        &settings,
        b"<<function_call>>{\"name\":\"\xff\"}",
        &["start 0@0", r#"error invalid_json@0 of 0 «{"name":"�"}»"#],
    );
    check(&settings, "§{\"name\":\"f\"]\n", &["start 0@0", "call 0 f {} mended [bracket_order]"]);
}

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
    check(&settings, r#""q"{"q":1,"name":"f"}"#, &["start 0@0", "call 0 f {}"]);
}
