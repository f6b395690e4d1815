//! An answer in one piece, at its end.

use bytes::BytesMut;
use serde_json::{Value, json};

use super::answer::Answer;
use super::envelope::AnswerOptions;
use super::frames::{Frames, Numbers};
use crate::server::dialect::{self, Collector, WholeAnswer, openai_error};
use crate::session::Record;

/// Collects an answer.
#[derive(Debug)]
pub(super) struct ResponseCollector {
    pub(super) answer: Answer,
    numbers: Numbers,
    /// Frames, which nobody reads.
    scratch: BytesMut,
}

impl ResponseCollector {
    pub(super) fn new(options: AnswerOptions) -> Self {
        Self { answer: Answer::new(options), numbers: Numbers::none(), scratch: BytesMut::new() }
    }
}

impl Collector for ResponseCollector {
    fn take(&mut self, record: &Record<'_>) {
        let mut frames = Frames { numbers: &mut self.numbers, out: &mut self.scratch };
        self.answer.take(record, &mut frames);
        self.scratch.clear();
    }

    fn answer(self: Box<Self>) -> WholeAnswer {
        let end = self.answer.end();
        let may_be_repeated = !self.answer.has_acted() && !end.is_some_and(|end| end.is_final);
        let refused = end.and_then(|end| Some((end.http?, end.error.clone())));
        let (status, body) = match refused {
            None => (200, dialect::json::event(&self.answer.object())),
            Some((status, error)) => (status, failure(error, end.is_some_and(|end| end.is_final))),
        };
        WholeAnswer { status, body, may_be_repeated }
    }
}

/// The body of an answer that failed, or was cancelled.
fn failure(error: Option<Value>, is_final: bool) -> Value {
    let error = error
        .unwrap_or_else(|| json!({ "code": "cancelled", "message": "the response was cancelled" }));
    json!({ "error": openai_error::of_turn(&error, is_final) })
}
