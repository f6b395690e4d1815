//! What servers do beyond the standard: items without names, pieces that never come, ends that
//! repeat everything or nothing. At every cut, through `check`.

use serde_json::{Value, json};

use super::{check, completed, decode, stream};
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX, RESPONSE_MESSAGES_MAX};
use crate::upstream::dialect::Decode as _;
use crate::upstream::dialect::openai_responses::Decoder;
use crate::upstream::frame_error::FrameError;
use crate::upstream::{Delta, RoundFinish, sse};

fn added(place: &Value, id: &str, name: &str) -> Value {
    json!({"type": "response.output_item.added", "output_index": place,
        "item": {"type": "function_call", "id": id, "name": name, "arguments": ""}})
}

fn argues(place: &Value, id: &str, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta",
        "output_index": place, "item_id": id, "delta": delta})
}

fn done(place: &Value, id: &str, name: &str, arguments: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place,
        "item": {"type": "function_call", "id": id, "name": name, "arguments": arguments}})
}

/// Two calls, told apart in every way that servers use, and finished in either order.
#[test]
fn calls_are_distinguished_by_what_the_server_gives() {
    let (zero, one, none) = (json!(0), json!(1), Value::Null);
    for (places, ids, done_ids) in [
        // As the standard says.
        ([&zero, &one], ["a", "b"], ["a", "b"]),
        // No indexes.
        ([&none, &none], ["a", "b"], ["a", "b"]),
        // No ids, the same id for both, or different ids at the end.
        ([&zero, &one], ["", ""], ["", ""]),
        ([&zero, &one], ["fc", "fc"], ["fc", "fc"]),
        ([&zero, &one], ["a", "b"], ["c", "d"]),
        // One index for both.
        ([&zero, &zero], ["a", "b"], ["a", "b"]),
        // No indexes, and different ids at the end.
        ([&none, &none], ["a", "b"], ["c", "d"]),
    ] {
        let ends = [
            done(places[0], done_ids[0], "f", &json!("{\"x\":1}")),
            done(places[1], done_ids[1], "g", &json!("{\"y\":2}")),
        ];
        for order in [[0, 1], [1, 0]] {
            let events = json!([
                added(places[0], ids[0], "f"),
                argues(places[0], ids[0], "{\"x\":"),
                added(places[1], ids[1], "g"),
                argues(places[1], ids[1], "{\"y\":"),
                argues(places[0], ids[0], "1}"),
                argues(places[1], ids[1], "2}"),
                ends[order[0]],
                ends[order[1]],
                completed(),
            ]);
            check(
                &events,
                &[
                    "call 0",
                    "0: {\"x\":",
                    "call 1",
                    "1: {\"y\":",
                    "0: 1}",
                    "1: 2}",
                    "whole 0: f {\"x\":1}",
                    "whole 1: g {\"y\":2}",
                    "ToolCalls",
                    "tokens 7",
                ],
            );
        }
    }
}

#[test]
fn a_call_may_come_in_any_of_its_events() {
    let place = json!(0);
    let whole = json!("{\"x\":1}");
    let repeated = json!({"type": "response.function_call_arguments.done",
        "output_index": 0, "item_id": "a", "name": "f", "arguments": whole});
    let item = json!({"type": "function_call", "id": "a", "name": "f", "arguments": whole});
    let at_once = json!({"type": "response.completed", "response": {"output": [item]}});
    let (begun, told) = (added(&place, "a", "f"), argues(&place, "a", "{\"x\":1}"));
    let done = |arguments: &Value| done(&place, "a", "f", arguments);
    let end = json!({"type": "response.completed"});
    for events in [
        json!([begun, told, repeated, done(&whole), end]),
        json!([repeated, done(&whole), end]),
        json!([done(&whole), end]),
        json!([done(&whole), repeated, done(&whole), end]),
        // Announced twice.
        json!([begun, begun, told, done(&whole), end]),
        // A piece that comes before its call.
        json!([told, begun, told, done(&whole), end]),
        // The end repeats nothing.
        json!([begun, told, done(&Value::Null), end]),
        // An object instead of its text.
        json!([done(&json!({"x": 1})), end]),
        json!([at_once]),
    ] {
        check(&events, &["call 0", "0: {\"x\":1}", "whole 0: f {\"x\":1}", "ToolCalls"]);
    }
    // The item is never finished.
    for events in [
        json!([begun, told, repeated, end]),
        json!([begun, told, end]),
        json!([begun, repeated, end]),
        json!([repeated, end]),
    ] {
        check(&events, &["call 0", "0: {\"x\":1}", "ToolCalls", "whole 0: f {\"x\":1}"]);
    }
}

