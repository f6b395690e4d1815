//! Turns as the AI SDK gets them, and what its clients send back.

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::encoder::{Message, PartEncoder};
use super::history::RawMessage;
use super::{AiSdk, request};
use crate::conversation::claimed::ClaimedMessage;
use crate::conversation::{Choice, ClientInput};
use crate::event::{AcknowledgementSource, Event, FailureCode, FeedbackReason, TurnFinish};
use crate::gateway::BeginError;
use crate::limits::server::MESSAGE_ID_BYTES_MAX;
use crate::server::dialect::ImageReader;
use crate::server::dialect::models::Models;
use crate::server::dialect::tests::NoTurns;
use crate::server::dialect::tests::events::{completed, end, raw, start, started, summary, text};
use crate::server::dialect::{
    ClientRequest, Dialect as _, Encoder as _, Form, ParsedRequest, Refused, RequestReader as _,
};
use crate::server::openapi::tests::strict;
use crate::server::refusal::Refusal;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Source, ToolResult};
use crate::upstream::ToolChoice;

const MESSAGE: &str = "msg_5eef151ef35146209769441c3a4f562f";

fn id(number: u32) -> String {
    format!("call_5eef151ef35146209769441c3a4f562f_{number}")
}

/// The parts of a stream, which ends with `[DONE]`.
fn parts_of(mut encoder: PartEncoder, events: &[Event<'_>]) -> Vec<Value> {
    let mut out = BytesMut::new();
    records(events, |record| encoder.encode(&record, &mut out));
    let stream = String::from_utf8(out.to_vec()).unwrap();
    let frames = stream.split_terminator("\n\n");
    let mut frames: Vec<&str> = frames.map(|frame| frame.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    let parts: Vec<Value> =
        frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
    for part in &parts {
        strict::check("UiMessagePart", part);
    }
    parts
}

fn parts(events: &[Event<'_>]) -> Vec<Value> {
    parts_of(PartEncoder::new(None), events)
}

/// The types of parts, in order.
fn types(parts: &[Value]) -> Vec<&str> {
    parts.iter().map(|part| part["type"].as_str().unwrap()).collect()
}

#[track_caller]
fn only<'p>(parts: &'p [Value], kind: &str) -> &'p Value {
    let mut found = parts.iter().filter(|part| part["type"] == kind);
    let part = found.next().unwrap_or_else(|| panic!("no {kind} in {parts:?}"));
    assert!(found.next().is_none(), "two of {kind}");
    part
}

#[test]
fn words_and_reasoning_are_spans_with_ids_of_their_own() {
    let events = [
        started(),
        Event::ReasoningDelta { text: "Hm" },
        Event::ReasoningDelta { text: "." },
        text("Hello \"you\"\n"),
        text("!"),
        Event::ReasoningDelta { text: "Really?" },
        completed(TurnFinish::Stop),
    ];
    assert_eq!(
        parts(&events),
        [
            json!({"type": "start", "messageId": MESSAGE}),
            json!({"type": "start-step"}),
            json!({"type": "reasoning-start", "id": "1"}),
            json!({"type": "reasoning-delta", "id": "1", "delta": "Hm"}),
            json!({"type": "reasoning-delta", "id": "1", "delta": "."}),
            json!({"type": "reasoning-end", "id": "1"}),
            json!({"type": "text-start", "id": "2"}),
            json!({"type": "text-delta", "id": "2", "delta": "Hello \"you\"\n"}),
            json!({"type": "text-delta", "id": "2", "delta": "!"}),
            json!({"type": "text-end", "id": "2"}),
            json!({"type": "reasoning-start", "id": "3"}),
            json!({"type": "reasoning-delta", "id": "3", "delta": "Really?"}),
            json!({"type": "reasoning-end", "id": "3"}),
            json!({"type": "finish-step"}),
            json!({"type": "finish", "finishReason": "stop"}),
        ]
    );
}

#[test]
fn the_words_of_the_next_message_are_in_the_next_step() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!({})));
    let second = Event::TextDelta { r#loop: Some(2), text: "It is 2." };
    for (next, steps) in [(second, 2), (text("ment, please."), 1)] {
        let parts = parts(&[
            started(),
            start("call_1", &arguments, 1),
            text("One mo"),
            end("call_1", &result),
            next,
            completed(TurnFinish::Stop),
        ]);
        assert_eq!(types(&parts).iter().filter(|kind| **kind == "start-step").count(), steps);
    }
}

