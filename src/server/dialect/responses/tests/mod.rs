//! What each event becomes, row by row, and what is kept of it.

mod references;
mod replays;
mod requests;
mod tools;

use std::sync::Arc;

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::collector::ResponseCollector;
use super::encoder::ResponseEncoder;
use super::envelope::{AnswerOptions, Envelope, ResponseHead};
use super::server_items::{Labels, ServerItems};
use crate::event::{AcknowledgementSource, Event, FeedbackReason, TurnFinish};
use crate::server::dialect::tests::events::{
    TURN, completed, failed, failed_for_good, second_message, started_in, text,
};
use crate::server::dialect::{Collector as _, Encoder as _, WholeAnswer};
use crate::server::openapi::tests::strict;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Registry, Source, ToolResult};

const SESSION: &str = "resp-000000000000000000000000000000aa";
const IDS: &str = "000000000000000000000000000000aa5eef151ef35146209769441c3a4f562f";

fn options(shown: ServerItems) -> AnswerOptions {
    let echo = json!({ "model": "qwen3", "metadata": {} });
    let head = ResponseHead { created_at: 1_795_315_264, echo, ..ResponseHead::default() };
    let envelope =
        Envelope { head: Arc::new(head), ended_at: Arc::default(), clock: || 1_795_315_270 };
    AnswerOptions { envelope, shown, labels: Labels(Arc::new(Registry::default())) }
}

fn started() -> Event<'static> {
    started_in(SESSION)
}

/// The text of a stream from event `from` on.
fn streamed(events: &[Event<'_>], shown: ServerItems, from: u64) -> String {
    let mut stream = ResponseEncoder::new(options(shown), from);
    let mut out = BytesMut::new();
    records(events, |record| stream.encode(&record, &mut out));
    String::from_utf8(out.to_vec()).unwrap()
}

/// The events of a stream that ends with `[DONE]`. Checks what holds for every stream.
#[track_caller]
fn read(stream: &str) -> Vec<Value> {
    let mut frames: Vec<&str> = stream.split_terminator("\n\n").collect();
    assert_eq!(frames.pop(), Some("data: [DONE]"));
    let read = |frame: &str| {
        let (name, data) = frame.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"], "names agree");
        // The responses of these tests repeat less of a request than real ones.
        if data.get("response").is_none() {
            strict::check("ResponseEvent", &data);
        }
        data
    };
    frames.into_iter().map(read).collect()
}

#[track_caller]
fn events(events: &[Event<'_>], shown: ServerItems) -> Vec<Value> {
    let read = read(&streamed(events, shown, 0));
    check_rules(&read);
    read
}

/// The rules of numbers, indices and ids.
#[track_caller]
fn check_rules(events: &[Value]) {
    let mut added: Vec<&Value> = Vec::new();
    let mut done: Vec<Option<&Value>> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at, "contiguous from 0");
        let index = event["output_index"].as_u64().map(|index| usize::try_from(index).unwrap());
        match event["type"].as_str().unwrap() {
            "response.output_item.added" => {
                assert_eq!(index, Some(added.len()), "no holes: {event}");
                added.push(&event["item"]);
                done.push(None);
            }
            "response.output_item.done" => {
                let first = added[index.unwrap()];
                for key in ["id", "type"] {
                    assert_eq!(event["item"][key], first[key], "it keeps its identity");
                }
                assert!(done[index.unwrap()].replace(&event["item"]).is_none(), "done once");
            }
            _ => {
                if let Some(index) = index {
                    assert_eq!(event["item_id"], added[index]["id"], "it is added first");
                    assert!(done[index].is_none(), "it is not done: {event}");
                }
            }
        }
    }
    let last = &events.last().unwrap()["response"];
    let output = last["output"].as_array().unwrap();
    assert_eq!(output.len(), done.len());
    for (item, done) in output.iter().zip(done) {
        match done {
            Some(done) => assert_eq!(item, done, "the output repeats the items that are done"),
            None => assert_eq!(
                (&last["status"], &item["status"]),
                (&json!("failed"), &json!("incomplete")),
                "only a message that broke off is not done"
            ),
        }
    }
    assert_eq!(events[0]["type"], "response.created");
    assert_eq!(events[1]["type"], "response.in_progress");
}

