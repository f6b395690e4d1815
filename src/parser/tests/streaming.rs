//! When output comes, not only what it is: what is held back, and argument deltas.

use super::*;

/// The output of each chunk, and of the end.
fn said_by_chunk(settings: &Settings, chunks: &[&[u8]]) -> Vec<Vec<String>> {
    let quiet = Settings { spans: false, ..settings.clone() };
    let mut parser = Parser::new(quiet).unwrap();
    let show = |segment: Segment<'_>| match segment {
        Segment::Text(text) => format!("text {text}"),
        Segment::Reasoning(text) => format!("reasoning {text}"),
        Segment::CallStarted { index, .. } => format!("start {index}"),
        Segment::CallNamed { name, .. } => format!("name {name}"),
        Segment::ArgumentsDelta { json, .. } => format!("delta {json}"),
        Segment::CallCompleted(call) => format!("call {}", call.index),
        Segment::Error(error) => error.code.name().to_owned(),
        Segment::Span(_) => unreachable!("not asked for"),
    };
    let mut said: Vec<Vec<String>> = chunks
        .iter()
        .map(|chunk| {
            let mut now = Vec::new();
            parser.push(chunk, |segment| now.push(show(segment)));
            now
        })
        .collect();
    let mut last = Vec::new();
    parser.finish(|segment| last.push(show(segment)));
    said.push(last);
    said
}

#[track_caller]
fn check(settings: &Settings, chunks: &[&str], expected: &[&[&str]]) {
    let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
    assert_eq!(said_by_chunk(settings, &chunks), expected);
}

fn with_deltas() -> Settings {
    Settings { argument_deltas: true, ..settings() }
}

/// The prompt has opened it, whatever the settings say.
#[test]
fn one_stream_may_begin_inside_reasoning() {
    let mut parser = Parser::new(settings()).unwrap();
    for (is_inside, expected) in [(true, "(why)because"), (false, "why</think>because")] {
        if is_inside {
            parser.start_in_reasoning();
        }
        let mut said = String::new();
        let mut take = |segment: Segment<'_>| match segment {
            Segment::Reasoning(text) => said += &["(", text, ")"].concat(),
            Segment::Text(text) => said.push_str(text),
            _ => {}
        };
        parser.push_str("why</think>because", &mut take);
        parser.finish(&mut take);
        assert_eq!(said, expected);
    }
}

#[test]
fn an_abandoned_stream_leaves_nothing_behind() {
    for half in
        ["a <<func", "a <<function_call>> ", "<<function_call>> {\"name\": \"f", "<think>a", "é<"]
    {
        let mut parser = Parser::new(Settings::default()).unwrap();
        parser.push(half.as_bytes(), |_| ());
        parser.push(&[0xC3], |_| ());
        parser.abandon();
        let mut said = String::new();
        let mut take = |segment: Segment<'_>| match segment {
            Segment::Text(text) => said.push_str(text),
            other => panic!("{half}: {other:?}"),
        };
        parser.push_str("fresh <", &mut take);
        parser.finish(&mut take);
        assert_eq!(said, "fresh <", "behind {half}");
    }
}

#[test]
fn only_what_may_be_an_opener_is_held() {
    let s = settings();
    check(&s, &["a<", "b"], &[&["text a"], &["text <", "text b"], &[]]);
    check(&s, &["a<<", "<", "<f"], &[&["text a"], &["text <"], &["text <"], &["text <<f"]]);
    check(
        &s,
        &["x<<function_call>", "y"],
        &[&["text x"], &["text <<function_call>", "text y"], &[]],
    );
    check(&s, &["<think", "er>"], &[&[], &["text <think", "text er>"], &[]]);
    check(&s, &["<think>a</", "b"], &[&["reasoning a"], &["reasoning </", "reasoning b"], &[]]);
}

#[test]
fn a_marker_waits_for_its_payload_only() {
    let s = settings();
    let marker = "<<function_call>>";
    check(
        &s,
        &[marker, " ", "x"],
        &[&[], &[], &["missing_payload", "text <<function_call>> ", "text x"], &[]],
    );
    check(&s, &[marker, "{"], &[&[], &["start 0"], &["incomplete_payload"]]);
}