#[test]
fn a_tool_of_ours_is_executed_by_the_provider_and_the_answer_is_a_step_of_its_own() {
    let (arguments, result) = (raw(&json!({"a": 1})), ToolResult::data(json!({"b": 2})));
    let events = [
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
    let parts = parts(&events);
    let ours = |mut part: Value| {
        part["dynamic"] = true.into();
        part["providerExecuted"] = true.into();
        part
    };
    assert_eq!(
        parts[4..10],
        [
            json!({"type": "text-end", "id": "1"}),
            ours(json!({"type": "tool-input-start", "toolCallId": id(1), "toolName": "look"})),
            ours(json!({
                "type": "tool-input-available", "toolCallId": id(1), "toolName": "look",
                "input": {"a": 1},
            })),
            ours(json!({
                "type": "tool-output-available", "toolCallId": id(1), "output": {"b": 2},
            })),
            json!({"type": "finish-step"}),
            json!({"type": "start-step"}),
        ]
    );
    assert_eq!(
        types(&parts)[10..],
        ["text-start", "text-delta", "text-end", "finish-step", "finish"]
    );
}

#[test]
fn calls_of_one_round_share_a_step_and_those_of_the_next_do_not() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!(1)));
    let events = [
        started(),
        start("call_1", &arguments, 1),
        end("call_1", &result),
        start("call_2", &arguments, 1),
        // The model still writes while the tool runs.
        text("And"),
        end("call_2", &result),
        start("call_3", &arguments, 2),
        end("call_3", &result),
        completed(TurnFinish::Stop),
    ];
    let parts = parts(&events);
    let steps = types(&parts);
    assert_eq!(steps.iter().filter(|kind| **kind == "start-step").count(), 2);
    let next = steps.iter().rposition(|kind| *kind == "start-step").unwrap();
    assert_eq!(parts[next + 1]["toolCallId"], id(3));
}

#[test]
fn white_space_around_calls_is_no_text() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!({})));
    let events = [
        started(),
        Event::ReasoningDelta { text: "\n" },
        text("\n"),
        start("call_1", &arguments, 1),
        text("\n\n"),
        end("call_1", &result),
        text(" \t"),
        text("\r\n Done.\n"),
        text("\n"),
        text("All of it."),
        completed(TurnFinish::Stop),
    ];
    let parts = parts(&events);
    let deltas = parts.iter().filter(|part| part["type"] == "text-delta");
    let deltas: Vec<&Value> = deltas.map(|part| &part["delta"]).collect();
    assert_eq!(deltas, ["Done.\n", "\n", "All of it."]);
    only(&parts, "text-start");
    assert!(!types(&parts).contains(&"reasoning-start"));
}

#[test]
fn a_failing_tool_is_an_error_and_its_feedback_is_nothing() {
    let (arguments, result) = (raw(&json!({})), ToolResult::error("overflow"));
    let feedback = |call_id| Event::Feedback {
        call_id,
        reason: FeedbackReason::ToolFailed,
        message: "It failed.",
        attempt: 1,
    };
    let events = [
        started(),
        feedback(None),
        start("call_1", &arguments, 1),
        end("call_1", &result),
        feedback(Some("call_1")),
        completed(TurnFinish::Stop),
    ];
    let parts = parts(&events);
    let error = only(&parts, "tool-output-error");
    assert_eq!(
        (&error["errorText"], &error["providerExecuted"]),
        (&json!("overflow"), &json!(true))
    );
    assert_eq!(parts.len(), 7);
}

const fn feedback(call_id: Option<&str>, reason: FeedbackReason) -> Event<'_> {
    Event::Feedback { call_id, reason, message: "No.", attempt: 1 }
}

