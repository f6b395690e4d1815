//! Each limit, with a value at it and one over it.

use super::*;
use crate::call_format::Row;
use crate::limits::parser::{
    DEPTH_MAX, ERROR_RAW_BYTES_MAX, GAP_BYTES_MAX, HEADER_BYTES_MAX, MARKER_BYTES_MAX,
    PAYLOAD_BYTES_MAX, REFUSED_CHARS_MAX,
};

const MARKER: &str = "<<function_call>>";

#[track_caller]
fn code_of(settings: &Settings, input: &str) -> Option<ErrorCode> {
    let lengths: [&[usize]; 3] = [&[], &[1], &[7, 300]];
    let records = lengths.map(|lengths| record(settings, input.as_bytes(), lengths, How::Text));
    assert!(records.windows(2).all(|pair| pair[0] == pair[1]), "chunking matters");
    check_conservation(settings, input.as_bytes(), &records[0]);
    records[0].events.iter().find_map(|event| match event {
        Event::Error { code, .. } => Some(*code),
        _ => None,
    })
}

#[track_caller]
fn check_refused(value: &str, message: &str) {
    let mut said = Vec::new();
    let mut parser = Parser::new(Settings::default()).unwrap();
    let call = format!("<<function_call>> {{\"name\":\"f\",\"arguments\":{{\"a\":{value}}}}}");
    parser.push_str(&call, |segment| {
        if let Segment::Error(error) = segment {
            said.push(error.message);
        }
    });
    assert_eq!(said, [message]);
}

/// They are JSON, so the message does not say otherwise. It gives no position either.
#[test]
fn values_that_no_program_can_take_are_named() {
    check_refused("1e400", "1e400 is a number too large to be read");
    check_refused("\"\\ud800\"", "\"\\ud800\" is no Unicode text");
    let digits = |count: usize| format!("1{}e400", "0".repeat(count));
    let shown = "1".to_owned() + &"0".repeat(REFUSED_CHARS_MAX - 1);
    let long = format!("{shown}... is a number too large to be read");
    check_refused(&digits(REFUSED_CHARS_MAX), &long);
    let fits = digits(REFUSED_CHARS_MAX - 5);
    check_refused(&fits, &format!("{fits} is a number too large to be read"));
}

/// A key can be as long as a payload.
#[test]
fn long_keys_are_cut_in_errors() {
    for (length, cut) in [(REFUSED_CHARS_MAX, ""), (REFUSED_CHARS_MAX + 1, "...")] {
        let (key, shown) = ("é".repeat(length), "é".repeat(REFUSED_CHARS_MAX));
        let twice = format!(r#"{{"{key}":1,"{key}":2}}"#);
        check_refused(&twice, &format!("the key `{shown}{cut}` occurs twice"));
    }
}

#[test]
fn marker_length() {
    let refused = |length: usize| Parser::new(marked(&"m".repeat(length))).err();
    assert_eq!(refused(0), Some(SettingsError::MarkerLength(0)));
    assert_eq!(refused(1), None);
    assert_eq!(refused(MARKER_BYTES_MAX), None);
    assert_eq!(refused(MARKER_BYTES_MAX + 1), Some(SettingsError::MarkerLength(65)));
    let said = SettingsError::MarkerLength(65).to_string();
    assert_eq!(said, "marker has 65 bytes, expected 1 to 64");
    let longest = marked(&"m".repeat(MARKER_BYTES_MAX));
    assert_eq!(code_of(&longest, &format!("x{}{{\"name\":\"f\"}}", longest.format.opener())), None);
}

#[test]
fn a_payload_of_nothing_is_refused() {
    let none = Settings { max_payload_bytes: 0, ..settings() };
    assert_eq!(Parser::new(none).err(), Some(SettingsError::NoPayload));
    assert_eq!(SettingsError::NoPayload.to_string(), "max_payload_bytes is 0, expected at least 1");
}

#[test]
fn gap_length() {
    for settings in [settings(), Settings { strict_balancing: false, ..settings() }] {
        let gap = |length| format!("{MARKER}{}{{\"name\":\"f\"}}", " ".repeat(length));
        assert_eq!(code_of(&settings, &gap(GAP_BYTES_MAX)), None);
        let over = Some(ErrorCode::MissingPayload);
        assert_eq!(code_of(&settings, &gap(GAP_BYTES_MAX + 1)), over);
    }
}

#[test]
fn depth() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 2), "]".repeat(depth - 2));
        format!("{MARKER}{{\"name\":\"f\",\"arguments\":{{\"a\":{open}{close}}}}} x")
    };
    assert_eq!(code_of(&settings(), &nested(DEPTH_MAX)), None);
    let over = record(&settings(), nested(DEPTH_MAX + 1).as_bytes(), &[], How::Bytes);
    let [_, Event::Error { code, raw, .. }, Event::Text(rest)] = &over.events[..] else {
        panic!("{:?}", over.events)
    };
    assert_eq!((*code, rest.as_str()), (ErrorCode::PayloadTooDeep, " x"));
    assert!(raw.ends_with("[[["), "said at the bracket: {raw}");
    assert_eq!(code_of(&settings(), &nested(40_000)), Some(ErrorCode::PayloadTooDeep));
}

