//! The state of an answer. It serves the stream and the whole object alike.

use serde_json::Value;

use super::end::{End, error_members};
use super::envelope::{AnswerOptions, Envelope};
use super::frames::Frames;
use super::id::ResponseId;
use super::items::Items;
use super::text::{Status, Words};
use crate::event::Kind;
use crate::server::dialect::words::{self, MessageBreaks};
use crate::server::dialect::{self, ended};
use crate::session::Record;

/// An answer, up to the last record that it took.
#[derive(Debug)]
pub(super) struct Answer {
    envelope: Envelope,
    id: ResponseId,
    items: Items,
    end: Option<End>,
    /// Whether a server tool has started.
    has_acted: bool,
    breaks: MessageBreaks,
}

impl Answer {
    /// An answer before its first record, which says whose it is.
    pub(super) fn new(AnswerOptions { envelope, shown, labels }: AnswerOptions) -> Self {
        let id = ResponseId::of("", "");
        let items = Items::new(shown, labels, id, &envelope.head);
        let breaks = MessageBreaks::NEW;
        Self { envelope, id, items, end: None, has_acted: false, breaks }
    }

    /// Takes a record, and writes its frames.
    pub(super) fn take(&mut self, record: &Record<'_>, frames: &mut Frames<'_>) {
        match (record.kind, record.text) {
            (Kind::TextDelta, Some(text)) => {
                if self.breaks.gap(text, record.begins_message()).is_some() {
                    self.items.close_text(frames, Status::Completed);
                }
                return self.items.push_text(frames, Words::Message, text);
            }
            (Kind::ReasoningDelta, Some(text)) => {
                return self.items.push_text(frames, Words::Reasoning, text);
            }
            (Kind::ToolMarkerDetected, _) => {
                self.breaks.note_call();
                return self.items.close_text(frames, Status::Completed);
            }
            // Sentences of the gateway are no part of the answer: SDKs join the texts of all messages,
            // and clients send them back to a model that would learn to write them.
            (
                Kind::Acknowledgement
                | Kind::ToolArgumentsDelta
                | Kind::ToolProgress
                | Kind::Status,
                _,
            ) => return,
            _ => {}
        }
        let event = dialect::json::event(record.data);
        let data = &event["data"];
        match record.kind {
            Kind::TurnStarted => self.begin(data, frames),
            Kind::ToolStarted => {
                self.has_acted = true;
                self.items.start_call(frames, data);
            }
            Kind::ToolCompleted => self.items.end_call(frames, data),
            Kind::ClientToolCall => self.items.push_client_call(frames, data),
            Kind::ClarificationNeeded if data["type"] == "confirmation" => {
                self.items.push_approval_request(frames, data);
            }
            Kind::ClarificationNeeded => {
                let words = ended::question_in_words(data, false);
                self.items.push_message(frames, &words);
            }
            Kind::LoopLimitReached => self.items.close_text(frames, Status::Completed),
            Kind::Feedback if words::end_before(data) => {
                self.items.close_text(frames, Status::Completed);
            }
            Kind::TurnCompleted | Kind::TurnFailed => {
                self.finish(record.kind, data, frames);
            }
            _ => {}
        }
    }

    fn begin(&mut self, started: &Value, frames: &mut Frames<'_>) {
        let text = |key: &str| started[key].as_str().unwrap_or_default();
        self.id = ResponseId::of(text("session_id"), text("turn_id"));
        self.items.set_id(self.id);
        let created = self.object_as(self.envelope.first_status());
        frames.push("response.created", &[b",\"response\":", &created]);
        let object = self.object_as("in_progress");
        frames.push("response.in_progress", &[b",\"response\":", &object]);
    }

    fn finish(&mut self, kind: Kind, data: &Value, frames: &mut Frames<'_>) {
        let end = End::of(kind, data);
        match end.status {
            "completed" => self.items.close_all(frames, Status::Completed),
            "failed" => self.items.break_off(frames),
            _ => self.items.close_all(frames, Status::Incomplete),
        }
        if let Some(error) = end.response_error() {
            frames.push("error", &[&error_members(&error)]);
        }
        let event = end.event();
        self.end = Some(end);
        let object = self.object();
        frames.push(event, &[b",\"response\":", &object]);
        frames.end();
    }

    pub(super) fn is_background(&self) -> bool {
        self.envelope.head.background
    }

    pub(super) const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub(super) const fn has_acted(&self) -> bool {
        self.has_acted
    }

    /// The items that are done.
    pub(super) fn items(&self) -> &Items {
        &self.items
    }

    /// The response as of now.
    pub(super) fn object(&self) -> Vec<u8> {
        self.object_as("in_progress")
    }

    /// The same. Before its end, it has this status.
    pub(super) fn object_as(&self, status: &str) -> Vec<u8> {
        let output = self.items.done().collect::<Vec<_>>().join(&b","[..]);
        self.envelope.object(self.id, status, self.end.as_ref(), &output)
    }
}