#[test]
fn each_round_is_a_step_although_its_words_have_no_call() {
    let (arguments, result) = (raw(&json!({})), ToolResult::data(json!({})));
    let events = [
        started(),
        // A round without any part is no step.
        feedback(None, FeedbackReason::EmptyResponse),
        text("No call."),
        feedback(None, FeedbackReason::MalformedCall),
        text("None "),
        text("yet."),
        feedback(None, FeedbackReason::MalformedCall),
        start("call_1", &arguments, 3),
        // The model goes on while its first call ends, and its second call is refused for that.
        text("And"),
        end("call_1", &result),
        feedback(Some("call_2"), FeedbackReason::InvalidArguments),
        text(" now."),
        Event::LoopLimitReached { max_tool_loops: 1 },
        text("So."),
        completed(TurnFinish::LoopLimit),
    ];
    let parts = parts(&events);
    let mut rounds: Vec<String> = Vec::new();
    for part in &parts {
        match part["type"].as_str().unwrap() {
            "start-step" => rounds.push(String::new()),
            "text-delta" => rounds.last_mut().unwrap().push_str(part["delta"].as_str().unwrap()),
            "tool-input-available" => rounds.last_mut().unwrap().push_str("call"),
            _ => {}
        }
    }
    assert_eq!(rounds, ["No call.", "None yet.", "callAnd now.", "So."]);
    let count = |kind: &str| parts.iter().filter(|part| part["type"] == kind).count();
    assert_eq!((count("text-start"), count("text-end"), count("finish-step")), (4, 4, 4));
}

