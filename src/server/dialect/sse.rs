//! Event streams of data alone: their frames have neither names nor ids.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

use crate::session::log::encode::serialize;

pub(super) const MEDIA_TYPE: &str = "text/event-stream; charset=utf-8";

/// The last frame of most dialects.
pub(super) const DONE: &[u8] = b"data: [DONE]\n\n";

/// A comment in a block of its own. Such streams have no ids, so no client of these takes it for an event.
pub(super) const KEEP_ALIVE: &[u8] = b":\n\n";

/// Appends a frame.
pub(super) fn push(out: &mut BytesMut, data: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    serialize(out.writer(), data);
    out.extend_from_slice(b"\n\n");
}

/// The frames of many pieces of text that differ in the text alone.
///
/// ```text
/// data: {"type":"text-delta","id":"1","delta":"Hello"}
/// '------------------ head -------------------'
/// ```
#[derive(Debug, Default)]
pub(super) struct TextFrames {
    head: Vec<u8>,
}

impl TextFrames {
    /// Frames like that of `object`, whose last member is an empty text.
    pub(super) fn new(object: &impl Serialize) -> Self {
        let mut head = b"data: ".to_vec();
        serialize(&mut head, object);
        debug_assert!(head.ends_with(b":\"\"}"), "it ends with an empty text");
        head.truncate(head.len() - b"\"}".len());
        Self { head }
    }

    /// Appends the frame of a text that is already escaped as JSON.
    pub(super) fn push(&self, out: &mut BytesMut, text: &[u8]) {
        out.reserve(self.head.len() + text.len() + TEXT_END.len());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(text);
        out.extend_from_slice(TEXT_END);
    }
}

const TEXT_END: &[u8] = b"\"}\n\n";

/// Appends a number as text. Avoids the formatter, because this runs for every frame.
pub(super) fn push_number(out: &mut BytesMut, number: u64) {
    let mut digits = [0; DIGITS_MAX];
    let start = put_before(&mut digits, number);
    out.extend_from_slice(&digits[start..]);
}

/// How many digits the largest number has.
pub(super) const DIGITS_MAX: usize = 20;

/// Writes a number to the end of `text`, which has room for it. Returns where it begins.
pub(super) fn put_before(text: &mut [u8], mut number: u64) -> usize {
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b"0123456789"[(number % 10) as usize];
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn frames_of_text_are_those_of_their_objects() {
        let frames = TextFrames::new(&json!({ "id": "\"1\"", "delta": "" }));
        let (mut spliced, mut whole) = (BytesMut::new(), BytesMut::new());
        frames.push(&mut spliced, b"a\\n");
        push(&mut whole, &json!({ "delta": "a\n", "id": "\"1\"" }));
        let read = |frame: &[u8]| -> Value {
            let data = frame.strip_prefix(b"data: ").unwrap();
            serde_json::from_slice(data.strip_suffix(b"\n\n").unwrap()).unwrap()
        };
        assert_eq!(read(&spliced), read(&whole));
    }
}