#[test]
fn the_end_overrides_the_deltas() {
    let place = json!(0);
    let end = done(&place, "a", "g", &json!("{\"y\":2}"));
    check(
        &json!([added(&place, "a", "f"), argues(&place, "a", "{\"x\":1}"), end, completed()]),
        &["call 0", "0: {\"x\":1}", "whole 0: g {\"y\":2}", "ToolCalls", "tokens 7"],
    );
}

/// It is up to the parser to report what is missing, and to the model to fix it.
#[test]
fn arguments_and_places_may_be_of_another_type() {
    let end = json!({"type": "response.completed"});
    for (arguments, told) in [(json!([1]), "[1]"), (json!(7), "7"), (json!(true), "true")] {
        let [piece, whole] = [format!("0: {told}"), format!("whole 0: f {told}")];
        let events = json!([done(&json!(0), "a", "f", &arguments), end]);
        check(&events, &["call 0", &piece, &whole, "ToolCalls"]);
    }
    for [zero, one] in [[json!("0"), json!("1")], [json!(0.0), json!(1.0)], [json!(-1), json!([])]]
    {
        let events = json!([
            added(&zero, "a", "f"),
            added(&one, "b", "g"),
            argues(&zero, "a", "{}"),
            argues(&one, "b", "{}"),
            end,
        ]);
        let whole = ["ToolCalls", "whole 0: f {}", "whole 1: g {}"];
        check(&events, &[&["call 0", "call 1", "0: {}", "1: {}"][..], &whole].concat());
    }
}

#[test]
fn finished_calls_do_not_change() {
    let place = json!(0);
    let events = [done(&place, "a", "f", &json!("{}")), argues(&place, "a", " ")];
    let (said, error) = decode([stream(&json!(events)).as_bytes()]);
    assert_eq!(said, ["call 0", "0: {}", "whole 0: f {}"]);
    assert_eq!(error, Some(FrameError::Malformed));
}

#[test]
fn a_piece_without_an_id_belongs_to_the_open_call() {
    let piece = |delta: &str| argues(&Value::Null, "", delta);
    let events = json!([added(&json!(0), "a", "f"), piece("{\"x\""), piece(":1}"), completed()]);
    check(&events, &["call 0", "0: {\"x\":1}", "ToolCalls", "whole 0: f {\"x\":1}", "tokens 7"]);
    let (said, error) = decode([stream(&json!([piece("{")])).as_bytes()]);
    assert_eq!((said, error), (Vec::new(), Some(FrameError::Malformed)), "without a call");
}

/// Streams of one message that say the same, whatever is repeated or left out.
#[test]
fn words_only_in_the_end_are_kept_and_others_not_repeated() {
    let says = |place: &Value, id: &str, text: &str| json!({"type": "response.output_text.delta", "output_index": place, "item_id": id, "delta": text});
    let ends = |place: &Value, id: &str, parts: &Value| {
        let item = json!({"type": "message", "id": id, "content": parts});
        json!({"type": "response.output_item.done", "output_index": place, "item": item})
    };
    let parts =
        json!([{"type": "output_text", "text": "So "}, {"type": "refusal", "refusal": "n\u{e9}"}]);
    let (zero, none) = (json!(0), Value::Null);
    let end = json!({"type": "response.completed"});
    for (at, id) in [(&zero, "m"), (&none, "m"), (&zero, ""), (&none, "")] {
        for events in [
            json!([says(at, id, "So "), says(at, id, "n\u{e9}"), ends(at, id, &parts), end]),
            json!([says(at, id, "So "), ends(at, id, &parts), end]),
            json!([ends(at, id, &parts), end]),
            json!([ends(at, id, &parts), ends(at, id, &parts), end]),
            json!([says(at, id, "So n\u{e9}"), ends(at, id, &Value::Null), end]),
            // Deltas that identify less than the end.
            json!([says(&none, "", "So "), ends(at, id, &parts), end]),
        ] {
            check(&events, &["text So n\u{e9}", "Stop"]);
        }
    }
    // A different message from the one before.
    let events =
        json!([says(&none, "m", "So "), ends(&none, "n", &parts), ends(&none, "m", &parts), end]);
    check(&events, &["text So So n\u{e9}n\u{e9}", "Stop"]);
    let item = json!({"type": "message", "content": parts});
    let at_once = json!({"type": "response.completed", "response": {"output": [item]}});
    check(&json!([at_once]), &["text So n\u{e9}", "Stop"]);
}