#[test]
fn calls_for_the_client_are_its_own_and_finish_the_message() {
    let arguments = raw(&json!({"path": "a"}));
    let events = [
        started(),
        Event::ClientToolCall {
            call_id: "call_2",
            tool_name: "open",
            tool_args: &arguments,
            r#loop: 1,
        },
        completed(TurnFinish::ClientToolCalls),
    ];
    let parts = parts(&events);
    assert_eq!(
        parts[2..],
        [
            json!({"type": "tool-input-start", "toolCallId": id(2), "toolName": "open"}),
            json!({
                "type": "tool-input-available", "toolCallId": id(2), "toolName": "open",
                "input": {"path": "a"},
            }),
            json!({"type": "finish-step"}),
            json!({"type": "finish", "finishReason": "tool-calls"}),
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
    clarification: &'a Clarification,
    source: &'a Source,
    arguments: Option<&'a RawValue>,
) -> Event<'a> {
    Event::ClarificationNeeded {
        clarification_id: "t.1",
        call_id: "call_1",
        tool_name: "look",
        source,
        clarification,
        arguments,
    }
}

#[test]
fn a_question_is_asked_in_words_and_stays_as_data() {
    let (arguments, clarification) = (raw(&json!({})), which_john());
    let (result, source) = (ToolResult::clarification(clarification.clone()), Source::builtin());
    let events = [
        started(),
        start("call_1", &arguments, 1),
        end("call_1", &result),
        parsed(&clarification, &source, None),
        completed(TurnFinish::ClarificationNeeded),
    ];
    let parts = parts(&events);
    let output = &only(&parts, "tool-output-available")["output"];
    assert_eq!(output["clarification"]["question"], "Which John?");
    assert_eq!(only(&parts, "text-delta")["delta"], "Which John?\n1. Doe\n2. Smith");
    let data = only(&parts, "data-clarification");
    assert_eq!(data["id"], "t.1");
    assert!(data.get("transient").is_none(), "it stays in the message");
    assert_eq!(data["data"]["call_id"], id(1));
    assert_eq!(data["data"]["options"][1]["id"], "b");
    assert_eq!(only(&parts, "finish")["finishReason"], "stop");
}

#[test]
fn a_call_to_approve_is_shown_with_its_arguments() {
    let confirmation = Clarification { r#type: "confirmation".to_owned(), ..which_john() };
    let (arguments, source) = (raw(&json!({"all": true})), Source::builtin());
    let events = [
        started(),
        parsed(&confirmation, &source, Some(&arguments)),
        completed(TurnFinish::ClarificationNeeded),
    ];
    let parts = parts(&events);
    let call = only(&parts, "tool-input-available");
    assert_eq!((&call["toolCallId"], &call["input"]), (&json!(id(1)), &json!({"all": true})));
    assert_eq!(call["providerExecuted"], true, "the client must not run it");
    let output = &only(&parts, "tool-output-available")["output"]["clarification"];
    assert_eq!(output["question"], "Which John?");
    assert_eq!(only(&parts, "data-clarification")["data"]["arguments"], json!({"all": true}));
}

#[test]
fn what_is_shown_for_a_while_is_transient() {
    let arguments = raw(&json!({}));
    let events = [
        started(),
        Event::Acknowledgement { text: "Looking.", source: AcknowledgementSource::Hints },
        start("call_1", &arguments, 1),
        Event::ToolProgress {
            call_id: "call_1",
            tool_name: "look",
            progress: 1.0,
            total: None,
            message: Some("one"),
        },
        Event::Status { message: "parsed again" },
        Event::LoopLimitReached { max_tool_loops: 1 },
        completed(TurnFinish::LoopLimit),
    ];
    let parts = parts(&events);
    let transient: Vec<&Value> = parts.iter().filter(|part| part["transient"] == true).collect();
    let types: Vec<&Value> = transient.iter().map(|part| &part["type"]).collect();
    assert_eq!(types, ["data-status", "data-tool-progress", "data-status", "data-status"]);
    assert_eq!(transient[0]["data"], json!({"message": "Looking."}));
    assert_eq!(
        (&transient[1]["id"], &transient[1]["data"]["call_id"]),
        (&json!(id(1)), &json!(id(1)))
    );
    assert_eq!(only(&parts, "finish")["finishReason"], "stop");
    let error = &only(&parts, "tool-output-error")["errorText"];
    assert!(error.as_str().unwrap().starts_with("interrupted"), "every call ends: {error}");
}

#[test]
fn the_ways_to_end() {
    let end = |last: Event<'_>| {
        let mut parts = parts(&[started(), text("Hi"), last]);
        let end = parts.split_off(4);
        assert_eq!(end[0]["type"], "text-end", "nothing is left open");
        end[1..].to_vec()
    };
    let finish = |reason: &str| {
        vec![json!({"type": "finish-step"}), json!({"type": "finish", "finishReason": reason})]
    };
    assert_eq!(end(completed(TurnFinish::Length)), finish("length"));
    assert_eq!(end(completed(TurnFinish::ContentFilter)), finish("content-filter"));
    assert_eq!(end(completed(TurnFinish::LoopLimit)), finish("stop"));
    let abort = vec![json!({"type": "abort"})];
    assert_eq!(end(completed(TurnFinish::Cancelled)), abort);
    let failed = Event::TurnFailed {
        code: FailureCode::UpstreamUnavailable,
        message: "cannot connect to http://10.0.0.1/",
        retryable: true,
        summary: summary(),
    };
    let error = end(failed);
    assert_eq!(error.len(), 1);
    let shown = error[0]["errorText"].as_str().unwrap();
    assert_eq!(error[0]["type"], "error");
    assert!(shown.starts_with("The model cannot be reached") && !shown.contains("10."), "{shown}");
}

#[test]
fn an_answer_continues_the_clients_last_message() {
    let start = |message| {
        parts_of(PartEncoder::new(message), &[started(), completed(TurnFinish::Stop)])[0].clone()
    };
    let continued = |id: Option<&str>| Some(Message { id: id.map(str::to_owned) });
    assert_eq!(start(continued(Some("m7")))["messageId"], "m7");
    assert_eq!(start(continued(None)), json!({"type": "start"}));
}

#[test]
fn the_stream_says_what_it_is() {
    let parts = PartEncoder::new(None);
    assert_eq!(parts.mark(), Some(("x-vercel-ai-ui-message-stream", "v1")));
    assert_eq!(&parts.keep_alive()[..], b":\n\n");
}

fn read(body: &Value) -> Result<ParsedRequest, Refusal> {
    let body = body.to_string();
    let asked = ClientRequest {
        accept: "*/*",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "key",
        models: &Models::new(vec!["local".to_owned()], Vec::new(), false),
        conversation: None,
        lookup: &NoTurns,
        images: ImageReader::new(true),
        now_sec: 0,
    };
    AiSdk.read(&asked)
}

fn claimed(message: Value) -> Vec<ClaimedMessage> {
    let message: RawMessage = serde_json::from_value(message).unwrap();
    let mut claimed = Vec::new();
    message.claim(ImageReader::new(true), &mut claimed);
    claimed
}

#[test]
fn parts_of_a_message_are_what_was_said_in_this_order() {
    let message = json!({"id": "m", "role": "assistant", "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Let me see."},
        {"type": "dynamic-tool", "toolName": "look", "toolCallId": "1", "state": "output-available",
            "input": {"a": 1}, "output": {"b": 2}, "providerExecuted": true},
        {"type": "tool-open", "toolCallId": "2", "state": "output-error", "input": {},
            "errorText": "no such file"},
        {"type": "tool-open", "toolCallId": "3", "state": "input-available", "input": {}},
        {"type": "data-clarification", "id": "q", "data": {}},
        {"type": "text", "text": "So:"},
        {"type": "step-start"},
        {"type": "text", "text": "two."},
        {"type": "source-url", "url": "https://example.org"},
    ]});
    let said = claimed(message);
    let [
        ClaimedMessage::Assistant { text, calls },
        ClaimedMessage::Result { call_id, output, is_error: false },
        ClaimedMessage::Result { call_id: failed, output: why, is_error: true },
        ClaimedMessage::Assistant { text: then, .. },
        ClaimedMessage::Assistant { text: last, .. },
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!((&**text, &**call_id, output.text()), ("Let me see.", "1", "{\"b\":2}"));
    let calls: Vec<_> = calls.iter().map(|it| (&*it.id, &*it.name, &*it.arguments)).collect();
    assert_eq!(calls, [("1", "look", "{\"a\":1}"), ("2", "open", "{}"), ("3", "open", "{}")]);
    assert_eq!((&**failed, why.text()), ("2", "no such file"));
    assert_eq!((&**then, &**last), ("So:", "two."));
}

