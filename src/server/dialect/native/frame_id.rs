//! The id of a frame, `<epoch>-<sequence>`, which clients send back.

use bytes::BytesMut;

use crate::server::dialect::sse::{DIGITS_MAX, put_before};
use crate::session::Record;

/// A position in a turn's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct FrameId {
    /// Increases when another process takes over the session.
    pub(in crate::server) epoch: u64,
    /// The frame's number within the turn, from 1.
    pub(in crate::server) sequence: u64,
}

impl FrameId {
    /// Returns the id of a record.
    pub(in crate::server) const fn of(record: &Record<'_>) -> Self {
        Self { epoch: record.epoch, sequence: record.sequence }
    }

    /// Parses an id; `None` if the text is not one. A number that is too large becomes the
    /// largest number, which no frame has.
    #[must_use]
    pub(in crate::server) fn parse(text: &str) -> Option<Self> {
        let (epoch, sequence) = text.split_once('-')?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        (is_number(epoch) && is_number(sequence)).then(|| Self {
            epoch: epoch.parse().unwrap_or(u64::MAX),
            sequence: sequence.parse().unwrap_or(u64::MAX),
        })
    }

    /// Appends the id as text. Avoids the formatter, because this runs for every frame.
    pub(in crate::server) fn push_to(self, out: &mut BytesMut) {
        let mut text = [b'-'; 2 * DIGITS_MAX + 1];
        let epoch_end = put_before(&mut text, self.sequence) - 1;
        let start = put_before(&mut text[..epoch_end], self.epoch);
        out.extend_from_slice(&text[start..]);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// The formatter's version, to compare `push_to` with.
    impl fmt::Display for FrameId {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}-{}", self.epoch, self.sequence)
        }
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for sequence in [0, 1, 42, u64::MAX] {
            let id = FrameId { epoch: 3, sequence };
            assert_eq!(FrameId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(FrameId { epoch: 1, sequence: 7 }.to_string(), "1-7");
    }

    #[test]
    fn a_number_that_is_too_large_is_no_frames_number() {
        let huge = "99999999999999999999";
        let id = FrameId { epoch: u64::MAX, sequence: u64::MAX };
        assert_eq!(FrameId::parse(&format!("{huge}-{huge}")), Some(id));
        let mut out = BytesMut::new();
        id.push_to(&mut out);
        assert_eq!(out, id.to_string().as_bytes());
    }

    #[test]
    fn anything_else_is_not_an_id() {
        for text in
            ["", "1", "-", "1-", "-1", "1-x", "x-1", "+1-1", "1-+1", "1-1-1", " 1-1", "1-1\n"]
        {
            assert_eq!(FrameId::parse(text), None, "{text:?}");
        }
    }
}
