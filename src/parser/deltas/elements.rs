//! A payload of elements: `<city>Oslo</city><days>3</days>`.
//!
//! An argument is an element of the payload, and is reported when its end has come: what is inside decides
//! what it is.

use super::{Segment, Told};
use crate::call_format::Elements;
use crate::parser::call::Content;
use crate::parser::stream::Stream;
use crate::parser::{examined, find, nested};

/// The position in a payload.
#[derive(Debug)]
pub(super) struct Tracker {
    elements: &'static Elements,
    /// `payload[..seen]` has been read.
    seen: usize,
    /// Where the argument begins, perhaps with white space.
    start: usize,
    /// How many elements are open.
    depth: usize,
    part: Part,
}

/// What the next byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Text, or the beginning of a tag.
    Content,
    /// The tag that closes an argument.
    Close,
    /// What no longer counts: the call is over, or it is none.
    Rest,
}

impl Tracker {
    pub(super) const fn new(elements: &'static Elements) -> Self {
        Self { elements, seen: 0, start: 0, depth: 0, part: Part::Content }
    }

    /// Reads the new bytes of the payload, and reports what is certain.
    pub(super) fn advance(
        &mut self,
        stream: &Stream,
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        while self.seen < stream.buffer.len() {
            let rest = &stream.buffer[self.seen..];
            let more = match self.part {
                Part::Content => self.content(rest),
                Part::Close => self.close(rest, stream, told, sink),
                Part::Rest => rest.len(),
            };
            examined::note(more);
            self.seen += more;
            if more == 0 {
                break;
            }
        }
    }

    /// Reads up to the next tag, or its beginning. Returns how much it has read: nothing if it needs more bytes.
    fn content(&mut self, rest: &[u8]) -> usize {
        let Elements { open, close, .. } = self.elements;
        let Some(text) = find::byte(open.as_bytes()[0], rest) else { return rest.len() };
        let rest = &rest[text..];
        let may_be = |tag: &str| rest.len() < tag.len() && tag.as_bytes().starts_with(rest);
        if may_be(open) || may_be(close) {
            return text;
        }
        if rest.starts_with(close.as_bytes()) {
            self.part = match self.depth {
                0 => Part::Rest,
                1 => Part::Close,
                _ => Part::Content,
            };
            self.depth = self.depth.saturating_sub(1);
            return text + close.len();
        }
        if rest.starts_with(open.as_bytes()) {
            self.depth += 1;
            return text + open.len();
        }
        text + 1
    }

    /// Reads the rest of a closing tag, and reports the argument before it.
    fn close(
        &mut self,
        rest: &[u8],
        stream: &Stream,
        told: &mut Told,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> usize {
        let end = self.elements.end.as_bytes();
        let Some(length) = find::byte(end[0], rest) else { return rest.len() };
        let argument = self.start..self.seen + length + end.len();
        self.start = argument.end;
        self.part = Part::Content;
        let text = std::str::from_utf8(&stream.buffer[argument]).ok();
        let tools = &stream.settings().tools;
        examined::note(text.map_or(0, str::len));
        let read = text.map(|text| nested::read(&stream.label, text, self.elements, tools));
        match read {
            Some(Ok(Content::Call(_, arguments))) => tell(arguments.as_str(), told, sink),
            _ => self.part = Part::Rest,
        }
        length + end.len()
    }
}

/// Reports an argument, which is the only one in this object. It may be left out.
fn tell(object: &str, told: &mut Told, sink: &mut impl FnMut(Segment<'_>)) {
    let member = &object[1..object.len() - 1];
    if !member.is_empty() {
        let before = if told.bytes > 0 { "," } else { "{" };
        told.arguments(&[before, member].concat(), sink);
    }
}