/// A message of two parts, whose words come in various events.
#[test]
fn words_only_in_the_end_of_a_part_are_kept() {
    let event = |kind: &str, part: &Value, key: &str, words: &str| {
        json!({"type": format!("response.{kind}"), "output_index": 0, "item_id": "m",
            "content_index": part, key: words})
    };
    let parts =
        json!([{"type": "output_text", "text": "So "}, {"type": "refusal", "refusal": "n\u{e9}"}]);
    let done = |content: &Value| {
        json!({"type": "response.output_item.done", "output_index": 0,
            "item": {"type": "message", "id": "m", "content": content}})
    };
    let (none, end) = (Value::Null, json!({"type": "response.completed"}));
    let [zero, one] = [json!(0), json!(1)];
    for ends in [vec![], vec![done(&none)], vec![done(&parts)], vec![done(&parts), done(&parts)]] {
        for [first, second] in [[&zero, &one], [&json!("0"), &json!("1")]] {
            let says = |words| event("output_text.delta", first, "delta", words);
            let declines = |words| event("refusal.delta", second, "delta", words);
            let said = event("output_text.done", first, "text", "So ");
            let refused = event("refusal.done", second, "refusal", "n\u{e9}");
            for begin in [
                vec![said.clone(), refused.clone()],
                vec![said.clone(), said.clone(), refused.clone(), refused.clone(), said.clone()],
                vec![says("So "), said.clone(), refused.clone()],
                vec![says("S"), said.clone(), declines("n"), refused.clone()],
                vec![says("So "), declines("n\u{e9}"), said.clone(), refused.clone()],
                vec![says("So "), said, declines("n\u{e9}"), refused],
            ] {
                let events: Vec<Value> =
                    begin.into_iter().chain(ends.clone()).chain([end.clone()]).collect();
                check(&json!(events), &["text So n\u{e9}", "Stop"]);
            }
        }
    }
    // After the end of its message, a part adds nothing.
    let late = event("output_text.done", &zero, "text", "So ");
    check(&json!([done(&parts), late, end]), &["text So n\u{e9}", "Stop"]);
    // Nothing is identified at all.
    let done = json!({"type": "response.output_text.done", "text": "So."});
    check(&json!([done, end]), &["text So.", "Stop"]);
    let says = json!({"type": "response.output_text.delta", "delta": "So."});
    check(&json!([says, done, done, end]), &["text So.", "Stop"]);
}

/// The last event repeats everything, under any names, or is the first to say it.
#[test]
fn items_only_in_the_last_event_are_read() {
    let says = json!({"type": "response.output_text.delta", "item_id": "m1", "delta": "So."});
    let thinks = json!({"type": "response.reasoning_text.delta", "delta": "Hm"});
    let words = json!({"type": "message", "id": "m2", "content": [{"text": "So."}]});
    let call = json!({"type": "function_call", "id": "c2", "name": "f", "arguments": "{}"});
    let thought = json!({"type": "reasoning", "id": "r2", "content": [{"text": "Hm"}]});
    let end =
        |output: &Value| json!({"type": "response.completed", "response": {"output": output}});
    let called = ["call 0", "0: {}", "whole 0: f {}", "ToolCalls"];
    let item = format!("item {thought}");
    check(&json!([says, end(&json!([words, call]))]), &[&["text So."][..], &called].concat());
    check(
        &json!([thinks, says, end(&json!([thought, words, call]))]),
        &[&["reasoning Hm", "text So.", &item][..], &called].concat(),
    );
    let begun = done(&json!(0), "c1", "f", &json!("{}"));
    check(
        &json!([begun, end(&json!([thought, words, call]))]),
        &["call 0", "0: {}", "whole 0: f {}", "reasoning Hm", &item, "text So.", "ToolCalls"],
    );
}

#[test]
fn reasoning_only_in_its_end_is_reported() {
    for item in [
        json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}], "summary": [{"text": "H"}]}),
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}),
    ] {
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        check(&json!([done]), &["reasoning Hm", &format!("item {item}")]);
    }
}

