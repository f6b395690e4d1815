use super::*;

fn written(format: &CallFormat, calls: &[(&str, &str)]) -> String {
    let mut text = String::new();
    push_calls(format, &mut text, calls);
    text
}

fn push_calls(format: &CallFormat, text: &mut String, calls: &[(&str, &str)]) {
    let mut before = CallsBefore::default();
    for (name, arguments) in calls {
        format.push_next_call(text, name, arguments, &mut before);
    }
}

/// Every format, in the order of [`ROWS`]. The table was written by hand, from descriptions of the formats.
#[test]
fn calls_and_results_are_written_as_models_learnt_them() {
    const WRITTEN: &str = include_str!("../../tests/data/call_formats/written.txt");
    let is_told = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = WRITTEN.lines().filter(is_told).collect();
    let (described, rest) = lines.as_chunks::<3>();
    assert!(rest.is_empty(), "{rest:?}");
    let names: Vec<&str> = described.iter().map(|[name, ..]| *name).collect();
    assert_eq!(names, ROWS.iter().map(|row| row.name).collect::<Vec<_>>());
    for (row, [name, calls, result]) in ROWS.iter().zip(described) {
        let format = CallFormat::of(row);
        let calls = calls.strip_prefix("calls |").unwrap().replace('⏎', "\n");
        let arguments = r#"{"a":1,"s":"x"}"#;
        assert_eq!(written(&format, &[("now", "{}"), ("add", arguments)]), calls, "{name}");
        let mut told = String::new();
        format.push_result(&mut told, "`now` (call_1) returned:", "12");
        assert_eq!(told, result.strip_prefix("result|").unwrap().replace('⏎', "\n"), "{name}");
    }
}

#[test]
fn calls_that_are_messages_follow_the_end_of_what_came_before() {
    for (format, expected) in [
        (
            "harmony",
            "Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}\
             <|call|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>\
             {\"a\": [1]}<|call|>",
        ),
        (
            "muse",
            "Hm.<|eom|><|start|>assistant to=now<|message|><atem:function_calls>\n<atem:invoke name=\"now\">\n\
             </atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=add<|message|>\
             <atem:function_calls>\n<atem:invoke name=\"add\">\n<atem:parameter name=\"a\">[1]\
             </atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
        ),
        ("functionary_v32", "Hm.>>>now\n{}>>>add\n{\"a\": [1]}"),
        ("olmo3", "Hm.<function_calls>now()\nadd(a=[1])</function_calls>"),
        (
            "cohere_xml",
            "Hm.<cofl:tool_calls><cofl:tool_call id=\"0\" name=\"now\"></cofl:tool_call><cofl:tool_call id=\"1\" \
             name=\"add\"><cofl:value name=\"a\" type=\"list\"><cofl:value type=\"json\">1</cofl:value>\
             </cofl:value></cofl:tool_call></cofl:tool_calls>",
        ),
    ] {
        let mut text = "Hm.".to_owned();
        let calls = [("now", "{}"), ("add", "{\"a\": [1]}")];
        push_calls(&CallFormat::of(Row::named(format).unwrap()), &mut text, &calls);
        assert_eq!(text, expected, "{format}");
    }
}

#[test]
fn a_name_is_written_as_json() {
    let text = written(&CallFormat::default(), &[("a\"b", "{}")]);
    assert_eq!(text, "<<function_call>> {\"name\": \"a\\\"b\", \"arguments\": {}}\n");
}

#[test]
fn a_nonce_follows_the_markers_last_letter() {
    for (marker, expected) in [
        ("<<function_call>>", "<<function_call:7f3a>>"),
        ("[[do]]", "[[do:7f3a]]"),
        ("CALL", "CALL:7f3a"),
        ("§§", "§§:7f3a"),
        ("<é>", "<é:7f3a>"),
    ] {
        assert_eq!(CallFormat::marker(marker).with_nonce("7f3a").opener(), expected);
    }
    let hermes = CallFormat::of(&HERMES);
    assert_eq!(hermes.with_nonce("7f3a"), hermes, "models know it as it is");
}

#[test]
fn rows_are_found_by_name_and_no_two_have_the_same() {
    for row in ROWS {
        assert!(Row::named(row.name).is_some_and(|found| std::ptr::eq(found, *row)));
    }
    assert_eq!(Row::named("none"), None);
}

/// What the parser assumes about each row.
#[test]
fn no_mark_of_a_row_lies_inside_another() {
    for row in ROWS {
        let format = CallFormat::of(row);
        // Headers mark reasoning as well.
        let reasoning = row.reasoning_tags().filter(|_| row.header.is_none());
        let hidden = row.hidden.iter().map(|it| -> &str { it });
        // A tag that closes nothing may be hidden as well.
        let hidden = hidden.filter(|it| row.reasoning_tags().all(|tag| tag != *it));
        let marks: Vec<_> = format.marks().chain(reasoning).chain(hidden).collect();
        for mark in &marks {
            let others = marks.iter().filter(|other| *other != mark);
            assert!(others.clone().count() + 1 == marks.len(), "{mark} occurs twice");
            for other in others {
                assert!(!other.contains(mark), "{mark} lies inside {other}");
            }
        }
        assert!(row.gap.bytes().all(|byte| byte.is_ascii_whitespace()));
    }
}