#[test]
fn depth_of_arguments_inside_a_string() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!("{MARKER}{{\"name\":\"f\",\"arguments\":\"{{\\\"a\\\":{open}{close}}}\"}}")
    };
    assert_eq!(code_of(&settings(), &nested(DEPTH_MAX - 1)), None);
    assert_eq!(code_of(&settings(), &nested(DEPTH_MAX)), Some(ErrorCode::InvalidCall));
}

#[test]
fn payload_length() {
    let payload = |length: usize| {
        let filler = "x".repeat(length - r#"{"name":"f","arguments":{"a":""}}"#.len());
        format!("{MARKER}{{\"name\":\"f\",\"arguments\":{{\"a\":\"{filler}\"}}}}")
    };
    assert_eq!(code_of(&settings(), &payload(PAYLOAD_BYTES_MAX)), None);
    let over = Some(ErrorCode::PayloadTooLarge);
    assert_eq!(code_of(&settings(), &payload(PAYLOAD_BYTES_MAX + 1)), over);
}

/// Feeds a chunk to a parser, and returns the codes of the errors that it finds.
fn errors_in(parser: &mut Parser, chunk: &str) -> Vec<ErrorCode> {
    let mut codes = Vec::new();
    parser.push_str(chunk, |segment| {
        if let Segment::Error(error) = segment {
            codes.push(error.code);
        }
    });
    codes
}

#[test]
fn too_large_is_said_the_moment_it_is_known() {
    let settings = Settings { max_payload_bytes: 8, ..settings() };
    let mut parser = Parser::new(settings).unwrap();
    assert_eq!(errors_in(&mut parser, MARKER), []);
    assert_eq!(errors_in(&mut parser, "{1234567"), []);
    assert_eq!(errors_in(&mut parser, "8"), [ErrorCode::PayloadTooLarge]);
    assert_eq!(errors_in(&mut parser, "9}}}"), []);
}

/// The gap before the payload was kept in the same buffer.
#[test]
fn room_that_is_left_from_before_does_not_lift_the_limit() {
    let settings = Settings { max_payload_bytes: 32, ..settings() };
    let mut parser = Parser::new(settings).unwrap();
    let gap = " ".repeat(GAP_BYTES_MAX);
    for chunk in [MARKER, &*gap, r#"{"a":""#, "12345678", "90123456", "78901234", "56"] {
        assert_eq!(errors_in(&mut parser, chunk), [], "{chunk}");
    }
    assert_eq!(errors_in(&mut parser, "7"), [ErrorCode::PayloadTooLarge]);
}

#[test]
fn header_bytes() {
    let harmony = Settings { format: CallFormat::of(Row::named("harmony").unwrap()), ..settings() };
    let input = |length: usize| {
        let (open, end) = ("<|channel|>", "<|message|>");
        format!("{open}{}{end}Hi", "x".repeat(length - open.len() - end.len()))
    };
    let said = |input: &str| record(&harmony, input.as_bytes(), &[], How::Bytes).events;
    assert_eq!(said(&input(HEADER_BYTES_MAX)), [Event::Text("Hi".to_owned())]);
    let over = input(HEADER_BYTES_MAX + 1);
    assert_eq!(said(&over), [Event::Text(over.clone())]);
}

/// A header, and an answer that may be a call without an opener.
#[test]
fn what_is_too_long_may_end_inside_a_character() {
    for (format, begin) in [("harmony", "<|start|>"), ("llama3", "{\"name\": \"")] {
        let settings = Settings {
            format: CallFormat::of(Row::named(format).unwrap()),
            tools: Tools::of([("f", &serde_json::json!({}))]),
            ..settings()
        };
        for before in 0..4 {
            let input = format!("{begin}{}{}", "x".repeat(before), "🦀".repeat(200));
            let [bytes, text] =
                [How::Bytes, How::Text].map(|how| record(&settings, input.as_bytes(), &[], how));
            assert_eq!(text, bytes, "{format}");
            assert_eq!(bytes.events, [Event::Text(input)], "{format}");
        }
    }
}

/// Reasoning stays reasoning, though the end of its header was forgotten.
#[test]
fn a_header_without_an_end_may_reach_its_limit_inside_a_character() {
    let harmony = Settings { format: CallFormat::of(Row::named("harmony").unwrap()), ..settings() };
    for before in 0..4 {
        let said = format!("{}{}", "x".repeat(before), "🦀".repeat(100));
        let input = format!("<|channel|>analysis {said}");
        let [bytes, text] =
            [How::Bytes, How::Text].map(|how| record(&harmony, input.as_bytes(), &[], how));
        assert_eq!(text, bytes);
        assert_eq!(bytes.events, [Event::Reasoning(said)]);
    }
}

#[test]
fn quoted_bytes() {
    let quoted = |payload: &[u8]| {
        let record = record(&settings(), &[MARKER.as_bytes(), payload].concat(), &[], How::Bytes);
        match record.events.last() {
            Some(Event::Error { raw, .. }) => raw.clone(),
            other => panic!("{other:?}"),
        }
    };
    let at = format!("{{{}", "x".repeat(ERROR_RAW_BYTES_MAX - 1));
    assert_eq!(quoted(at.as_bytes()), at);
    assert_eq!(quoted(format!("{at}y").as_bytes()), at);
    // A character at the limit is left out whole, wherever the limit cuts it.
    for character in ["é", "→", "🦀"] {
        for inside in 1..character.len() {
            let edge = format!("{{{}", "x".repeat(ERROR_RAW_BYTES_MAX - 1 - inside));
            assert_eq!(quoted(format!("{edge}{character}y").as_bytes()), edge);
        }
        let edge = format!("{{{}", "x".repeat(ERROR_RAW_BYTES_MAX - 1 - character.len()));
        let whole = format!("{edge}{character}");
        assert_eq!(quoted(format!("{whole}y").as_bytes()), whole);
    }
    // Bytes that are not a character grow to three each, and are cut too.
    let broken = quoted(&[b"{", &b"\xff".repeat(ERROR_RAW_BYTES_MAX)[..]].concat());
    assert_eq!(broken, format!("{{{}", "\u{fffd}".repeat(ERROR_RAW_BYTES_MAX / 3)));
}

/// Code ends only at a mark, however much comes before that.
#[test]
fn memory_is_bounded_in_code_that_is_too_long() {
    let python =
        serde_json::json!({"properties": {"code": {"type": "string"}}, "required": ["code"]});
    let tools = Tools::of([("python", &python)]);
    let format = CallFormat::of(Row::named("harmony").unwrap());
    let settings = Settings { format, tools, max_payload_bytes: 8, ..settings() };
    let mut parser = Parser::new(settings).unwrap();
    parser.push_str("<|channel|>analysis to=python code<|message|>", |_| {});
    for _ in 0..5000 {
        parser.push_str("abc", |_| {});
        let capacity = parser.stream.buffer.capacity();
        assert!(capacity <= 2 * HEADER_BYTES_MAX, "{capacity}");
    }
}

#[test]
fn memory_is_bounded_by_the_longest_payload() {
    let most = 1000;
    let mut parser = Parser::new(Settings { max_payload_bytes: most, ..settings() }).unwrap();
    parser.push_str(MARKER, |_| {});
    parser.push_str("[\"", |_| {});
    for _ in 0..5000 {
        parser.push_str("abc", |_| {});
        assert!(parser.stream.buffer.capacity() <= most, "{}", parser.stream.buffer.capacity());
    }
}
