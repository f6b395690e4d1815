//! Turns as AG-UI's clients get them, and what they send back.

mod reading;

use std::sync::Arc;

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::AgUi;
use super::encoder::{Run, RunEncoder};
use super::history::{OpenCall, claimed, open_calls};
use super::resume::Resumed;
use crate::conversation::claimed::{ClaimedMessage, FoundCall, PrefixHash, TurnLookup};
use crate::conversation::{Choice, ClientInput, Ending, Question, Turn};
use crate::event::{AcknowledgementSource, Event, FailureCode, FeedbackReason, TurnFinish};
use crate::gateway::NewTurn;
use crate::server::dialect::tests::events::{
    TURN, completed, end, raw, second_message, start, started, summary, text,
};
use crate::server::dialect::{
    ClientRequest, Dialect as _, Encoder as _, Form, ParsedRequest, Refused,
};
use crate::server::openapi::tests::strict;
use crate::server::refusal::Refusal;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Continuation, Source, ToolResult};

fn id(number: u32) -> String {
    format!("call_5eef151ef35146209769441c3a4f562f_{number}")
}

fn message(number: u32) -> String {
    format!("msg_5eef151ef35146209769441c3a4f562f_{number}")
}

fn run() -> Run {
    Run {
        thread_id: "t".to_owned(),
        id: "r".to_owned(),
        messages: vec![json!({"id": "u", "role": "user", "content": "Hi."})],
        open_calls: Vec::new(),
        resumed: None,
    }
}

/// The events of a run, which has no `[DONE]`. What every run must keep to is checked.
#[track_caller]
fn events_of(run: Run, events: &[Event<'_>]) -> Vec<Value> {
    let mut encoder = RunEncoder::new(run);
    let mut out = BytesMut::new();
    records(events, |record| encoder.encode(&record, &mut out));
    let stream = String::from_utf8(out.to_vec()).unwrap();
    let frames = stream.split_terminator("\n\n");
    let frames = frames.map(|frame| frame.strip_prefix("data: ").unwrap());
    let events: Vec<Value> = frames.map(|frame| serde_json::from_str(frame).unwrap()).collect();
    let ids = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"});
    assert_eq!(events[0], ids, "as they were sent");
    for event in &events {
        strict::check("AgUiEvent", event);
        assert!(event["type"] == "CUSTOM" || !event.to_string().contains(":null"), "{event}");
    }
    events
}

#[track_caller]
fn events(list: &[Event<'_>]) -> Vec<Value> {
    events_of(run(), list)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[track_caller]
fn only<'e>(events: &'e [Value], kind: &str) -> &'e Value {
    let mut found = events.iter().filter(|event| event["type"] == kind);
    let event = found.next().unwrap_or_else(|| panic!("no {kind} in {events:?}"));
    assert!(found.next().is_none(), "two of {kind}");
    event
}

fn finished(outcome: &Value, reason: Option<&str>) -> Value {
    let mut finished = json!({
        "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome,
        "usage": [{"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}],
    });
    if let Some(reason) = reason {
        finished["result"] = json!({ "finish_reason": reason });
    }
    finished
}

#[test]
fn words_and_reasoning_are_messages_that_begin_and_end() {
    let list = [
        started(),
        Event::ReasoningDelta { text: "Hm." },
        text("Hello \"you\"\n"),
        text("!"),
        text(""),
        completed(TurnFinish::Stop),
    ];
    assert_eq!(
        events(&list)[1..],
        [
            json!({"type": "REASONING_START", "messageId": message(1)}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": message(1), "role": "reasoning"}),
            json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": message(1), "delta": "Hm."}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": message(1)}),
            json!({"type": "REASONING_END", "messageId": message(1)}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": message(2), "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": message(2), "delta": "Hello \"you\"\n"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": message(2), "delta": "!"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": message(2)}),
            finished(&json!({"type": "success"}), Some("stop")),
        ]
    );
}

#[test]
fn a_tool_of_ours_is_a_whole_call_with_a_result() {
    let (arguments, result) = (raw(&json!({"a": 1})), ToolResult::data(json!({"b": 2})));
    let list = [
        started(),
        text("Let me see."),
        Event::ToolMarkerDetected { call_id: "call_1", r#loop: 1 },
        Event::ToolArgumentsDelta { call_id: "call_1", delta: "{\"a" },
        Event::Acknowledgement { text: "Let me see.", source: AcknowledgementSource::Model },
        start("call_1", &arguments, 1),
        end("call_1", &result),
        text("It is 2."),
        completed(TurnFinish::Stop),
    ];
    let events = events(&list);
    assert_eq!(
        events[3..8],
        [
            json!({"type": "TEXT_MESSAGE_END", "messageId": message(1)}),
            json!({
                "type": "TOOL_CALL_START", "toolCallId": id(1), "toolCallName": "look",
                "parentMessageId": message(1),
            }),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": id(1), "delta": "{\"a\":1}"}),
            json!({"type": "TOOL_CALL_END", "toolCallId": id(1)}),
            json!({
                "type": "TOOL_CALL_RESULT", "messageId": message(2), "toolCallId": id(1),
                "content": "{\"b\":2}", "role": "tool",
            }),
        ]
    );
    assert_eq!(events[8]["messageId"], message(3), "the answer is another message");
}

#[test]
fn white_space_around_calls_is_no_message() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!({})));
    let list = [
        started(),
        Event::ReasoningDelta { text: "Hm" },
        text("\n"),
        Event::ReasoningDelta { text: "." },
        start("call_1", &arguments, 1),
        text("\n\n"),
        end("call_1", &result),
        text("\n Done."),
        completed(TurnFinish::Stop),
    ];
    let events = events(&list);
    only(&events, "REASONING_START");
    only(&events, "TEXT_MESSAGE_START");
    assert_eq!(only(&events, "TEXT_MESSAGE_CONTENT")["delta"], "Done.");
    assert!(only(&events, "TOOL_CALL_START").get("parentMessageId").is_none());
}

