//! Messages with headers: what ends one whose call is not closed, and calls that are code.

use super::rows::named;
use super::*;
use crate::call_format::Row;

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

/// Only what the end of a call directly precedes is the next message.
#[test]
fn a_value_may_show_messages() {
    for value in
        ["</atem:invoke> <|start|>", "<|eom|>\n<|start|>assistant", "<|start|></atem:invoke>"]
    {
        let input = format!(
            " to=f<|message|><atem:invoke name=\"f\">\n<atem:parameter name=\"s\">{value}\
             </atem:parameter>\n</atem:invoke>"
        );
        let call = format!("call 0 f {}", visible(&serde_json::json!({ "s": value }).to_string()));
        check(&named("muse"), &input, &["start 0@0", &call]);
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

/// Settings with a tool that is addressed in code, and another one.
fn with_python(row: &str) -> Settings {
    let text = serde_json::json!({"type": "string"});
    let python = serde_json::json!({"properties": {"code": text}, "required": ["code"]});
    let other = serde_json::json!({"properties": {"s": text}});
    let tools = Tools::of([("python", &python), ("f", &other)]);
    Settings { format: CallFormat::of(Row::named(row).unwrap()), tools, ..settings() }
}

#[test]
fn code_is_the_only_argument_of_its_tool() {
    let harmony = with_python("harmony");
    for header in [
        "<|channel|>analysis to=python code<|message|>",
        "<|channel|>commentary to=python<|message|>",
        " to=functions.python<|channel|>commentary<|message|>",
    ] {
        for (body, argument) in [
            ("print(1)", "print(1)"),
            ("\n  print(\"}\")\n\n", "\\n  print(\\\"}\\\")\\n"),
            ("[1]\r\n", "[1]"),
            ("```python\nprint(1)\n```", "```python\\nprint(1)\\n```"),
            ("a <|b|> <", "a <|b|> <"),
            ("x='<|end|>'", "x='<|end|>'"),
            ("x='<|channel|>' + '<|start|>'", "x='<|channel|>' + '<|start|>'"),
        ] {
            let call = format!("call 0 python {{\"code\":\"{argument}\"}}");
            for end in ["<|call|>", "<|end|>", ""] {
                check(&harmony, format!("{header}{body}{end}"), &["start 0@0", &call]);
            }
            let input = format!("{header}{body}<|call|>{LAST}");
            check(&harmony, input, &["start 0@0", &call, "text «Done.»"]);
            check(&harmony, format!("{header}{body}{LAST}"), &["start 0@0", &call, "text «Done.»"]);
        }
        let object = "{\"code\": \"<|call|>\"}";
        let call = format!("call 0 python {object}");
        check(&harmony, format!("{header}{object}<|call|>"), &["start 0@0", &call]);
        check(&harmony, format!("{header} <|call|>"), &["start 0@0", "call 0 python {}"]);
    }
    check(
        &with_python("functionary_v32"),
        "python\nprint(1)\n>>> f\n>>>g\n>>>all\nDone.",
        &["start 0@0", "call 0 python {\"code\":\"print(1)\\n>>> f\\n>>>g\"}", "text «Done.»"],
    );
    check(
        &with_python("functionary_v32"),
        "python\nprint(1)>>>f\n{}",
        &["start 0@0", "call 0 python {\"code\":\"print(1)\"}", "start 1@15", "call 1 f {}"],
    );
}

#[test]
fn code_that_cannot_be_read_is_refused() {
    let settings = Settings { max_payload_bytes: 8, ..with_python("harmony") };
    let header = "<|channel|>analysis to=python code<|message|>";
    check(
        &settings,
        format!("{header}print(1)<|call|>{LAST}"),
        &["start 0@0", "error payload_too_large@0 of 0 «print(1)»", "text «Done.»"],
    );
    let settings = Settings { max_payload_bytes: 8, ..with_python("functionary_v32") };
    check(
        &settings,
        format!("python\nprint(1){}\n>>>all\nDone.", " ".repeat(600)),
        &["start 0@0", "error payload_too_large@0 of 0 «print(1)»", "text «Done.»"],
    );
    let harmony = with_python("harmony");
    check(
        &harmony,
        [header.as_bytes(), b"\xff<|call|>"].concat(),
        &["start 0@0", "error invalid_json@0 of 0 «\u{fffd}»"],
    );
    check(
        &harmony,
        [header.as_bytes(), b"a\xe2\x82"].concat(),
        &["start 0@0", "error incomplete_payload@0 of 0 «a\u{fffd}»"],
    );
}

/// Code that is not whole might do anything.
#[test]
fn code_that_a_token_limit_cuts_off_is_refused() {
    let mut parser = Parser::new(with_python("harmony")).unwrap();
    for (end, expected) in [("", "incomplete_payload"), ("<|call|>", "")] {
        let mut errors = String::new();
        let mut take = |segment: Segment<'_>| {
            if let Segment::Error(error) = segment {
                errors.push_str(error.code.name());
            }
        };
        parser.push_str(&format!(" to=python<|message|>rm(a{end}"), &mut take);
        parser.cut_off(&mut take);
        assert_eq!(errors, expected, "{end}");
    }
}

/// What would have followed might have been another argument.
#[test]
fn a_call_whose_end_a_token_limit_cuts_off_is_refused() {
    for (row, text) in [
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\n"),
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>"),
        ("harmony", "<|channel|>commentary to=f<|message|>"),
        ("functionary_v32", ">>>f\n"),
        ("beam", " to=f<|message|>"),
    ] {
        for is_cut in [false, true] {
            let mut parser = Parser::new(named(row)).unwrap();
            let mut calls = 0;
            let mut take = |segment: Segment<'_>| {
                calls += u32::from(matches!(segment, Segment::CallCompleted(_)));
            };
            parser.push_str(text, &mut take);
            if is_cut {
                parser.cut_off(&mut take);
            } else {
                parser.finish(&mut take);
            }
            assert_eq!(calls, u32::from(!is_cut), "{row}: {text}");
        }
    }
}

