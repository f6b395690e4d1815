//! What models get wrong in formats with tags and labels, and talk that looks like a call.

use super::rows::{named, of, said};
use super::*;
use crate::call_format::ROWS;

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

/// A value that was told as it came has swallowed the next argument. The one after it is read from its own
/// beginning.
#[test]
fn an_argument_after_a_spoiled_one_begins_anew() {
    let schema =
        serde_json::json!({"properties": {"s": {"type": "string"}, "n": {"type": "string"}}});
    for (row, opening, between) in [
        ("qwen3_coder", "<function=f>\n<parameter=s>\n", "\n</parameter>5<parameter=n>\n"),
        (
            "gcml",
            "<｜GCML｜invoke name=\"f\">\n<｜GCML｜parameter name=\"s\" string=\"true\">",
            "</｜GCML｜parameter>5<｜GCML｜parameter name=\"n\" string=\"true\">",
        ),
    ] {
        let settings =
            Settings { argument_deltas: true, tools: Tools::of([("f", &schema)]), ..named(row) };
        let next = between.replace('5', "\n");
        let input = format!("{opening}y{between}y{next}y{next}y");
        let record = read_every_way(&settings, input.as_bytes());
        assert_eq!(reference::events(&settings, input.as_bytes()), record.events, "{row}");
        assert!(said(&record).1.is_empty(), "{row}: {:?}", record.events);
    }
}

