//! The frames of a stream: events numbered from 0, without gaps.
//!
//! ```text
//! event: response.output_text.delta
//! data: {"type":"response.output_text.delta","sequence_number":7,"item_id":..}
//! ```

use bytes::BytesMut;

use crate::server::dialect::sse::{self, push_number};

/// Numbers events. A client that joins again skips those that it has.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The next event's number.
    next: u64,
    /// Events with lower numbers are counted but not written.
    from: u64,
}

impl Numbers {
    /// Writes the events from number `from` on.
    pub(super) const fn from(from: u64) -> Self {
        Self { next: 0, from }
    }

    /// Writes no events at all.
    pub(super) const fn none() -> Self {
        Self { next: 0, from: u64::MAX }
    }

    /// Writes all events, the first of which has number `next`.
    pub(super) const fn numbered_from(next: u64) -> Self {
        Self { next, from: 0 }
    }
}

/// Writes frames to a client's buffer.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    pub(super) numbers: &'a mut Numbers,
    pub(super) out: &'a mut BytesMut,
}

impl Frames<'_> {
    /// Writes an event with these parts after its number: members of the JSON object, escaped, each
    /// after a comma. The frame is in the buffer in one piece.
    pub(super) fn push(&mut self, kind: &str, parts: &[&[u8]]) {
        let number = self.numbers.next;
        self.numbers.next = number.saturating_add(1);
        if number < self.numbers.from {
            return;
        }
        let (out, kind) = (&mut *self.out, kind.as_bytes());
        for part in [b"event: ", kind, b"\ndata: {\"type\":\"", kind, b"\",\"sequence_number\":"] {
            out.extend_from_slice(part);
        }
        push_number(out, number);
        for part in parts {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"}\n\n");
    }

    /// Ends the stream.
    pub(super) fn end(&mut self) {
        self.out.extend_from_slice(sse::DONE);
    }
}
