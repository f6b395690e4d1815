//! How much work an input takes, counted rather than timed. Each place that reads bytes counts
//! them, and an input eight times as long must take eight times the work.

use serde_json::json;

use super::*;
use crate::parser::examined;

/// Bytes read for each byte of the input.
fn work(settings: &Settings, input: &[u8], lengths: &[usize]) -> f64 {
    let quiet = Settings { spans: false, max_payload_bytes: 1 << 22, ..settings.clone() };
    examined::take();
    let mut parser = Parser::new(quiet).unwrap();
    let mut lengths = lengths.iter().copied().cycle();
    let mut rest = input;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(lengths.next().unwrap().min(rest.len()));
        parser.push(chunk, |_| {});
        rest = behind;
    }
    parser.finish(|_| {});
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let work = examined::take() as f64 / input.len() as f64;
    work
}

#[track_caller]
fn check(settings: &Settings, make: impl Fn(usize) -> Vec<u8>, most: f64) {
    check_in(&[&[1], &[3, 4], &[64], &[1 << 16]], settings, make, most);
}

/// The same in chunks of these lengths.
#[track_caller]
fn check_in(chunks: &[&[usize]], settings: &Settings, make: impl Fn(usize) -> Vec<u8>, most: f64) {
    for lengths in chunks {
        let works = [1 << 13, 1 << 16, 1 << 19].map(|n| work(settings, &make(n), lengths));
        assert!(works[2] <= most, "{works:?} looks at each byte in chunks of {lengths:?}");
        // Each byte is read once at least, or the counting is broken.
        assert!(works.iter().all(|work| *work >= 0.9), "{works:?} in chunks of {lengths:?}");
        // A chunk that ends inside a character is read once more.
        assert!(works[2] <= works[0] + 0.5, "{works:?} grows in chunks of {lengths:?}");
    }
}

fn repeat(piece: &str) -> impl Fn(usize) -> Vec<u8> {
    move |size| piece.repeat(size.div_ceil(piece.len())).into_bytes()
}

fn call(fill: &str) -> impl Fn(usize) -> Vec<u8> {
    move |size| {
        let fill = fill.repeat(size.div_ceil(fill.len()));
        format!("<<function_call>>{{\"name\":\"f\",\"arguments\":{{\"a\":[{fill}0]}}}}")
            .into_bytes()
    }
}

#[test]
fn white_space_before_what_a_value_is_wrapped_in() {
    let spaces = |size: usize| {
        let space = " ".repeat(size);
        format!("<function name=\"f\"><param name=\"k\">{space}").into_bytes()
    };
    check(&row("minicpm5"), spaces, 6.0);
}

#[test]
fn plain_text() {
    check(&settings(), repeat("just words, some naïve, some 日本語. "), 3.0);
}

#[test]
fn text_full_of_openers_first_bytes() {
    check(&settings(), repeat("<"), 5.0);
    check(&settings(), repeat("<<function_call> <thin </think "), 5.0);
}

#[test]
fn markers_that_overlap_themselves() {
    let overlapping = marked(&("a".repeat(63) + "b"));
    check(&overlapping, repeat("a"), 5.0);
    check(&overlapping, call("\"\",aaaaa,"), 12.0);
}

#[test]
fn markers_without_payload() {
    check(&settings(), repeat("<<function_call>> x"), 6.0);
    let gap = format!("<<function_call>>{}x", " ".repeat(256));
    check(&settings(), repeat(&gap), 6.0);
}

#[test]
fn one_long_call() {
    for fill in ["\"some words\",", "{\"a\":[1,2.5,{}]},", "\"\\n\\\"\\\\\",", "\"\\u00e9\","] {
        check(&settings(), call(fill), 8.0);
        check(&Settings { argument_deltas: true, ..settings() }, call(fill), 12.0);
    }
}

#[test]
fn one_long_call_that_is_mended() {
    check(&Settings { strict_balancing: false, ..settings() }, call("{'a':True,},"), 16.0);
}

#[test]
fn invalid_utf8() {
    check(&settings(), |size| b"\xf0\x9f\xa6\xe2\x82<".repeat(size / 6), 12.0);
}

#[test]
fn a_payload_that_is_discarded() {
    let small = |size: usize| {
        let deep = "[".repeat(200);
        format!("<<function_call>>{deep}{}", "\"x\",".repeat(size / 4)).into_bytes()
    };
    check(&settings(), small, 3.0);
}

fn row(name: &str) -> Settings {
    let row = crate::call_format::Row::named(name).expect("a row");
    Settings { format: CallFormat::of(row), ..settings() }
}

#[test]
fn arguments_in_tags() {
    let call = |fill: &'static str| {
        move |size: usize| {
            let fill = fill.repeat(size.div_ceil(fill.len()));
            format!("<function=f><parameter=s>{fill}</parameter></function>").into_bytes()
        }
    };
    check(&row("qwen3_coder"), call("some words\n"), 4.0);
    check(&row("qwen3_coder"), call("a <b </p "), 24.0);
    check(&row("qwen3_coder"), call("</parameter> "), 16.0);
    let spaced = Box::leak(format!("</parameter>{}", " ".repeat(300)).into_boxed_str());
    check(&row("qwen3_coder"), call(spaced), 8.0);
    let many = |size: usize| {
        let argument = |at: usize| format!("<arg_key>k{at}</arg_key><arg_value>v</arg_value>");
        let arguments: String = (0..size / 40).map(argument).collect();
        format!("<tool_call>f{arguments}</tool_call>").into_bytes()
    };
    // Nearly all of it is tags, which are looked at again while they arrive.
    check(&row("glm47"), many, 24.0);
}