#[test]
fn a_call_completes_at_its_last_bracket() {
    let call = r#"<<function_call>>{"name":"f"}"#;
    check(
        &settings(),
        &[call, "\r", "\n", "x"],
        &[&["start 0", "call 0"], &[], &[], &["text x"], &[]],
    );
}

#[test]
fn a_character_waits_for_its_bytes_only() {
    let s = settings();
    let chunks: [&[u8]; 4] = [b"a\xf0\x9f", b"\xa6", b"\x80\xe2\x82", b"<"];
    let expected = [vec!["text a"], vec![], vec!["text 🦀"], vec!["text \u{fffd}"], vec!["text <"]];
    assert_eq!(said_by_chunk(&s, &chunks), expected);
}

#[test]
fn arguments_are_told_as_they_arrive() {
    let chunks = [
        r"<<function_call>>{",
        r#""name": "wri"#,
        r#"te", "arg"#,
        r#"uments": {"te"#,
        r#"xt": "a}"#,
        r#"\"é"}"#,
        "}",
    ];
    check(
        &with_deltas(),
        &chunks,
        &[
            &["start 0"],
            &[],
            &["name write"],
            &["delta {\"te"],
            &["delta xt\": \"a}"],
            &["delta \\\"é\"}"],
            &["call 0"],
            &[],
        ],
    );
}

