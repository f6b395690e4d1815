//! Calls between `<tool_call>` and `</tool_call>`.

use super::*;

fn hermes() -> Settings {
    Settings { format: CallFormat::of(&HERMES), ..settings() }
}

fn lenient_hermes() -> Settings {
    Settings { strict_balancing: false, ..hermes() }
}

#[test]
fn as_the_models_write_it() {
    check(
        &hermes(),
        "One moment.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
        &["text «One moment.\\n»", "start 0@12", r#"call 0 f {"a": 1}"#],
    );
    check(&hermes(), r#"<tool_call>{"name":"f"}</tool_call>"#, &["start 0@0", "call 0 f {}"]);
}

#[test]
fn several_of_them_and_text_around() {
    check(
        &hermes(),
        "a <tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>\n{\"name\":\"g\"}\n</tool_call>\n b",
        &["text «a »", "start 0@2", "call 0 f {}", "start 1@38", "call 1 g {}", "text « b»"],
    );
    check(
        &hermes(),
        r#"<tool_call>{"name":"f"}</tool_call><tool_call>{"name":"g"}</tool_call>"#,
        &["start 0@0", "call 0 f {}", "start 1@35", "call 1 g {}"],
    );
    check(
        &hermes(),
        "<tool_call>[{\"name\":\"f\"},{\"name\":\"g\"}]</tool_call>\r\nDone.",
        &["start 0@0", "call 0 f {}", "start 1@0", "call 1 g {}", "text «Done.»"],
    );
}

#[test]
fn one_line_ending_belongs_to_the_call_and_other_space_does_not() {
    for (behind, text) in [
        ("\n", None),
        ("\r\n", None),
        ("\n\n", Some("\\n")),
        ("\r", Some("\\r")),
        (" ", Some(" ")),
        ("\n<", Some("<")),
        ("\r</tool_call", Some("\\r</tool_call")),
    ] {
        let input = format!("<tool_call>{{\"name\":\"f\"}}\n \t\r\n</tool_call>{behind}");
        let mut expected = vec!["start 0@0".to_owned(), "call 0 f {}".to_owned()];
        expected.extend(text.map(|text| format!("text «{text}»")));
        check(&hermes(), input, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// Checks that `text` is what remains of `after`, which follows a call's payload.
#[track_caller]
fn check_after_call(after: &str, text: &str) {
    let text = format!("text «{text}»");
    let expected = ["start 0@0", "call 0 f {}", text.as_str()];
    let expected = if text == "text «»" { &expected[..2] } else { &expected[..] };
    check(&hermes(), format!("<tool_call>{{\"name\":\"f\"}}{after}"), expected);
}

#[test]
fn a_call_that_is_not_closed_is_a_call_all_the_same() {
    for (after, text) in [
        ("", ""),
        ("\n", ""),
        ("</tool_", "</tool_"),
        (" \n", " \\n"),
        ("\nBye.", "Bye."),
        ("\n\nBye.", "\\nBye."),
        (" </tool_calls>", " </tool_calls>"),
        ("} and more </tool_call>", "} and more </tool_call>"),
    ] {
        check_after_call(after, text);
    }
    check(
        &hermes(),
        "<tool_call>{\"name\":\"f\"}\n<tool_call>{\"name\":\"g\"}",
        &["start 0@0", "call 0 f {}", "start 1@24", "call 1 g {}"],
    );
}

#[test]
fn a_bracket_too_many_before_the_closer_is_dropped() {
    for slip in ["}", "}\n", "\n}\n", "]]", ";", ",\n"] {
        check_after_call(&format!("{slip}</tool_call>\nBye."), "Bye.");
    }
    check_after_call("} Bye.", "} Bye.");
}

#[test]
fn a_call_that_is_closed_twice_is_closed() {
    check_after_call("</tool_call></tool_call>\n</tool_call>\nBye.", "Bye.");
    check_after_call("</tool_call>\n\n</tool_call>", "\\n</tool_call>");
}

/// Models that want two calls often write them into one pair of tags.
#[test]
fn several_objects_between_the_tags_are_several_calls() {
    for between in ["\n", "", " ", ",\n", "}\n"] {
        let input = format!(
            "<tool_call>\n{{\"name\":\"f\"}}{between}{{\"name\":\"g\"}}\n</tool_call>\nBye."
        );
        let second = format!("start 1@{}", 24 + between.len());
        check(
            &hermes(),
            input,
            &["start 0@0", "call 0 f {}", &second, "call 1 g {}", "text «Bye.»"],
        );
    }
    // One of them that is no call does not take the others with it.
    check(
        &hermes(),
        r#"<tool_call>{"a":1}{"name":"g"}</tool_call>"#,
        &["start 0@0", r#"error invalid_call@0 of 0 «{"a":1}»"#, "start 1@18", "call 1 g {}"],
    );
    check(
        &lenient_hermes(),
        "<tool_call>```json\n{\"name\":\"f\"}\n{\"name\":\"g\"}\n```\n</tool_call>Bye.",
        &[
            "start 0@0",
            "call 0 f {} mended [code_fence]",
            "start 1@32",
            "call 1 g {}",
            "text «Bye.»",
        ],
    );
    // Not after the closer.
    check(
        &hermes(),
        "<tool_call>{\"name\":\"f\"}</tool_call>{\"name\":\"g\"}",
        &["start 0@0", "call 0 f {}", r#"text «{"name":"g"}»"#],
    );
}

#[test]
fn a_closer_inside_a_string_closes_nothing() {
    check(
        &hermes(),
        r#"<tool_call>{"name":"f","arguments":{"a":"<tool_call></tool_call>"}}</tool_call>"#,
        &["start 0@0", r#"call 0 f {"a":"<tool_call></tool_call>"}"#],
    );
}

#[test]
fn a_closer_outside_of_strings_ends_the_payload() {
    check(
        &hermes(),
        "<tool_call>{\"name\":\"f\"</tool_call>\nBye.",
        &["start 0@0", r#"error unbalanced_payload@0 of 0 «{"name":"f"»"#, "text «Bye.»"],
    );
    check(
        &lenient_hermes(),
        "<tool_call>{\"name\":\"f\"</tool_call>\nBye.",
        &["start 0@0", "call 0 f {} mended [open_bracket]", "text «Bye.»"],
    );
    check(
        &lenient_hermes(),
        "<tool_call>{\"name\"</tool_call>\nBye.",
        &["start 0@0", r#"error unbalanced_payload@0 of 0 «{"name"»"#, "text «Bye.»"],
    );
}

/// Otherwise, what comes after the call would become an argument.
#[test]
fn a_string_that_runs_over_the_closer_is_not_mended() {
    let call = r#"{"name":"f","arguments":{"to":"John}}</tool_call> I have told him."#;
    let quoted = format!("error incomplete_payload@0 of 0 «{call}»");
    check(&lenient_hermes(), format!("<tool_call>{call}"), &["start 0@0", &quoted]);
    check(
        &lenient_hermes(),
        r#"<tool_call>{"name":"f","arguments":{"to":"John"#,
        &["start 0@0", r#"call 0 f {"to":"John"} mended [open_string, open_bracket]"#],
    );
}

#[test]
fn what_is_wrong_is_closed_too() {
    check(
        &hermes(),
        "<tool_call>{\"name\":]</tool_call>\nBye.",
        &["start 0@0", r#"error unbalanced_payload@0 of 0 «{"name":]»"#, "text «Bye.»"],
    );
    check(
        &hermes(),
        "<tool_call>{name}\n</tool_call>\nBye.",
        &["start 0@0", "error invalid_json@0 of 0 «{name}»", "text «Bye.»"],
    );
    let small = Settings { max_payload_bytes: 4, ..hermes() };
    for input in [
        "<tool_call>{\"name\":\"f\"}\n</tool_call>\nBye.",
        "<tool_call>{\"name\":\"f\"\n</tool_call>\nBye.",
    ] {
        let refused = r#"error payload_too_large@0 of 0 «{"na»"#;
        check(&small, input, &["start 0@0", refused, "text «Bye.»"]);
    }
}

#[test]
fn an_opener_inside_a_payload_begins_anew() {
    check(
        &hermes(),
        r#"<tool_call>{"name":<tool_call>{"name":"f"}</tool_call>"#,
        &[
            "start 0@0",
            r#"error unbalanced_payload@0 of 0 «{"name":»"#,
            "start 1@19",
            "call 1 f {}",
        ],
    );
}

#[test]
fn talk_about_calls_is_text() {
    for talk in [
        "Write <tool_call> and then JSON.",
        "`<tool_call>`",
        "<tool_call></tool_call>",
        "<tool_call>\n<function=f>",
        "<tool_call",
    ] {
        let record = read_every_way(&hermes(), talk.as_bytes());
        let text = record.events.iter().filter_map(|event| match event {
            Event::Text(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(text.collect::<String>(), talk);
        assert!(!record.events.iter().any(|event| matches!(event, Event::Started { .. })));
        assert_eq!(reference::events(&hermes(), talk.as_bytes()), record.events);
    }
    // A closer that closes nothing is text.
    check(&hermes(), "a </tool_call> b", &["text «a </tool_call> b»"]);
    check(&hermes(), "§ {}", &["text «<<function_call>> {}»"]);
}

#[test]
fn a_fence_between_the_tags_is_dropped_where_that_is_allowed() {
    check(
        &lenient_hermes(),
        "<tool_call>\n```json\n{\"name\":\"f\"}\n```\n</tool_call>\nBye.",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «Bye.»"],
    );
    check(
        &lenient_hermes(),
        "<tool_call>```\n{\"name\":\"f\"}```</tool_call>",
        &["start 0@0", "call 0 f {} mended [code_fence]"],
    );
    check(
        &lenient_hermes(),
        "<tool_call>```\n{\"name\":\"f\"}\n``</tool_call>",
        &["start 0@0", "call 0 f {} mended [code_fence]", "text «``</tool_call>»"],
    );
}

/// At the limit, and one byte over it.
#[test]
fn white_space_before_the_closer_is_bounded() {
    use crate::limits::parser::GAP_BYTES_MAX;
    let input =
        |space: usize| format!("<tool_call>{{\"name\":\"f\"}}{}</tool_call>", " ".repeat(space));
    check(&hermes(), input(GAP_BYTES_MAX), &["start 0@0", "call 0 f {}"]);
    let text = format!("text «{}</tool_call>»", " ".repeat(GAP_BYTES_MAX + 1));
    check(&hermes(), input(GAP_BYTES_MAX + 1), &["start 0@0", "call 0 f {}", &text]);
}

#[test]
fn inside_reasoning_they_count_only_if_wanted() {
    let input = r#"<think>a <tool_call>{"name":"f"}</tool_call></think>"#;
    check(&hermes(), input, &[r#"reasoning «a <tool_call>{"name":"f"}</tool_call>»"#]);
    check(
        &Settings { tools_in_reasoning: true, ..hermes() },
        input,
        &["reasoning «a »", "start 0@9", "call 0 f {}"],
    );
}

#[test]
fn arguments_are_told_as_they_arrive() {
    let settings = Settings { argument_deltas: true, ..hermes() };
    let input = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}\n</tool_call>";
    let record = read_every_way(&settings, input.as_bytes());
    assert_eq!(record.deltas[&0], r#"{"a": "b"}"#);
}

#[test]
fn a_call_without_its_tags_counts_at_the_start_of_an_answer() {
    let call = r#"{"name": "f", "arguments": {"a": 1}}"#;
    let read = ["start 0@1", r#"call 0 f {"a": 1}"#];
    check(&hermes(), format!("\n{call}"), &["text «\\n»", read[0], read[1]]);
    check(&hermes(), format!("\n{call}\n</tool_call>"), &["text «\\n»", read[0], read[1]]);
    check(&hermes(), format!("So: {call}"), &[&*format!("text «So: {call}»")]);
    check(&hermes(), r#"{"name": "f", "age": 1}"#, &[r#"text «{"name": "f", "age": 1}»"#]);
}

/// The bytes that one stream leaves held back are no part of the next.
#[test]
fn a_stream_begins_anew_after_any_end() {
    let whole = "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n";
    for end in 0..whole.len() {
        for input in
            [&whole[..end], &whole.trim_start_matches("\n<tool_call>\n")[..end.saturating_sub(13)]]
        {
            let mut parser = Parser::new(hermes()).unwrap();
            parser.push_str(input, |_| ());
            parser.finish(|_| ());
            let mut text = String::new();
            for words in ["He", "llo."] {
                parser.push_str(words, |segment| {
                    if let Segment::Text(words) = segment {
                        text.push_str(words);
                    }
                });
            }
            assert_eq!(text, "Hello.", "after {input:?}");
        }
    }
}
