//! An event as one line of JSON: `{"type":"text_delta","data":{"text":"Hello"}}`.
//!
//! JSON has no raw line ends, and the three code points that some clients take for line ends are
//! escaped. So a dialect can put the line into a frame as it is.

use std::io::{self, Write as _};

use memchr::{memchr, memchr2, memmem};
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::event::{Event, Kind};

/// An event as a line, with its LF.
pub(in super::super) fn line(event: &Event<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    encode(&mut line, event);
    line.push(b'\n');
    line
}

/// Appends an event to `out`. If the event carries a piece of text, returns where in the appended
/// bytes it begins. The text is escaped as JSON, without its quotation marks, and followed by
/// [`TEXT_END`].
///
/// Events that come with each token are encoded by hand, which takes a sixth of the instructions. A
/// test compares the result with serde's.
pub(super) fn encode(out: &mut Vec<u8>, event: &Event<'_>) -> Option<usize> {
    let start = out.len();
    let text = match *event {
        Event::TextDelta { r#loop: None, text } => {
            out.extend_from_slice(TEXT_START);
            text
        }
        Event::TextDelta { r#loop: Some(round), text } => {
            // Writing to memory cannot fail.
            let _ = write!(out, "{MESSAGE_START}{round}{MESSAGE_TEXT_START}");
            text
        }
        Event::ReasoningDelta { text } => {
            out.extend_from_slice(REASONING_START);
            text
        }
        Event::ToolArgumentsDelta { call_id, delta } => {
            out.extend_from_slice(ARGUMENTS_START);
            push_escaped(out, call_id);
            out.extend_from_slice(DELTA_START);
            delta
        }
        _ => {
            serialize(out, event);
            return None;
        }
    };
    let text_start = out.len() - start;
    push_escaped(out, text);
    out.extend_from_slice(TEXT_END);
    Some(text_start)
}

const TEXT_START: &[u8] = br#"{"type":"text_delta","data":{"text":""#;
/// The start of an event whose text begins a new message.
const MESSAGE_START: &str = r#"{"type":"text_delta","data":{"loop":"#;
const MESSAGE_TEXT_START: &str = r#","text":""#;
const REASONING_START: &[u8] = br#"{"type":"reasoning_delta","data":{"text":""#;
const ARGUMENTS_START: &[u8] = br#"{"type":"tool_arguments_delta","data":{"call_id":""#;
const DELTA_START: &[u8] = br#"","delta":""#;

/// What follows an event's text.
pub(super) const TEXT_END: &[u8] = br#""}}"#;

/// The kind of an encoded event and, if it carries a piece of text, where that begins, as
/// [`encode`] returned it. `None` if `line` is not an encoded event.
pub(super) fn decode(line: &[u8]) -> Option<(Kind, Option<usize>)> {
    let name = line.strip_prefix(br#"{"type":""#)?;
    let name = &name[..memchr(b'"', name)?];
    let kind = Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)?;
    let text_start = match kind {
        Kind::TextDelta if begins_message(line) => {
            let round = &line[MESSAGE_START.len()..];
            let digits = round.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_text = round[digits..].starts_with(MESSAGE_TEXT_START.as_bytes());
            Some(MESSAGE_START.len() + digits + MESSAGE_TEXT_START.len()).filter(|_| is_text)
        }
        Kind::TextDelta => Some(TEXT_START.len()),
        Kind::ReasoningDelta => Some(REASONING_START.len()),
        Kind::ToolArgumentsDelta => {
            // The id cannot contain this: its quotation marks are escaped.
            let call_id = line.get(ARGUMENTS_START.len()..)?;
            Some(ARGUMENTS_START.len() + memmem::find(call_id, DELTA_START)? + DELTA_START.len())
        }
        _ => None,
    };
    let is_whole = text_start.is_none_or(|start| line.len() >= start + TEXT_END.len());
    (is_whole && line.ends_with(b"}")).then_some((kind, text_start))
}

/// Whether an encoded event is text that begins a new message after earlier text.
pub(super) fn begins_message(line: &[u8]) -> bool {
    line.starts_with(MESSAGE_START.as_bytes())
}

/// Writes a value as one line into memory.
pub(crate) fn serialize(out: impl io::Write, value: &impl serde::Serialize) {
    // Neither a growing buffer nor an event can fail to be written.
    let _ = value.serialize(&mut Serializer::with_formatter(out, OneLine));
}

/// How many bytes of `text` fit into `room` bytes of a JSON string.
pub(crate) fn fitting(text: &str, room: usize) -> usize {
    /// The longest escape of a single byte: `\u0000`.
    const ESCAPE_BYTES: usize = 6;
    if text.len() <= room / ESCAPE_BYTES {
        return text.len();
    }
    let mut used = 0;
    for (at, char) in text.char_indices() {
        used += match char {
            '"' | '\\' => 2,
            '\0'..='\u{1f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => ESCAPE_BYTES,
            char => char.len_utf8(),
        };
        if used > room {
            return at;
        }
    }
    text.len()
}

