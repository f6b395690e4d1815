//! Every format: calls exactly as models write them, and talk about calls, which stays text.

use super::written::WRITTEN;
use super::*;
use crate::call_format::{Bare, Body, CallsBefore, Header, Label, ROWS, Row};

pub(super) fn of(row: &'static Row) -> Settings {
    let schema = serde_json::json!({"properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "b": {"type": ["boolean", "null"]},
        "o": {"anyOf": [{"type": "object"}, {"type": "array"}]},
    }});
    let tools = Tools::of([("f", &schema), ("g", &schema)]);
    Settings { format: CallFormat::of(row), tools, ..settings() }
}

pub(super) fn named(name: &str) -> Settings {
    of(Row::named(name).expect("a row"))
}

/// The text and the calls in what was read.
pub(super) fn said(record: &Record) -> (String, Vec<(String, String)>) {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for event in &record.events {
        match event {
            Event::Text(words) => text.push_str(words),
            Event::Completed { name, arguments, .. } => {
                calls.push((name.clone(), arguments.clone()));
            }
            _ => {}
        }
    }
    (text, calls)
}

#[test]
fn calls_as_models_write_them() {
    for (row, input, text, calls) in WRITTEN {
        let (words, made) = said(&read_every_way(&named(row), input.as_bytes()));
        let calls: Vec<_> =
            calls.iter().map(|(name, args)| ((*name).to_owned(), (*args).to_owned())).collect();
        assert_eq!((&*words, made), (*text, calls), "{row}: {input}");
    }
}

#[test]
fn every_format_has_a_case() {
    for row in ROWS.iter().filter(|row| !row.is_taught) {
        assert!(WRITTEN.iter().any(|(name, ..)| *name == row.name), "{}", row.name);
    }
}

/// Answers that look like calls without an opener, and are none.
fn bare_talk(row: &'static Row, bare: &Bare) -> Vec<String> {
    let example = CallFormat::of(row).example();
    let call = if row.is_bare() {
        example
    } else {
        let [start, end] = [example.find('{').unwrap(), example.rfind('}').unwrap()];
        example[start..=end].to_owned()
    };
    let known = call.replace("tool_name", "f");
    let bracket = char::from(bare.bracket);
    let mut talk: Vec<String> = [
        "{\"answer\": 42}",
        "{\"name\": 5}",
        "{\"name\": \"Ada\", \"age\": 36}",
        "{\"type\": \"object\", \"name\": {}}",
        "{\"type\": \"function\"}",
        "{f: 1}",
        "[1, 2]",
        "[a link](https://example.org)",
        "[f](g) and [f]",
        "[\"f\"]",
        "[{\"name\": \"Ada\"}]",
        "```json\n{\"name\": \"Ada\"}\n```",
        "```rust\nf(1)\n```",
        "functools is a module",
        "functools.cache",
        "f(a=1)",
        "{}",
        "[]",
    ]
    .map(str::to_owned)
    .to_vec();
    // Other tools, and real calls in the middle of an answer.
    talk.extend([
        call.clone(),
        format!("Like this: {known}"),
        format!("`{known}`"),
        call.replace("tool_name", ""),
    ]);
    talk.extend([bracket.to_string(), format!("{}{bracket}{bracket}", bare.word)]);
    talk.extend([known[..known.find('f').unwrap()].to_owned(), " ".repeat(257) + &known]);
    talk
}

/// The same in messages with headers, which are never shown if they are whole.
fn talk_in_messages(row: &'static Row, header: &Header) -> Vec<String> {
    let mut talk: Vec<String> = [
        "to=f",
        " to=f {}",
        " to=x in CSS {a: 1}",
        "assistant to=the manager {x}",
        "The address is to=functions.f, in `commentary`.",
        "commentary to=functions.f <|constrain|>json {\"s\": 1}",
        "assistant to=f",
        "functions.f({\"s\": 1})",
        "{\"name\": \"f\", \"arguments\": {}}",
        "[f](g) and [f(s=1)]",
        "all of them",
        "f is a tool\n",
        " f\n{}",
        "a f\n{}",
        "no_such_tool\n{}",
        "```\n>>> print(1)\n1\n```\n",
        ">>>> f\n{}",
        ">>>no_such_tool\n{}",
        "a >> b >>",
        "<|mess|> <|chan <|st",
        "<|constrain|>json",
    ]
    .map(str::to_owned)
    .to_vec();
    for opener in header.openers {
        talk.push(format!("`{opener}\n`"));
        talk.push(format!("{opener}\t{opener}\n"));
        talk.push(format!("{opener}{}\n", "x".repeat(256)));
        talk.extend(opener.char_indices().skip(1).map(|(at, _)| format!("So {}", &opener[..at])));
    }
    // Calls without a header that is addressed to the tool.
    if let Some(frame) = &row.frame {
        let call = CallFormat::of(row).example().replace("tool_name", "f");
        talk.push(call[call.find(frame.open[0]).unwrap()..].to_owned());
    }
    talk
}

