//! What is variable in a request's address, and the ids in it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::session::frame::FIRST_EPOCH;

/// The value of `name` in a query, percent-decoded; the first where it stands
/// more than once.
pub(super) fn value<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    form_urlencoded::parse(query?.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// A segment of a path, percent-decoded.
pub(super) fn decode(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// `value` with what has a meaning in a query percent-encoded.
pub(super) fn encode(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// A place in a turn's log: the id of the frame that a client has seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameId {
    /// Of this node's own turn.
    Ours(u64),
    /// Of an epoch that this node does not have.
    OtherEpoch,
}

impl FrameId {
    /// Reads `<epoch>-<sequence>`, both decimal.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (epoch, sequence) = text.split_once('-')?;
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(epoch) || !digits(sequence) {
            return None;
        }
        match (epoch.parse::<u32>(), sequence.parse()) {
            (Ok(FIRST_EPOCH), Ok(sequence)) => Some(Self::Ours(sequence)),
            _ => Some(Self::OtherEpoch),
        }
    }
}
