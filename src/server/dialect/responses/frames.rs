//! The frames of a stream: events numbered from 0, without gaps.
//!
//! ```text
//! event: response.output_text.delta
//! data: {"type":"response.output_text.delta","sequence_number":7,"item_id":..}
//! ```

use bytes::BytesMut;

use crate::server::dialect::sse::push_number;

/// Writes frames. A client that joins again skips those that it has.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The next event's number.
    next: u64,
    /// Events with lower numbers are counted but not written.
    from: u64,
}

impl Frames {
    /// Frames from event `from` on.
    pub(super) const fn from(from: u64) -> Self {
        Self { next: 0, from }
    }

    /// No frames at all.
    pub(super) const fn none() -> Self {
        Self { next: 0, from: u64::MAX }
    }

    /// Frames whose first one is event `next`.
    pub(super) const fn numbered_from(next: u64) -> Self {
        Self { next, from: 0 }
    }

    /// Writes an event with these parts after its number: members of the JSON object, escaped, each
    /// after a comma. The frame is in the buffer in one piece.
    pub(super) fn push(&mut self, out: &mut BytesMut, kind: &str, parts: &[&[u8]]) {
        let number = self.next;
        self.next = number.saturating_add(1);
        if number < self.from {
            return;
        }
        let kind = kind.as_bytes();
        for part in [b"event: ", kind, b"\ndata: {\"type\":\"", kind, b"\",\"sequence_number\":"] {
            out.extend_from_slice(part);
        }
        push_number(out, number);
        for part in parts {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"}\n\n");
    }
}
