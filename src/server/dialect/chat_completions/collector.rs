//! An answer in one piece: `"stream": false`.

use serde_json::{Value, json};

use super::ended::{self, ClientCall, Ended};
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::words::MessageBreaks;
use crate::server::dialect::{self, AnswerMeta, Collector, WholeAnswer, openai_error};
use crate::session::Record;

/// Collects an answer.
#[derive(Debug)]
pub(super) struct CompletionCollector {
    meta: AnswerMeta,
    shown: ServerTools,
    turn_id: String,
    content: String,
    breaks: MessageBreaks,
    reasoning: String,
    calls: Vec<Value>,
    /// The events of our tools, if the client is shown them.
    tools: Vec<Value>,
    end: Option<(u16, Value)>,
    /// Not once a server tool has started, nor after a failure that would recur.
    may_be_repeated: bool,
}

impl CompletionCollector {
    pub(super) const fn new(meta: AnswerMeta, shown: ServerTools) -> Self {
        Self {
            meta,
            shown,
            turn_id: String::new(),
            content: String::new(),
            breaks: MessageBreaks::NEW,
            reasoning: String::new(),
            calls: Vec::new(),
            tools: Vec::new(),
            end: None,
            may_be_repeated: true,
        }
    }

    fn completed(&mut self, completed: &Value) -> (u16, Value) {
        let Some(Ended { finish_reason, usage }) = Ended::of(completed) else {
            return cancelled();
        };
        let has_words = !self.content.is_empty() || self.calls.is_empty();
        let mut message = json!({
            "role": "assistant",
            "content": has_words.then(|| std::mem::take(&mut self.content)),
            "refusal": null,
            "annotations": [],
        });
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = std::mem::take(&mut self.reasoning).into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = std::mem::take(&mut self.calls).into();
        }
        let choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason,
        });
        let AnswerMeta { model, now_sec } = &self.meta;
        let mut answer = json!({
            "id": ended::answer_id(&self.turn_id),
            "object": "chat.completion",
            "created": now_sec,
            "model": model,
            "choices": [choice],
            "usage": usage,
        });
        if !self.tools.is_empty() {
            answer["tether"] = json!({ "tools": std::mem::take(&mut self.tools) });
        }
        (200, answer)
    }

    fn show(&mut self, kind: Kind, event: Value) {
        match self.shown {
            ServerTools::Off => {}
            ServerTools::Reasoning => {
                let Some(line) = ServerTools::line(kind, &event["data"]) else { return };
                if !self.reasoning.is_empty() && !self.reasoning.ends_with('\n') {
                    self.reasoning.push('\n');
                }
                self.reasoning.push_str(&line);
            }
            ServerTools::Extension => self.tools.push(event),
        }
    }
}

/// The client has left, or an operator has ended the turn.
fn cancelled() -> (u16, Value) {
    let error = json!({ "message": "the turn was cancelled", "code": "cancelled" });
    (503, openai_error::failure(&error).1)
}

impl Collector for CompletionCollector {
    fn take(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::ToolMarkerDetected => return self.breaks.note_call(),
            Kind::ToolArgumentsDelta => return,
            _ => {}
        }
        self.may_be_repeated &= record.kind != Kind::ToolStarted;
        let event = dialect::json::event(record.data);
        let data = &event["data"];
        let text = || data["text"].as_str().unwrap_or_default();
        match record.kind {
            Kind::TurnStarted => {
                text_of(data, "turn_id").clone_into(&mut self.turn_id);
            }
            Kind::TextDelta => {
                let words = record.text.unwrap_or_default();
                if let Some(gap) = self.breaks.gap(words, record.begins_message()) {
                    self.content.push_str(gap);
                }
                self.content.push_str(text());
            }
            Kind::ReasoningDelta => self.reasoning.push_str(text()),
            Kind::ClientToolCall => {
                let ClientCall { id, name, arguments } = ClientCall::of(&self.turn_id, data);
                let function = json!({ "name": name, "arguments": arguments });
                self.calls.push(json!({ "id": id, "type": "function", "function": function }));
            }
            Kind::ClarificationNeeded => {
                let words = dialect::ended::question_in_words(data, !self.content.is_empty());
                self.content.push_str(&words);
            }
            Kind::TurnCompleted => self.end = Some(self.completed(data)),
            Kind::TurnFailed => {
                self.end = Some(openai_error::failure(data));
                self.may_be_repeated &= !dialect::ended::is_final(data);
            }
            kind if ServerTools::is_sent(kind, data) => {}
            kind => self.show(kind, event),
        }
    }

    fn answer(self: Box<Self>) -> WholeAnswer {
        let (status, body) = self.end.unwrap_or_else(cancelled);
        WholeAnswer { status, body, may_be_repeated: self.may_be_repeated }
    }
}
