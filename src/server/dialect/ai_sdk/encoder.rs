//! A turn as the parts of one message.
//!
//! ```text
//! data: {"type":"start","messageId":"msg_.."}
//! data: {"type":"start-step"}
//! data: {"type":"text-start","id":"1"}
//! data: {"type":"text-delta","id":"1","delta":"Hello"}
//! ..
//! ```
//! A server tool is "executed by the provider", as the SDK calls it: clients show it and do not run
//! it. Text after tools begins a step of its own. Otherwise a client with
//! `lastAssistantMessageIsCompleteWithToolCalls` might post the turn again and again.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::part::{CallHead, FinishReason, Part, Report, Status};
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::sse::{self, TextFrames};
use crate::server::dialect::words::{self, MessageBreaks};
use crate::server::dialect::{self, Encoder, call_id, ended, shown};
use crate::session::Record;

/// Writes parts.
#[derive(Debug)]
pub(super) struct PartEncoder {
    message: Option<Message>,
    turn_id: String,
    open: Option<Span>,
    /// How many spans there have been. Their numbers are their ids.
    spans: usize,
    step: Step,
    /// The calls to server tools that are running, by the ids that the client knows.
    running: Vec<String>,
    breaks: MessageBreaks,
}

/// The message of the client that the turn continues.
#[derive(Debug)]
pub(super) struct Message {
    /// Its id. Without one, the client's own stays.
    pub(super) id: Option<String>,
}

/// A piece of text that may go on.
#[derive(Debug)]
struct Span {
    kind: SpanKind,
    id: String,
    frames: TextFrames,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Text,
    Reasoning,
}

impl SpanKind {
    const fn start(self, id: &str) -> Part<'_> {
        match self {
            Self::Text => Part::TextStart { id },
            Self::Reasoning => Part::ReasoningStart { id },
        }
    }

    /// A piece without text.
    const fn delta(self, id: &str) -> Part<'_> {
        match self {
            Self::Text => Part::TextDelta { id, delta: "" },
            Self::Reasoning => Part::ReasoningDelta { id, delta: "" },
        }
    }

    const fn end(self, id: &str) -> Part<'_> {
        match self {
            Self::Text => Part::TextEnd { id },
            Self::Reasoning => Part::ReasoningEnd { id },
        }
    }
}

/// The step that parts belong to.
#[derive(Debug, Default, Clone, Copy)]
struct Step {
    has_words: bool,
    has_calls: bool,
    /// Whether its round is over.
    is_over: bool,
    /// The round of its calls.
    round: Option<u64>,
}

impl PartEncoder {
    /// `message` is the client's message that the turn continues, if any.
    pub(super) const fn new(message: Option<Message>) -> Self {
        Self {
            message,
            turn_id: String::new(),
            open: None,
            spans: 0,
            step: Step { has_words: false, has_calls: false, is_over: false, round: None },
            running: Vec::new(),
            breaks: MessageBreaks::NEW,
        }
    }

    fn begin(&mut self, out: &mut BytesMut, started: &Value) {
        text_of(started, "turn_id").clone_into(&mut self.turn_id);
        let id = match self.message.take() {
            Some(continued) => continued.id,
            None => Some(format!("msg_{}", self.turn_id.replace('-', ""))),
        };
        sse::push(out, &Part::Start { message_id: id });
        sse::push(out, &Part::StartStep);
    }

