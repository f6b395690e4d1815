//! Streams made of kept objects.

use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::server::dialect::responses::replay::replay;

/// Every kind of item, and the deltas of each text joined.
fn object_and_stream(events: &[Event<'_>], shown: ServerItems) -> (Box<RawValue>, String) {
    let mut collected = ResponseCollector::new(options(shown));
    records(events, |record| collected.take(&record));
    let object = String::from_utf8(collected.answer.object()).unwrap();
    (RawValue::from_string(object).unwrap(), streamed(events, shown, 0))
}

#[test]
fn a_replay_has_the_events_of_the_first_stream() {
    let arguments = RawValue::from_string("{\"a\":1}".to_owned()).unwrap();
    let failing = ToolResult::error("no");
    for shown in [ServerItems::McpCall, ServerItems::FunctionCall] {
        let [start, end] = tool_events(&arguments, &failing);
        let (call_id, tool_name, tool_args) = ("call_8", "open", &*arguments);
        let all = [
            started(),
            Event::ReasoningDelta { text: "Hm." },
            Event::text("Let me \"see\"."),
            Event::ToolMarkerDetected { call_id: "call_7", r#loop: 1 },
            start,
            end,
            Event::ClientToolCall { call_id, tool_name, tool_args, r#loop: 1 },
            completed(TurnFinish::ClientToolCalls),
        ];
        let (object, first) = object_and_stream(&all, shown);
        let again = replay(&object, None);
        assert_eq!(read(std::str::from_utf8(&again).unwrap()), read(&first));
    }
}

#[test]
fn a_replay_of_a_failure_has_its_error() {
    let (object, first) = object_and_stream(&[started(), failed()], ServerItems::McpCall);
    let again = replay(&object, None);
    assert_eq!(read(std::str::from_utf8(&again).unwrap()), read(&first));
}

#[test]
fn a_client_that_has_seen_some_gets_the_last_event() {
    let all = [started(), Event::text("Hi"), completed(TurnFinish::Length)];
    let (object, first) = object_and_stream(&all, ServerItems::McpCall);
    let rest = replay(&object, Some(41));
    let mut last = read(&first).pop().unwrap();
    last["sequence_number"] = json!(42);
    assert_eq!(read(std::str::from_utf8(&rest).unwrap()), [last]);
    let most = replay(&object, Some(u64::MAX));
    assert!(most.ends_with(b"data: [DONE]\n\n"));
}
