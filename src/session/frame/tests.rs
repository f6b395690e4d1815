use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{Summary, TurnFinish, Usage};
use crate::upstream::sse::Decoder;

fn encoded(event: &Event<'_>, sequence: u64) -> (String, u64) {
    let mut out = BytesMut::new();
    let frames = encode(&mut out, event, sequence);
    (String::from_utf8(out.to_vec()).unwrap(), frames)
}

/// The frames as a client reads them: id, event, data.
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
    let (text, frames) = encoded(&Event::TextDelta { text: "Hi \"you\"\n" }, 7);
    assert_eq!(frames, 1);
    assert_eq!(
        text,
        "id: 1-7\nevent: text_delta\n\
         data: {\"type\":\"text_delta\",\"data\":{\"text\":\"Hi \\\"you\\\"\\n\"}}\n\n"
    );
}

#[test]
fn the_first_frame_says_when_to_come_back() {
    let (text, _) = encoded(&Event::Status { message: "m" }, 1);
    assert!(text.starts_with("retry: 2000\nid: 1-1\nevent: status\ndata: {"), "{text}");
}

#[test]
fn what_some_clients_take_for_a_line_end_is_escaped() {
    let (text, _) = encoded(&Event::TextDelta { text: "a\u{2028}b\u{2029}c\u{85}dé\u{200b}" }, 2);
    assert!(text.contains("\"a\\u2028b\\u2029c\\u0085dé\u{200b}\""), "{text}");
}

#[test]
fn raw_arguments_stay_on_their_line() {
    let raw = serde_json::value::RawValue::from_string("{\n  \"a\":\r\n 0.10\n}".into()).unwrap();
    let event =
        Event::ToolStarted { call_id: "call_1", tool_name: "t", tool_args: &raw, r#loop: 1 };
    let (text, _) = encoded(&event, 3);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("0.10"), "digits are kept: {text}");
    assert_eq!(read(&text)[0].2["data"]["tool_args"], json!({ "a": 0.10 }));
}

#[test]
fn text_that_fills_a_frame_is_not_split_and_one_byte_more_is() {
    let room = limits::FRAME_BYTES_MAX - ENVELOPE_BYTES;
    let (text, frames) = encoded(&Event::TextDelta { text: &"x".repeat(room) }, 2);
    assert_eq!(frames, 1);
    assert!(text.len() <= limits::FRAME_BYTES_MAX);
    assert_eq!(encoded(&Event::TextDelta { text: &"x".repeat(room + 1) }, 2).1, 2);
}

#[test]
fn a_result_that_does_not_fit_is_cut_and_says_so() {
    let text = "word ".repeat(40_000);
    let summary = Summary { loops: 1, tool_calls: 0, usage: Usage::NONE, text: &text };
    let event = Event::TurnCompleted { finish_reason: TurnFinish::Stop, summary };
    let (frame, frames) = encoded(&event, 9);
    assert_eq!(frames, 1);
    assert!(frame.len() <= limits::FRAME_BYTES_MAX, "{}", frame.len());
    let data = &read(&frame)[0].2["data"];
    assert_eq!(data["text_truncated"], json!(text.len() + 2));
    assert!(text.starts_with(data["text"].as_str().unwrap()));
    assert_eq!(data["finish_reason"], "stop");
}

proptest! {
    #[test]
    fn any_text_comes_back_whole_from_frames_within_the_limit(
        seed in "(\\PC|[\u{0}-\u{1f}]|[\u{85}\u{2028}\u{2029}\"\\\\]){1,40}",
        repeat in 1_usize..6000,
    ) {
        let text = seed.repeat(repeat);
        let (frames_text, frames) = encoded(&Event::TextDelta { text: &text }, 5);
        let frames_read = read(&frames_text);
        prop_assert_eq!(frames_read.len() as u64, frames);
        let mut whole = String::new();
        for (at, (id, name, data)) in frames_read.iter().enumerate() {
            prop_assert_eq!(id, &format!("1-{}", 5 + at));
            prop_assert_eq!(name, "text_delta");
            whole.push_str(data["data"]["text"].as_str().unwrap());
        }
        prop_assert_eq!(whole, text);
        for frame in frames_text.split_inclusive("\n\n") {
            prop_assert!(frame.len() <= limits::FRAME_BYTES_MAX);
            prop_assert_eq!(frame.lines().count(), 4);
        }
    }
}
