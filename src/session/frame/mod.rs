//! An event as a frame of the native event stream (WHATWG HTML, section 9.2).
//!
//! ```text
//! id: 1-7
//! event: text_delta
//! data: {"type":"text_delta","data":{"text":"Hello"}}
//!
//! ```
//! Lines end in LF. `data` is one line: JSON has no raw line ends, and the three
//! code points that some clients take for one are escaped.

mod id;

use std::io::Write as _;

use bytes::{BufMut as _, BytesMut};
use memchr::memchr2;
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use crate::event::Event;
use crate::limits::stream as limits;

pub use id::FrameId;

/// A comment that keeps proxies from giving up. One line end only: a blank line
/// behind it makes clients that know an id fire an empty event.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n";

/// What a frame has around the one field that can be long, in bytes.
const ENVELOPE_BYTES: usize = 1024;

/// Appends `event`, as frame `sequence` and following, and returns how many
/// frames it took: text that does not fit into one is split.
pub fn encode(out: &mut BytesMut, event: &Event<'_>, sequence: u64) -> u64 {
    match *event {
        Event::TextDelta { text } => split(out, text, sequence, |text| Event::TextDelta { text }),
        Event::ReasoningDelta { text } => {
            split(out, text, sequence, |text| Event::ReasoningDelta { text })
        }
        Event::ToolArgumentsDelta { call_id, delta } => {
            split(out, delta, sequence, |delta| Event::ToolArgumentsDelta { call_id, delta })
        }
        _ => {
            let start = out.len();
            push_frame(out, event, sequence);
            if out.len() - start > limits::FRAME_BYTES_MAX {
                out.truncate(start);
                push_shortened(out, event, sequence);
            }
            1
        }
    }
}

/// One frame for as much of `text` as fits, then the next.
fn split<'a>(
    out: &mut BytesMut,
    mut text: &'a str,
    first: u64,
    event: impl Fn(&'a str) -> Event<'a>,
) -> u64 {
    let mut sequence = first;
    loop {
        let (head, rest) = text.split_at(fitting(text, limits::FRAME_BYTES_MAX - ENVELOPE_BYTES));
        push_frame(out, &event(head), sequence);
        sequence += 1;
        if rest.is_empty() {
            return sequence - first;
        }
        text = rest;
    }
}

/// How much of `text`, in bytes, takes at most `room` bytes as a JSON string.
fn fitting(text: &str, room: usize) -> usize {
    /// The longest escape, `\u0000`, stands for one byte.
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

fn push_frame(out: &mut BytesMut, event: &Event<'_>, sequence: u64) {
    push_head(out, event.name(), sequence);
    // Neither a growing buffer nor an event can fail to be written.
    let _ = event.serialize(&mut Serializer::with_formatter((&mut *out).writer(), OneLine));
    out.put_slice(b"\n\n");
}

fn push_head(out: &mut BytesMut, name: &str, sequence: u64) {
    if sequence == 1 {
        let _ = writeln!(out.writer(), "retry: {}", limits::RETRY_MS);
    }
    let _ = write!(out.writer(), "id: {}\nevent: {name}\ndata: ", FrameId::at(sequence));
}

/// An event that is too long for a frame, with its longest fields cut: a text to
/// what fits, anything else to `null`. `<field>_truncated` says how long it was.
fn push_shortened(out: &mut BytesMut, event: &Event<'_>, sequence: u64) {
    /// Of a field, in bytes of JSON; three of them and the rest fit into a frame.
    const FIELD_BYTES_MAX: usize = limits::FRAME_BYTES_MAX / 4;

    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(Value::Object(data)) = value.get_mut("data") {
        let mut truncated = Vec::new();
        for (name, field) in data.iter_mut() {
            let bytes = field.to_string().len();
            if bytes <= FIELD_BYTES_MAX {
                continue;
            }
            truncated.push((format!("{name}_truncated"), Value::from(bytes)));
            match field {
                Value::String(text) => text.truncate(fitting(text, FIELD_BYTES_MAX)),
                field => *field = Value::Null,
            }
        }
        data.extend(truncated);
    }
    push_head(out, event.name(), sequence);
    let _ = value.serialize(&mut Serializer::with_formatter((&mut *out).writer(), OneLine));
    out.put_slice(b"\n\n");
}

/// Compact JSON in which no code point can be taken for the end of a line.
struct OneLine;

impl OneLine {
    /// The escape of the code point that `bytes` begin with, and its length.
    fn escape(bytes: &[u8]) -> Option<(&'static [u8], usize)> {
        match bytes {
            [0xc2, 0x85, ..] => Some((b"\\u0085", 2)),
            [0xe2, 0x80, 0xa8, ..] => Some((b"\\u2028", 3)),
            [0xe2, 0x80, 0xa9, ..] => Some((b"\\u2029", 3)),
            _ => None,
        }
    }
}

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> std::io::Result<()> {
        let bytes = fragment.as_bytes();
        let (mut written, mut at) = (0, 0);
        while let Some(found) = memchr2(0xc2, 0xe2, &bytes[at..]) {
            at += found;
            if let Some((escape, length)) = Self::escape(&bytes[at..]) {
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

    // A `RawValue` is written as the model wrote it, line ends between its tokens
    // included; as white space they can be blanks.
    fn write_raw_fragment<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> std::io::Result<()> {
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
mod tests;
