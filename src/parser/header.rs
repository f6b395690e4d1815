//! The header of a message, in formats that address each one.
//!
//! ```text
//!   <|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|> {} <|call|>
//!   '- opener                                                                end -------' body
//! ```
//!
//! It says what comes: a call, reasoning or text. It is kept until it ends, and then read as a whole. Where its
//! end was forgotten, another mark, a bracket or its length shows that, and the header goes as far as its
//! words do. What turns out to be none is text.

use std::sync::Arc;

use super::marks::{Held, Mark};
use super::segment::{self, Place, Segment};
use super::stream::Stream;
use super::text::whole_characters;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{self, Addressee};
use crate::limits::parser::HEADER_BYTES_MAX;

/// The header so far is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Header {
    opened: Opened,
    /// The part that has been read of what ends it.
    held: Held,
    format: &'static call_format::Header,
    /// Whether its opener is missing.
    lacks_opener: bool,
}

impl Header {
    /// A header whose opener has been read.
    pub(super) const fn new(opened: Opened, format: &'static call_format::Header) -> Self {
        Self { opened, held: Held::NONE, format, lacks_opener: false }
    }

    /// What may be a header without its opener.
    pub(super) const fn without_opener(format: &'static call_format::Header) -> Self {
        let opened = Opened { at_line_start: true, ..Opened::at(0) };
        Self { opened, held: Held::NONE, format, lacks_opener: true }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let (marks, format) = (&syntax.header, self.format);
        if self.lacks_opener && stream.buffer.is_empty() {
            self.opened.at = stream.position(at);
        }
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            if stream.buffer.len() >= HEADER_BYTES_MAX {
                return self.break_off(0, at, stream, sink);
            }
            if !self.fits_start(byte, &stream.buffer) {
                return self.refuse(at, stream, sink);
            }
            if let Some(mark) = marks.push(&mut self.held, byte) {
                stream.keep(&[byte], HEADER_BYTES_MAX);
                let text = marks.pattern(mark);
                match marks.mark(mark) {
                    Mark::HeaderEnd => return self.complete(text.len(), at + 1, stream, sink),
                    // A channel, perhaps another one.
                    Mark::Header if text != format.openers[0].as_bytes() => {}
                    _ => return self.break_off(text.len(), at + 1, stream, sink),
                }
                continue;
            }
            if !may_stand(byte, format) {
                return self.break_off(0, at, stream, sink);
            }
            stream.keep(&[byte], HEADER_BYTES_MAX);
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        if self.lacks_opener {
            return self.refuse(0, stream, sink);
        }
        let header = whole_characters(&stream.buffer);
        if self.format.length_without_end(header) != Some(stream.buffer.len()) {
            return self.break_off(0, 0, stream, sink);
        }
        // Its last word may be cut, so no tool is called.
        if let Some(Addressee::Tool(_)) = self.format.addressee(header) {
            let Opened { at, at_line_start, .. } = self.opened;
            let message = "no message follows the header";
            sink(segment::missing_payload(at, at_line_start, message, &stream.buffer));
        }
        stream.buffer.clear();
        stream.span(Place::Tag, self.opened.at..stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Whether the next byte fits what a header without its opener begins with.
    fn fits_start(&self, byte: u8, before: &[u8]) -> bool {
        let fits = |start: &&str| {
            let start = start.as_bytes();
            match start.get(before.len()) {
                Some(expected) => start.starts_with(before) && *expected == byte,
                None => before.starts_with(start),
            }
        };
        !self.lacks_opener || self.format.starts.iter().any(fits)
    }

    /// Ends the header with a mark of this length, which ends before `at`.
    fn complete(
        &self,
        length: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let header = stream.buffer[..stream.buffer.len() - length].to_vec();
        let Ok(header) = std::str::from_utf8(&header) else { return self.refuse(at, stream, sink) };
        match self.format.addressee(header) {
            Some(addressee) if self.is_known(addressee, stream) => Flow::Enter(
                self.begin_message(addressee, header, stream.position(at), stream, sink),
                at,
            ),
            _ => self.refuse(at, stream, sink),
        }
    }

    /// Ends a header that has no end. Its last bytes, which end before `at`, are another mark. What is no
    /// part of the header is read again, as its message.
    fn break_off(
        &self,
        last: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let mark = stream.buffer.split_off(stream.buffer.len() - last);
        // Its last character may be cut off.
        let text = whole_characters(&stream.buffer);
        // Without an opener, words alone are talk.
        let is_marked = self.format.openers.iter().any(|opener| text.contains(opener));
        let length = self.format.length_without_end(text).filter(|_| is_marked);
        let Some(length) = length else {
            stream.buffer.extend_from_slice(&mark);
            let length = stream.buffer.len() - last;
            return self.refuse_first(length, at, stream, sink);
        };
        let header = text[..length].to_owned();
        let again = [&stream.buffer[length..], &mark].concat();
        stream.buffer.truncate(length);
        let end = stream.position(at) - again.len() as u64;
        let addressee = self.format.addressee(&header).unwrap_or(Addressee::User);
        Flow::again(self.begin_message(addressee, &header, end, stream, sink), again, at)
    }

    /// Whether a name alone is a header: where nothing else marks one, it must be known.
    fn is_known(&self, addressee: Addressee<'_>, stream: &Stream) -> bool {
        let Addressee::Tool(name) = addressee else { return true };
        let settings = stream.settings();
        !self.format.is_name() || settings.calls && settings.tools.may_have(name)
    }

    /// Begins the message of this header, which ends at `end` in the stream. The buffer holds the header,
    /// with its end mark if it has one.
    fn begin_message(
        &self,
        addressee: Addressee<'_>,
        header: &str,
        end: u64,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        let is_own = addressee == Addressee::Model || self.format.is_reasoning(header);
        stream.begun = true;
        stream.reasoning = is_own && stream.settings().reasoning;
        match addressee {
            Addressee::Tool(name) if stream.settings().calls => self.begin_call(name, stream),
            _ => {
                stream.last = b'\n';
                stream.buffer.clear();
                stream.span(Place::Tag, self.opened.at..end, sink);
                Next::prose()
            }
        }
    }

    /// Begins a message to this tool.
    fn begin_call(&self, name: &str, stream: &mut Stream) -> Next {
        let label = stream.row().label.as_ref().and_then(|label| label.name(name));
        stream.label = label.unwrap_or(name).to_owned();
        stream.head.clone_from(&stream.buffer);
        stream.stand_before(self.opened);
        let is_framed = stream.row().has_special;
        stream.head_hidden = if is_framed { stream.head.len() } else { 0 };
        let opened = Opened { is_framed, ..self.opened };
        if stream.row().frame.is_some() { Next::Message(opened) } else { Next::Body(opened) }
    }

    /// What has been read is text after all. It ends before `at`.
    fn refuse(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.refuse_first(stream.buffer.len(), at, stream, sink)
    }

    /// This much of what has been read is text after all. The rest, which ends before `at`, is read again.
    fn refuse_first(
        &self,
        length: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        stream.begun = true;
        let again = stream.buffer.split_off(length);
        let held = std::mem::take(&mut stream.buffer);
        stream.say_before(&held, self.opened.at, sink);
        Flow::again(Next::prose(), again, at)
    }
}

/// Whether a byte may stand in a header. One that is nothing but a name has nothing else in it.
const fn may_stand(byte: u8, format: &call_format::Header) -> bool {
    if format.is_name() {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'\r')
    } else {
        byte != b'{' && (byte.is_ascii_whitespace() || !byte.is_ascii_control())
    }
}
