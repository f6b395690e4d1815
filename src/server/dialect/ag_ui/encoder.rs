//! A turn as the events of a run.
//!
//! ```text
//! data: {"type":"RUN_STARTED","threadId":"t","runId":"r"}
//! data: {"type":"TEXT_MESSAGE_START","messageId":"..","role":"assistant"}
//! data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"..","delta":"Hello"}
//! ..
//! ```

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::calls::Calls;
use super::event::{
    Content, Custom, MessageId, MessageStart, Outcome, Report, RunEvent, RunResult, Tokens,
};
use super::history::OpenCall;
use super::interrupt::{self, Interrupt};
use super::resume::Resumed;
use super::snapshot::Snapshot;
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::sse::{self, TextFrames};
use crate::server::dialect::words::{self, MessageBreaks};
use crate::server::dialect::{self, Encoder, shown};
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
pub(super) struct RunEncoder {
    thread_id: String,
    run_id: String,
    pub(super) turn_id: String,
    open: Option<Span>,
    /// How many messages there have been. Their numbers are part of their ids.
    messages: usize,
    pub(super) calls: Calls,
    interrupt: Option<Interrupt>,
    pub(super) snapshot: Snapshot,
    breaks: MessageBreaks,
}

/// A message whose text may go on.
#[derive(Debug)]
struct Span {
    is_reasoning: bool,
    id: String,
    frames: TextFrames,
}

impl RunEncoder {
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
            breaks: MessageBreaks::NEW,
        }
    }

    fn begin(&mut self, out: &mut BytesMut, started: &Value) {
        text_of(started, "turn_id").clone_into(&mut self.turn_id);
        let (thread_id, run_id) = (&self.thread_id, &self.run_id);
        sse::push(out, &RunEvent::RunStarted { thread_id, run_id });
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
        let message_id = &*id;
        let content = Content { message_id, delta: "" };
        let content = if is_reasoning {
            sse::push(out, &RunEvent::ReasoningStart(MessageId { message_id }));
            let start = MessageStart { message_id, role: "reasoning" };
            sse::push(out, &RunEvent::ReasoningMessageStart(start));
            RunEvent::ReasoningMessageContent(content)
        } else {
            let start = MessageStart { message_id, role: "assistant" };
            sse::push(out, &RunEvent::TextMessageStart(start));
            self.snapshot.begin_words(message_id);
            self.calls.follow(message_id);
            RunEvent::TextMessageContent(content)
        };
        let frames = TextFrames::new(&content);
        self.open = Some(Span { is_reasoning, id, frames });
    }

    pub(super) fn close_span(&mut self, out: &mut BytesMut) {
        let Some(Span { is_reasoning, id, .. }) = self.open.take() else { return };
        let id = || MessageId { message_id: &id };
        if is_reasoning {
            sse::push(out, &RunEvent::ReasoningMessageEnd(id()));
            sse::push(out, &RunEvent::ReasoningEnd(id()));
        } else {
            sse::push(out, &RunEvent::TextMessageEnd(id()));
        }
    }

    /// What follows belongs to another message of the model.
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
            return sse::push(out, &RunEvent::RunError { message: shown::failure(code), code });
        };
        let tokens = |key: &str| end["usage"][key].as_u64().unwrap_or_default();
        let usage = Tokens {
            input: tokens("prompt_tokens"),
            output: tokens("completion_tokens"),
            total: tokens("total_tokens"),
        };
        let (result, outcome) = match (reason, self.interrupt.take()) {
            ("cancelled", _) => (None, Outcome::Cancelled),
            (_, Some(interrupt)) => {
                let messages = self.snapshot.take();
                sse::push(out, &RunEvent::MessagesSnapshot { messages });
                (None, Outcome::Interrupt { interrupts: vec![interrupt] })
            }
            (reason, None) => {
                (Some(RunResult { finish_reason: reason.to_owned() }), Outcome::Success)
            }
        };
        let (thread_id, run_id) = (&self.thread_id, &self.run_id);
        let finished = RunEvent::RunFinished { thread_id, run_id, usage: [usage], result, outcome };
        sse::push(out, &finished);
    }
}

/// An event of our own.
fn push_custom(out: &mut BytesMut, custom: Custom<'_>) {
    sse::push(out, &RunEvent::Custom(custom));
}

impl Encoder for RunEncoder {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => {
                if self.breaks.gap(text, record.begins_message()).is_some() {
                    self.close_span(out);
                }
                return self.push_text(out, false, text);
            }
            (Kind::ReasoningDelta, Some(text)) => return self.push_text(out, true, text),
            // The tool's name is not known yet.
            (Kind::ToolMarkerDetected, _) => {
                self.breaks.note_call();
                return self.close_span(out);
            }
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
                let report = Report {
                    call_id: &self.client_id(data),
                    tool_name: text_of(data, "tool_name"),
                    progress: &data["progress"],
                    total: &data["total"],
                    message: &data["message"],
                };
                push_custom(out, Custom::ToolProgress(report));
            }
            // The model's own words have been sent.
            Kind::Acknowledgement if data["source"] == "hints" => {
                push_custom(out, Custom::Acknowledgement { text: text_of(data, "text") });
            }
            Kind::Status => {
                push_custom(out, Custom::Status { message: text_of(data, "message") });
            }
            Kind::LoopLimitReached => {
                self.end_round(out);
                let max_tool_loops = &data["max_tool_loops"];
                push_custom(out, Custom::LoopLimitReached { max_tool_loops });
            }
            Kind::Feedback => {
                self.refuse_resumed(out, data);
                if words::end_before(data) {
                    self.end_round(out);
                }
            }
            Kind::ClarificationNeeded => self.ask(out, data),
            Kind::TurnCompleted | Kind::TurnFailed => self.push_end(out, data),
            _ => {}
        }
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(sse::KEEP_ALIVE)
    }
}
