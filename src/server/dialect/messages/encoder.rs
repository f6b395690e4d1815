//! A streamed answer: the events of Messages.
//!
//! ```text
//! message_start, ping
//!   content_block_start 0 (text), content_block_delta 0, .., content_block_stop 0
//!   content_block_start 1 (tool_use), content_block_delta 1, content_block_stop 1
//! message_delta (stop reason, usage), message_stop
//! ```
//! Blocks follow one another, without gaps in their indices. A block of words stays open until a
//! block of another kind begins, however many rounds it takes: many programs read the first one only. The result of a
//! tool that ends in the middle of a message comes after it.

use std::io::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::blocks;
use super::server_tools::MessagesServerTools;
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::words::{self, MessageBreaks};
use crate::server::dialect::{self, AnswerFailure, AnswerMeta, Encoder, sse};
use crate::session::Record;
use crate::session::log::encode::serialize;

/// What a client sees beside words and its own calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) server_tools: MessagesServerTools,
    /// Whether the client has asked for reasoning.
    pub(super) reasoning: bool,
}

impl Shown {
    /// Whether our tools are shown.
    pub(super) const fn tools(self) -> bool {
        matches!(self.server_tools, MessagesServerTools::McpToolUse)
    }
}

/// Writes the events of an answer.
#[derive(Debug)]
pub(super) struct MessageEncoder {
    meta: AnswerMeta,
    shown: Shown,
    turn_id: String,
    /// The block that is open, if any.
    open: Option<Words>,
    /// The index of the open block, or of the next one.
    index: usize,
    /// What each delta of the open block begins with.
    head: Vec<u8>,
    /// Whether the user can see any words.
    has_words: bool,
    breaks: MessageBreaks,
    /// Blocks that wait for the end of the message in the open block.
    held: Vec<Value>,
    is_cancelled: bool,
}

/// A kind of block that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    Text,
    Reasoning,
}

impl MessageEncoder {
    pub(super) const fn new(meta: AnswerMeta, shown: Shown) -> Self {
        Self {
            meta,
            shown,
            turn_id: String::new(),
            open: None,
            index: 0,
            head: Vec::new(),
            has_words: false,
            breaks: MessageBreaks::NEW,
            held: Vec::new(),
            is_cancelled: false,
        }
    }

    fn begin(&mut self, started: &Value, out: &mut BytesMut) {
        text_of(started, "turn_id").clone_into(&mut self.turn_id);
        let message = blocks::message(&self.turn_id, &self.meta.model);
        push(out, "message_start", &json!({ "type": "message_start", "message": message }));
        out.extend_from_slice(PING);
    }

