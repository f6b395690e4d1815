//! A turn as the events of a run.
//!
//! ```text
//! data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}
//! data: {"type":"TEXT_MESSAGE_START","messageId":"..","role":"assistant"}
//! data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"..","delta":"Hello"}
//! ..
//! ```

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::calls::Calls;
use super::interrupt;
use super::messages::OpenCall;
use super::resume::Resumed;
use super::snapshot::Snapshot;
use crate::event::Kind;
use crate::server::dialect::sse::{self, TextFrames};
use crate::server::dialect::{self, Encoder, shown, words};
use crate::session::Record;

/// The run that a client asks for.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) thread_id: String,
    pub(super) id: String,
    /// The messages that the client sent.
    pub(super) messages: Vec<Value>,
    /// The calls among them that have no result.
    pub(super) open_calls: Vec<OpenCall>,
    /// The call that waited for the answer with which the run begins.
    pub(super) resumed: Option<Resumed>,
}

/// Writes events.
#[derive(Debug)]
pub(super) struct Events {
    thread_id: String,
    run_id: String,
    pub(super) turn_id: String,
    open: Option<Span>,
    /// How many messages there have been. Their numbers are part of their ids.
    messages: usize,
    pub(super) calls: Calls,
    interrupt: Option<Value>,
    pub(super) snapshot: Snapshot,
}

/// A message whose text may go on.
#[derive(Debug)]
struct Span {
    is_reasoning: bool,
    id: String,
    frames: TextFrames,
}

impl Events {
    pub(super) fn new(run: Run) -> Self {
        let Run { thread_id, id: run_id, messages, open_calls, resumed } = run;
        Self {
            thread_id,
            run_id,
            turn_id: String::new(),
            open: None,
            messages: 0,
            calls: Calls::new(open_calls, resumed),
            interrupt: None,
            snapshot: Snapshot::new(messages),
        }
    }

    fn begin(&mut self, out: &mut BytesMut, started: &Value) {
        started["turn_id"].as_str().unwrap_or_default().clone_into(&mut self.turn_id);
        let (thread_id, run_id) = (&self.thread_id, &self.run_id);
        sse::push(out, &json!({ "type": "RUN_STARTED", "threadId": thread_id, "runId": run_id }));
    }

    /// The id of the next message.
    pub(super) fn next_id(&mut self) -> String {
        self.messages += 1;
        format!("msg_{}_{}", self.turn_id.replace('-', ""), self.messages)
    }