    fn push_text(&mut self, out: &mut BytesMut, kind: SpanKind, mut text: &[u8]) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            let Some(first) = words::from_first(text) else { return };
            self.open_span(out, kind);
            text = first;
        }
        if let Some(open) = &self.open {
            open.frames.push(out, text);
        }
    }

    fn open_span(&mut self, out: &mut BytesMut, kind: SpanKind) {
        self.close_span(out);
        if (self.step.has_calls || self.step.is_over) && self.running.is_empty() {
            self.next_step(out);
        }
        self.step.has_words = true;
        self.spans += 1;
        let id = self.spans.to_string();
        sse::push(out, &kind.start(&id));
        let frames = TextFrames::new(&kind.delta(&id));
        self.open = Some(Span { kind, id, frames });
    }

    fn close_span(&mut self, out: &mut BytesMut) {
        if let Some(Span { kind, id, .. }) = self.open.take() {
            sse::push(out, &kind.end(&id));
        }
    }

    /// The step's round is over. The next part begins another, unless the step is empty.
    const fn end_step(&mut self) {
        self.step.is_over = self.step.has_words || self.step.has_calls;
    }

    fn next_step(&mut self, out: &mut BytesMut) {
        sse::push(out, &Part::FinishStep);
        sse::push(out, &Part::StartStep);
        self.step = Step::default();
    }

    /// A call with its arguments. If the client runs it, its part has the tool's own type.
    fn push_call(&mut self, out: &mut BytesMut, call: &Value, input: &Value, is_ours: bool) {
        self.close_span(out);
        let round = call["loop"].as_u64();
        let is_next = self.step.round.is_some() && self.step.round != round;
        if (is_next || self.step.is_over) && self.running.is_empty() {
            self.next_step(out);
        }
        self.step = Step { has_calls: true, round, ..self.step };
        let id = self.client_id(call);
        let call = CallHead {
            tool_call_id: &id,
            tool_name: text_of(call, "tool_name"),
            dynamic: is_ours,
            provider_executed: is_ours,
        };
        sse::push(out, &Part::ToolInputStart(call));
        sse::push(out, &Part::ToolInputAvailable { call, input });
        if is_ours {
            self.running.push(id);
        }
    }

    fn client_id(&self, call: &Value) -> String {
        call_id::for_client(&self.turn_id, text_of(call, "call_id"))
    }

    /// What a server tool returned, or why it failed. Clients refuse the result of a call that
    /// they do not know.
    fn push_output(&mut self, out: &mut BytesMut, id: &str, output: Result<Value, String>) {
        let Some(at) = self.running.iter().position(|running| running == id) else { return };
        self.running.swap_remove(at);
        let (tool_call_id, dynamic, provider_executed) = (id, true, true);
        let part = match output {
            Ok(output) => {
                Part::ToolOutputAvailable { tool_call_id, output, dynamic, provider_executed }
            }
            Err(error_text) => {
                Part::ToolOutputError { tool_call_id, error_text, dynamic, provider_executed }
            }
        };
        sse::push(out, &part);
    }

    /// The question in words, and then as data. The data stays in the message, so that a page that
    /// is loaded again still shows it.
    fn push_question(&mut self, out: &mut BytesMut, asked: &Value) {
        // The user has to see what it is that they approve.
        if let Some(arguments) = asked.get("arguments") {
            self.push_call(out, asked, arguments, true);
            let id = self.client_id(asked);
            let fields = ["type", "question", "options"];
            let question: Value =
                fields.iter().map(|key| ((*key).to_owned(), asked[key].clone())).collect();
            self.push_output(out, &id, Ok(json!({ "clarification": question })));
        }
        self.open_span(out, SpanKind::Text);
        if let Some(open) = &self.open {
            let words = ended::question_in_words(asked, false);
            open.frames.push(out, &dialect::json::escaped(&words));
        }
        self.close_span(out);
        let data = shown::question(&self.turn_id, asked);
        let id = text_of(asked, "clarification_id");
        sse::push(out, &Part::DataClarification { id, data });
    }

    fn push_end(&mut self, out: &mut BytesMut, end: &Value) {
        self.close_span(out);
        while let Some(id) = self.running.first().cloned() {
            self.push_output(out, &id, Err(shown::INTERRUPTED.to_owned()));
        }
        let finish_reason = match end["finish_reason"].as_str() {
            None => {
                let error_text = shown::failure(text_of(end, "code"));
                sse::push(out, &Part::Error { error_text });
                return out.extend_from_slice(sse::DONE);
            }
            Some("cancelled") => {
                sse::push(out, &Part::Abort);
                return out.extend_from_slice(sse::DONE);
            }
            Some("length") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            Some("client_tool_calls") => FinishReason::ToolCalls,
            Some(_) => FinishReason::Stop,
        };
        sse::push(out, &Part::FinishStep);
        sse::push(out, &Part::Finish { finish_reason });
        out.extend_from_slice(sse::DONE);
    }
}

/// Something that the client shows for a while, and does not keep.
fn push_status(out: &mut BytesMut, message: &str) {
    sse::push(out, &Part::DataStatus { data: Status { message }, transient: true });
}

fn push_progress(out: &mut BytesMut, id: &str, reported: &Value) {
    let data = Report {
        call_id: id,
        tool_name: text_of(reported, "tool_name"),
        progress: &reported["progress"],
        total: &reported["total"],
        message: &reported["message"],
    };
    sse::push(out, &Part::DataToolProgress { id, data, transient: true });
}

impl Encoder for PartEncoder {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn mark(&self) -> Option<(&'static str, &'static str)> {
        Some(("x-vercel-ai-ui-message-stream", "v1"))
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => {
                if self.breaks.gap(text, record.begins_message()).is_some() {
                    self.close_span(out);
                }
                return self.push_text(out, SpanKind::Text, text);
            }
            (Kind::ReasoningDelta, Some(text)) => {
                return self.push_text(out, SpanKind::Reasoning, text);
            }
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
            Kind::ToolStarted => self.push_call(out, data, &data["tool_args"], true),
            Kind::ClientToolCall => self.push_call(out, data, &data["tool_args"], false),
            Kind::ToolCompleted => {
                let id = self.client_id(data);
                self.push_output(out, &id, shown::output(&data["tool_result"]));
            }
            Kind::ToolProgress => push_progress(out, &self.client_id(data), data),
            // The model's own words have been sent.
            Kind::Acknowledgement if data["source"] == "hints" => {
                push_status(out, text_of(data, "text"));
            }
            Kind::Status => push_status(out, text_of(data, "message")),
            Kind::LoopLimitReached => {
                self.close_span(out);
                self.end_step();
                push_status(out, LOOP_LIMIT);
            }
            Kind::Feedback => {
                if words::end_before(data) {
                    self.close_span(out);
                }
                self.end_step();
            }
            Kind::ClarificationNeeded => self.push_question(out, data),
            Kind::TurnCompleted | Kind::TurnFailed => self.push_end(out, data),
            _ => {}
        }
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(sse::KEEP_ALIVE)
    }
}

const LOOP_LIMIT: &str = "No more tools are used; the answer follows.";