#[test]
fn whatever_a_message_is_it_is_no_reason_to_refuse() {
    let text = |role: &str, message: Value| {
        let mut message = message;
        message["role"] = role.into();
        claimed(message)
    };
    let user = ClaimedMessage::User("a\n[an image, which is not shown: not valid base64]".into());
    let file = json!({"type": "file", "mediaType": "image/png", "url": "data:,"});
    let parts = json!({"parts": [{"type": "text", "text": "a"}, file, {"type": "data-x"}, 7]});
    assert_eq!(text("user", parts), [user]);
    let old = [ClaimedMessage::User("old".into())];
    assert_eq!(text("user", json!({"content": "old"})), old);
    let system = [ClaimedMessage::System("s".to_owned())];
    assert_eq!(text("system", json!({"parts": [{"type": "text", "text": "s"}]})), system);
    for odd in [json!({"parts": "x"}), json!({"parts": [{"type": "tool-"}, {"type": 1}, null]})] {
        text("assistant", odd);
    }
}

#[test]
fn a_list_is_not_refused_for_one_of_its_messages() {
    let said = json!({"role": "user", "content": "Hi."});
    let ParsedRequest { turn, .. } = read(&json!({"messages": [null, [], said]})).unwrap();
    assert_eq!(turn.input, ClientInput::Words("Hi.".to_owned()));
    let ParsedRequest { turn, .. } = read(&json!({"messages": ["Hi."]})).unwrap();
    assert_eq!(turn.input, ClientInput::Words("Hi.".to_owned()));
}

#[test]
fn images_are_files_with_their_data() {
    let user = |url: &str, kind: &str| {
        let file = json!({"type": "file", "mediaType": kind, "url": url});
        let mut said = claimed(json!({"role": "user", "parts": [file]}));
        let Some(ClaimedMessage::User(content)) = said.pop() else { panic!("{said:?}") };
        (content.text().to_owned(), content.images())
    };
    let gif = "data:image/gif;base64,R0lGODlh";
    assert_eq!(user(gif, "image/gif"), (String::new(), 1));
    assert_eq!(user(gif, "application/pdf"), ("[a file, which is not shown]".to_owned(), 0));
    let note = "[an image, which is not shown: URLs are not fetched]".to_owned();
    assert_eq!(user("https://example.org/a.gif", "image/gif"), (note, 0));
}

#[test]
fn a_request_of_use_chat() {
    let body = json!({
        "id": "chat/1", "trigger": "submit-message", "messageId": "m1", "webSearch": false,
        "system": "Speak like a pirate.", "toolChoice": "required", "model": "local:no-tools",
        "tools": {"open": {"description": "Opens.", "parameters": {"type": "object"}}},
        "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi."}]}],
    });
    let ParsedRequest { turn, form, .. } = read(&body).unwrap();
    assert!(matches!(form, Form::Stream(_)));
    assert_eq!(turn.input, ClientInput::Words("Hi.".to_owned()));
    assert_eq!(turn.session_id.as_deref(), Some(&*request::session_id("chat/1")));
    assert_eq!((turn.model.as_deref(), turn.tools), (Some("local"), Some(Vec::new())));
    assert_eq!((turn.tool_choice, turn.supersedes), (ToolChoice::Required, true));
    assert!(!turn.client_tools.is_empty());
    let client_history = turn.client_history.unwrap();
    assert_eq!(client_history.instructions.as_deref(), Some("Speak like a pirate."));
    assert!(client_history.can_be_joined);
    assert_eq!(turn.owner, "key");
}