/// Words to a tool that takes arguments are no call.
#[test]
fn only_one_tool_is_addressed_in_code() {
    for (settings, name) in
        [(with_python("harmony"), "f"), (named("harmony"), "python"), (with_python("harmony"), "g")]
    {
        let header = format!("<|channel|>commentary to={name}<|message|>");
        check(
            &settings,
            format!("{header}print(1)<|call|>"),
            &[&format!("error missing_payload@0 «{header}»"), "text «print(1)»"],
        );
    }
}

/// Its header is not shown, so the next message is still on the same line.
#[test]
fn a_message_to_a_tool_that_is_no_call_does_not_end_the_line() {
    let header = "<|channel|>analysis to=f<|message|>";
    let error = |at| format!("error missing_payload@{at} mid-line «{header}»");
    check(
        &named("beam"),
        format!("Hm.{header}<|return|>{header}{{"),
        &["text «Hm.»", &error(3), &error(48), "reasoning «{»"],
    );
    // After a call that is too long, the first one does not begin a line either.
    let call = " to=f<|message|><atem:invoke name=\"f\"><atem:parameter name=\"x\">long";
    let header = "<|start|>assistant to=f<|message|>";
    let error = |at| format!("error missing_payload@{at} mid-line «{header}»");
    let length = call.len();
    check(
        &Settings { max_payload_bytes: 26, ..named("muse") },
        format!("{call}{header}{header}x"),
        &[
            "start 0@0",
            "error payload_too_large@0 of 0 «<atem:parameter name=\"x\">l»",
            &error(length),
            &error(length + header.len()),
            "text «x»",
        ],
    );
}

/// In front of arguments, such a word would be dropped.
#[test]
fn code_that_is_the_name_of_a_language_is_code() {
    let schema = serde_json::json!({"properties": {"code": {"type": "string"}}});
    let tools = Tools::of([("python", &schema)]);
    let lenient = Settings { tools, strict_balancing: false, ..named("functionary_v32") };
    check(
        &lenient,
        "python\ntool_call\n>>>python\njson\n",
        &[
            "start 0@0",
            "call 0 python {\"code\":\"tool_call\"}",
            "start 1@17",
            "call 1 python {\"code\":\"json\"}",
        ],
    );
}