#[test]
fn calls_belong_to_the_words_of_their_own_round() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!("text")));
    let list = [
        started(),
        text("Both."),
        start("call_1", &arguments, 1),
        start("call_2", &arguments, 1),
        end("call_2", &result),
        end("call_1", &result),
        start("call_3", &arguments, 2),
        end("call_3", &result),
        completed(TurnFinish::Stop),
    ];
    let events = events(&list);
    let starts = events.iter().filter(|event| event["type"] == "TOOL_CALL_START");
    let parents: Vec<Option<&Value>> = starts.map(|start| start.get("parentMessageId")).collect();
    let first = json!(message(1));
    assert_eq!(parents, [Some(&first), Some(&first), None]);
    let results = events.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT");
    let results: Vec<(&Value, &Value)> =
        results.map(|result| (&result["toolCallId"], &result["content"])).collect();
    let text = json!("text");
    assert_eq!(results, [(&json!(id(2)), &text), (&json!(id(1)), &text), (&json!(id(3)), &text)]);
}

#[test]
fn the_words_of_each_round_are_a_message() {
    let arguments = raw(&json!({}));
    let feedback =
        |call_id, reason| Event::Feedback { call_id, reason, message: "No.", attempt: 1 };
    let list = [
        started(),
        text("No call."),
        feedback(None, FeedbackReason::MalformedCall),
        start("call_1", &arguments, 2),
        text("And"),
        feedback(Some("call_2"), FeedbackReason::ToolNotFound),
        text(" now."),
        Event::LoopLimitReached { max_tool_loops: 1 },
        text("So."),
        completed(TurnFinish::LoopLimit),
    ];
    let events = events(&list);
    assert_eq!(only(&events, "TOOL_CALL_START").get("parentMessageId"), None);
    let deltas = events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT");
    let deltas: Vec<_> = deltas.map(|it| (&it["messageId"], &it["delta"])).collect();
    let said = |number: u32, words: &str| (json!(message(number)), json!(words));
    let expected = [said(1, "No call."), said(2, "And"), said(2, " now."), said(3, "So.")];
    assert_eq!(deltas, expected.iter().map(|(id, words)| (id, words)).collect::<Vec<_>>());
}

