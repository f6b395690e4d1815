//! A streamed answer.

use bytes::{Bytes, BytesMut};

use super::answer::Answer;
use super::envelope::AnswerOptions;
use super::frames::{Frames, Numbers};
use crate::server::dialect::{AnswerFailure, Encoder, openai_error, sse};
use crate::session::Record;

/// An answer as a stream.
#[derive(Debug)]
pub(super) struct ResponseEncoder {
    answer: Answer,
    numbers: Numbers,
}

impl ResponseEncoder {
    /// The events from number `from` on.
    pub(super) fn new(options: AnswerOptions, from: u64) -> Self {
        Self { answer: Answer::new(options), numbers: Numbers::from(from) }
    }
}

impl Encoder for ResponseEncoder {
    fn media_type(&self) -> &'static str {
        sse::MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        self.answer.take(record, &mut Frames { numbers: &mut self.numbers, out });
    }

    fn early_failure(&self) -> Option<AnswerFailure> {
        if self.answer.is_background() {
            // It runs without readers, and its client needs its id.
            return None;
        }
        Some(openai_error::failure)
    }

    fn keep_alive(&self) -> Bytes {
        // A comment without a blank line, which older `openai-go` takes for an event without data.
        Bytes::from_static(b":\n")
    }
}
