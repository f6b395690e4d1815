//! The forms of an answer: a stream, one piece at its end, or a receipt at once.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::about::{About, Answers};
use super::answer::Answer;
use super::frames::Frames;
use super::id::ResponseId;
use crate::server::dialect::{self, Encoder, Receipt, Whole, WholeAnswer, sse};
use crate::session::Record;

/// An answer as a stream.
#[derive(Debug)]
pub(super) struct Streamed {
    answer: Answer,
    frames: Frames,
}

impl Streamed {
    /// The events from number `from` on.
    pub(super) fn new(answers: Answers, from: u64) -> Self {
        Self { answer: Answer::new(answers), frames: Frames::from(from) }
    }
}

impl Encoder for Streamed {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        self.answer.take(record, &mut self.frames, out);
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(sse::KEEP_ALIVE)
    }
}

/// Collects an answer.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) answer: Answer,
    frames: Frames,
    /// Frames, which nobody reads.
    scratch: BytesMut,
}

impl Collected {
    pub(super) fn new(answers: Answers) -> Self {
        Self { answer: Answer::new(answers), frames: Frames::none(), scratch: BytesMut::new() }
    }
}

impl Whole for Collected {
    fn take(&mut self, record: &Record<'_>) {
        self.answer.take(record, &mut self.frames, &mut self.scratch);
        self.scratch.clear();
    }

    fn answer(self: Box<Self>) -> WholeAnswer {
        let may_be_repeated = !self.answer.has_acted();
        let end = self.answer.end();
        let refused = end.and_then(|end| Some((end.http?, end.error.clone())));
        let (status, body) = match refused {
            None => (200, dialect::json::event(&self.answer.object())),
            Some((status, error)) => (status, failure(error)),
        };
        WholeAnswer { status, body, may_be_repeated }
    }
}

/// The body of an answer that failed, or was cancelled.
fn failure(error: Option<Value>) -> Value {
    let error = error
        .unwrap_or_else(|| json!({ "code": "cancelled", "message": "the response was cancelled" }));
    json!({ "error": {
        "message": error["message"], "type": "server_error", "param": null, "code": error["code"],
    } })
}

/// A response that its client fetches later.
#[derive(Debug)]
pub(super) struct Queued(pub(super) About);

impl Receipt for Queued {
    fn receipt(&self, session_id: &str, turn_id: &str) -> Value {
        let id = ResponseId::of(session_id, turn_id);
        dialect::json::event(&self.0.object(id, "queued", None, b""))
    }
}