#[test]
fn a_value_may_show_calls_and_their_ends() {
    for value in [
        "<function=g></function>",
        "<tool_call>\n<function=g>\n<parameter=s>\ny\n</function>\n</tool_call>",
        "END = '</function></tool_call>'; START = '<tool_call>'",
        "</parameter> is the end of a value",
        "</function>\nor\n<function=g>",
        "Show:\n<tool_call>\n<function=g>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>\nend",
        "a <parameter=k> b",
        "<tool_call> <parameter=k> b",
        "<function=g>\n<parameter=k>\nv\n</parameter>",
        "<function=g>\n<parameter=a>\n<function=h></function>\n</parameter>\n</function>",
        "<function=g>\n# where\n<parameter=k>\nv\n</parameter>\n</function>\nend",
        "Use <function=g> with <parameter=k>v</parameter></function> inline.",
        "# <function=g>\n# <parameter=k>\n# v\n# </parameter>\n# </function>\n\
         <function=g>\n<parameter=k>\nv\n</parameter>\n</function>",
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
    // In its frame, or with arguments, it is a call whatever its name.
    check(
        &named("qwen3_coder"),
        "<tool_call>\n<function=x>\n</function>\n</tool_call>",
        &["start 0@0", "call 0 x {}"],
    );
    check(
        &named("kimi_k2"),
        "<|tool_calls_section_begin|><|tool_call_begin|>x:0<|tool_call_argument_begin|>\
         <|tool_call_end|><|tool_calls_section_end|>",
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

/// At the limit, and one byte over it.
#[test]
fn arguments_in_tags_are_bounded() {
    let end = "</function>\n</tool_call>\nDone.";
    let input = |value: &str| format!("<function=f><parameter=s>{value}</parameter>{end}");
    let small = Settings { max_payload_bytes: 40, ..named("qwen3_coder") };
    check(&small, input("1234"), &["start 0@0", "call 0 f {\"s\":\"1234\"}", "text «Done.»"]);
    let raw = "<parameter=s>12345</parameter></function";
    let refused = format!("error payload_too_large@0 of 0 «{raw}»");
    check(&small, input("12345"), &["start 0@0", &refused, "text «Done.»"]);
    // The limit falls inside the only mark that ends it.
    let alone = "<function=f><parameter=s>12345</parameter></function>Done.";
    check(&small, alone, &["start 0@0", &refused, "text «Done.»"]);
    let raw = format!("<parameter=s>{}", "x".repeat(27));
    let refused = format!("error payload_too_large@0 of 0 «{raw}»");
    let long = "x".repeat(99);
    check(&small, input(&long), &["start 0@0", &refused, "text «Done.»"]);
    check(&small, format!("<function=f><parameter=s>{long}"), &["start 0@0", &refused]);
    // Calls that the value shows do not run.
    let shown =
        "<tool_call>\n<function=g>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>\n";
    check(&small, input(&format!("{long}{shown}more")), &["start 0@0", &refused, "text «Done.»"]);
    // Nor does the second one, if the limit falls inside the first.
    let raw = r"<parameter=s><tool_call>\n<function=g>\n<p";
    let refused = format!("error payload_too_large@0 of 0 «{raw}»");
    check(&small, input(&shown.repeat(2)), &["start 0@0", &refused, "text «Done.»"]);
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

#[test]
fn a_name_at_the_start_of_an_answer_is_short_and_plain() {
    let check = |name: &str, is_call: bool| {
        let tools = Tools::of([(name, &serde_json::Value::Null)]);
        let input = format!("{{\"name\":\"{name}\"}}");
        let text = format!("text «{}»", input.replace('\n', "\\n"));
        let made = ["start 0@0".to_owned(), format!("call 0 {name} {{}}")];
        let expected: Vec<&str> =
            if is_call { made.iter().map(String::as_str).collect() } else { vec![&*text] };
        check(&Settings { tools, ..named("llama3") }, input, &expected);
    };
    check(&"f".repeat(256), true);
    check(&"f".repeat(257), false);
    check("f\\n", false);
    check("f\nf", false);
}

#[test]
fn the_start_of_an_answer_waits_only_so_long() {
    let blank = " ".repeat(256);
    let call = |blanks: usize| format!("{blank}{{{}\"name\":\"f\"}}", " ".repeat(blanks));
    // What follows the name is byte 512, and then 513.
    let made = [format!("text «{blank}»"), "start 0@256".to_owned(), "call 0 f {}".to_owned()];
    check(&named("llama3"), call(244), &made.each_ref().map(String::as_str));
    check(&named("llama3"), call(245), &[&format!("text «{}»", call(245))]);
}

/// What was said after a broken call, and the calls after it.
#[track_caller]
fn after_broken(format: &str, input: &str, text: &str, calls: &[&str]) {
    let record = read_every_way(&named(format), input.as_bytes());
    assert_eq!(reference::events(&named(format), input.as_bytes()), record.events);
    let is_error = |event: &&Event| matches!(event, Event::Error { index: Some(_), .. });
    assert_eq!(record.events.iter().filter(is_error).count(), 1, "{:?}", record.events);
    let (words, made) = said(&record);
    let made: Vec<_> = made.iter().map(|(name, arguments)| format!("{name} {arguments}")).collect();
    assert_eq!((&*words, made), (text, calls.iter().map(|&it| it.to_owned()).collect()), "{input}");
}

#[test]
fn a_broken_call_ends_before_the_next_whole_one() {
    let next = "<tool_call>\n<function=g>\n<parameter=s>\ny\n</parameter>\n</function>\n</tool_call>\nDone.";
    for (broken, text) in [
        // No closing tag, then text.
        (
            "<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>\nAnd:\n",
            "And:\nDone.",
        ),
        // The end of the call is missing, too.
        ("<tool_call>\n<function=f>\n<parameter=s>\nx\n</parameter>\nAnd:\n", "\nAnd:\nDone."),
    ] {
        after_broken("qwen3_coder", &format!("{broken}{next}"), text, &["g {\"s\":\"y\"}"]);
    }
    let argument = "<arg_key>s</arg_key><arg_value>x</arg_value>";
    after_broken("glm47", &format!("<tool_call>f{argument}\n\nAnswer"), "\n\nAnswer", &[]);
}

#[test]
fn a_value_that_goes_on_with_the_next_argument_spoils_its_call() {
    after_broken(
        "qwen3_coder",
        "<function=f>\n<parameter=s>\nx\n<parameter=n>\n5\n</parameter>\n</function>Done.",
        "Done.",
        &[],
    );
}

#[test]
fn what_a_value_is_wrapped_in_protects_it() {
    for value in ["x </param></function> y", "x</param><param name=\\\"n\\\">5</param>", ""] {
        let raw = value.replace('\\', "");
        let input =
            format!("<function name=\"f\"><param name=\"s\"><![CDATA[{raw}]]></param></function>");
        check(
            &named("minicpm5"),
            input,
            &["start 0@0", &format!("call 0 f {{\"s\":\"{value}\"}}")],
        );
    }
}

#[test]
fn thoughts_about_calls_are_no_calls() {
    for thought in [
        "<think>Like <tool_call>\n<function=example>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>.</think>3",
        "<think>Or <function=f></function>.</think>3",
    ] {
        let (text, calls) = said(&read_every_way(&named("qwen3_coder"), thought.as_bytes()));
        assert_eq!((&*text, calls), ("3", vec![]), "{thought}");
    }
    check(
        &named("qwen3_coder"),
        "<think>Hm.<tool_call>\n<function=f>\n</function>\n</tool_call>\n</think>\nDone.",
        &["reasoning «Hm.»", "start 0@10", "call 0 f {}", "text «\\nDone.»"],
    );
}

#[test]
fn answers_that_look_like_calls_are_answers() {
    for (format, input) in [
        ("llama3", "{\"name\": \"f\", \"description\": \"F\", \"parameters\": {}}\nThat is it."),
        ("xlam", "[{\"name\": \"f\", \"description\": \"F\"}]"),
        ("cohere_r_plus", "Call to Action:\n```json\n{\"name\":\"Bob\"}\n```"),
        ("pythonic", "[f(x)](http://y) is a link"),
    ] {
        let record = read_every_way(&named(format), input.as_bytes());
        assert_eq!(said(&record), (input.to_owned(), vec![]), "{format}");
    }
    for (format, input, rest) in [
        (
            "llama3",
            "{\"name\": \"f\", \"parameters\": {}}\n\n{\"result\": 1}\nDone",
            "\n{\"result\": 1}\nDone",
        ),
        ("llama3", "{\"name\": \"f\"}; {not json} rest", "; {not json} rest"),
        ("functools", "functools[{\"name\": \"f\"}]\n{\"b\": 1}", "{\"b\": 1}"),
    ] {
        let record = read_every_way(&named(format), input.as_bytes());
        assert_eq!(said(&record), (rest.to_owned(), vec![("f".to_owned(), "{}".to_owned())]));
    }
}

#[test]
fn hidden_tags_are_shown_where_they_are_talked_about() {
    check(&named("ernie45"), "Use <response> tags.", &["text «Use <response> tags.»"]);
    check(
        &named("xlam"),
        "<tool_call>[{\"name\": \"f\"}]</tool_call>",
        &["start 0@0", "call 0 f {}"],
    );
    check(
        &named("pythonic"),
        "<|python_start|>[f(s='x')]<|python_end|>",
        &["start 0@16", "call 0 f {\"s\":\"x\"}"],
    );
}

#[test]
fn formats_with_the_same_opener_are_told_apart_by_what_follows_it() {
    let mut pairs = 0;
    for row in ROWS {
        for other in row.relatives() {
            let (mut foreign, mut own) = (String::new(), String::new());
            CallFormat::of(other).push_call(&mut foreign, "f", "{\"s\":\"x\"}");
            CallFormat::of(row).push_call(&mut own, "g", "{\"s\":\"y\"}");
            let input = format!("First.\n{foreign}\nThen.\n{own}\nThe tag {} is", row.first_mark());
            let (text, calls) = said(&read_every_way(&of(row), input.as_bytes()));
            let names: Vec<_> = calls.iter().map(|(name, args)| (&**name, &**args)).collect();
            let expected = [("f", "{\"s\":\"x\"}"), ("g", "{\"s\":\"y\"}")];
            assert_eq!(names, expected, "{} in {}: {input}", other.name, row.name);
            assert!(text.starts_with("First.\n") && text.contains("Then.\n"), "{text}");
            assert!(text.ends_with(&format!("The tag {} is", row.first_mark())), "{text}");
            pairs += 1;
        }
    }
    assert!(pairs > 10, "{pairs}");
}

#[test]
fn an_opener_of_several_formats_alone_is_talk() {
    for (row, input) in [
        ("hermes", "Write <tool_call> and a name, or <tool_call><function=f> here"),
        ("qwen3_coder", "Write <tool_call>{ or <tool_call>f</tool> or <tool_call>"),
        ("glm47", "<tool_call>\n<function=\n<tool_call><tool_call>h</tool_call>"),
        ("mistral_array", "[TOOL_CALLS] and [TOOL_CALLS]f then [TOOL_CALLS]"),
        ("tool_calls", "<tool_calls><tool_call> is the mark"),
        ("glm47", "Start with `<tool_call>{\"` and close it. The rest."),
        ("mistral_args", "It writes `[TOOL_CALLS] [{` and so on."),
        ("qwen3_coder", "Write <tool_call>{\"name\": and then the rest."),
        ("qwen3_coder", "Use <tool_call>{\"x\":1} or <tool_call>{\"name\": \"h\"} for it."),
        ("hermes", "<tool_call>h<arg_key>s</arg_key><arg_value>x</arg_value></tool_call>"),
        ("hermes", "<tool_call>\n<function=h>\n<parameter=s>\nx\n</parameter>\n</function>"),
    ] {
        let (text, calls) = said(&read_every_way(&named(row), input.as_bytes()));
        assert_eq!((&*text, calls), (input, Vec::new()), "{row}");
    }
}

#[test]
fn without_known_tools_only_the_chosen_format_is_read() {
    let settings = Settings { tools: Tools::default(), ..named("hermes") };
    let input = "<tool_call>\n<function=f>\n</function>\n</tool_call>";
    let (text, calls) = said(&read_every_way(&settings, input.as_bytes()));
    assert_eq!((&*text, calls), (input, Vec::new()));
}
