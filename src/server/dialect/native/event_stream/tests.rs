use proptest::prelude::*;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::event::{Event, Summary, TurnFinish, Usage};
use crate::session::log::tests::records;
use crate::tools::ToolResult;
use crate::upstream::sse::Decoder;

/// The bytes that a client receives for a turn's events.
fn encoded(events: &[Event<'_>]) -> String {
    let mut out = BytesMut::new();
    records(events, |record| EventStream.encode(&record, &mut out));
    String::from_utf8(out.to_vec()).unwrap()
}

/// The frames as a client parses them: id, event, data.
fn read(text: &str) -> Vec<(String, String, Value)> {
    let (mut decoder, mut chunk) = (Decoder::new(), text.as_bytes());
    let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = decoder.next_frame(&mut chunk).unwrap() {
        let data = serde_json::from_slice(frame.data).unwrap();
        frames.push((string(frame.id.unwrap()), string(frame.event), data));
    }
    assert!(!decoder.is_mid_frame());
    frames
}

#[test]
fn a_frame_is_id_event_and_one_line_of_data() {
    let text = encoded(&[Event::Status { message: "m" }, Event::text("Hi \"you\"\n")]);
    assert!(
        text.ends_with(
            "\n\nid: 1-2\nevent: text_delta\n\
             data: {\"type\":\"text_delta\",\"data\":{\"text\":\"Hi \\\"you\\\"\\n\"}}\n\n"
        ),
        "{text}"
    );
}

#[test]
fn the_first_frame_says_when_to_come_back() {
    let text = encoded(&[Event::Status { message: "m" }]);
    assert!(text.starts_with("retry: 2000\nid: 1-1\nevent: status\ndata: {"), "{text}");
}

#[test]
fn text_that_fills_a_frame_is_not_split_and_one_byte_more_is() {
    for (more, frames) in [(0, 1), (1, 2)] {
        let words = "x".repeat(limits::RECORD_TEXT_BYTES_MAX + more);
        let text = encoded(&[Event::text(&words)]);
        assert_eq!(read(&text).len(), frames);
        assert!(text.split_inclusive("\n\n").all(|frame| frame.len() <= limits::FRAME_BYTES_MAX));
    }
}

#[test]
fn a_result_that_does_not_fit_is_cut_and_says_so() {
    let text = "word ".repeat(40_000);
    let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: &text };
    let event = Event::TurnCompleted { finish_reason: TurnFinish::Stop, stop_text: None, summary };
    let frame = encoded(&[event]);
    assert!(frame.len() <= limits::FRAME_BYTES_MAX, "{}", frame.len());
    let data = &read(&frame)[0].2["data"];
    assert_eq!(data["text_truncated"], json!(text.len() + 2));
    assert!(text.starts_with(data["text"].as_str().unwrap()));
    assert_eq!(data["finish_reason"], "stop");
}

#[test]
fn a_long_result_keeps_its_shape() {
    let rows: Vec<Value> = (0..20_000).map(|n| json!({ "n": n })).collect();
    let result = ToolResult::data(json!({ "id": 7, "rows": rows }));
    let event = Event::ToolCompleted {
        call_id: "call_1",
        tool_name: "f",
        tool_result: &result,
        duration_ms: 1,
        attempts: 1,
    };
    let frame = encoded(&[event]);
    assert!(frame.len() <= limits::FRAME_BYTES_MAX, "{}", frame.len());
    let data = &read(&frame)[0].2["data"];
    let shown = &data["tool_result"];
    assert_eq!((&shown["success"], &shown["data"]["id"]), (&json!(true), &json!(7)));
    assert_eq!(shown["data"]["rows"][1], json!({ "n": 1 }));
    assert!(data["tool_result_truncated"].as_u64() > Some(limits::FRAME_BYTES_MAX as u64));
}

#[test]
fn a_long_event_is_shortened_however_deep_it_is_nested() {
    let deepest = crate::limits::parser::DEPTH_MAX;
    let long = "x".repeat(limits::FRAME_BYTES_MAX);
    let inner = format!("{}\"{long}\"{}", "[".repeat(deepest - 1), "]".repeat(deepest - 1));
    let tool_args = &RawValue::from_string(format!("{{\"a\":{inner}}}")).unwrap();
    let started = Event::ToolStarted { call_id: "call_1", tool_name: "f", tool_args, r#loop: 1 };
    let frame = encoded(&[started]);
    assert!(frame.len() <= limits::FRAME_BYTES_MAX, "{}", frame.len());
    let data = &read(&frame)[0].2["data"];
    assert_eq!((&data["call_id"], &data["tool_args"]), (&json!("call_1"), &Value::Null));
    assert!(data["tool_args_truncated"].as_u64() > Some(limits::FRAME_BYTES_MAX as u64));
}

#[test]
fn numbers_are_written_as_people_write_them() {
    for number in [0, 9, 10, 4096, u64::MAX] {
        let mut out = BytesMut::new();
        let id = FrameId { epoch: 1, sequence: number };
        id.push_to(&mut out);
        assert_eq!(out, id.to_string().as_bytes());
    }
}

proptest! {
    #[test]
    fn any_text_comes_back_whole_from_frames_within_the_limit(
        seed in "(\\PC|[\u{0}-\u{1f}]|[\u{85}\u{2028}\u{2029}\"\\\\]){1,40}",
        repeat in 1_usize..6000,
    ) {
        let text = seed.repeat(repeat);
        let frames_text = encoded(&[Event::text(&text)]);
        let mut whole = String::new();
        for (at, (id, name, data)) in read(&frames_text).iter().enumerate() {
            prop_assert_eq!(id, &format!("1-{}", 1 + at));
            prop_assert_eq!(name, "text_delta");
            whole.push_str(data["data"]["text"].as_str().unwrap());
        }
        prop_assert_eq!(whole, text);
        for frame in frames_text.split_inclusive("\n\n") {
            prop_assert!(frame.len() <= limits::FRAME_BYTES_MAX);
            prop_assert!(frame.lines().count() <= 5);
        }
    }
}
