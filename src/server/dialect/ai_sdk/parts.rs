//! A turn as the parts of one message.
//!
//! ```text
//! data: {"type":"start","messageId":"msg_.."}
//! data: {"type":"start-step"}
//! data: {"type":"text-start","id":"1"}
//! data: {"type":"text-delta","id":"1","delta":"Hello"}
//! ..
//! ```
//! A tool of ours is executed by the provider, as the SDK calls it: clients show it and leave it
//! alone. Text after tools begins a step of its own. Otherwise a client with
//! `lastAssistantMessageIsCompleteWithToolCalls` might post the turn again and again.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::event::Kind;
use crate::server::dialect::sse::{self, TextFrames};
use crate::server::dialect::{self, Encoder, call_id, ended, shown, words};
use crate::session::Record;

/// Writes parts.
#[derive(Debug)]
pub(super) struct Parts {
    message: Option<Message>,
    turn_id: String,
    open: Option<Span>,
    /// How many spans there have been. Their numbers are their ids.
    spans: usize,
    step: Step,
    /// The calls of ours that have started and not ended, by their ids outside.
    running: Vec<String>,
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
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
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

impl Parts {
    /// `message` is the client's message that the turn continues, if any.
    pub(super) const fn new(message: Option<Message>) -> Self {
        Self {
            message,
            turn_id: String::new(),
            open: None,
            spans: 0,
            step: Step { has_words: false, has_calls: false, is_over: false, round: None },
            running: Vec::new(),
        }
    }

    fn begin(&mut self, out: &mut BytesMut, started: &Value) {
        started["turn_id"].as_str().unwrap_or_default().clone_into(&mut self.turn_id);
        let id = match self.message.take() {
            Some(continued) => continued.id,
            None => Some(format!("msg_{}", self.turn_id.replace('-', ""))),
        };
        let start = match id {
            Some(id) => json!({ "type": "start", "messageId": id }),
            None => json!({ "type": "start" }),
        };
        sse::push(out, &start);
        sse::push(out, &json!({ "type": "start-step" }));
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
        sse::push(out, &json!({ "type": format!("{}-start", kind.name()), "id": id }));
        let delta = json!({ "type": format!("{}-delta", kind.name()), "id": id });
        self.open = Some(Span { kind, id, frames: TextFrames::new(&delta, "delta") });
    }

    fn close_span(&mut self, out: &mut BytesMut) {
        if let Some(Span { kind, id, .. }) = self.open.take() {
            sse::push(out, &json!({ "type": format!("{}-end", kind.name()), "id": id }));
        }
    }

    /// The step's round is over. The next part begins another, unless the step is empty.
    const fn end_step(&mut self) {
        self.step.is_over = self.step.has_words || self.step.has_calls;
    }

    fn next_step(&mut self, out: &mut BytesMut) {
        sse::push(out, &json!({ "type": "finish-step" }));
        sse::push(out, &json!({ "type": "start-step" }));
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
        let (id, name) = (self.outside(call), &call["tool_name"]);
        let mut start = json!({ "type": "tool-input-start", "toolCallId": id, "toolName": name });
        if is_ours {
            start["dynamic"] = true.into();
            start["providerExecuted"] = true.into();
        }
        sse::push(out, &start);
        start["type"] = "tool-input-available".into();
        start["input"] = input.clone();
        sse::push(out, &start);
        if is_ours {
            self.running.push(id);
        }
    }

    fn outside(&self, call: &Value) -> String {
        call_id::outside(&self.turn_id, call["call_id"].as_str().unwrap_or_default())
    }

    /// What a call of ours returned, or why it failed. Clients refuse the result of a call that
    /// they do not know.
    fn push_output(&mut self, out: &mut BytesMut, id: &str, output: Result<Value, String>) {
        let Some(at) = self.running.iter().position(|running| running == id) else { return };
        self.running.swap_remove(at);
        let part = match output {
            Ok(output) => json!({
                "type": "tool-output-available", "toolCallId": id, "output": output,
                "dynamic": true, "providerExecuted": true,
            }),
            Err(error) => json!({
                "type": "tool-output-error", "toolCallId": id, "errorText": error,
                "dynamic": true, "providerExecuted": true,
            }),
        };
        sse::push(out, &part);
    }

    /// The question in words, and then as data. The data stays in the message, so that a page that
    /// is loaded again still shows it.
    fn push_question(&mut self, out: &mut BytesMut, asked: &Value) {
        // The user has to see what it is that they approve.
        if let Some(arguments) = asked.get("arguments") {
            self.push_call(out, asked, arguments, true);
            let id = self.outside(asked);
            let fields = ["type", "question", "options"];
            let question: Value =
                fields.iter().map(|key| ((*key).to_owned(), asked[key].clone())).collect();
            self.push_output(out, &id, Ok(json!({ "clarification": question })));
        }
        self.open_span(out, SpanKind::Text);
        if let Some(open) = &self.open {
            let words = ended::question(asked).in_words(false);
            open.frames.push(out, &dialect::json::escaped(&words));
        }
        self.close_span(out);
        let question = shown::question(&self.turn_id, asked);
        let id = &asked["clarification_id"];
        sse::push(out, &json!({ "type": "data-clarification", "id": id, "data": question }));
    }

    fn push_end(&mut self, out: &mut BytesMut, end: &Value) {
        self.close_span(out);
        while let Some(id) = self.running.first().cloned() {
            self.push_output(out, &id, Err(shown::INTERRUPTED.to_owned()));
        }
        let reason = match end["finish_reason"].as_str() {
            None => {
                let failure = shown::failure(end["code"].as_str().unwrap_or_default());
                sse::push(out, &json!({ "type": "error", "errorText": failure }));
                return out.extend_from_slice(sse::DONE);
            }
            Some("cancelled") => {
                // Earlier versions of 5 and 6 refuse a reason.
                sse::push(out, &json!({ "type": "abort" }));
                return out.extend_from_slice(sse::DONE);
            }
            Some("length") => "length",
            Some("client_tool_calls") => "tool-calls",
            Some(_) => "stop",
        };
        sse::push(out, &json!({ "type": "finish-step" }));
        sse::push(out, &json!({ "type": "finish", "finishReason": reason }));
        out.extend_from_slice(sse::DONE);
    }
}

/// Something that the client shows for a while, and does not keep.
fn push_status(out: &mut BytesMut, message: &str) {
    let data = json!({ "message": message });
    sse::push(out, &json!({ "type": "data-status", "data": data, "transient": true }));
}

impl Encoder for Parts {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn mark(&self) -> Option<(&'static str, &'static str)> {
        Some(("x-vercel-ai-ui-message-stream", "v1"))
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => return self.push_text(out, SpanKind::Text, text),
            (Kind::ReasoningDelta, Some(text)) => {
                return self.push_text(out, SpanKind::Reasoning, text);
            }
            // The tool's name is not known yet.
            (Kind::ToolMarkerDetected, _) => return self.close_span(out),
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
                let id = self.outside(data);
                self.push_output(out, &id, shown::output(&data["tool_result"]));
            }
            Kind::ToolProgress => {
                let id = self.outside(data);
                let mut progress = data.clone();
                progress["call_id"] = id.as_str().into();
                sse::push(
                    out,
                    &json!({
                        "type": "data-tool-progress", "id": id, "data": progress,
                        "transient": true,
                    }),
                );
            }
            // The model's own words have been sent.
            Kind::Acknowledgement if data["source"] == "hints" => {
                push_status(out, data["text"].as_str().unwrap_or_default());
            }
            Kind::Status => push_status(out, data["message"].as_str().unwrap_or_default()),
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