/// Talk about calls in a format: nothing of it is a call, and all of it is text.
fn talk(row: &'static Row) -> Vec<String> {
    if let Some(header) = &row.header {
        return talk_in_messages(row, header);
    }
    let without_opener = row.bare.as_ref().map(|bare| bare_talk(row, bare)).unwrap_or_default();
    if row.is_bare() {
        return without_opener;
    }
    let format = CallFormat::of(row);
    let (opener, call) = (format.opener(), format.example());
    let end = row.label.as_ref().map_or("", Label::end);
    let after = call.find(opener).unwrap() + opener.len();
    let body = after
        + match &row.body {
            Body::Tagged(tags) => call[after..].find(tags.key[0]).unwrap(),
            Body::Nested(elements) => call[after..].find(elements.open).unwrap(),
            Body::PythonicLines(_) => call[after..].find('(').unwrap(),
            _ => call[after..].find(['{', '[']).unwrap(),
        };
    let mut talk = vec![
        format!("The marker {opener} begins a call."),
        format!("`{opener}`"),
        format!("\"{opener}\", then JSON"),
        format!("```\n{opener}\n```\n"),
        format!("{opener}(see [the docs](https://example.org))"),
        format!("{opener} <div class=\"a\">{{\"name\": 1}}</div>"),
        format!("| {opener} | a table |"),
        format!("{opener}\n\n# Heading\n"),
        format!("- {opener}: the {{name}} follows"),
        opener.to_owned(),
        call[..body].to_owned(),
        "[a link](https://example.org), [TOOL] [1] [x] {} {\"name\": \"f\"}".to_owned(),
        "#include <functional> <tool> <call> <|end|> <function> [ARG] <｜x｜>".to_owned(),
    ];
    // If it could be an array, a second one means that the model has started over.
    if row.label.is_some() || !opener.starts_with('[') {
        talk.extend([format!("{opener} {opener} {opener}"), format!("{opener}{opener}")]);
    }
    // Half an opener, wherever it stops.
    talk.extend(opener.char_indices().skip(1).map(|(at, _)| format!("So {}", &opener[..at])));
    talk.extend(opener.char_indices().skip(1).map(|(at, _)| format!("{}! Or not.", &opener[..at])));
    for mark in format.marks().filter(|mark| *mark != opener).chain([end]) {
        talk.push(format!("a {mark} b"));
        talk.push(format!("`{mark}`{mark}"));
    }
    talk.extend(without_opener);
    talk
}

#[test]
fn talk_about_calls_stays_text() {
    for row in ROWS {
        let talk = talk(row);
        assert!(talk.len() >= 20, "{}", row.name);
        for input in talk {
            for lengths in [&[][..], &[1], &[2], &[3], &[1, 5]] {
                let record = record(&of(row), input.as_bytes(), lengths, How::Bytes);
                check_conservation(&of(row), input.as_bytes(), &record);
                assert_eq!(said(&record), (input.clone(), Vec::new()), "{}: {input}", row.name);
            }
        }
    }
}

/// A call whose arguments mention the format's own marks.
#[test]
fn marks_in_strings_are_arguments() {
    for row in ROWS {
        let format = CallFormat::of(row);
        // A delimiter of texts cannot be written in one.
        let is_quote = |mark: &&str| match &row.body {
            Body::Loose(quote) => quote == mark,
            // The text of an element has no quotes at all.
            Body::Nested(_) => format.marks().any(|known| known == *mark),
            _ => false,
        };
        // The end of a value comes last: tags that follow it would show that it is one.
        let marks = row.reasoning_tags().chain(format.marks()).filter(|mark| !is_quote(mark));
        let marks: Vec<&str> = marks.collect();
        let arguments = serde_json::json!({ "s": marks.join(" ") }).to_string();
        let mut call = String::new();
        let mut before = CallsBefore::default();
        format.push_next_call(&mut call, "f", &arguments, &mut before);
        format.push_next_call(&mut call, "g", &arguments, &mut before);
        let (text, calls) = said(&read_every_way(&of(row), call.as_bytes()));
        let made = ["f", "g"].map(|name| (name.to_owned(), arguments.clone()));
        assert_eq!((text.trim(), calls), ("", made.to_vec()), "{}", row.name);
    }
}

/// What models forget, and write twice.
#[test]
fn a_missing_or_doubled_end_changes_nothing() {
    for row in ROWS {
        let mut call = String::new();
        let arguments = "{\"s\":\"x\"}";
        CallFormat::of(row).push_call(&mut call, "f", arguments);
        let last = match &row.body {
            Body::Tagged(tags) => tags.value[1].to_owned(),
            Body::Nested(elements) => elements.closing_tag(Some("s")),
            Body::Pythonic(_) | Body::PythonicLines(_) => ")".to_owned(),
            _ => "}".to_owned(),
        };
        let body_end = call.rfind(&last).unwrap() + last.len();
        let closer = row.closer.as_ref().map_or("", |closer| closer.text);
        let has_brackets = row.is_array && !row.body.ends_at_closer();
        let array_end = if has_brackets { "]" } else { "" };
        for input in [
            call.trim_end().to_owned(),
            format!("{}{array_end}", &call[..body_end]),
            format!("{}{array_end}\n{closer}\n{closer}", &call[..body_end]),
        ] {
            let (text, calls) = said(&read_every_way(&of(row), input.as_bytes()));
            let made = vec![("f".to_owned(), arguments.to_owned())];
            assert_eq!((text.trim(), calls), ("", made), "{}: {input}", row.name);
        }
    }
}