#[test]
fn a_chat_with_an_empty_id_has_none() {
    let messages = json!([{"role": "user", "content": "Hi."}]);
    let ParsedRequest { turn, .. } = read(&json!({"id": "", "messages": messages})).unwrap();
    assert_eq!(turn.session_id, None);
    assert!(!turn.client_history.unwrap().can_be_joined, "no address leads to it");
}

#[test]
fn tools_are_read_in_each_form_that_applications_send() {
    let tools = |tools: Value| {
        let messages = json!([{"role": "user", "content": "Hi."}]);
        read(&json!({"messages": messages, "tools": tools}))
    };
    let schema = json!({"type": "object"});
    for tools_of_one in [
        json!([{"name": "open", "inputSchema": schema}]),
        json!([{"type": "function", "function": {"name": "open", "parameters": schema}}]),
        json!({"open": {"parameters": schema}}),
    ] {
        let ParsedRequest { turn, .. } = tools(tools_of_one).unwrap();
        assert!(!turn.client_tools.is_empty());
        assert!(!turn.client_history.unwrap().can_be_joined, "a chat without an id");
    }
    for none in [json!(["search"]), json!({"search": true}), json!("all"), json!(null)] {
        assert!(tools(none).unwrap().turn.client_tools.is_empty());
    }
    let unusable = tools(json!([{"name": "a b"}])).unwrap().turn.client_tools;
    assert_eq!((unusable.is_empty(), unusable.left_out().len()), (true, 1));
}

#[test]
fn an_explicit_answer_takes_the_place_of_the_last_words() {
    let messages = json!([{"role": "user", "content": "Smith"}]);
    let answered = |option: &str| {
        let answer = json!({"clarification_id": "t.1", "selected_option": {"id": option}});
        let body = json!({"id": "c", "messages": messages, "clarification_response": answer});
        read(&body).unwrap().turn
    };
    let turn = answered("b");
    let choice = Choice::Option("b".to_owned());
    assert_eq!(
        turn.input,
        ClientInput::Answer { clarification_id: "t.1".to_owned(), choice, beside: None }
    );
    assert!(turn.idempotency_key.is_some(), "the same answer again joins its turn");
    assert_eq!(turn.idempotency_key, answered("b").idempotency_key);
    assert_ne!(turn.idempotency_key, answered("a").idempotency_key, "another one does not");
    assert!(!turn.supersedes, "nor does it cancel that turn");
}

#[test]
fn a_message_keeps_its_id_unless_that_is_too_long() {
    let start = |id: &str| {
        let messages = json!([{"role": "user", "content": "Hi."},
            {"role": "assistant", "id": id, "content": "Well"}]);
        let ParsedRequest { form, .. } = read(&json!({"messages": messages})).unwrap();
        let Form::Stream(mut encoder) = form else { panic!("it is a stream") };
        let mut out = BytesMut::new();
        records(&[started()], |record| encoder.encode(&record, &mut out));
        String::from_utf8(out.to_vec()).unwrap()
    };
    let longest = "m".repeat(MESSAGE_ID_BYTES_MAX);
    assert!(start(&longest).contains(&longest));
    assert!(start(&format!("{longest}m")).starts_with("data: {\"type\":\"start\"}\n\n"));
}

#[test]
fn a_refusal_is_text_because_chats_show_it_as_it_is() {
    let refusal = Refusal::Begin(BeginError::NoToolToCall { left_out: Vec::new() });
    let Refused { status, media_type, body } = AiSdk.refused(&refusal);
    assert_eq!((status, media_type), (400, "text/plain; charset=utf-8"));
    assert_eq!(String::from_utf8(body).unwrap(), refusal.message());
    assert!(matches!(
        read(&json!({"messages": []})),
        Err(Refusal::Invalid { param: "messages", .. })
    ));
}