#[test]
fn the_end_of_a_tool_is_no_end_of_a_message() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!({})));
    for (next, messages) in [(second_message("It is 2."), 2), (text("ment, please."), 1)] {
        let list = [
            started(),
            start("call_1", &arguments, 1),
            text("One mo"),
            end("call_1", &result),
            next,
            completed(TurnFinish::Stop),
        ];
        let events = events(&list);
        let begun = types(&events).iter().filter(|kind| **kind == "TEXT_MESSAGE_START").count();
        assert_eq!(begun, messages);
    }
}

#[test]
fn every_call_of_ours_has_a_result() {
    let (arguments, failure) = (raw(&json!({})), ToolResult::error("overflow"));
    let feedback = Event::Feedback {
        call_id: Some("call_1"),
        reason: FeedbackReason::ToolFailed,
        message: "It failed.",
        attempt: 1,
    };
    let list = [
        started(),
        start("call_1", &arguments, 1),
        end("call_1", &failure),
        feedback,
        completed(TurnFinish::Stop),
    ];
    let failed = events(&list);
    assert_eq!(only(&failed, "TOOL_CALL_RESULT")["content"], "overflow");
    assert_eq!(failed.len(), 6);
    let list = [started(), start("call_1", &arguments, 1), completed(TurnFinish::Cancelled)];
    let cancelled = events(&list);
    let content = only(&cancelled, "TOOL_CALL_RESULT")["content"].as_str().unwrap();
    assert!(content.starts_with("interrupted"), "{content}");
    assert_eq!(cancelled.last(), Some(&finished(&json!({"type": "cancelled"}), None)));
}

#[test]
fn calls_for_the_client_have_no_result() {
    let arguments = raw(&json!({"path": "a"}));
    let call = Event::ClientToolCall {
        call_id: "call_2",
        tool_name: "open",
        tool_args: &arguments,
        r#loop: 1,
    };
    let events = events(&[started(), call, completed(TurnFinish::ClientToolCalls)]);
    assert_eq!(
        types(&events)[1..],
        ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
    );
    assert_eq!(events[1]["toolCallName"], "open");
    assert_eq!(events[4]["outcome"], json!({"type": "success"}));
}

#[test]
fn the_ways_to_end() {
    let end = |last: Event<'_>| {
        let mut events = events(&[started(), text("Hi"), last]);
        let end = events.split_off(3);
        assert_eq!(end[0]["type"], "TEXT_MESSAGE_END", "nothing is left open");
        let [_, end] = &end[..] else { panic!("one end: {end:?}") };
        end.clone()
    };
    let success = json!({"type": "success"});
    assert_eq!(end(completed(TurnFinish::Length)), finished(&success, Some("length")));
    assert_eq!(end(completed(TurnFinish::LoopLimit)), finished(&success, Some("loop_limit")));
    let failed = Event::TurnFailed {
        code: FailureCode::UpstreamError,
        message: "http://10.0.0.1/ broke off",
        retryable: true,
        summary: summary(),
    };
    let message = "The model failed. Try again.";
    let error = json!({"type": "RUN_ERROR", "message": message, "code": "upstream_error"});
    assert_eq!(end(failed), error);
}

#[test]
fn what_is_our_own_has_names_of_our_own() {
    let arguments = raw(&json!({}));
    let list = [
        started(),
        Event::Acknowledgement { text: "Looking.", source: AcknowledgementSource::Hints },
        start("call_1", &arguments, 1),
        Event::ToolProgress {
            call_id: "call_1",
            tool_name: "look",
            progress: 1.0,
            total: None,
            message: None,
        },
        Event::Status { message: "parsed again" },
        Event::LoopLimitReached { max_tool_loops: 1 },
        completed(TurnFinish::LoopLimit),
    ];
    let events = events(&list);
    let custom = events.iter().filter(|event| event["type"] == "CUSTOM");
    let custom: Vec<(&str, &Value)> =
        custom.map(|event| (event["name"].as_str().unwrap(), &event["value"])).collect();
    assert_eq!(
        custom,
        [
            ("tether.acknowledgement", &json!({"text": "Looking."})),
            (
                "tether.tool_progress",
                &json!({"call_id": id(1), "tool_name": "look", "progress": 1.0}),
            ),
            ("tether.status", &json!({"message": "parsed again"})),
            ("tether.loop_limit_reached", &json!({"max_tool_loops": 1})),
        ]
    );
}

