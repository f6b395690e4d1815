//! A streamed answer: the chunks of Chat Completions.
//!
//! ```text
//! data: {"id":"chatcmpl-..","object":"chat.completion.chunk","created":1,"model":"m","choices":[..]}
//!       '----------------------------- head, the same for all ------------------------'
//! ```
//! One answer is one message with one finish reason, however many rounds it took. Tools of the
//! gateway are not shown as calls, because clients would run them.

use std::io::Write as _;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Value, json};

use super::ended::{self, ClientCall, Ended};
use crate::event::Kind;
use crate::server::dialect::json::text_of;
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::words::MessageBreaks;
use crate::server::dialect::{self, AnswerFailure, AnswerMeta, Encoder, openai_error, sse};
use crate::session::Record;
use crate::session::log::encode::serialize;

/// Writes chunks.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(super) struct ChunkEncoder {
    meta: AnswerMeta,
    /// Whether the client wants the usage, and so a `usage` in every chunk.
    wants_usage: bool,
    shown: ServerTools,
    /// What every chunk begins with, up to its choices, once the turn's id is known.
    head: Vec<u8>,
    turn_id: String,
    /// Whether the user can see any words.
    has_words: bool,
    /// Whether the last line of reasoning has not ended.
    is_in_line: bool,
    breaks: MessageBreaks,
    /// How many calls the client has been given.
    calls: usize,
    is_cancelled: bool,
}

impl ChunkEncoder {
    pub(super) const fn new(meta: AnswerMeta, wants_usage: bool, shown: ServerTools) -> Self {
        Self {
            meta,
            wants_usage,
            shown,
            head: Vec::new(),
            turn_id: String::new(),
            has_words: false,
            is_in_line: false,
            breaks: MessageBreaks::NEW,
            calls: 0,
            is_cancelled: false,
        }
    }

    fn begin(&mut self, started: &Value) {
        text_of(started, "turn_id").clone_into(&mut self.turn_id);
        let AnswerMeta { model, now_sec } = &self.meta;
        let id = ended::answer_id(&self.turn_id);
        let head = json!({
            "id": id, "object": "chat.completion.chunk", "created": now_sec, "model": model,
        });
        self.head = b"data: ".to_vec();
        serialize(&mut self.head, &head);
        // The object goes on.
        self.head.pop();
        self.head.extend_from_slice(b",\"choices\":");
    }

    /// A chunk with this piece of text, already escaped as JSON, under this key of its delta.
    fn push_text(&self, out: &mut BytesMut, key: &[u8], text: &[u8]) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"[{\"index\":0,\"delta\":{\"");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\":\"");
        out.extend_from_slice(text);
        out.extend_from_slice(b"\"},\"logprobs\":null,\"finish_reason\":null}]");
        self.end_chunk(out);
    }

    fn push_delta(&self, out: &mut BytesMut, delta: &Value, finish_reason: Option<&str>) {
        self.push_choice(out, delta, finish_reason);
        self.end_chunk(out);
    }

    fn push_choice(&self, out: &mut BytesMut, delta: &Value, finish_reason: Option<&str>) {
        out.extend_from_slice(&self.head);
        let choice = json!([{
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason,
        }]);
        serialize(out.writer(), &choice);
    }

    fn end_chunk(&self, out: &mut BytesMut) {
        out.extend_from_slice(if self.wants_usage { b",\"usage\":null}\n\n" } else { b"}\n\n" });
    }

    fn push_words(&mut self, out: &mut BytesMut, words: &str) {
        self.has_words = true;
        self.push_delta(out, &json!({ "content": words }), None);
    }

    fn push_call(&mut self, out: &mut BytesMut, data: &Value) {
        let ClientCall { id, name, arguments } = ClientCall::of(&self.turn_id, data);
        let function = json!({ "name": name, "arguments": "" });
        let head = json!({
            "index": self.calls, "id": id, "type": "function", "function": function,
        });
        let rest = json!({ "index": self.calls, "function": { "arguments": arguments } });
        for part in [head, rest] {
            self.push_delta(out, &json!({ "tool_calls": [part] }), None);
        }
        self.calls += 1;
    }

    /// What the client's UI may show of our tools.
    fn push_shown(&mut self, out: &mut BytesMut, kind: Kind, data: &Value) {
        match self.shown {
            ServerTools::Off => {}
            ServerTools::Reasoning => {
                if let Some(line) = ServerTools::line(kind, &data["data"]) {
                    let gap = if std::mem::take(&mut self.is_in_line) { "\n" } else { "" };
                    let line = format!("{gap}{line}");
                    self.push_delta(out, &json!({ "reasoning_content": line }), None);
                }
            }
            ServerTools::Extension => {
                self.push_choice(out, &json!({}), None);
                out.extend_from_slice(b",\"tether\":");
                serialize(out.writer(), data);
                self.end_chunk(out);
            }
        }
    }

    fn push_end(&self, out: &mut BytesMut, ended: &Ended) {
        self.push_delta(out, &json!({}), Some(ended.finish_reason));
        if self.wants_usage {
            out.extend_from_slice(&self.head);
            let _ = write!(out.writer(), "[],\"usage\":{}}}\n\n", ended.usage);
        }
        out.extend_from_slice(sse::DONE);
    }
}

impl Encoder for ChunkEncoder {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => {
                let gap = self.breaks.gap(text, record.begins_message());
                if let Some(gap) = gap.filter(|gap| !gap.is_empty()) {
                    self.push_words(out, gap);
                }
                self.has_words = true;
                return self.push_text(out, b"content", text);
            }
            (Kind::ReasoningDelta, Some(text)) => {
                // As JSON writes it, and not a backslash before an n.
                let ends = text.ends_with(b"\\n") && !text.ends_with(b"\\\\n");
                self.is_in_line = !ends;
                return self.push_text(out, b"reasoning_content", text);
            }
            (Kind::ToolMarkerDetected, _) => return self.breaks.note_call(),
            (Kind::ToolArgumentsDelta, _) => return,
            _ => {}
        }
        let event = dialect::json::event(record.data);
        let data = &event["data"];
        match record.kind {
            Kind::TurnStarted => {
                self.begin(data);
                self.push_delta(out, &json!({ "role": "assistant", "content": "" }), None);
            }
            Kind::ClientToolCall => self.push_call(out, data),
            Kind::ClarificationNeeded => {
                let words = dialect::ended::question_in_words(data, self.has_words);
                self.push_words(out, &words);
            }
            Kind::TurnCompleted => match Ended::of(data) {
                Some(ended) => self.push_end(out, &ended),
                None => self.is_cancelled = true,
            },
            Kind::TurnFailed => {
                // Readers of streams take an error and nothing beside it.
                sse::push(out, &openai_error::failure(data).1);
                out.extend_from_slice(sse::DONE);
            }
            kind if ServerTools::is_sent(kind, data) => {}
            kind => self.push_shown(out, kind, &event),
        }
    }

    fn early_failure(&self) -> Option<AnswerFailure> {
        Some(openai_error::failure)
    }

    /// A chunk without words. Of comments, older `openai-go` takes the blank line for an event and fails, `go-openai`
    /// loses the error after one, and without the blank line, programs that split blocks at it lose the next chunk.
    fn keep_alive(&self) -> Bytes {
        if self.head.is_empty() {
            return Bytes::from_static(sse::KEEP_ALIVE);
        }
        let mut chunk = BytesMut::new();
        self.push_delta(&mut chunk, &json!({}), None);
        chunk.freeze()
    }

    /// A clean end would look like a whole answer.
    fn is_cut(&self) -> bool {
        self.is_cancelled
    }
}