/// Appends text as the content of a JSON string.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut written = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if !MAY_NEED_ESCAPE[usize::from(byte)] {
            at += 1;
            continue;
        }
        let mut hex = [0; 6];
        let Some((escape, length)) = escape(&bytes[at..], &mut hex) else {
            at += 1;
            continue;
        };
        out.extend_from_slice(&bytes[written..at]);
        out.extend_from_slice(escape);
        at += length;
        written = at;
    }
    out.extend_from_slice(&bytes[written..]);
}

/// Bytes that are escaped, or that begin a code point that may be.
const MAY_NEED_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0xc2] = true;
    table[0xe2] = true;
    table
};

/// The escape of the first code point in `bytes`, and the length of that code point. `hex` has room
/// for an escape that is not a constant.
fn escape<'h>(bytes: &[u8], hex: &'h mut [u8; 6]) -> Option<(&'h [u8], usize)> {
    Some(match bytes[0] {
        b'"' => (b"\\\"", 1),
        b'\\' => (b"\\\\", 1),
        b'\n' => (b"\\n", 1),
        b'\r' => (b"\\r", 1),
        b'\t' => (b"\\t", 1),
        0x08 => (b"\\b", 1),
        0x0c => (b"\\f", 1),
        control @ 0..0x20 => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let digit = |nibble: u8| DIGITS[usize::from(nibble)];
            *hex = [b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 15)];
            (hex, 1)
        }
        _ => return line_end(bytes),
    })
}

/// The escape of a code point beyond ASCII that can be taken for the end of a line.
fn line_end(bytes: &[u8]) -> Option<(&'static [u8], usize)> {
    match bytes {
        [0xc2, 0x85, ..] => Some((b"\\u0085", 2)),
        [0xe2, 0x80, 0xa8, ..] => Some((b"\\u2028", 3)),
        [0xe2, 0x80, 0xa9, ..] => Some((b"\\u2029", 3)),
        _ => None,
    }
}

/// Compact JSON in which no code point can be taken for the end of a line.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        let (mut written, mut at) = (0, 0);
        while let Some(found) = memchr2(0xc2, 0xe2, &bytes[at..]) {
            at += found;
            if let Some((escape, length)) = line_end(&bytes[at..]) {
                writer.write_all(&bytes[written..at])?;
                writer.write_all(escape)?;
                at += length;
                written = at;
            } else {
                at += 1;
            }
        }
        CompactFormatter.write_string_fragment(writer, &fragment[written..])
    }

    // A `RawValue` is written as the model wrote it, including line ends between its tokens. They
    // are white space, so blanks can replace them.
    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(['\n', '\r']) {
            writer.write_all(&rest.as_bytes()[..at])?;
            writer.write_all(b" ")?;
            rest = &rest[at + 1..];
        }
        self.write_string_fragment(writer, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_hand(event: &Event<'_>) -> (String, Option<usize>) {
        let mut out = Vec::new();
        let start = encode(&mut out, event);
        (String::from_utf8(out).unwrap(), start)
    }

    fn by_serde(event: &Event<'_>) -> String {
        let mut out = Vec::new();
        serialize(&mut out, event);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_some_clients_take_for_a_line_end_is_escaped() {
        let (line, _) = by_hand(&Event::text("a\u{2028}b\u{2029}c\u{85}dé\u{200b}"));
        assert!(line.contains("\"a\\u2028b\\u2029c\\u0085dé\u{200b}\""), "{line}");
    }

    #[test]
    fn raw_arguments_stay_on_their_line() {
        let raw = "{\n  \"a\":\r\n 0.10\n}".to_owned();
        let raw = serde_json::value::RawValue::from_string(raw).unwrap();
        let event =
            Event::ToolStarted { call_id: "call_1", tool_name: "t", tool_args: &raw, r#loop: 1 };
        let (line, text) = by_hand(&event);
        assert_eq!((line.lines().count(), text), (1, None), "{line}");
        assert!(line.contains("0.10"), "digits are kept: {line}");
    }

    proptest! {
        #[test]
        fn by_hand_and_by_serde_are_the_same(
            text in "(\\PC|[\u{0}-\u{7f}]|[\u{85}\u{2028}\u{2029}\u{80}-\u{ff}\u{2000}-\u{20ff}]){0,60}",
        ) {
            for event in [
                Event::text(&text),
                Event::TextDelta { r#loop: Some(12), text: &text },
                Event::ReasoningDelta { text: &text },
                Event::ToolArgumentsDelta { call_id: &text, delta: &text },
            ] {
                let (line, start) = by_hand(&event);
                prop_assert_eq!(&line, &by_serde(&event));
                let escaped = &line[start.unwrap()..line.len() - TEXT_END.len()];
                let read: String = serde_json::from_str(&format!("\"{escaped}\"")).unwrap();
                prop_assert_eq!(&read, &text);
            }
        }

        #[test]
        fn what_fits_fits(
            text in "(\\PC|[\u{0}-\u{1f}]|[\u{85}\u{2028}\"\\\\]){0,60}",
            room in 0_usize..200,
        ) {
            let end = fitting(&text, room);
            let escaped = |text: &str| {
                let mut out = Vec::new();
                push_escaped(&mut out, text);
                out.len()
            };
            prop_assert!(escaped(&text[..end]) <= room);
            // As much as may be said without a closer look: no byte takes more than six.
            prop_assert!(end == text.len() || 6 * (end + 4) > room);
        }
    }
}