/// The finish of an answer that may take `tokens_max` tokens.
fn finish(tokens_max: Option<u32>, events: &Value) -> RoundFinish {
    let bytes = stream(events);
    let (mut frames, mut decoder) = (sse::Decoder::new(), Decoder::new(tokens_max));
    let (mut rest, mut found) = (bytes.as_bytes(), None);
    while let Some(frame) = frames.next_frame(&mut rest).unwrap() {
        let mut take = |delta: Delta<'_>| {
            if let Delta::Finish(finish) = delta {
                found = Some(finish);
            }
        };
        decoder.decode(&frame, &mut take).unwrap();
    }
    found.unwrap()
}

/// llama.cpp calls every answer complete.
#[test]
fn a_complete_response_may_be_cut() {
    let end = |output: u64| {
        json!({"type": "response.completed", "response": {"status": "completed",
            "usage": {"input_tokens": 1, "output_tokens": output}}})
    };
    let says = json!({"type": "response.output_text.delta", "delta": "a"});
    for (tokens_max, spent, expected) in [
        (Some(8), 7, RoundFinish::Stop),
        (Some(8), 8, RoundFinish::Length),
        (Some(8), 9, RoundFinish::Length),
        (None, 9, RoundFinish::Stop),
    ] {
        assert_eq!(finish(tokens_max, &json!([says, end(spent)])), expected, "{spent}");
    }
    for (arguments, expected) in [
        ("{\"x\": \"", RoundFinish::Length),
        ("{", RoundFinish::Length),
        ("", RoundFinish::ToolCalls),
        ("{\"x\" 1}", RoundFinish::ToolCalls),
        ("{}", RoundFinish::ToolCalls),
    ] {
        let call = done(&json!(0), "a", "f", &json!(arguments));
        assert_eq!(finish(None, &json!([call, end(1)])), expected, "{arguments}");
    }
    for (status, expected) in
        [("incomplete", RoundFinish::Length), ("completed", RoundFinish::ToolCalls)]
    {
        let mut call = done(&json!(0), "a", "f", &json!("{}"));
        call["item"]["status"] = json!(status);
        assert_eq!(finish(None, &json!([call, end(1)])), expected, "an item is {status}");
    }
    let incomplete = json!({"type": "response.completed", "response": {"status": "incomplete"}});
    assert_eq!(finish(None, &json!([says, incomplete])), RoundFinish::Length);
}

#[test]
fn the_type_may_be_only_in_the_event_field() {
    let stream = b"event: response.output_text.delta\ndata: {\"delta\":\"Hi\"}\n\n\
        event: response.completed\ndata: {}\n\n";
    assert_eq!(decode([&stream[..]]), (vec!["text Hi".to_owned(), "Stop".to_owned()], None));
    let failed = b"event: error\ndata: {\"message\":\"Oh no\"}\n\n";
    let Some(FrameError::Server(error)) = decode([&failed[..]]).1 else { panic!() };
    assert_eq!(error.message, "Oh no");
}

#[test]
fn messages_are_bounded_in_number() {
    let error = |count: usize| {
        let says = |id: usize| json!({"type": "response.output_text.delta", "item_id": id.to_string(), "delta": "a"});
        let messages: Vec<_> = (0..count).map(says).collect();
        decode([stream(&json!(messages)).as_bytes()]).1
    };
    assert_eq!(error(RESPONSE_MESSAGES_MAX), None);
    assert_eq!(error(RESPONSE_MESSAGES_MAX + 1), Some(FrameError::Malformed));
}

#[test]
fn calls_are_bounded_in_number_and_size() {
    let error = |count: usize| {
        let call = |id: usize| done(&Value::Null, &id.to_string(), "f", &json!("{}"));
        let calls: Vec<_> = (0..count).map(call).collect();
        decode([stream(&json!(calls)).as_bytes()]).1
    };
    assert_eq!(error(NATIVE_CALLS_MAX), None);
    assert_eq!(error(NATIVE_CALLS_MAX + 1), Some(FrameError::TooManyCalls));
    let error = |bytes: usize| {
        // A frame holds less than a round.
        let piece = argues(&json!(0), "", &"x".repeat(bytes / 2));
        let events = json!([added(&json!(0), "", ""), piece, piece]);
        decode([stream(&events).as_bytes()]).1
    };
    assert_eq!(error(NATIVE_CALL_BYTES_MAX), None);
    assert_eq!(error(NATIVE_CALL_BYTES_MAX + 2), Some(FrameError::CallsTooLong));
}
