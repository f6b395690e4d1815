//! The stream of a response whose log is no longer kept, made of its object.

use bytes::{Bytes, BytesMut};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::calls;
use super::end::error_members;
use super::frames::{Frames, Numbers};
use super::parts::{added, bytes, done};
use super::text::{OpenText, Status, Words};
use crate::server::dialect;
use crate::server::dialect::json::escaped;

/// The whole stream, or its end.
///
/// The numbers of its events are not those of the first stream, which had more deltas. So a client
/// that has already seen some, up to number `seen`, gets the last event alone, which has everything.
pub(in crate::server) fn replay(answer: &RawValue, seen: Option<u64>) -> Bytes {
    let object = dialect::json::event(answer.get().as_bytes());
    let mut out = BytesMut::new();
    let mut numbers = Numbers::numbered_from(seen.map_or(0, |seen| seen.saturating_add(1)));
    let mut frames = Frames { numbers: &mut numbers, out: &mut out };
    if seen.is_none() {
        let begun = bytes(&begun(&object));
        for event in ["response.created", "response.in_progress"] {
            frames.push(event, &[b",\"response\":", &begun]);
        }
        for (index, item) in object["output"].as_array().into_iter().flatten().enumerate() {
            let has_broken_off = object["status"] == "failed" && item["status"] == "incomplete";
            replay_item(&mut frames, index, item, has_broken_off);
        }
        if !object["error"].is_null() {
            frames.push("error", &[&error_members(&object["error"])]);
        }
    }
    let event = match object["status"].as_str() {
        Some("completed") => "response.completed",
        Some("failed") => "response.failed",
        _ => "response.incomplete",
    };
    frames.push(event, &[b",\"response\":", answer.get().as_bytes()]);
    frames.end();
    out.freeze()
}

/// The response as it was at first.
fn begun(object: &Value) -> Value {
    let mut begun = object.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    for key in ["completed_at", "incomplete_details", "error", "usage"] {
        begun[key] = Value::Null;
    }
    begun
}

/// Replays an item. A message that broke off is never reported as done.
fn replay_item(frames: &mut Frames<'_>, index: usize, item: &Value, has_broken_off: bool) {
    let id = item["id"].as_str().unwrap_or_default().to_owned();
    let text = match item["type"].as_str() {
        Some("message") => Some((Words::Message, &item["content"][0]["text"])),
        Some("reasoning") => Some((Words::Reasoning, &item["summary"][0]["text"])),
        _ => None,
    };
    match (text, item["type"].as_str()) {
        (Some((words, text)), _) => {
            let mut open = OpenText::begin(frames, words, index, id);
            let text = escaped(text.as_str().unwrap_or_default());
            open.push(frames, &text);
            if has_broken_off {
                return;
            }
            open.end(frames, Status::Completed);
        }
        (None, Some("function_call")) => calls::function_call(frames, index, item),
        (None, Some("mcp_call")) => {
            calls::mcp_call(frames, index, item);
            calls::mcp_call_ended(frames, index, item);
        }
        (None, Some("function_call_output")) => {
            calls::function_call_output(frames, index, item);
        }
        (None, _) => added(frames, index, item),
    }
    done(frames, index, &bytes(item));
}
