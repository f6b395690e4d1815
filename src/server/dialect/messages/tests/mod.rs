//! Answers as clients get them, streamed and whole, of the same turns; and what requests say.

use bytes::BytesMut;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::collector::MessageCollector;
use super::encoder::{MessageEncoder, Shown};
use super::server_tools::MessagesServerTools;
use crate::event::{
    AcknowledgementSource, Event, FailureCode, FeedbackReason, Summary, TurnFinish,
};
use crate::server::dialect::tests::events::{
    USAGE, completed, failed_for_good, second_message, started, stopped_at,
};
use crate::server::dialect::{AnswerMeta, Collector as _, Encoder as _, WholeAnswer};
use crate::server::openapi::tests::strict;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Source, ToolResult};

mod requests;

const OFF: Shown = Shown { server_tools: MessagesServerTools::Off, reasoning: true };
const HIDDEN: Shown = Shown { server_tools: MessagesServerTools::Hidden, reasoning: false };
const MCP: Shown = Shown { server_tools: MessagesServerTools::McpToolUse, reasoning: true };

fn meta() -> AnswerMeta {
    AnswerMeta { model: "claude-9".to_owned(), now_sec: 1_795_315_264 }
}

/// The events of a stream: each frame's name is its data's type.
fn streamed(events: &[Event<'_>], shown: Shown) -> Vec<Value> {
    let mut encoder = MessageEncoder::new(meta(), shown);
    let mut out = BytesMut::new();
    records(events, |record| encoder.encode(&record, &mut out));
    let text = String::from_utf8(out.to_vec()).unwrap();
    let frames = text.split_terminator("\n\n").map(|frame| {
        let (name, data) = frame.split_once('\n').expect("two lines");
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
        strict::check("MessagesEvent", &data);
        data
    });
    frames.collect()
}

fn whole(events: &[Event<'_>], shown: Shown) -> WholeAnswer {
    let mut message = MessageCollector::new(meta(), shown);
    records(events, |record| message.take(&record));
    let answer = Box::new(message).answer();
    let name = if answer.status == 200 { "Message" } else { "AnthropicError" };
    strict::check(name, &answer.body);
    answer
}

/// The blocks of a stream, put together as SDKs do it, and the event with the stop reason. Checks the
/// order of all events.
fn blocks(events: &[Event<'_>], shown: Shown) -> (Vec<Value>, Value) {
    let mut events = streamed(events, shown);
    assert_eq!(events.pop(), Some(json!({"type": "message_stop"})));
    let end = events.pop().unwrap();
    assert_eq!(end["type"], "message_delta");
    let message = &events.remove(0)["message"];
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(events.remove(0), json!({"type": "ping"}));
    let mut blocks: Vec<Value> = Vec::new();
    let mut open: Option<Block> = None;
    for event in events.iter().filter(|event| event["type"] != "ping") {
        assert_eq!(event["index"], blocks.len(), "one block at a time, without gaps: {event}");
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(open.is_none(), "one block at a time: {event}");
                open = Some(Block { block: event["content_block"].clone(), json: String::new() });
            }
            "content_block_delta" => open.as_mut().expect("it is open").add(&event["delta"]),
            "content_block_stop" => blocks.push(open.take().expect("it is open").finish()),
            other => panic!("{other}"),
        }
    }
    assert!(open.is_none(), "all blocks are closed");
    (blocks, end)
}

/// A block that is being put together.
struct Block {
    block: Value,
    json: String,
}

impl Block {
    fn add(&mut self, delta: &Value) {
        let (of, key) = match delta["type"].as_str().unwrap() {
            "text_delta" => ("text", "text"),
            "thinking_delta" => ("thinking", "thinking"),
            "signature_delta" => ("thinking", "signature"),
            "input_json_delta" => ("tool_use", "partial_json"),
            other => panic!("{other}"),
        };
        assert_eq!(self.block["type"], of, "{delta}");
        let piece = delta[key].as_str().unwrap();
        assert!(!piece.is_empty());
        if of == "tool_use" {
            return self.json.push_str(piece);
        }
        let so_far = self.block[key].as_str().unwrap().to_owned();
        self.block[key] = (so_far + piece).into();
    }

    fn finish(mut self) -> Value {
        if !self.json.is_empty() {
            self.block["input"] = serde_json::from_str(&self.json).unwrap();
        }
        self.block
    }
}

/// Checks that an answer has these blocks and this stop reason, streamed and whole.
#[track_caller]
fn check(events: &[Event<'_>], shown: Shown, expected: &Value, stop_reason: &str) {
    check_stop(events, shown, expected, stop_reason, None);
}

/// The same with a stop sequence.
#[track_caller]
fn check_stop(
    events: &[Event<'_>],
    shown: Shown,
    expected: &Value,
    stop_reason: &str,
    stop_sequence: Option<&str>,
) {
    let (blocks, end) = blocks(events, shown);
    assert_eq!(Value::from(blocks), *expected);
    let WholeAnswer { status, body, .. } = whole(events, shown);
    assert_eq!(status, 200);
    assert_eq!((&body["content"], &body["usage"]), (expected, &end["usage"]));
    for ended in [&end["delta"], &body] {
        assert_eq!(ended["stop_reason"], stop_reason);
        assert_eq!(ended["stop_sequence"], json!(stop_sequence));
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "citations": []})
}

#[test]
fn words_are_one_block_of_text() {
    let events =
        [started(), Event::text("Hello "), Event::text("\"you\"\n"), completed(TurnFinish::Stop)];
    check(&events, OFF, &json!([text("Hello \"you\"\n")]), "end_turn");
    let WholeAnswer { body, may_be_repeated, .. } = whole(&events, OFF);
    assert_eq!(
        body,
        json!({
            "id": "msg_5eef151ef35146209769441c3a4f562f",
            "type": "message",
            "role": "assistant",
            "model": "claude-9",
            "content": [text("Hello \"you\"\n")],
            "stop_reason": "end_turn",
            "stop_sequence": null,
            "stop_details": null,
            "container": null,
            "usage": {"input_tokens": 3, "output_tokens": 4, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "cache_creation": null,
                "output_tokens_details": null, "server_tool_use": null, "service_tier": null,
                "inference_geo": null},
        })
    );
    assert!(may_be_repeated);
    let start = &streamed(&events, OFF)[0]["message"];
    assert_eq!((&start["id"], &start["model"]), (&body["id"], &body["model"]));
    assert_eq!(start["usage"]["input_tokens"], 0, "nothing is known yet");
}

#[test]
fn reasoning_is_a_block_with_a_signature_if_it_was_asked_for() {
    let events = [
        started(),
        Event::ReasoningDelta { text: "Hm." },
        Event::ReasoningDelta { text: " Yes." },
        Event::text("Hi."),
        completed(TurnFinish::Length),
    ];
    let thinking = json!({"type": "thinking", "thinking": "Hm. Yes.", "signature": "dGV0aGVy"});
    check(&events, OFF, &json!([thinking, text("Hi.")]), "max_tokens");
    check(&events, HIDDEN, &json!([text("Hi.")]), "max_tokens");
}

#[test]
fn an_answer_that_a_filter_cut_off_is_a_refusal() {
    let events = [started(), Event::text("Hi."), completed(TurnFinish::ContentFilter)];
    check(&events, OFF, &json!([text("Hi.")]), "refusal");
}

#[test]
fn white_space_is_no_block_of_its_own() {
    let arguments = arguments();
    let (call_id, tool_name) = ("call_1", "open");
    let call = Event::ClientToolCall { call_id, tool_name, tool_args: &arguments, r#loop: 1 };
    let finish = completed(TurnFinish::ClientToolCalls);
    let (blank, words) = (Event::text(" \n\t"), Event::text("Hi."));
    let id = "toolu_5eef151ef35146209769441c3a4f562f_1";
    let used = json!({"type": "tool_use", "id": id, "name": "open", "input": {"expression": "1+1"},
        "caller": {"type": "direct"}});
    let events = [started(), blank.clone(), call.clone(), blank.clone(), finish.clone()];
    check(&events, OFF, &json!([used]), "tool_use");
    let thought = Event::ReasoningDelta { text: "Hm." };
    let events = [started(), blank.clone(), thought, blank.clone(), words, blank, call, finish];
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "dGV0aGVy"});
    let all = json!([thinking, text("Hi. \n\t"), used]);
    check(&events, OFF, &all, "tool_use");
}

#[test]
fn an_answer_without_words_has_no_blocks() {
    check(&[started(), completed(TurnFinish::Stop)], OFF, &json!([]), "end_turn");
}

#[test]
fn an_answer_ends_before_a_stop_sequence() {
    let events = [started(), Event::text("One. "), stopped_at("END")];
    check_stop(&events, OFF, &json!([text("One. ")]), "stop_sequence", Some("END"));
}

fn arguments() -> Box<RawValue> {
    RawValue::from_string("{\"expression\":\"1+1\"}".to_owned()).unwrap()
}

/// A turn in which a tool of ours runs and returns this.
fn turn_with_tool<'a>(arguments: &'a RawValue, result: &'a ToolResult) -> [Event<'a>; 8] {
    let (call_id, tool_name) = ("call_1", "calculate");
    [
        started(),
        Event::text("Let me see. "),
        Event::ToolMarkerDetected { call_id, r#loop: 1 },
        Event::ToolStarted { call_id, tool_name, tool_args: arguments, r#loop: 1 },
        Event::ToolProgress { call_id, tool_name, progress: 1.0, total: None, message: None },
        Event::ToolCompleted {
            call_id,
            tool_name,
            tool_result: result,
            duration_ms: 1,
            attempts: 1,
        },
        Event::text("It is 2."),
        completed(TurnFinish::LoopLimit),
    ]
}

#[test]
fn our_tools_are_shown_as_those_of_an_mcp_server() {
    let arguments = arguments();
    let id = "mcptoolu_5eef151ef35146209769441c3a4f562f_1";
    for (result, is_error, words) in [
        (ToolResult::data(json!({"result": "2"})), false, "{\"result\":\"2\"}"),
        (ToolResult::error("overflow"), true, "overflow"),
    ] {
        let events = turn_with_tool(&arguments, &result);
        let called = json!({"type": "mcp_tool_use", "id": id, "name": "calculate",
            "server_name": "tether", "input": {"expression": "1+1"}});
        let returned = json!({"type": "mcp_tool_result", "tool_use_id": id, "is_error": is_error,
            "content": [{"type": "text", "text": words}]});
        let all = json!([text("Let me see. "), called, returned, text("It is 2.")]);
        check(&events, MCP, &all, "end_turn");
        let pings = streamed(&events, MCP).iter().filter(|it| it["type"] == "ping").count();
        assert_eq!(pings, 2, "a report of progress shows that it is alive");
    }
}

/// A break in the middle of a link would break it.
#[test]
fn the_result_of_a_tool_that_ends_while_the_model_writes_comes_after_the_message() {
    let (arguments, result) = (arguments(), ToolResult::data(json!({})));
    let words = |text| Event::text(text);
    for (second, expected) in [
        (words("nk](x)."), json!(["mcp_tool_use", "See [the link](x). Well.", "mcp_tool_result"])),
        (
            second_message("Now it is 2."),
            json!(["mcp_tool_use", "See [the li", "mcp_tool_result", "Now it is 2. Well."]),
        ),
        (
            second_message("\n\n Now it is 2."),
            json!(["mcp_tool_use", "See [the li", "mcp_tool_result", "Now it is 2. Well."]),
        ),
    ] {
        let [started, _, found, runs, progress, ended, _, completed] =
            turn_with_tool(&arguments, &result);
        let third = words(" Well.");
        let events =
            [started, found, runs, progress, words("See [the li"), ended, second, third, completed];
        let blocks = whole(&events, MCP).body["content"].take();
        let shown = blocks.as_array().unwrap().iter();
        let shown = shown.map(|it| it.get("text").unwrap_or_else(|| &it["type"]).clone());
        assert_eq!(shown.collect::<Value>(), expected);
        check(&events, MCP, &blocks, "end_turn");
    }
}

#[test]
fn hidden_tools_leave_one_block_of_text() {
    let (arguments, result) = (arguments(), ToolResult::data(json!({})));
    let events = turn_with_tool(&arguments, &result);
    check(&events, HIDDEN, &json!([text("Let me see. \n\nIt is 2.")]), "end_turn");
    assert!(!whole(&events, HIDDEN).may_be_repeated, "a tool has run");
}

#[test]
fn a_blank_line_keeps_the_messages_of_a_block_apart() {
    let (arguments, result) = (arguments(), ToolResult::data(json!({})));
    let mut events = turn_with_tool(&arguments, &result);
    events[1] = Event::text("Let me see.");
    check(&events, HIDDEN, &json!([text("Let me see.\n\nIt is 2.")]), "end_turn");
    let shown = json!(["text", "mcp_tool_use", "mcp_tool_result", "text"]);
    let blocks = whole(&events, MCP).body["content"].take();
    let kinds: Vec<_> = blocks.as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
    assert_eq!(json!(kinds), shown);
    assert_eq!(blocks[3], text("It is 2."), "blocks are apart already");
    events[1] = Event::ReasoningDelta { text: "Hm." };
    check(&events, HIDDEN, &json!([text("It is 2.")]), "end_turn");
}

#[test]
fn the_reasoning_of_each_message_is_a_block() {
    let reasoning = |text| Event::ReasoningDelta { text };
    let feedback = |reason| Event::Feedback { reason, call_id: None, message: "", attempt: 1 };
    let call = Event::ToolMarkerDetected { call_id: "call_1", r#loop: 1 };
    let thinking = |text: &str| json!({"type": "thinking", "thinking": text, "signature": super::blocks::SIGNATURE});
    for between in [call, feedback(FeedbackReason::EmptyResponse)] {
        let events =
            [started(), reasoning("a"), between, reasoning("b"), completed(TurnFinish::Stop)];
        check(&events, OFF, &json!([thinking("a"), thinking("b")]), "end_turn");
    }
    for between in [Event::text("\n"), feedback(FeedbackReason::ToolFailed)] {
        let events =
            [started(), reasoning("a"), between, reasoning("b"), completed(TurnFinish::Stop)];
        check(&events, OFF, &json!([thinking("ab")]), "end_turn");
    }
}

#[test]
fn what_is_not_for_this_api_is_left_out() {
    let events = [
        started(),
        Event::text("One moment."),
        Event::Acknowledgement { text: "Looking it up.", source: AcknowledgementSource::Hints },
        Event::ToolArgumentsDelta { call_id: "call_1", delta: "{" },
        Event::Status { message: "using another model" },
        Event::LoopLimitReached { max_tool_loops: 5 },
        Event::text(" Done."),
        completed(TurnFinish::Stop),
    ];
    for shown in [OFF, HIDDEN, MCP] {
        check(&events, shown, &json!([text("One moment. Done.")]), "end_turn");
    }
}

#[test]
fn calls_for_the_client_are_tool_use_blocks() {
    let arguments = arguments();
    let call = |call_id| Event::ClientToolCall {
        call_id,
        tool_name: "open",
        tool_args: &arguments,
        r#loop: 1,
    };
    let events = [
        started(),
        Event::text("Opening."),
        call("call_2"),
        call("call_3"),
        completed(TurnFinish::ClientToolCalls),
    ];
    let used = |number| {
        json!({"type": "tool_use", "id": format!("toolu_5eef151ef35146209769441c3a4f562f_{number}"),
            "name": "open", "input": {"expression": "1+1"}, "caller": {"type": "direct"}})
    };
    let all = json!([text("Opening."), used(2), used(3)]);
    check(&events, OFF, &all, "tool_use");
    let streamed = streamed(&events, OFF);
    let start = streamed.iter().find(|event| event["content_block"]["type"] == "tool_use");
    assert_eq!(start.unwrap()["content_block"]["input"], json!({}), "it comes as a delta");
}

#[test]
fn a_question_is_asked_in_words() {
    let clarification = Clarification {
        question: "Which \"John\"?".to_owned(),
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
    let finish = completed(TurnFinish::ClarificationNeeded);
    let events = [started(), Event::text("Let me see."), asked.clone(), finish.clone()];
    let words = "Which \"John\"?\n1. Doe\n2. Smith";
    check(&events, OFF, &json!([text(&format!("Let me see.\n\n{words}"))]), "end_turn");
    check(&[started(), asked, finish], OFF, &json!([text(words)]), "end_turn");
}

#[test]
fn a_failure_is_an_error_event_and_nothing_follows_it() {
    let summary = Summary { loops: 1, tool_calls: 0, usage: USAGE, text: "" };
    for (code, status, kind) in [
        (FailureCode::UpstreamTimeout, 504, "timeout_error"),
        (FailureCode::UpstreamUnavailable, 503, "overloaded_error"),
        (FailureCode::UpstreamError, 502, "api_error"),
    ] {
        let message = "the model server is silent";
        let failed = Event::TurnFailed { code, message, retryable: true, summary };
        let events = [started(), Event::text("Hi"), failed];
        let error = json!({"type": "error", "error": {"type": kind, "message": message}});
        assert_eq!(streamed(&events, OFF).pop(), Some(error.clone()));
        let WholeAnswer { status: got, body, .. } = whole(&events, OFF);
        assert_eq!((got, body), (status, error));
    }
    assert!(!whole(&[started(), failed_for_good()], OFF).may_be_repeated);
}

#[test]
fn a_cancelled_answer_has_no_end() {
    let events = [started(), Event::text("Hi"), completed(TurnFinish::Cancelled)];
    let mut encoder = MessageEncoder::new(meta(), OFF);
    records(&events, |record| encoder.encode(&record, &mut BytesMut::new()));
    assert!(encoder.is_cut());
    assert_eq!(streamed(&events, OFF).pop().unwrap()["type"], "content_block_delta");
    assert_eq!(whole(&events, OFF).status, 503);
}

#[test]
fn a_keep_alive_is_a_ping() {
    let ping = MessageEncoder::new(meta(), OFF).keep_alive();
    assert_eq!(&*ping, b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
}