    fn push_text(&mut self, out: &mut BytesMut, is_reasoning: bool, mut text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.is_reasoning != is_reasoning) {
            let Some(first) = words::from_first(text) else { return };
            self.open_span(out, is_reasoning);
            text = first;
        }
        let Some(open) = &self.open else { return };
        open.frames.push(out, text);
        if !is_reasoning {
            self.snapshot.push_text(text);
        }
    }

    fn open_span(&mut self, out: &mut BytesMut, is_reasoning: bool) {
        self.close_span(out);
        self.settle(out);
        let id = self.next_id();
        let push_start = |out: &mut BytesMut, kind: &str, role: &str| {
            sse::push(out, &json!({ "type": kind, "messageId": id, "role": role }));
        };
        let kind = if is_reasoning {
            sse::push(out, &json!({ "type": "REASONING_START", "messageId": id }));
            push_start(out, "REASONING_MESSAGE_START", "reasoning");
            "REASONING_MESSAGE_CONTENT"
        } else {
            push_start(out, "TEXT_MESSAGE_START", "assistant");
            self.snapshot.begin_words(&id);
            self.calls.follow(&id);
            "TEXT_MESSAGE_CONTENT"
        };
        let content = json!({ "type": kind, "messageId": id });
        let frames = TextFrames::new(&content, "delta");
        self.open = Some(Span { is_reasoning, id, frames });
    }

    pub(super) fn close_span(&mut self, out: &mut BytesMut) {
        let Some(Span { is_reasoning, id, .. }) = self.open.take() else { return };
        let ends: &[&str] = if is_reasoning {
            &["REASONING_MESSAGE_END", "REASONING_END"]
        } else {
            &["TEXT_MESSAGE_END"]
        };
        for end in ends {
            sse::push(out, &json!({ "type": end, "messageId": id }));
        }
    }

    /// What follows is of another message of the model.
    fn end_round(&mut self, out: &mut BytesMut) {
        self.close_span(out);
        self.calls.parent = None;
    }

    /// The question interrupts the run once its turn ends.
    fn ask(&mut self, out: &mut BytesMut, asked: &Value) {
        let id = self.asking_call(out, asked);
        self.interrupt = Some(interrupt::of(asked, &id));
    }

    fn push_end(&mut self, out: &mut BytesMut, end: &Value) {
        self.close_span(out);
        self.settle(out);
        self.end_calls(out);
        let Some(reason) = end["finish_reason"].as_str() else {
            let code = end["code"].as_str().unwrap_or_default();
            let message = shown::failure(code);
            let error = json!({ "type": "RUN_ERROR", "message": message, "code": code });
            return sse::push(out, &error);
        };
        let usage = &end["usage"];
        let usage = json!([{
            "inputTokens": usage["prompt_tokens"],
            "outputTokens": usage["completion_tokens"],
            "totalTokens": usage["total_tokens"],
        }]);
        let mut finished = json!({
            "type": "RUN_FINISHED", "threadId": self.thread_id, "runId": self.run_id,
            "usage": usage,
        });
        finished["outcome"] = match (reason, self.interrupt.take()) {
            ("cancelled", _) => json!({ "type": "cancelled" }),
            (_, Some(interrupt)) => {
                let messages = self.snapshot.take();
                sse::push(out, &json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages }));
                json!({ "type": "interrupt", "interrupts": [interrupt] })
            }
            (reason, None) => {
                finished["result"] = json!({ "finish_reason": reason });
                json!({ "type": "success" })
            }
        };
        sse::push(out, &finished);
    }
}

/// An event of our own.
fn push_custom(out: &mut BytesMut, name: &str, value: &Value) {
    sse::push(out, &json!({ "type": "CUSTOM", "name": name, "value": value }));
}

impl Encoder for Events {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => return self.push_text(out, false, text),
            (Kind::ReasoningDelta, Some(text)) => return self.push_text(out, true, text),
            // The tool's name is not known yet.
            (Kind::ToolMarkerDetected, _) => return self.close_span(out),
            (Kind::ToolArgumentsDelta, _) => return,
            _ => {}
        }
        let event = dialect::json::event(record.data);
        let data = &event["data"];
        match record.kind {
            Kind::TurnStarted => self.begin(out, data),
            Kind::ToolStarted => self.start_call(out, data),
            Kind::ClientToolCall => {
                self.push_call(out, data, &data["tool_args"]);
            }
            Kind::ToolCompleted => self.complete_call(out, data),
            Kind::ToolProgress => {
                let mut progress = without_nulls(data);
                progress["call_id"] = self.outside(data).into();
                push_custom(out, "tether.tool_progress", &progress);
            }
            // The model's own words have been sent.
            Kind::Acknowledgement if data["source"] == "hints" => {
                push_custom(out, "tether.acknowledgement", &json!({ "text": data["text"] }));
            }
            Kind::Status => push_custom(out, "tether.status", data),
            Kind::LoopLimitReached => {
                self.end_round(out);
                push_custom(out, "tether.loop_limit_reached", data);
            }
            Kind::Feedback if words::end_before(data) => self.end_round(out),
            Kind::ClarificationNeeded => self.ask(out, data),
            Kind::TurnCompleted | Kind::TurnFailed => self.push_end(out, data),
            _ => {}
        }
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(sse::KEEP_ALIVE)
    }
}

/// The protocol leaves out what has no value.
fn without_nulls(data: &Value) -> Value {
    let members = data.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}
