//! An answer in one piece: without `"stream": true`.

use serde_json::{Value, json};

use super::encoder::Shown;
use super::{blocks, error};
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::words::{self, MessageBreaks};
use crate::server::dialect::{self, AnswerMeta, Collector, WholeAnswer};
use crate::session::Record;

/// White space at the start of a message.
const BLANK: [char; 4] = [' ', '\n', '\r', '\t'];

/// Collects an answer.
#[derive(Debug)]
pub(super) struct MessageCollector {
    meta: AnswerMeta,
    shown: Shown,
    turn_id: String,
    content: Vec<Value>,
    /// The words of the block that is growing, and its kind.
    words: (String, Kind),
    /// Whether the user can see any words.
    has_words: bool,
    breaks: MessageBreaks,
    /// Blocks that wait for the end of the message whose words are growing.
    held: Vec<Value>,
    end: Option<(u16, Value)>,
    /// Not once a server tool has started, nor after a failure that would recur.
    may_be_repeated: bool,
}

impl MessageCollector {
    pub(super) const fn new(meta: AnswerMeta, shown: Shown) -> Self {
        Self {
            meta,
            shown,
            turn_id: String::new(),
            content: Vec::new(),
            words: (String::new(), Kind::TextDelta),
            has_words: false,
            breaks: MessageBreaks::NEW,
            held: Vec::new(),
            end: None,
            may_be_repeated: true,
        }
    }

    fn add_words(&mut self, kind: Kind, text: &str) {
        if self.words.1 != kind {
            // As in a stream, a block begins with a word.
            if text.trim_start_matches(BLANK).is_empty() {
                return;
            }
            self.close();
            self.words.1 = kind;
        }
        self.words.0.push_str(text);
        self.has_words |= kind == Kind::TextDelta;
    }

    /// Ends the block that is growing, if it has any words, and adds what has waited for that.
    fn close(&mut self) {
        if !self.is_blank() {
            self.close_words();
        }
        self.words.0.clear();
        self.content.append(&mut self.held);
    }

    /// Ends the reasoning of a message, so that the next message begins a block of its own.
    fn end_reasoning(&mut self) {
        if self.words.1 == Kind::ReasoningDelta {
            self.close();
        }
    }

    /// Whether the block that is growing has no words.
    fn is_blank(&self) -> bool {
        self.words.0.trim_start_matches(BLANK).is_empty()
    }

    fn close_words(&mut self) {
        let words = self.words.0.trim_start_matches(BLANK);
        let block = match self.words.1 {
            Kind::ReasoningDelta => {
                json!({ "type": "thinking", "thinking": words, "signature": blocks::SIGNATURE })
            }
            _ => blocks::text(words),
        };
        self.content.push(block);
    }

    fn add_block(&mut self, block: Value) {
        self.close();
        self.content.push(block);
    }

    /// Adds what the client is shown of our tools.
    fn add_server_tool(&mut self, kind: Kind, data: &Value) {
        let Some(block) = blocks::server_tool(&self.turn_id, kind, data) else { return };
        let is_open = self.words.1 == Kind::TextDelta && !self.is_blank();
        if kind == Kind::ToolCompleted && is_open {
            self.held.push(block);
        } else {
            self.add_block(block);
        }
    }

    fn completed(&mut self, completed: &Value) -> (u16, Value) {
        let Some(stop) = blocks::stop(completed) else { return cancelled() };
        self.close();
        let mut message = blocks::message(&self.turn_id, &self.meta.model);
        message["content"] = std::mem::take(&mut self.content).into();
        message["usage"] = blocks::usage(&completed["usage"]);
        message.as_object_mut().expect("a message is an object").extend(stop);
        (200, message)
    }
}

/// The client has left, or an operator has ended the turn.
fn cancelled() -> (u16, Value) {
    (503, error("api_error", "the turn was cancelled"))
}

impl Collector for MessageCollector {
    fn take(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::ToolMarkerDetected => {
                self.end_reasoning();
                return self.breaks.note_call();
            }
            Kind::ToolArgumentsDelta | Kind::Acknowledgement => return,
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
                match self.breaks.gap(record.text.unwrap_or_default(), record.begins_message()) {
                    Some(_) if !self.held.is_empty() => self.close(),
                    Some(gap) => self.add_words(Kind::TextDelta, gap),
                    None => {}
                }
                self.add_words(Kind::TextDelta, text());
            }
            Kind::ReasoningDelta if self.shown.reasoning => {
                self.add_words(Kind::ReasoningDelta, text());
            }
            Kind::ClientToolCall => {
                self.add_block(blocks::tool_use(&self.turn_id, data, &data["tool_args"]));
            }
            Kind::ClarificationNeeded => {
                let words = dialect::ended::question_in_words(data, self.has_words);
                self.add_words(Kind::TextDelta, &words);
            }
            Kind::Feedback if words::end_before(data) => self.end_reasoning(),
            Kind::TurnCompleted => self.end = Some(self.completed(data)),
            Kind::TurnFailed => {
                self.end = Some(blocks::failure(data));
                self.may_be_repeated &= !dialect::ended::is_final(data);
            }
            kind if self.shown.tools() => self.add_server_tool(kind, data),
            _ => {}
        }
    }

    fn answer(self: Box<Self>) -> WholeAnswer {
        let (status, body) = self.end.unwrap_or_else(cancelled);
        WholeAnswer { status, body, may_be_repeated: self.may_be_repeated }
    }
}