fn types(events: &[Value]) -> Vec<&str> {
    let names = events.iter().map(|event| event["type"].as_str().unwrap());
    names.map(|name| name.strip_prefix("response.").unwrap_or(name)).collect()
}

fn whole(events: &[Event<'_>], shown: ServerItems) -> WholeAnswer {
    let mut collected = ResponseCollector::new(options(shown));
    records(events, |record| collected.take(&record));
    Box::new(collected).answer()
}

const MESSAGE: [&str; 6] = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
];

fn message(number: u32, text: &str) -> Value {
    json!({
        "id": format!("msg_{IDS}_{number}"), "type": "message", "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    })
}

#[test]
fn words_are_a_message_and_reasoning_is_a_summary() {
    let all = [
        started(),
        Event::ReasoningDelta { text: "Hm." },
        Event::text("Hello "),
        Event::text("\"you\"\u{2028}"),
        completed(TurnFinish::Stop),
    ];
    let stream = streamed(&all, ServerItems::McpCall, 0);
    assert!(!stream.contains('\u{2028}'), "some clients take it for the end of a line");
    let events = events(&all, ServerItems::McpCall);
    let reasoning = [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ];
    let mut expected = vec!["created", "in_progress"];
    expected.extend(reasoning);
    expected.extend(MESSAGE);
    expected.insert(11, "output_text.delta");
    expected.push("completed");
    assert_eq!(types(&events), expected);
    let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
    assert_eq!(events[9]["part"], part);
    assert_eq!(
        events[10],
        json!({
            "type": "response.output_text.delta", "sequence_number": 10,
            "item_id": format!("msg_{IDS}_1"), "output_index": 1, "content_index": 0,
            "logprobs": [], "delta": "Hello ",
        })
    );
    assert_eq!(events[12]["text"], "Hello \"you\"\u{2028}");
    let id = format!("rs_{IDS}_0");
    let summary = json!([{"type": "summary_text", "text": "Hm."}]);
    let thought = json!({"id": id, "type": "reasoning", "summary": summary, "content": []});
    assert_eq!(events[7]["item"], thought);
    let object = json!({
        "id": format!("resp_{IDS}"),
        "object": "response",
        "created_at": 1_795_315_264,
        "completed_at": 1_795_315_270,
        "status": "completed",
        "incomplete_details": null,
        "error": null,
        "usage": {
            "input_tokens": 3, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 7,
        },
        "output": [thought, message(1, "Hello \"you\"\u{2028}")],
        "model": "qwen3",
        "metadata": {},
    });
    assert_eq!(events[15]["response"], object);
    let WholeAnswer { status, body, may_be_repeated } = whole(&all, ServerItems::McpCall);
    assert_eq!((status, body, may_be_repeated), (200, object, true));
}

/// The last event has the items as they were sent, and so has the object that is kept.
#[test]
fn the_output_repeats_the_done_items_byte_for_byte() {
    let arguments = RawValue::from_string("{ \"b\" : 1.10 }".to_owned()).unwrap();
    let result = ToolResult::data(json!({"n": 1.5}));
    let [start, end] = tool_events(&arguments, &result);
    let all = [
        started(),
        Event::text("a\u{85}\n"),
        Event::ToolMarkerDetected { call_id: "call_7", r#loop: 1 },
        start,
        end,
        Event::text("b"),
        completed(TurnFinish::Stop),
    ];
    let stream = streamed(&all, ServerItems::McpCall, 0);
    let items: Vec<&str> = stream
        .lines()
        .filter(|line| line.starts_with("data: {\"type\":\"response.output_item.done\""))
        .map(|line| &line[line.find("\"item\":").unwrap() + 7..line.len() - 1])
        .collect();
    assert_eq!(items.len(), 3);
    let output = format!("\"output\":[{}],", items.join(","));
    assert!(stream.contains(&output), "{stream}");
    let mut collected = ResponseCollector::new(options(ServerItems::McpCall));
    records(&all, |record| collected.take(&record));
    let object = String::from_utf8(collected.answer.object()).unwrap();
    assert!(object.contains(&output), "{object}");
}

fn tool_events<'a>(arguments: &'a RawValue, result: &'a ToolResult) -> [Event<'a>; 2] {
    let (call_id, tool_name) = ("call_7", "calculate");
    let (tool_args, tool_result) = (arguments, result);
    [
        Event::ToolStarted { call_id, tool_name, tool_args, r#loop: 1 },
        Event::ToolCompleted { call_id, tool_name, tool_result, duration_ms: 1, attempts: 1 },
    ]
}

/// A turn that runs one of our tools while the model writes on.
fn with_tool(result: &ToolResult, shown: ServerItems) -> (Vec<Value>, WholeAnswer) {
    let arguments = RawValue::from_string("{\"expression\":\"1+1\"}".to_owned()).unwrap();
    let [start, end] = tool_events(&arguments, result);
    let all = [
        started(),
        Event::text("Let me see. "),
        Event::ToolMarkerDetected { call_id: "call_7", r#loop: 1 },
        start,
        Event::text("\n\n"),
        end,
        Event::text("It is 2."),
        completed(TurnFinish::Stop),
    ];
    (events(&all, shown), whole(&all, shown))
}

#[test]
fn our_tools_are_calls_of_an_mcp_server() {
    let (events, whole) = with_tool(&ToolResult::data(json!({"n": 2})), ServerItems::McpCall);
    let mut expected = vec!["created", "in_progress"];
    expected.extend(MESSAGE);
    expected.extend([
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]);
    expected.extend(MESSAGE);
    expected.push("completed");
    assert_eq!(types(&events), expected);
    let mut call = json!({
        "id": format!("mcp_{IDS}_7"), "type": "mcp_call", "status": "in_progress",
        "server_label": "tether", "name": "calculate", "arguments": "",
        "output": null, "error": null, "approval_request_id": null,
    });
    assert_eq!(events[8]["item"], call);
    assert_eq!(events[10]["delta"], "{\"expression\":\"1+1\"}");
    assert_eq!(events[11]["arguments"], "{\"expression\":\"1+1\"}");
    call["status"] = "completed".into();
    call["arguments"] = "{\"expression\":\"1+1\"}".into();
    call["output"] = "{\"n\":2}".into();
    assert_eq!(events[13]["item"], call);
    let last = &events.last().unwrap()["response"]["output"];
    assert_eq!(last[2], message(2, "It is 2."), "no blank lines before the words");
    assert!(!whole.may_be_repeated, "a tool has run");
    assert_eq!(&whole.body["output"], last);
}

#[test]
fn the_end_of_a_tool_is_no_end_of_a_message() {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let result = ToolResult::data(json!({"n": 2}));
    let [start, end] = tool_events(&arguments, &result);
    let text = |text| Event::text(text);
    for (next, messages) in [
        (second_message("It is 2."), vec!["One mo", "It is 2."]),
        (text("ment, please."), vec!["One moment, please."]),
    ] {
        for shown in [ServerItems::McpCall, ServerItems::Hidden] {
            let [start, end] = [start.clone(), end.clone()];
            let next = next.clone();
            let all = [started(), start, text("One mo"), end, next, completed(TurnFinish::Stop)];
            let events = events(&all, shown);
            let output = events.last().unwrap()["response"]["output"].as_array().unwrap();
            let said = output.iter().filter_map(|item| item["content"][0]["text"].as_str());
            assert_eq!(said.collect::<Vec<_>>(), messages);
            assert_eq!(whole(&all, shown).body["output"].as_array(), Some(output));
        }
    }
}

#[test]
fn the_words_of_each_round_are_a_message() {
    let text = |text| Event::text(text);
    let all = [
        started(),
        text("No call."),
        Event::Feedback {
            call_id: None,
            reason: FeedbackReason::MalformedCall,
            message: "No.",
            attempt: 1,
        },
        text("None "),
        text("yet."),
        Event::LoopLimitReached { max_tool_loops: 1 },
        text("So."),
        completed(TurnFinish::LoopLimit),
    ];
    let whole = whole(&all, ServerItems::McpCall);
    let expected = json!([message(0, "No call."), message(1, "None yet."), message(2, "So.")]);
    assert_eq!(whole.body["output"], expected);
    let events = events(&all, ServerItems::McpCall);
    assert_eq!(events.last().unwrap()["response"]["output"], expected);
}

#[test]
fn a_tool_that_fails_is_a_failed_call() {
    let (events, _) = with_tool(&ToolResult::error("overflow"), ServerItems::McpCall);
    assert_eq!(events[12]["type"], "response.mcp_call.failed");
    let item = &events[13]["item"];
    let error = json!({
        "type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "overflow"}],
    });
    assert_eq!((&item["status"], &item["error"]), (&json!("failed"), &error));
    assert_eq!(item["output"], Value::Null);
}

#[test]
fn our_tools_are_function_calls_with_their_outputs_if_the_operator_wants() {
    let result = ToolResult::data(json!({"text": "two"}));
    let (events, _) = with_tool(&result, ServerItems::FunctionCall);
    let output = &events.last().unwrap()["response"]["output"];
    let call_id = "call_5eef151ef35146209769441c3a4f562f_7";
    assert_eq!(
        output[1],
        json!({
            "id": format!("fc_{IDS}_7"), "type": "function_call", "status": "completed",
            "call_id": call_id, "name": "calculate", "arguments": "{\"expression\":\"1+1\"}",
        })
    );
    assert_eq!(
        output[2],
        json!({
            "id": format!("fco_{IDS}_7"), "type": "function_call_output", "status": "completed",
            "call_id": call_id, "output": [{"type": "input_text", "text": "two"}],
        })
    );
}

#[test]
fn hidden_tools_leave_no_trace() {
    let (events, _) = with_tool(&ToolResult::data(json!(2)), ServerItems::Hidden);
    let items = events.last().unwrap()["response"]["output"].as_array().unwrap();
    assert!(items.iter().all(|item| item["type"] == "message"), "{items:?}");
    assert!(!events.iter().any(|event| event.to_string().contains("calculate")));
}

#[test]
fn calls_for_the_client_are_function_calls() {
    let arguments = RawValue::from_string("{\"path\":\"a\"}".to_owned()).unwrap();
    let (call_id, tool_name, tool_args) = ("call_2", "open", &*arguments);
    let call = Event::ClientToolCall { call_id, tool_name, tool_args, r#loop: 1 };
    let all = [started(), call, completed(TurnFinish::ClientToolCalls)];
    for shown in [ServerItems::McpCall, ServerItems::FunctionCall, ServerItems::Hidden] {
        let events = events(&all, shown);
        let expected = [
            "created",
            "in_progress",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ];
        assert_eq!(types(&events), expected);
        assert_eq!(events[2]["item"]["status"], "in_progress");
        assert_eq!(events[4]["name"], "open", "some clients insist on it");
        let item = &events[5]["item"];
        assert_eq!(item["status"], "completed", "or it never completes in some clients");
        assert_eq!(item["call_id"], "call_5eef151ef35146209769441c3a4f562f_2");
        assert_eq!(item.get("namespace"), None);
    }
}

#[test]
fn calls_of_tools_in_namespaces_say_so() {
    let of_tools = [("web__fetch", "web"), ("a__b__c", "a")];
    let older = ["mcp", "mcp__weather"];
    for (of_tools, older, name, namespace, own) in [
        (&of_tools[..], &[][..], "web__fetch", json!("web"), "fetch"),
        (&of_tools, &[], "a__b__c", json!("a"), "b__c"),
        (&of_tools, &[], "web__search", json!(null), "web__search"),
        (&[], &older, "mcp__weather__get", json!("mcp__weather"), "get"),
        (&[], &older, "mcp__get", json!("mcp"), "get"),
        (&[], &older, "mcp_get", json!(null), "mcp_get"),
    ] {
        let arguments = RawValue::from_string("{}".to_owned()).unwrap();
        let (call_id, tool_args) = ("call_2", &*arguments);
        let call = Event::ClientToolCall { call_id, tool_name: name, tool_args, r#loop: 1 };
        let mut options = options(ServerItems::McpCall);
        let head = Arc::get_mut(&mut options.envelope.head).unwrap();
        head.namespaces = older.iter().map(|&name| name.to_owned()).collect();
        let of_tools = of_tools.iter().map(|(tool, its)| ((*tool).to_owned(), (*its).to_owned()));
        head.namespace_of = of_tools.collect();
        let mut out = BytesMut::new();
        let mut stream = ResponseEncoder::new(options, 0);
        let all = [started(), call, completed(TurnFinish::ClientToolCalls)];
        records(&all, |record| stream.encode(&record, &mut out));
        let events = read(str::from_utf8(&out).unwrap());
        check_rules(&events);
        let item = &events.last().unwrap()["response"]["output"][0];
        assert_eq!((&item["namespace"], &item["name"]), (&namespace, &json!(own)), "{name}");
    }
}

fn asked(question: &Clarification, arguments: Option<&RawValue>) -> WholeAnswer {
    let source = Source::builtin();
    let asks = Event::ClarificationNeeded {
        clarification_id: &format!("{TURN}.2"),
        call_id: "call_1",
        tool_name: "send",
        source: &source,
        clarification: question,
        arguments,
    };
    let words = Event::text("Let me see.");
    let all = [started(), words, asks, completed(TurnFinish::ClarificationNeeded)];
    events(&all, ServerItems::McpCall);
    whole(&all, ServerItems::McpCall)
}

#[test]
fn a_question_is_a_message() {
    let question = Clarification {
        question: "Which John?".to_owned(),
        options: vec![ClarificationOption::new("a", "Doe"), ClarificationOption::new("b", "Smith")],
        ..Clarification::default()
    };
    let body = asked(&question, None).body;
    assert_eq!(body["status"], "completed");
    assert_eq!(body["output"][1], message(1, "Which John?\n1. Doe\n2. Smith"));
}

#[test]
fn an_approval_is_a_request_of_its_own() {
    let question = Clarification { r#type: "confirmation".to_owned(), ..Clarification::default() };
    let arguments = RawValue::from_string("{\"to\":\"a\"}".to_owned()).unwrap();
    let body = asked(&question, Some(&arguments)).body;
    assert_eq!(
        body["output"][1],
        json!({
            "id": format!("mcpr_{IDS}_2"), "type": "mcp_approval_request",
            "server_label": "tether", "name": "send", "arguments": "{\"to\":\"a\"}",
        })
    );
}

#[test]
fn events_that_clients_do_not_know_are_left_out() {
    let hints = AcknowledgementSource::Hints;
    let all = [
        started(),
        Event::Acknowledgement { text: "One moment.", source: hints },
        Event::Status { message: "using b instead" },
        Event::LoopLimitReached { max_tool_loops: 1 },
        Event::ToolArgumentsDelta { call_id: "call_1", delta: "{" },
        completed(TurnFinish::LoopLimit),
    ];
    let events = events(&all, ServerItems::McpCall);
    assert_eq!(types(&events), ["created", "in_progress", "completed"]);
}

#[test]
fn an_answer_that_was_cut_off_is_incomplete() {
    for (finish, reason) in
        [(TurnFinish::Length, "max_output_tokens"), (TurnFinish::ContentFilter, "content_filter")]
    {
        let all = [started(), Event::text("Hi"), completed(finish)];
        let events = events(&all, ServerItems::McpCall);
        let last = events.last().unwrap();
        assert_eq!(last["type"], "response.incomplete");
        let response = &last["response"];
        assert_eq!(response["incomplete_details"], json!({ "reason": reason }));
        assert_eq!(response["output"][0]["status"], "incomplete");
        assert_eq!(response["completed_at"], Value::Null);
        assert_eq!(whole(&all, ServerItems::McpCall).status, 200);
    }
}

#[test]
fn a_cancelled_answer_is_incomplete_and_says_so() {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let result = ToolResult::error("");
    let [start, _] = tool_events(&arguments, &result);
    let all = [started(), start, completed(TurnFinish::Cancelled)];
    let events = events(&all, ServerItems::McpCall);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["status"], "cancelled");
    assert_eq!(last["response"]["output"][0]["status"], "failed", "it never ended");
    assert_eq!(whole(&all, ServerItems::McpCall).status, 503);
}

#[test]
fn a_failure_is_an_error_in_both_forms_and_a_failed_response() {
    let all = [started(), Event::text("Hi"), failed()];
    let events = events(&all, ServerItems::McpCall);
    let [error, last] = &events[events.len() - 2..] else { panic!("two") };
    let message = "the model server is silent";
    assert_eq!(
        *error,
        json!({
            "type": "error", "sequence_number": events.len() - 2,
            "code": "upstream_timeout", "message": message, "param": null,
            "error": {
                "type": "server_error", "code": "upstream_timeout", "message": message,
                "param": null,
            },
        })
    );
    assert_eq!(last["type"], "response.failed");
    let error = json!({"code": "upstream_timeout", "message": message});
    assert_eq!(last["response"]["error"], error);
    let WholeAnswer { status, body, may_be_repeated } = whole(&all, ServerItems::McpCall);
    assert_eq!((status, may_be_repeated), (504, true));
    assert_eq!(body["error"]["code"], "upstream_timeout");
}

/// Codex keeps what is done in its history.
#[test]
fn a_message_that_breaks_off_in_a_failure_is_not_done() {
    let all = [started(), Event::ReasoningDelta { text: "Hm." }, text("Hi"), failed()];
    let streamed = events(&all, ServerItems::McpCall);
    let done = |event: &&Value| event["type"] == "response.output_item.done";
    let done: Vec<_> = streamed.iter().filter(done).map(|event| &event["item"]["type"]).collect();
    assert_eq!(done, ["reasoning"]);
    let output = &streamed.last().unwrap()["response"]["output"];
    assert_eq!(output[1]["content"][0]["text"], "Hi", "the response has it");
}

/// After a code that it does not know, Codex sends its request again.
#[test]
fn a_failure_that_would_recur_has_the_code_invalid_prompt() {
    let all = [started(), failed_for_good()];
    let events = events(&all, ServerItems::McpCall);
    let [error, last] = &events[events.len() - 2..] else { panic!("two") };
    assert_eq!(
        (&error["code"], &error["error"]["type"]),
        (&json!("invalid_prompt"), &json!("invalid_request_error"))
    );
    assert_eq!(last["response"]["error"]["code"], "invalid_prompt");
    let WholeAnswer { status, body, may_be_repeated } = whole(&all, ServerItems::McpCall);
    assert_eq!((status, may_be_repeated), (502, false));
    assert_eq!(body["error"]["code"], "upstream_error");
    assert_eq!(body["error"]["type"], "invalid_request_error");
}

#[test]
fn a_client_that_joins_again_gets_what_it_lacks() {
    let text = |text| Event::text(text);
    let all = [started(), text("a"), text("b"), text("c"), completed(TurnFinish::Stop)];
    let full = streamed(&all, ServerItems::McpCall, 0);
    let frames: Vec<&str> = full.split_inclusive("\n\n").collect();
    for from in 0..=frames.len() {
        let rest = streamed(&all, ServerItems::McpCall, from as u64);
        let expected = frames[from.min(frames.len() - 1)..].concat();
        assert_eq!(rest, expected, "{from}");
    }
}

#[test]
fn a_text_delta_allocates_nothing() {
    let mut stream = ResponseEncoder::new(options(ServerItems::McpCall), 0);
    let mut out = BytesMut::with_capacity(1 << 20);
    let delta = Event::text("words");
    let mut all = vec![started()];
    all.extend(std::iter::repeat_n(delta, 1000));
    let mut at = 0;
    records(&all, |record| {
        at += 1;
        let measured = allocation_counter::measure(|| stream.encode(&record, &mut out));
        // The text so far grows by doubling, not among the last of these.
        assert!(at < 900 || measured.count_total == 0, "{at}: {measured:?}");
    });
}