#[test]
fn arguments_may_come_before_the_name() {
    check(
        &with_deltas(),
        &[r#"<<function_call>>{"arguments":{"a":1},"#, r#""name":"f"}"#],
        &[&["start 0", "delta {\"a\":1}"], &["name f", "call 0"], &[]],
    );
}

#[test]
fn what_may_still_change_is_told_at_the_end() {
    let s = with_deltas();
    let end = ["name f", "delta {\"a\":1}", "call 0"];
    for payload in [
        r#"{"tool":"f","args":{"a":1}|}"#,
        r#"{"tool":"f","arguments":"{\"a\":1}"|}"#,
        r#"{"n\u0061me":"f","\u0061rguments":{"a":1}|}"#,
        r#"{"n":[{"name":"f","arguments":{"a":1}}],"name":|"f","arguments":{"a":1}}"#,
    ] {
        let (begin, rest) = payload.split_once('|').unwrap();
        let begin = format!("<<function_call>>{begin}");
        check(&s, &[&begin, rest], &[&["start 0"], &end, &[]]);
    }
    let lenient = Settings { strict_balancing: false, ..s };
    let begin = r#"<<function_call>>{'name':'f','arguments':{"a":1,}"#;
    check(&lenient, &[begin, "}"], &[&["start 0"], &["name f", "delta {\"a\":1}", "call 0"], &[]]);
}

#[test]
fn absent_arguments_are_told_as_an_empty_object() {
    check(
        &with_deltas(),
        &[r#"<<function_call>>{"name":"f"}"#],
        &[&["start 0", "name f", "delta {}", "call 0"], &[]],
    );
}

#[test]
fn nested_keys_are_not_the_calls_own() {
    let call = r#"<<function_call>>{"x":{"name":"no","arguments":{"b":2}},"name":"f","arguments":{"arguments":{}}}"#;
    check(
        &with_deltas(),
        &[call],
        &[&["start 0", "name f", "delta {\"arguments\":{}}", "call 0"], &[]],
    );
}

#[test]
fn what_cannot_be_a_call_is_not_told() {
    for payload in [r#"{"name":{"x":"no"}}"#, r#"{"name":"","arguments":[{"a":1}]}"#] {
        let call = format!("<<function_call>>{payload}");
        check(&with_deltas(), &[&call], &[&["start 0", "invalid_call"], &[]]);
    }
    let call = "<|tool_call_start|>[f g(a=1)]<|tool_call_end|>";
    check(&told_in("lfm2"), &[call], &[&["start 0", "invalid_json"], &[]]);
}

#[test]
fn half_a_character_is_not_told() {
    let start = r#"<<function_call>>{"name":"f","arguments":{"a":""#.as_bytes();
    let said = said_by_chunk(&with_deltas(), &[start, b"\xc3", b"\xa9\"}}"]);
    assert_eq!(said[1], Vec::<String>::new());
    assert_eq!(said[2], ["delta é\"}", "call 0"]);
}

#[test]
fn after_the_end_a_parser_is_as_new() {
    let settings = Settings { starts_in_reasoning: true, ..settings() };
    let mut parser = Parser::new(settings).unwrap();
    let mut read = |chunks: &[&[u8]]| {
        let mut record = Record::default();
        for chunk in chunks {
            parser.push(chunk, |segment| record.take(segment));
        }
        parser.finish(|segment| record.take(segment));
        record
    };
    let stream: &[&[u8]] = &[b"why</think>x<<function_call>>{\"name\":\"f\"}", b"<<fun\xe2"];
    let first = read(stream);
    assert_eq!(read(&[b"</think><<function_call>>{\"na"]).events.len(), 2);
    assert_eq!(read(&[b"</think>\xe2\x82"]).events, [Event::Text("\u{fffd}".to_owned())]);
    assert_eq!(read(stream), first);
}

#[test]
fn bytes_and_text_may_be_mixed() {
    let mut parser = Parser::new(Settings::default()).unwrap();
    let mut text = String::new();
    let mut take = |segment: Segment<'_>| {
        if let Segment::Text(piece) = segment {
            text.push_str(piece);
        }
    };
    parser.push(b"a\xe2\x82", &mut take);
    parser.push_str("€", &mut take);
    parser.push(b"\xe2\x82", &mut take);
    parser.push(b"\xac", &mut take);
    parser.finish(&mut take);
    assert_eq!(text, "a\u{fffd}€€");
}

/// A parser of this format that tells deltas, for a tool `f` with a text `a` and anything else.
fn told_in(format: &str) -> Settings {
    let row = crate::call_format::Row::named(format).unwrap();
    let schema = serde_json::json!({"properties": {"a": {"type": "string"}}});
    let tools = Tools::of([("f", &schema)]);
    Settings { format: CallFormat::of(row), tools, ..with_deltas() }
}

#[test]
fn the_first_call_of_an_array_is_told_as_it_arrives() {
    check(
        &with_deltas(),
        &[
            r#"<<function_call>>[{"name":"f","#,
            r#""arguments":{"a":"b"#,
            r#""}},{"name":"g","arguments":{"#,
            r#""a":1}}]"#,
        ],
        &[
            &["start 0", "name f"],
            &["delta {\"a\":\"b"],
            &["delta \"}"],
            &["call 0", "start 1", "name g", "delta {\"a\":1}", "call 1"],
            &[],
        ],
    );
}

#[test]
fn code_is_told_argument_by_argument_and_its_texts_as_they_arrive() {
    check(
        &told_in("lfm2"),
        &[
            "<|tool_call_start|>[f",
            "(a='it\\",
            "'s \\u0041 lo",
            "nger', b=[1,",
            " (2,)], c=True",
            ")]",
        ],
        &[
            &["start 0"],
            &["name f", "delta {\"a\":\"it"],
            &[],
            &["delta 's A longer\""],
            &["delta ,\"b\":[1,[2]]"],
            &["delta ,\"c\":true}", "call 0"],
            &[],
        ],
    );
}

#[test]
fn code_without_arguments_is_told_and_white_space_behind_a_text_ends_nothing() {
    check(
        &told_in("lfm2"),
        &["<|tool_call_start|>[f()", "]<|tool_call_end|>"],
        &[&["start 0", "name f", "delta {}"], &["call 0"], &[]],
    );
    check(
        &told_in("lfm2"),
        &["<|tool_call_start|>[f(a='x' ", ",b=1)", "]<|tool_call_end|>"],
        &[&["start 0", "name f", "delta {\"a\":\"x\""], &["delta ,\"b\":1}"], &["call 0"], &[]],
    );
}

/// JSON where code is expected comes in one piece.
#[test]
fn json_in_place_of_code_is_not_told_in_pieces() {
    check(
        &told_in("lfm2"),
        &["<|tool_call_start|>[{\"name\": \"f\", ", "\"arguments\": {\"a\": 1}}]"],
        &[&["start 0"], &["name f", "delta {\"a\": 1}", "call 0"], &[]],
    );
}

#[test]
fn a_loose_object_is_told_argument_by_argument_and_its_texts_as_they_arrive() {
    check(
        &told_in("gemma4"),
        &["<|tool_call>call:f{", "a:<|\"|>x <", "y<|\"", "|>,b:<|\"|><|\"|>", ",c:{d:1}}"],
        &[
            &["start 0", "name f", "delta {"],
            &["delta \"a\":\"x "],
            &["delta <y"],
            &["delta \",\"b\":\"\""],
            &["delta ,\"c\":{\"d\":1}}", "call 0"],
            &[],
        ],
    );
}

/// A stray comma is part of the next key, which only the whole shows.
#[test]
fn what_is_told_of_a_loose_object_is_what_the_call_ends_up_with() {
    for arguments in ["{n:1,,s:\"y\"}", "{,s:\"x\"}", "{s:<|\"|>x<|\"|>,\n,b:<|\"|>y<|\"|>}"] {
        let call = format!("<|tool_call>call:f{arguments}<tool_call|>");
        for length in 1..=call.len() {
            let record = record(&told_in("gemma4"), call.as_bytes(), &[length], How::Bytes);
            check_calls(&told_in("gemma4"), &record);
            assert!(matches!(record.events.last(), Some(Event::Completed { .. })), "{record:?}");
        }
    }
}

#[test]
fn elements_are_told_argument_by_argument() {
    let chunks = [
        "<tool_call><invoke name=\"f\"><a>x",
        "y</a><b><item>1</item>",
        "</b",
        "></invoke></tool_call>",
    ]
    .map(|chunk| chunk.replace('<', "]<]minimax[>[<"));
    check(
        &told_in("minimax_m3"),
        &chunks.each_ref().map(String::as_str),
        &[
            &["start 0", "name f"],
            &["delta {\"a\":\"xy\""],
            &[],
            &["delta ,\"b\":[\"1\"]", "delta }", "call 0"],
            &[],
        ],
    );
}

#[test]
fn an_element_is_told_once_its_closing_tag_is_whole_wherever_that_was_cut() {
    let close = "]<]minimax[>[</a";
    for cut in 1..close.len() {
        let (before, after) = close.split_at(cut);
        let open = "<tool_call><invoke name=\"f\"><a>x".replace('<', "]<]minimax[>[<");
        let rest = "<b>1</b></invoke></tool_call>".replace('<', "]<]minimax[>[<");
        check(
            &told_in("minimax_m3"),
            &[&format!("{open}{before}"), &format!("{after}>"), &rest],
            &[
                &["start 0", "name f"],
                &["delta {\"a\":\"x\""],
                &["delta ,\"b\":\"1\"", "delta }", "call 0"],
                &[],
            ],
        );
    }
}

#[test]
fn a_text_in_tags_is_told_as_it_arrives_but_for_what_may_be_its_end() {
    check(
        &told_in("qwen3_coder"),
        &[
            "<tool_call>\n<function=f>\n<parameter=a>\n",
            "one\n",
            "two</para",
            "graph>\n",
            "</parameter>\n<parameter=b>\nx",
            "\n</parameter>\n</function>\n</tool_call>",
        ],
        &[
            &["start 0", "name f"],
            &["delta {\"a\":\"one"],
            &["delta \\ntwo"],
            &["delta </paragraph>"],
            &["delta \""],
            &["delta ,\"b\":\"x\"", "delta }", "call 0"],
            &[],
        ],
    );
}
