//! The label between an opener and its payload, in formats that write the tool's name there.
//!
//! ```text
//!   [TOOL_CALLS]  get_weather  [ARGS]  {"city": "Oslo"}
//!   '- opener -'  '--------- label -'  '--- payload --'
//! ```

use std::sync::Arc;

use super::marks::{Held, Mark, Step};
use super::segment::Segment;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{self, Body};
use crate::limits::parser::LABEL_BYTES_MAX;

/// The label so far is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Label {
    opened: Opened,
    format: &'static call_format::Label,
    /// The part that has been read of what ends the label, or comes before the id in it.
    held: Held,
}

impl Label {
    pub(super) const fn new(opened: Opened, format: &'static call_format::Label) -> Self {
        Self { opened, format, held: Held::NONE }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            if stream.buffer.len() >= LABEL_BYTES_MAX {
                return self.refuse(self.held.len(), at, stream, sink);
            }
            match syntax.label.step(self.held, byte) {
                Step::Hold(held) => self.held = held,
                Step::Miss if may_stand(byte, &stream.buffer) => {}
                // A line break ends a label, but not before its name.
                Step::Match(_) if is_blank(byte, &stream.buffer) => {}
                Step::Match(mark) => {
                    self.held = Held::NONE;
                    if syntax.label.mark(mark) != Mark::LabelId {
                        stream.keep(&[byte], LABEL_BYTES_MAX);
                        return self.complete(mark, at + 1, stream, sink);
                    }
                }
                Step::Miss | Step::Fall(_) => {
                    return self.refuse(self.held.len(), at, stream, sink);
                }
            }
            stream.keep(&[byte], LABEL_BYTES_MAX);
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.refuse(self.held.len(), 0, stream, sink)
    }

    /// Ends the label at a mark that ends before `at`.
    fn complete(
        &self,
        mark: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let (mark, end) = (syntax.label.mark(mark), syntax.label.pattern(mark));
        let label = &stream.buffer[..stream.buffer.len() - end.len()];
        let name = std::str::from_utf8(label).ok().and_then(|label| self.format.name(label));
        let name = name.unwrap_or_default().to_owned();
        let again = match stream.row().body {
            // What stops a label is part of what follows.
            _ if mark != Mark::LabelStop => 0,
            // And so is the name.
            Body::PythonicLines(_) => stream.buffer.trim_ascii_start().len(),
            _ => end.len(),
        };
        stream.label = name;
        // Models forget the frame, and also write about calls without it; in reasoning, also with it.
        let is_thought = stream.reasoning && stream.row().ends_reasoning;
        let is_guess = stream.is_guess(self.opened);
        let is_meant = if is_guess {
            stream.settings().tools.may_have(&stream.label)
        } else if is_thought {
            self.opened.is_framed && stream.settings().tools.may_have(&stream.label)
        } else {
            stream.row().frame.is_none() || stream.is_meant(self.opened)
        };
        if stream.label.is_empty() || !is_meant {
            return self.refuse(again, at, stream, sink);
        }
        let again = stream.buffer.split_off(stream.buffer.len() - again);
        stream.head.extend_from_slice(&stream.buffer);
        Flow::again(Next::Body(self.opened), again, at)
    }

    /// Reports that there is no call: the opener and the label are text after all. The last bytes, which
    /// may have been the label's end, are read again, because they may begin another call.
    fn refuse(
        &self,
        last: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let message = "no tool's name follows the marker";
        stream.refuse_opening(self.opened, message, last, at, sink)
    }
}

/// Whether a byte and those before it are white space.
fn is_blank(byte: u8, before: &[u8]) -> bool {
    byte.is_ascii_whitespace() && before.trim_ascii().is_empty()
}

/// Whether white space follows a word.
fn ends_word(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(u8::is_ascii_whitespace) && !bytes.trim_ascii().is_empty()
}

/// Whether a byte may stand in a label after these: a name, perhaps with a prefix and a number, with
/// white space around it.
fn may_stand(byte: u8, before: &[u8]) -> bool {
    match byte {
        b' ' | b'\t' | b'\r' | b'\n' => true,
        _ if ends_word(before) => false,
        b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'(' | b')' | b'"' | b'\'' | b'`' | b','
        | b';' => false,
        byte => !byte.is_ascii_control(),
    }
}