    /// Adds a piece of words, already escaped as JSON.
    fn push_words(&mut self, kind: Words, mut text: &[u8], out: &mut BytesMut) {
        if self.open != Some(kind) {
            let Some(first) = words::from_first(text) else { return };
            self.close(out);
            self.open(kind, out);
            text = first;
        }
        out.extend_from_slice(&self.head);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\"}}\n\n");
        self.has_words |= kind == Words::Text;
    }

    /// Ends the reasoning of a message, so that the next message begins a block of its own.
    fn end_reasoning(&mut self, out: &mut BytesMut) {
        if self.open == Some(Words::Reasoning) {
            self.close(out);
        }
    }

    /// Sends what has waited for the end of the message, if anything.
    fn flush_held(&mut self, out: &mut BytesMut) {
        if !self.held.is_empty() {
            self.close(out);
        }
    }

    /// Keeps the words of two messages apart: with what has waited for the first one's end, or with a blank line.
    fn push_gap(&mut self, gap: &str, out: &mut BytesMut) {
        if !self.held.is_empty() {
            self.close(out);
        } else if self.open == Some(Words::Text) && !gap.is_empty() {
            self.push_delta(&json!({ "type": "text_delta", "text": gap }), out);
        }
    }

    fn open(&mut self, kind: Words, out: &mut BytesMut) {
        let (block, delta) = match kind {
            Words::Text => (blocks::text(""), TEXT_DELTA),
            Words::Reasoning => {
                (json!({ "type": "thinking", "thinking": "", "signature": "" }), THINKING_DELTA)
            }
        };
        self.push_start(&block, out);
        self.open = Some(kind);
        self.head.clear();
        // Writing to memory cannot fail.
        let _ = write!(self.head, "{BLOCK_DELTA}{},\"delta\":{delta}", self.index);
    }

    /// Closes the open block, if there is one, and sends what has waited for that.
    fn close(&mut self, out: &mut BytesMut) {
        match self.open.take() {
            None => return,
            Some(Words::Reasoning) => {
                let signature =
                    json!({ "type": "signature_delta", "signature": blocks::SIGNATURE });
                self.push_delta(&signature, out);
            }
            Some(Words::Text) => {}
        }
        self.push_stop(out);
        for block in std::mem::take(&mut self.held) {
            self.push_block(&block, out);
        }
    }

    /// A block in one piece.
    fn push_block(&mut self, block: &Value, out: &mut BytesMut) {
        self.push_start(block, out);
        self.push_stop(out);
    }

    fn push_start(&self, block: &Value, out: &mut BytesMut) {
        let start = json!({
            "type": "content_block_start", "index": self.index, "content_block": block,
        });
        push(out, "content_block_start", &start);
    }

    fn push_delta(&self, delta: &Value, out: &mut BytesMut) {
        let delta = json!({ "type": "content_block_delta", "index": self.index, "delta": delta });
        push(out, "content_block_delta", &delta);
    }

    fn push_stop(&mut self, out: &mut BytesMut) {
        let stop = json!({ "type": "content_block_stop", "index": self.index });
        push(out, "content_block_stop", &stop);
        self.index += 1;
    }

    fn push_call(&mut self, call: &Value, out: &mut BytesMut) {
        self.close(out);
        self.push_start(&blocks::tool_use(&self.turn_id, call, &json!({})), out);
        let input = call["tool_args"].to_string();
        self.push_delta(&json!({ "type": "input_json_delta", "partial_json": input }), out);
        self.push_stop(out);
    }

    /// What the client is shown of our tools.
    fn push_server_tool(&mut self, kind: Kind, data: &Value, out: &mut BytesMut) {
        let block = blocks::server_tool(&self.turn_id, kind, data);
        let Some(block) = block.filter(|_| self.shown.tools()) else { return };
        if kind == Kind::ToolCompleted && self.open == Some(Words::Text) {
            self.held.push(block);
        } else {
            self.close(out);
            self.push_block(&block, out);
        }
    }

    fn push_end(&mut self, completed: &Value, mut delta: Map<String, Value>, out: &mut BytesMut) {
        self.close(out);
        delta.insert("stop_details".to_owned(), Value::Null);
        delta.insert("container".to_owned(), Value::Null);
        let end = json!({
            "type": "message_delta",
            "delta": delta,
            "usage": blocks::usage(&completed["usage"]),
        });
        push(out, "message_delta", &end);
        push(out, "message_stop", &json!({ "type": "message_stop" }));
    }
}

/// Appends an event.
fn push(out: &mut BytesMut, name: &str, data: &Value) {
    let _ = write!(out.writer(), "event: {name}\ndata: ");
    serialize(out.writer(), data);
    out.extend_from_slice(b"\n\n");
}

const BLOCK_DELTA: &str =
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
const TEXT_DELTA: &str = "{\"type\":\"text_delta\",\"text\":\"";
const THINKING_DELTA: &str = "{\"type\":\"thinking_delta\",\"thinking\":\"";
const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

impl Encoder for MessageEncoder {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => {
                if let Some(gap) = self.breaks.gap(text, record.begins_message()) {
                    self.push_gap(gap, out);
                }
                return self.push_words(Words::Text, text, out);
            }
            (Kind::ReasoningDelta, Some(text)) => {
                if self.shown.reasoning {
                    self.push_words(Words::Reasoning, text, out);
                }
                return;
            }
            (Kind::ToolMarkerDetected, _) => {
                self.end_reasoning(out);
                return self.breaks.note_call();
            }
            (Kind::ToolArgumentsDelta | Kind::Acknowledgement, _) => return,
            (Kind::ToolProgress, _) => return out.extend_from_slice(PING),
            _ => {}
        }
        let event = dialect::json::event(record.data);
        let data = &event["data"];
        match record.kind {
            Kind::TurnStarted => self.begin(data, out),
            Kind::ClientToolCall => self.push_call(data, out),
            Kind::Feedback if words::end_before(data) => self.end_reasoning(out),
            Kind::ClarificationNeeded => {
                let words = dialect::ended::question_in_words(data, self.has_words);
                self.push_words(Words::Text, &dialect::json::escaped(&words), out);
            }
            Kind::TurnCompleted => {
                if let Some(stop) = blocks::stop(data) {
                    self.push_end(data, stop, out);
                } else {
                    self.flush_held(out);
                    self.is_cancelled = true;
                }
            }
            Kind::TurnFailed => {
                self.flush_held(out);
                push(out, "error", &blocks::failure(data).1);
            }
            kind => self.push_server_tool(kind, data, out),
        }
    }

    fn early_failure(&self) -> Option<AnswerFailure> {
        Some(blocks::failure)
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(PING)
    }

    /// A clean end would look like a whole answer.
    fn is_cut(&self) -> bool {
        self.is_cancelled
    }
}
