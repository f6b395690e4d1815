//! Messages and reasoning: their frames, and their final forms.

use serde_json::{Value, json};

use super::frames::Frames;
use super::parts::{added, open_object, place};

/// The kinds of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Message,
    /// Sent as a summary, the only form that all clients show.
    Reasoning,
}

/// How an item ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Completed,
    Incomplete,
}

/// A message or reasoning that is being written.
#[derive(Debug)]
pub(super) struct OpenText {
    pub(super) words: Words,
    pub(super) index: usize,
    id: String,
    /// The members that each of its frames begins with: its id and its indices.
    place: Vec<u8>,
    /// Everything so far, escaped.
    text: Vec<u8>,
}

impl Words {
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Reasoning => "rs",
        }
    }

    const fn delta(self) -> &'static str {
        match self {
            Self::Message => "response.output_text.delta",
            Self::Reasoning => "response.reasoning_summary_text.delta",
        }
    }

    /// The members between an item's place and a delta.
    const fn before_delta(self) -> &'static [u8] {
        match self {
            Self::Message => b",\"logprobs\":[],\"delta\":\"",
            Self::Reasoning => b",\"delta\":\"",
        }
    }

    /// The members between an item's place and its whole text.
    const fn before_text(self) -> &'static [u8] {
        match self {
            Self::Message => b",\"logprobs\":[],\"text\":\"",
            Self::Reasoning => b",\"text\":\"",
        }
    }
}

impl Status {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

impl OpenText {
    /// Begins an item.
    pub(super) fn begin(frames: &mut Frames<'_>, words: Words, index: usize, id: String) -> Self {
        let mut place = place(&id, index);
        let (item, event, part) = match words {
            Words::Message => {
                place.extend_from_slice(b",\"content_index\":0");
                let mut item = message_head(&id, "in_progress");
                item["content"] = json!([]);
                (item, "response.content_part.added", text_part(b""))
            }
            Words::Reasoning => {
                place.extend_from_slice(b",\"summary_index\":0");
                let item = json!({ "id": id, "type": "reasoning", "summary": [], "content": [] });
                (item, "response.reasoning_summary_part.added", summary_part(b""))
            }
        };
        added(frames, index, &item);
        frames.push(event, &[&place, b",\"part\":", &part]);
        Self { words, index, id, place, text: Vec::new() }
    }

    /// Whether it is a message, and not reasoning.
    pub(super) fn is_message(&self) -> bool {
        self.words == Words::Message
    }

    /// Adds a piece, escaped.
    pub(super) fn push(&mut self, frames: &mut Frames<'_>, text: &[u8]) {
        self.text.extend_from_slice(text);
        let parts = [&*self.place, self.words.before_delta(), text, b"\""];
        frames.push(self.words.delta(), &parts);
    }

    /// Ends the text. Returns the item's final form.
    pub(super) fn end(self, frames: &mut Frames<'_>, status: Status) -> Vec<u8> {
        let Self { words, id, place, text, .. } = self;
        let (text_done, part_done) = match words {
            Words::Message => ("response.output_text.done", "response.content_part.done"),
            Words::Reasoning => {
                ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
            }
        };
        frames.push(text_done, &[&place, words.before_text(), &text, b"\""]);
        let part = match words {
            Words::Message => text_part(&text),
            Words::Reasoning => summary_part(&text),
        };
        frames.push(part_done, &[&place, b",\"part\":", &part]);
        match words {
            Words::Message => {
                let head = open_object(&message_head(&id, status.name()));
                [&*head, b",\"content\":[", &part, b"]}"].concat()
            }
            Words::Reasoning => {
                let head = open_object(&json!({ "id": id, "type": "reasoning" }));
                [&*head, b",\"summary\":[", &part, b"],\"content\":[]}"].concat()
            }
        }
    }
}

/// The content of a message, from escaped text.
fn text_part(text: &[u8]) -> Vec<u8> {
    let end: &[u8] = b"\",\"annotations\":[],\"logprobs\":[]}";
    [b"{\"type\":\"output_text\",\"text\":\"", text, end].concat()
}

/// The content of reasoning, from escaped text.
fn summary_part(text: &[u8]) -> Vec<u8> {
    [b"{\"type\":\"summary_text\",\"text\":\"", text, b"\"}"].concat()
}

fn message_head(id: &str, status: &str) -> Value {
    json!({ "id": id, "type": "message", "status": status, "role": "assistant" })
}
