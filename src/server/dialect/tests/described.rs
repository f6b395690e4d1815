//! Every dialect's answers to turns in which everything happens, held to the description: nothing is
//! sent that is not described, and everything that is described is sent.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::events::{TURN, completed, raw, start, started_in};
use super::turns::{asks, ended, kept, question, result, turns};
use super::{AgUi, AiSdk, Native, NoTurns};
use crate::event::{Event, FeedbackReason, TurnFinish};
use crate::server::dialect::ImageReader;
use crate::server::dialect::chat_completions::ChatCompletions;
use crate::server::dialect::messages::{Messages, MessagesServerTools};
use crate::server::dialect::models::Models;
use crate::server::dialect::responses::{
    Labels, Page, Referents, Request, RequestContext, ResponseId, ServerItems, StoredResponse,
};
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::{ClientRequest, Form, ParsedRequest, RequestReader, WholeAnswer};
use crate::server::openapi::tests::strict::Seen;
use crate::server::refusal::Refusal;
use crate::session::log::tests::records;
use crate::tools::{Clarification, ClarificationOption, Registry, ToolResult};

/// A frame of an event stream, as readers take it apart.
fn frame(text: &str) -> Value {
    let mut frame = json!({});
    for line in text.lines() {
        let (field, value) = line.split_once(": ").expect("a field");
        frame[field] = match field {
            "retry" => value.parse::<u64>().unwrap().into(),
            _ => value.into(),
        };
    }
    frame
}

/// The names of the schemas of an answer.
struct Names {
    whole: &'static str,
    frame: &'static str,
    data: &'static str,
    error: &'static str,
}

/// Answers in one form, and what becomes of them.
struct AnswerOptions {
    names: Names,
    seen: Seen,
}

