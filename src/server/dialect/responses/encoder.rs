//! A streamed answer.

use bytes::{Bytes, BytesMut};

use super::answer::Answer;
use super::envelope::AnswerOptions;
use super::frames::{Frames, Numbers};
use crate::server::dialect::{Encoder, sse};
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

    fn keep_alive(&self) -> Bytes {
        // A comment without a blank line, which older `openai-go` takes for an event without data.
        Bytes::from_static(b":\n")
    }
}
