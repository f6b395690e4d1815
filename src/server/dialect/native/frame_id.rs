//! The id of a frame, `<epoch>-<sequence>`, as clients give it back.

use bytes::{BufMut as _, BytesMut};

/// The epoch of a turn that no other node has taken over.
const FIRST_EPOCH: u32 = 1;

/// A place in a turn's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct FrameId {
    /// Rises when another node takes the turn over.
    epoch: u32,
    /// Counts the turn's frames from 1.
    pub(in crate::server) sequence: u64,
}

impl FrameId {
    /// The place before the first frame.
    pub(in crate::server) const START: Self = Self::at(0);

    /// Frame `sequence` of a turn of this node's.
    #[must_use]
    pub(in crate::server) const fn at(sequence: u64) -> Self {
        Self { epoch: FIRST_EPOCH, sequence }
    }

    /// Whether this node has numbered the frame.
    #[must_use]
    pub(in crate::server) const fn is_of_this_node(self) -> bool {
        self.epoch == FIRST_EPOCH
    }

    /// Reads an id; `None` where it is none. A number that is too large is read as
    /// the largest, which no frame has.
    #[must_use]
    pub(in crate::server) fn parse(text: &str) -> Option<Self> {
        let (epoch, sequence) = text.split_once('-')?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        (is_number(epoch) && is_number(sequence)).then(|| Self {
            epoch: epoch.parse().unwrap_or(u32::MAX),
            sequence: sequence.parse().unwrap_or(u64::MAX),
        })
    }

    /// Appends the id as text.
    pub(in crate::server) fn push_to(self, out: &mut BytesMut) {
        push_number(out, u64::from(self.epoch));
        out.put_u8(b'-');
        push_number(out, self.sequence);
    }
}

/// Appends a number as text. It comes with each frame, so it does without a formatter.
fn push_number(out: &mut BytesMut, mut number: u64) {
    const DIGITS_MAX: usize = 20;
    let mut digits = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] = b"0123456789"[(number % 10) as usize];
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// As a formatter writes it, which `push_to` does without.
    impl fmt::Display for FrameId {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}-{}", self.epoch, self.sequence)
        }
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for sequence in [0, 1, 42, u64::MAX] {
            let id = FrameId::at(sequence);
            assert_eq!(FrameId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(FrameId::at(7).to_string(), "1-7");
    }

    #[test]
    fn other_nodes_ids_are_told_apart() {
        for text in ["2-7", "0-7", "4294967297-7"] {
            assert!(!FrameId::parse(text).unwrap().is_of_this_node(), "{text}");
        }
        assert_eq!(FrameId::parse("1-99999999999999999999"), Some(FrameId::at(u64::MAX)));
    }

    #[test]
    fn anything_else_is_no_id() {
        for text in
            ["", "1", "-", "1-", "-1", "1-x", "x-1", "+1-1", "1-+1", "1-1-1", " 1-1", "1-1\n"]
        {
            assert_eq!(FrameId::parse(text), None, "{text:?}");
        }
    }
}