#[test]
fn frames_labels_and_code() {
    check(&row("deepseek_v31"), repeat("<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜>name "), 8.0);
    check(&row("kimi_k2"), repeat("<|tool_call_begin|>functions.f:0<|tool_call_argument"), 8.0);
    let long = |size: usize| {
        let text = "a<b\\ ".repeat(size / 5);
        format!("<|tool_call>call:f{{s:<|\"|>{text}<|\"|>}}<tool_call|>").into_bytes()
    };
    check(&row("gemma4"), long, 8.0);
}

/// A call with this text as an argument, in a row that tells deltas.
#[track_caller]
fn check_told(name: &str, [open, close]: [&str; 2], fill: &str, most: f64) {
    let schema = json!({"properties": {"s": {"type": "string"}, "l": {"type": "array"}}});
    let tools = Tools::of([("f", &schema)]);
    let settings = Settings { argument_deltas: true, tools, ..row(name) };
    let call = |size: usize| {
        format!("{open}{}{close}", fill.repeat(size.div_ceil(fill.len()))).into_bytes()
    };
    // In one chunk, there would be nothing to tell before the end.
    check_in(&[&[1], &[3, 4], &[64], &[1 << 10]], &settings, call, most);
}

/// An argument that begins like this, and goes on with text.
#[track_caller]
fn check_told_after(name: &str, open: &[&[u8]], most: f64) {
    let schema = json!({"properties": {"s": {"type": "string"}}});
    let tools = Tools::of([("f", &schema)]);
    let settings = Settings { argument_deltas: true, tools, ..row(name) };
    let call = |size: usize| [&open.concat()[..], "x".repeat(size).as_bytes()].concat();
    check_in(&[&[1], &[3, 4], &[64], &[1 << 10]], &settings, call, most);
}

#[test]
fn one_long_call_that_is_told() {
    let code = ["<|tool_call_start|>[f(s='", "')]<|tool_call_end|>"];
    check_told("lfm2", code, "some words\n", 8.0);
    check_told("lfm2", code, "\\\\", 12.0);
    check_told("lfm2", code, "\\ud83e", 12.0);
    // Nothing is told from the first invalid byte on.
    check_told_after("lfm2", &[b"<|tool_call_start|>[f(s='", b"\xff"], 12.0);
    check_told_after(
        "qwen3_coder",
        &[b"<tool_call>\n<function=f>\n<parameter=s>\n", b"\xff"],
        12.0,
    );
    check_told_after(
        "hermes",
        &[b"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"", b"\xff"],
        12.0,
    );
    let list = ["<|tool_call_start|>[f(s=[", "0])]<|tool_call_end|>"];
    check_told("lfm2", list, "'a', {}, ", 12.0);
    let loose = ["<|tool_call>call:f{s:<|\"|>", "<|\"|>}<tool_call|>"];
    check_told("gemma4", loose, "a<|b ", 16.0);
    let tags = ["<tool_call>\n<function=f>\n<parameter=s>\n", "</parameter></function>"];
    check_told("qwen3_coder", tags, "some words\n", 8.0);
    check_told("qwen3_coder", tags, "</parameter> ", 24.0);
    // A list is told only when it ends.
    let tags = ["<tool_call>\n<function=f>\n<parameter=l>\n", "</parameter></function>"];
    check_told("qwen3_coder", tags, "1, ", 8.0);
    let prefix = "]<]minimax[>[";
    let open = format!("{prefix}<tool_call>{prefix}<invoke name=\"f\">{prefix}<s>");
    let close = format!("{prefix}</s>{prefix}</invoke>");
    check_told("minimax_m3", [&open, &close], "a ]<]mini", 24.0);
}

#[test]
fn openers_of_several_formats() {
    let tools = Tools::of([("f", &serde_json::Value::Null)]);
    for name in ["hermes", "qwen3_coder", "glm47"] {
        let settings = Settings { tools: tools.clone(), ..row(name) };
        check(&settings, repeat("<tool_call> x"), 40.0);
        check(&settings, repeat("<tool_call><tool_call><function=f> <"), 40.0);
    }
}

#[test]
fn strings_in_messages() {
    let call = |fill: &'static str| {
        move |size: usize| {
            let fill = fill.repeat(size / fill.len());
            format!("<|channel|>commentary to=f<|message|>{{\"s\":\"{fill}").into_bytes()
        }
    };
    check(&row("harmony"), call("some words "), 4.0);
    check(&row("harmony"), call("<"), 8.0);
    check(&row("harmony"), call("<|call|><|start"), 8.0);
    check(&row("harmony"), call("<|call|><|end|>\\n"), 8.0);
}

#[test]
fn code_in_messages() {
    let schema = json!({"properties": {"code": {"type": "string"}}});
    let tools = Tools::of([("python", &schema)]);
    for (name, header) in [("harmony", " to=python<|message|>"), ("functionary_v32", "python\n")] {
        for fill in ["print(1) ", "<|call|<", ">>> f(x)\n", "\n", ">>>"] {
            let make = |size: usize| {
                format!("{header}print(1){}", fill.repeat(size / fill.len())).into_bytes()
            };
            check(&Settings { tools: tools.clone(), ..row(name) }, make, 8.0);
        }
    }
}