impl AnswerOptions {
    fn of(names: [&'static str; 4]) -> Self {
        let [whole, frame, data, error] = names;
        Self { names: Names { whole, frame, data, error }, seen: Seen::default() }
    }

    /// Answers that are streams in any case.
    fn streamed(frame: &'static str, data: &'static str) -> Self {
        Self::of([data, frame, data, data])
    }

    /// Checks the answer to a turn.
    #[track_caller]
    fn take(&mut self, form: Form, events: &[Event<'_>]) {
        match form {
            Form::Stream(mut encoder) => {
                let mut out = BytesMut::new();
                records(events, |record| encoder.encode(&record, &mut out));
                out.extend_from_slice(&encoder.keep_alive());
                self.take_stream(std::str::from_utf8(&out).unwrap());
            }
            Form::Whole(mut whole) => {
                records(events, |record| whole.take(&record));
                let WholeAnswer { status, body, .. } = whole.answer();
                let Names { whole, error, .. } = self.names;
                self.seen.check(if status == 200 { whole } else { error }, &body);
            }
            Form::Later(receipt) => {
                self.seen.check(self.names.whole, &receipt.receipt("s", "t"));
            }
        }
    }

    #[track_caller]
    fn take_stream(&mut self, stream: &str) {
        let frames = stream.split_terminator("\n\n").filter(|frame| !frame.starts_with(':'));
        for mut frame in frames.map(frame) {
            if self.names.frame == "ResponseFrame" && frame["event"].is_null() {
                frame["event"] = "message".into();
            }
            self.seen.check(self.names.frame, &frame);
            let data = frame["data"].as_str().unwrap();
            if data != "[DONE]" {
                self.seen.check(self.names.data, &serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Checks the answers to all turns, in the form that a request asks for.
    #[track_caller]
    fn take_all(&mut self, dialect: &dyn RequestReader, body: &Value) {
        for events in turns() {
            self.take(read(dialect, body), &events);
        }
    }

    /// Checks that nothing is described that was not sent.
    #[track_caller]
    fn finish(&self, elsewhere: &[&str]) {
        let Names { whole, frame, data, error } = self.names;
        let missing = self.seen.missing(&[whole, frame, data, error], elsewhere);
        assert!(missing.is_empty(), "described, and never sent: {missing:#?}");
    }
}

fn read(dialect: &dyn RequestReader, body: &Value) -> Form {
    try_read(dialect, body).expect("the request is valid").form
}

pub(super) fn try_read(
    dialect: &dyn RequestReader,
    body: &Value,
) -> Result<ParsedRequest, Refusal> {
    let body = body.to_string();
    let asked = ClientRequest {
        accept: "",
        body: body.as_bytes(),
        idempotency_key: None,
        owner: "",
        models: &Models::new(vec!["m".to_owned()], Vec::new(), false),
        conversation: None,
        images: ImageReader::new(true),
        lookup: &NoTurns,
        now_sec: 1_795_315_264,
    };
    dialect.read(&asked)
}

/// A request with these members, and others that all need.
fn parsed(more: &Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello?"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn native_events() {
    let mut options = AnswerOptions::streamed("EventFrame", "Event");
    options.take_all(&Native, &json!({"prompt": "Hello?"}));
    options.finish(&[]);
}

#[test]
fn native_lines() {
    let mut seen = Seen::default();
    for events in turns() {
        let mut encoder = crate::server::dialect::native::encoder("application/x-ndjson");
        let mut out = BytesMut::new();
        records(&events, |record| encoder.encode(&record, &mut out));
        for line in std::str::from_utf8(&out).unwrap().lines() {
            seen.check("EventLine", &serde_json::from_str(line).unwrap());
        }
    }
    assert_eq!(seen.missing(&["EventLine"], &[]), [""; 0]);
}

/// Whatever is too long for a frame.
#[test]
fn native_events_that_are_cut() {
    let long = "long ".repeat(20_000);
    let arguments = kept(raw(&json!({ "a": long })));
    let options = vec![ClarificationOption::new(&*long, &*long)];
    let schema = Some(json!({ "title": long }));
    let asked = Clarification { options, schema, question: long.clone(), ..question("x").clone() };
    let failure = Event::Feedback {
        call_id: None,
        reason: FeedbackReason::ToolFailed,
        message: &long,
        attempt: 1,
    };
    let all = ToolResult { data: Some(json!(long)), ..ToolResult::error(&*long) };
    let events = [
        started_in("s"),
        start("call_1", arguments, 1),
        ended("call_1", result(all)),
        failure,
        asks(kept(Box::new(Clarification { r#type: "confirmation".to_owned(), ..asked }))),
        completed(TurnFinish::Stop),
    ];
    let mut options = AnswerOptions::streamed("EventFrame", "Event");
    let mut encoder = crate::server::dialect::native::encoder("");
    let mut out = BytesMut::new();
    records(&events, |record| encoder.encode(&record, &mut out));
    let stream = std::str::from_utf8(&out).unwrap();
    let cut = ["tool_args", "tool_result", "message", "question", "options", "schema"];
    for name in cut {
        assert!(stream.contains(&format!("\"{name}_truncated\":")), "{name}");
    }
    options.take_stream(stream);
}

#[test]
fn chat_completions() {
    let names = ["ChatCompletion", "ChatCompletionFrame", "ChatCompletionChunk", "OpenAiError"];
    let mut options = AnswerOptions::of(names);
    for shown in [ServerTools::Off, ServerTools::Reasoning, ServerTools::Extension] {
        let dialect = ChatCompletions { shown };
        options.take_all(&dialect, &parsed(&json!({})));
        options.take_all(&dialect, &parsed(&json!({"stream": true})));
        let usage = json!({"stream": true, "stream_options": {"include_usage": true}});
        options.take_all(&dialect, &parsed(&usage));
    }
    options.finish(&["Event"]);
}

#[test]
fn messages() {
    let names = ["Message", "MessagesFrame", "MessagesEvent", "AnthropicError"];
    let mut options = AnswerOptions::of(names);
    for server_tools in [MessagesServerTools::Off, MessagesServerTools::McpToolUse] {
        let dialect = Messages { server_tools };
        for stream in [true, false] {
            let more = json!({"max_tokens": 9, "thinking": {"type": "adaptive"}, "stream": stream});
            options.take_all(&dialect, &parsed(&more));
        }
    }
    options.finish(&[]);
}

#[test]
fn responses() {
    let mut options =
        AnswerOptions::of(["Response", "ResponseFrame", "ResponseEvent", "OpenAiError"]);
    let function = json!({"type": "function", "name": "open", "parameters": {"type": "object"}});
    let namespace = json!({"type": "namespace", "name": "doors", "tools": [function]});
    let plain = json!({"model": "m", "input": "Hello?"});
    let rich = json!({
        "model": "m", "input": [{"role": "user", "content": "Hello?"}], "instructions": "Be kind.",
        "stream": true, "tools": [function, namespace], "tool_choice": "auto", "temperature": 0.5,
        "max_output_tokens": 9, "max_tool_calls": 3, "metadata": {"a": "b"},
        "text": {"format": {"type": "text"}, "verbosity": "low"}, "safety_identifier": "s",
        "reasoning": {"effort": "low", "summary": "auto"}, "prompt_cache_key": "k",
    });
    let later = json!({"model": "m", "input": "Hello?", "background": true});
    let asked = ResponseId::of("resp-000000000000000000000000000000aa", TURN).to_string();
    let granted = json!({"model": "m", "stream": true, "input": [
        {"role": "user", "content": "Hello?"},
        {"type": "mcp_approval_response", "approve": true,
            "approval_request_id": format!("{}_1", asked.replacen("resp", "mcpr", 1))},
    ]});
    for shown in [ServerItems::McpCall, ServerItems::FunctionCall, ServerItems::Hidden] {
        for body in [&plain, &rich, &later, &granted] {
            for events in turns() {
                options.take(respond(body, shown).form, &events);
            }
        }
    }
    options.finish(&[]);
}

pub(super) fn respond(body: &Value, shown: ServerItems) -> ParsedRequest {
    try_respond(body, shown).expect("the request is valid")
}

pub(super) fn try_respond(body: &Value, shown: ServerItems) -> Result<ParsedRequest, Refusal> {
    let context = RequestContext {
        owner: "o",
        image_seed: "seed".to_owned(),
        images: ImageReader::new(true),
        lookup: &NoTurns,
        models: &Models::new(vec!["m".to_owned()], Vec::new(), false),
        labels: Labels(Registry::default().into()),
        empty_sources: Vec::new(),
        shown,
        new_session_id: "resp-000000000000000000000000000000aa".to_owned(),
        clock: || 7,
        idempotency_key: None,
        conversation: None,
    };
    Request::read(body.to_string().as_bytes())?.parse(Referents::default(), context)
}

#[test]
fn responses_that_are_fetched_again() {
    let input = json!([
        {"role": "user", "content": "Hi."}, {"type": "function_call_output", "output": "a"},
    ]);
    let parsed = respond(&json!({"model": "m", "input": input}), ServerItems::McpCall);
    let head = parsed.turn.serializer.unwrap().head().unwrap();
    let id = ResponseId::of("resp-000000000000000000000000000000aa", TURN);
    let kept = StoredResponse::read(id, &head, None);
    let mut seen = Seen::default();
    for limit in [1, 9] {
        let page = Page { after: None, limit, is_ascending: true };
        seen.check("InputItems", &kept.input_items(&page).unwrap());
    }
    assert_eq!(seen.missing(&["InputItems"], &[]), [""; 0]);
    seen.check("Response", &serde_json::from_slice(&kept.lost()).unwrap());
    let mut options =
        AnswerOptions::of(["Response", "ResponseFrame", "ResponseEvent", "OpenAiError"]);
    options.take_stream(std::str::from_utf8(&kept.lost_stream(None)).unwrap());
}

#[test]
fn ui_messages() {
    let mut options = AnswerOptions::streamed("UiMessageFrame", "UiMessagePart");
    options.take_all(&AiSdk, &parsed(&json!({})));
    options.finish(&[]);
}

#[test]
fn ag_ui_events() {
    let mut options = AnswerOptions::streamed("AgUiFrame", "AgUiEvent");
    let messages = json!([
        {"id": "u", "role": "user", "content": "Hi."},
        {"id": "a", "role": "assistant", "toolCalls": [{"id": "c", "type": "function",
            "function": {"name": "open", "arguments": "{}"}}]},
        {"id": "t", "role": "tool", "toolCallId": "c", "content": "", "error": "no"},
        {"id": "v", "role": "user", "content": [{"type": "text", "text": "Hello?"}]},
    ]);
    options.take_all(&AgUi, &parsed(&json!({"threadId": "t", "runId": "r", "messages": messages})));
    options.finish(&[]);
}
