//! Answers as clients get them: streamed and whole, of the same turns.

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::collector::CompletionCollector;
use super::encoder::ChunkEncoder;
use crate::event::{AcknowledgementSource, Event, TurnFinish};
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::tests::events::{
    completed, failed, failed_for_good, second_message, started,
};
use crate::server::dialect::{AnswerMeta, Collector as _, Encoder as _, WholeAnswer};
use crate::server::openapi::tests::strict;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Source, ToolResult};

fn meta() -> AnswerMeta {
    AnswerMeta { model: "qwen3".to_owned(), now_sec: 1_795_315_264 }
}

/// The frames of a stream, without `data: `.
fn streamed(events: &[Event<'_>], wants_usage: bool, shown: ServerTools) -> Vec<String> {
    let mut chunks = ChunkEncoder::new(meta(), wants_usage, shown);
    let mut out = BytesMut::new();
    records(events, |record| chunks.encode(&record, &mut out));
    let text = String::from_utf8(out.to_vec()).unwrap();
    let frames = text.split_terminator("\n\n");
    frames.map(|frame| frame.strip_prefix("data: ").unwrap().to_owned()).collect()
}

/// The chunks of a stream, which ends with `[DONE]`.
fn chunks(events: &[Event<'_>], wants_usage: bool, shown: ServerTools) -> Vec<Value> {
    let mut frames = streamed(events, wants_usage, shown);
    assert_eq!(frames.pop().as_deref(), Some("[DONE]"));
    let chunks: Vec<Value> =
        frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
    for chunk in &chunks {
        strict::check("ChatCompletionChunk", chunk);
    }
    chunks
}

fn whole(events: &[Event<'_>], shown: ServerTools) -> WholeAnswer {
    let mut completion = CompletionCollector::new(meta(), shown);
    records(events, |record| completion.take(&record));
    let answer = Box::new(completion).answer();
    let name = if answer.status == 200 { "ChatCompletion" } else { "OpenAiError" };
    strict::check(name, &answer.body);
    answer
}

/// The deltas and the finish reason of chunks, which are otherwise all alike.
fn deltas(chunks: &[Value]) -> (Vec<Value>, Value) {
    let mut deltas = Vec::new();
    let mut finish = Value::Null;
    for chunk in chunks {
        assert_eq!(chunk["id"], "chatcmpl-5eef151ef35146209769441c3a4f562f");
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!((&chunk["created"], &chunk["model"]), (&json!(1_795_315_264), &json!("qwen3")));
        let choice = &chunk["choices"][0];
        assert_eq!((&choice["index"], &choice["logprobs"]), (&json!(0), &Value::Null));
        assert!(finish.is_null(), "nothing follows the finish reason: {chunk}");
        finish = choice.get("finish_reason").expect("present, if null").clone();
        deltas.push(choice["delta"].clone());
    }
    (deltas, finish)
}

#[test]
fn words_are_streamed_as_content() {
    let events = [
        started(),
        Event::ReasoningDelta { text: "Hm." },
        Event::text("Hello \"you\"\n"),
        completed(TurnFinish::Stop),
    ];
    let (said, finish) = deltas(&chunks(&events, false, ServerTools::Off));
    assert_eq!(
        said,
        [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "Hm."}),
            json!({"content": "Hello \"you\"\n"}),
            json!({}),
        ]
    );
    assert_eq!(finish, "stop");
    let WholeAnswer { status, body, .. } = whole(&events, ServerTools::Off);
    assert_eq!(status, 200);
    let message = json!({
        "role": "assistant", "content": "Hello \"you\"\n", "refusal": null, "annotations": [],
        "reasoning_content": "Hm.",
    });
    assert_eq!(
        body,
        json!({
            "id": "chatcmpl-5eef151ef35146209769441c3a4f562f",
            "object": "chat.completion",
            "created": 1_795_315_264,
            "model": "qwen3",
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        })
    );
}

#[test]
fn usage_comes_last_and_every_chunk_before_it_says_that_it_has_none() {
    let events = [started(), Event::text("Hi."), completed(TurnFinish::Length)];
    let mut chunks = chunks(&events, true, ServerTools::Off);
    let usage = chunks.pop().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(
        usage["usage"],
        json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
    );
    assert!(chunks.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    assert_eq!(deltas(&chunks).1, "length");
}

#[test]
fn an_answer_that_a_filter_cut_off_says_so() {
    let events = [started(), completed(TurnFinish::ContentFilter)];
    assert_eq!(deltas(&chunks(&events, false, ServerTools::Off)).1, "content_filter");
}

fn tool_events<'a>(arguments: &'a RawValue, result: &'a ToolResult) -> [Event<'a>; 2] {
    let (call_id, tool_name) = ("call_1", "calculate");
    [
        Event::ToolStarted { call_id, tool_name, tool_args: arguments, r#loop: 1 },
        Event::ToolCompleted {
            call_id,
            tool_name,
            tool_result: result,
            duration_ms: 1,
            attempts: 1,
        },
    ]
}

#[test]
fn tools_of_the_gateway_are_never_calls() {
    let arguments = RawValue::from_string("{\"expression\":\"1+1\"}".to_owned()).unwrap();
    let result = ToolResult::error("overflow");
    let [start, end] = tool_events(&arguments, &result);
    let events = [started(), start, end, Event::text("2."), completed(TurnFinish::Stop)];
    let all = |shown| chunks(&events, false, shown);
    assert_eq!(all(ServerTools::Off).len(), 3);
    let (said, _) = deltas(&all(ServerTools::Reasoning));
    assert_eq!(said[1], json!({"reasoning_content": "Calling calculate.\n"}));
    assert_eq!(said[2], json!({"reasoning_content": "calculate failed.\n"}));
    let shown = all(ServerTools::Extension);
    assert_eq!(shown[1]["tether"]["type"], "tool_started");
    assert_eq!(shown[2]["tether"]["data"]["tool_result"]["error"], "overflow");
    assert_eq!(deltas(&shown).0[1], json!({}));
    for shown in [ServerTools::Off, ServerTools::Reasoning, ServerTools::Extension] {
        assert!(!streamed(&events, true, shown).concat().contains("tool_calls"));
        let WholeAnswer { body, may_be_repeated, .. } = whole(&events, shown);
        assert!(!body.to_string().contains("tool_calls"), "{body}");
        assert!(!may_be_repeated, "a tool has run");
        let has_extension = body.get("tether").is_some();
        assert_eq!(has_extension, shown == ServerTools::Extension, "{body}");
    }
}

#[test]
fn a_blank_line_keeps_the_words_of_two_messages_apart() {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let result = ToolResult::data(json!({}));
    let [start, end] = tool_events(&arguments, &result);
    let text = |text| Event::text(text);
    let mut events = [
        started(),
        text("Let me"),
        text(" look."),
        start,
        end,
        second_message("It is"),
        text(" noon."),
        completed(TurnFinish::Stop),
    ];
    let content = |events: &[Event<'_>]| {
        let (said, _) = deltas(&chunks(events, false, ServerTools::Off));
        let streamed: String = said.iter().filter_map(|delta| delta["content"].as_str()).collect();
        let WholeAnswer { body, .. } = whole(events, ServerTools::Off);
        assert_eq!(body["choices"][0]["message"]["content"], *streamed);
        streamed
    };
    assert_eq!(content(&events), "Let me look.\n\nIt is noon.");
    for looks in [" look.\n", " look.\n\n"] {
        events[2] = text(looks);
        assert_eq!(content(&events), "Let me look.\n\nIt is noon.");
    }
    events[2] = text(" look: ");
    events[5] = second_message("\n```python\n");
    assert_eq!(content(&events), "Let me look: \n\n```python\n noon.");
    // It may have ended while the model was writing.
    (events[2], events[5]) = (text(" look at $"), text("5"));
    assert_eq!(content(&events), "Let me look at $5 noon.");
}

#[test]
fn calls_for_the_client_are_tool_calls() {
    let arguments = RawValue::from_string("{\"path\":\"a\"}".to_owned()).unwrap();
    let call = |call_id| Event::ClientToolCall {
        call_id,
        tool_name: "open",
        tool_args: &arguments,
        r#loop: 1,
    };
    let events =
        [started(), call("call_2"), call("call_3"), completed(TurnFinish::ClientToolCalls)];
    let (said, finish) = deltas(&chunks(&events, false, ServerTools::Off));
    assert_eq!(finish, "tool_calls");
    let id = |number| format!("call_5eef151ef35146209769441c3a4f562f_{number}");
    let head = |index, number| {
        json!({"tool_calls": [{"index": index, "id": id(number), "type": "function",
            "function": {"name": "open", "arguments": ""}}]})
    };
    let rest = |index| json!({"tool_calls": [{"index": index, "function": {"arguments": "{\"path\":\"a\"}"}}]});
    assert_eq!(said[1..5], [head(0, 2), rest(0), head(1, 3), rest(1)]);
    let WholeAnswer { body, .. } = whole(&events, ServerTools::Off);
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(
        message["tool_calls"][1],
        json!({"id": id(3), "type": "function",
            "function": {"name": "open", "arguments": "{\"path\":\"a\"}"}})
    );
}

#[test]
fn a_question_is_asked_in_words() {
    let clarification = Clarification {
        question: "Which John?".to_owned(),
        options: vec![ClarificationOption::new("a", "Doe"), ClarificationOption::new("b", "Smith")],
        ..Clarification::default()
    };
    let asked = Event::ClarificationNeeded {
        clarification_id: "t.1",
        call_id: "call_1",
        tool_name: "look",
        source: &Source::builtin(),
        clarification: &clarification,
        arguments: None,
    };
    let events =
        [started(), Event::text("Let me see."), asked, completed(TurnFinish::ClarificationNeeded)];
    let (said, finish) = deltas(&chunks(&events, false, ServerTools::Off));
    assert_eq!(said[2]["content"], "\n\nWhich John?\n1. Doe\n2. Smith");
    assert_eq!(finish, "stop");
    let WholeAnswer { body, .. } = whole(&events, ServerTools::Off);
    let content = &body["choices"][0]["message"]["content"];
    assert_eq!(content, "Let me see.\n\nWhich John?\n1. Doe\n2. Smith");
}

#[test]
fn a_failure_is_an_error_and_nothing_beside_it() {
    let events = [started(), Event::text("Hi"), failed()];
    let mut frames = streamed(&events, true, ServerTools::Off);
    assert_eq!(frames.pop().as_deref(), Some("[DONE]"));
    let error = json!({"error": {"message": "the model server is silent", "type": "server_error",
        "param": null, "code": "upstream_timeout"}});
    assert_eq!(serde_json::from_str::<Value>(&frames.pop().unwrap()).unwrap(), error);
    let WholeAnswer { status, body, may_be_repeated } = whole(&events, ServerTools::Off);
    assert_eq!((status, body, may_be_repeated), (504, error, true));
}

/// Programs ask again after an error of the server.
#[test]
fn a_failure_that_would_recur_is_an_invalid_request() {
    let events = [started(), failed_for_good()];
    let WholeAnswer { status, body, may_be_repeated } = whole(&events, ServerTools::Off);
    assert_eq!((status, may_be_repeated), (502, false));
    let error = (&body["error"]["type"], &body["error"]["code"]);
    assert_eq!(error, (&json!("invalid_request_error"), &json!("upstream_error")));
    let frames = streamed(&events, false, ServerTools::Off);
    assert!(frames.contains(&body.to_string()), "{frames:?}");
}

#[test]
fn a_cancelled_answer_has_no_finish_reason() {
    let events = [started(), Event::text("Hi"), completed(TurnFinish::Cancelled)];
    let frames = streamed(&events, false, ServerTools::Off);
    assert_eq!(frames.len(), 2);
    assert!(frames.iter().all(|frame| frame != "[DONE]"));
    assert_eq!(whole(&events, ServerTools::Off).status, 503);
}

/// The model's own words have been sent before, as what they are.
#[test]
fn hints_are_shown_where_our_tools_are() {
    let said = |source| Event::Acknowledgement { text: "Doing the sum.", source };
    let events = [
        started(),
        said(AcknowledgementSource::Hints),
        said(AcknowledgementSource::Model),
        completed(TurnFinish::Stop),
    ];
    let shown = |shown| {
        let (deltas, _) = deltas(&chunks(&events, false, shown));
        deltas.iter().filter(|delta| delta["reasoning_content"] == "Doing the sum.\n").count()
    };
    assert_eq!((shown(ServerTools::Off), shown(ServerTools::Reasoning)), (0, 1));
    let message = |shown| whole(&events, shown).body["choices"][0]["message"].clone();
    assert_eq!(message(ServerTools::Reasoning)["reasoning_content"], "Doing the sum.\n");
    assert_eq!(message(ServerTools::Off)["reasoning_content"], Value::Null);
    let body = whole(&events, ServerTools::Extension).body;
    assert_eq!(body["tether"]["tools"][0]["type"], "acknowledgement");
}