fn which_john() -> Clarification {
    Clarification {
        r#type: "choice".to_owned(),
        question: "Which John?".to_owned(),
        options: vec![ClarificationOption::new("a", "Doe"), ClarificationOption::new("b", "Smith")],
        ..Clarification::default()
    }
}

fn parsed<'a>(
    call_id: &'a str,
    clarification: &'a Clarification,
    source: &'a Source,
    arguments: Option<&'a RawValue>,
) -> Event<'a> {
    let (clarification_id, tool_name) = ("t.1", "look");
    Event::ClarificationNeeded {
        clarification_id,
        call_id,
        tool_name,
        source,
        clarification,
        arguments,
    }
}

#[test]
fn a_question_interrupts_the_run_after_a_snapshot_of_its_messages() {
    let (arguments, clarification, source) = (raw(&json!({})), which_john(), Source::builtin());
    let (asks, ends) =
        (ToolResult::clarification(clarification.clone()), ToolResult::data(json!(1)));
    let list = [
        started(),
        Event::ReasoningDelta { text: "Hm." },
        text("Let me "),
        text("\"see\"."),
        start("call_1", &arguments, 1),
        start("call_2", &arguments, 1),
        end("call_2", &ends),
        end("call_1", &asks),
        parsed("call_1", &clarification, &source, None),
        completed(TurnFinish::ClarificationNeeded),
    ];
    let mut run = run();
    run.messages.push(json!({"id": "r", "role": "reasoning", "content": "Before."}));
    let events = events_of(run, &list);
    let results: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").collect();
    assert_eq!(results.len(), 1, "the call that asks has none");
    let [.., snapshot, end] = &events[..] else { panic!("{events:?}") };
    let call = |number| json!({"id": id(number), "type": "function", "function": {"name": "look", "arguments": "{}"}});
    assert_eq!(
        *snapshot,
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [
            {"id": "u", "role": "user", "content": "Hi."},
            {
                "id": message(2), "role": "assistant", "content": "Let me \"see\".",
                "toolCalls": [call(1), call(2)],
            },
            {"id": message(3), "role": "tool", "toolCallId": id(2), "content": "1"},
        ]})
    );
    let options = json!([{"id": "a", "title": "Doe"}, {"id": "b", "title": "Smith"}]);
    let interrupt = json!({
        "id": "t.1", "reason": "input_required", "message": "Which John?", "toolCallId": id(1),
        "responseSchema": {
            "type": "object",
            "properties": {"selected_option": {"type": "string", "enum": ["a", "b"]}},
            "oneOf": [{"required": ["selected_option"]}],
        },
        "metadata": {
            "type": "choice", "tool_name": "look", "source": {"kind": "builtin"},
            "options": options,
        },
    });
    let outcome = json!({"type": "interrupt", "interrupts": [interrupt]});
    assert_eq!(*end, finished(&outcome, None));
}

