//! The header of a message, in formats that address each one.
//!
//! ```text
//!   <|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|> {} <|call|>
//!   '- opener                                                                end -------' body
//! ```
//!
//! It says what comes: a call, reasoning or text. It is kept until it ends, and then read as a whole. What
//! turns out to be none is text.

use std::sync::Arc;

use super::marks::Held;
use super::segment::{Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{self, Addressee};
use crate::limits::parser::LABEL_BYTES_MAX;

/// The header so far is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Header {
    opened: Opened,
    /// The part that has been read of what ends it.
    held: Held,
    /// Whether the answer begins with it, and the prompt has opened it.
    is_first: bool,
}

impl Header {
    /// A header whose opener has been read.
    pub(super) const fn new(opened: Opened) -> Self {
        Self { opened, held: Held::NONE, is_first: false }
    }

    /// What may be the rest of a header, at the start of an answer.
    pub(super) const fn first() -> Self {
        let opened = Opened { at_line_start: true, ..Opened::at(0) };
        Self { opened, held: Held::NONE, is_first: true }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let Some(format) = &stream.row().header else { return Flow::Enter(Next::prose(), at) };
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            if stream.buffer.len() >= LABEL_BYTES_MAX || !self.starts_well(byte, format, stream) {
                return self.refuse(at, stream, sink);
            }
            if syntax.header_end.completes(&mut self.held, byte).is_some() {
                stream.keep(&[byte], LABEL_BYTES_MAX);
                return self.complete(at + 1, format, stream, sink);
            }
            if !may_stand(byte, format) {
                return self.refuse(at, stream, sink);
            }
            stream.keep(&[byte], LABEL_BYTES_MAX);
        }
        Flow::Stay
    }

    /// Half a header with marks of its own is not for the user.
    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        if !stream.row().has_special || self.is_first {
            return self.refuse(0, stream, sink);
        }
        stream.buffer.clear();
        stream.span(Place::Tag, self.opened.at..stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Whether the next byte fits what a header begins with whose opener the prompt has.
    fn starts_well(&self, byte: u8, format: &call_format::Header, stream: &Stream) -> bool {
        let start = format.start.filter(|_| self.is_first).unwrap_or_default().as_bytes();
        start.get(stream.buffer.len()).is_none_or(|expected| *expected == byte)
    }

    /// Decides what comes after a header that ends before `at`.
    fn complete(
        &self,
        at: usize,
        format: &call_format::Header,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let header = &stream.buffer[..stream.buffer.len() - format.end.len()];
        let Ok(header) = std::str::from_utf8(header) else { return self.refuse(at, stream, sink) };
        let Some(addressee) = format.addressee(header) else {
            return self.refuse(at, stream, sink);
        };
        let calls = stream.settings().calls;
        if let Addressee::Tool(name) = addressee
            && calls
        {
            let label = stream.row().label.as_ref().and_then(|label| label.name(name));
            stream.label = label.unwrap_or(name).to_owned();
            // Where nothing else marks a header, its name must be known.
            if format.is_name() && !stream.is_meant(self.opened) {
                return self.refuse(at, stream, sink);
            }
            return Flow::Enter(self.enter_call(stream), at);
        }
        // A word alone is a header only if it is a name.
        if format.is_name() && matches!(addressee, Addressee::Tool(_)) {
            return self.refuse(at, stream, sink);
        }
        let is_thought = addressee == Addressee::Model;
        stream.buffer.clear();
        stream.begun = true;
        stream.last = b'\n';
        stream.reasoning = is_thought && stream.settings().reasoning;
        stream.span(Place::Tag, self.opened.at..stream.position(at), sink);
        Flow::Enter(Next::prose(), at)
    }

    /// Goes on to the call that the stream has the name of.
    fn enter_call(&self, stream: &mut Stream) -> Next {
        stream.begun = true;
        stream.reasoning = false;
        stream.head.clone_from(&stream.buffer);
        let opened = Opened { is_framed: stream.row().has_special, ..self.opened };
        if stream.row().frame.is_some() { Next::Message(opened) } else { Next::Body(opened) }
    }

    /// What has been read is text after all. It ends before `at`.
    fn refuse(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        stream.begun = true;
        let held = std::mem::take(&mut stream.buffer);
        stream.say_before(&held, self.opened.at, sink);
        Flow::Enter(Next::prose(), at)
    }
}

/// Whether a byte may stand in a header. One that is nothing but a name has nothing else in it.
const fn may_stand(byte: u8, format: &call_format::Header) -> bool {
    if format.is_name() {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
    } else {
        !byte.is_ascii_control()
    }
}