#[test]
fn a_call_to_approve_begins_before_it_interrupts() {
    let confirmation = Clarification { r#type: "confirmation".to_owned(), ..which_john() };
    let (arguments, source) = (raw(&json!({"all": true})), Source::builtin());
    let list = [
        started(),
        parsed("call_1", &confirmation, &source, Some(&arguments)),
        completed(TurnFinish::ClarificationNeeded),
    ];
    let events = events(&list);
    assert_eq!(
        types(&events)[1..],
        ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(events[2]["delta"], "{\"all\":true}");
    let snapshot = &events[4]["messages"][1];
    assert_eq!((&snapshot["id"], &snapshot["toolCalls"][0]["id"]), (&json!(id(1)), &json!(id(1))));
    let interrupt = &events[5]["outcome"]["interrupts"][0];
    assert_eq!(
        (&interrupt["reason"], &interrupt["toolCallId"]),
        (&json!("tool_call"), &json!(id(1)))
    );
    let schema = &interrupt["responseSchema"];
    assert_eq!(schema["properties"]["approved"], json!({"type": "boolean"}));
    let fits = jsonschema::validator_for(schema).unwrap();
    for (payload, is_answer) in [
        (json!({"approved": true}), true),
        (json!({"selected_option": "a"}), true),
        (json!({"text": "No."}), true),
        (json!({}), false),
        (json!({"approved": true, "text": "Yes."}), false),
        (json!({"selected_option": "a", "text": ""}), false),
    ] {
        assert_eq!(fits.is_valid(&payload), is_answer, "{payload}");
    }
    assert_eq!(interrupt["metadata"]["arguments"], json!({"all": true}));
}

fn resuming(goes_on: bool) -> Run {
    let goes_on_as = goes_on.then(|| "call_1".to_owned());
    let (id, tool_name) = ("old".to_owned(), "look".to_owned());
    let answer = "the user chose b".to_owned();
    Run { resumed: Some(Resumed { id, tool_name, goes_on_as, answer }), ..run() }
}

#[test]
fn the_answer_is_the_result_of_the_call_that_asked() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!(1)));
    let result_of = |events: &[Value], at: usize| {
        assert_eq!(events[at]["type"], "TOOL_CALL_RESULT", "{events:?}");
        let (id, content) = (&events[at]["toolCallId"], &events[at]["content"]);
        (id.as_str().unwrap().to_owned(), content.as_str().unwrap().to_owned())
    };
    let answered = ("old".to_owned(), "the user chose b".to_owned());
    let words = events_of(resuming(false), &[started(), text("So."), completed(TurnFinish::Stop)]);
    assert_eq!(result_of(&words, 1), answered);
    // A call of the same tool is another one.
    let list = [
        started(),
        start("call_2", &arguments, 1),
        end("call_2", &result),
        completed(TurnFinish::Stop),
    ];
    let other = events_of(resuming(false), &list);
    assert_eq!(result_of(&other, 1), answered);
    assert_eq!(only(&other, "TOOL_CALL_START")["toolCallId"], id(2));
    // Nothing comes at all.
    let nothing = events_of(resuming(true), &[started(), completed(TurnFinish::Cancelled)]);
    assert_eq!(result_of(&nothing, 1), answered);
}

#[test]
fn a_call_that_goes_on_does_not_begin_again_and_has_its_result_under_its_old_id() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!(1)));
    let list = [
        started(),
        start("call_2", &arguments, 0),
        end("call_2", &result),
        start("call_3", &arguments, 1),
        end("call_3", &result),
        completed(TurnFinish::Stop),
    ];
    let events = events_of(resuming(true), &list);
    assert_eq!(types(&events)[1..3], ["TOOL_CALL_RESULT", "TOOL_CALL_START"]);
    assert_eq!((&events[1]["toolCallId"], &events[1]["content"]), (&json!("old"), &json!("1")));
    assert_eq!(events[2]["toolCallId"], id(3));
}

#[test]
fn a_call_that_asks_again_stays_open_under_its_old_id() {
    let (arguments, clarification, source) = (raw(&json!({})), which_john(), Source::builtin());
    let asks = ToolResult::clarification(clarification.clone());
    let question = parsed("call_2", &clarification, &source, None);
    let end_of = completed(TurnFinish::ClarificationNeeded);
    let ran = [
        started(),
        start("call_2", &arguments, 0),
        end("call_2", &asks),
        question.clone(),
        end_of.clone(),
    ];
    for list in [&ran[..], &[started(), question, end_of][..]] {
        let events = events_of(resuming(true), list);
        assert_eq!(types(&events)[1..], ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
        assert_eq!(events[2]["outcome"]["interrupts"][0]["toolCallId"], "old");
    }
}

#[test]
fn a_question_that_waited_is_asked_by_the_call_of_its_own_turn() {
    let (clarification, source) = (which_john(), Source::builtin());
    let waiting = "call_00000000000040008000000000000001_2".to_owned();
    let open_calls = vec![OpenCall { id: waiting.clone(), name: "look".to_owned() }];
    let list = [
        started(),
        parsed("call_2", &clarification, &source, None),
        completed(TurnFinish::ClarificationNeeded),
    ];
    let events = events_of(Run { open_calls, ..resuming(false) }, &list);
    assert_eq!(types(&events)[1..], ["TOOL_CALL_RESULT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(events[3]["outcome"]["interrupts"][0]["toolCallId"], waiting);
}
