//! Reports a call's name and arguments while its payload arrives.
//!
//! ```text
//!    {"name": "write", "arguments": {"text": "a}"}}
//!                   |               '------------'|
//!           CallNamed               ArgumentsDelta CallCompleted
//! ```
//!
//! A tracker runs beside the scanner, on bytes that are already in the payload's buffer, so a
//! parser without deltas pays nothing for it.
//!
//! It only reports what can no longer change, in strict mode: a repair can change anything. Of several calls
//! in one payload, it follows the first. What it has not reported is reported when the call completes.
//!
//! | body | reported |
//! | --- | --- |
//! | an object with a name, or arguments alone | the bytes of the arguments, as they arrive |
//! | code, a loose object | each argument when it is whole, and texts as they arrive |
//! | elements | each argument when it is whole |
//!
//! Arguments in tags have a reader that needs no tracker: see [`tagged`](super::tagged).

mod code;
mod elements;
mod json;
mod text;

use super::json_scan::{Scanner, Stop};
use super::segment::{ParsedCall, Segment};
use super::stream::Stream;
use crate::call_format::Body;

pub(super) use text::push_escaped;

/// What has been reported of a call, and what its payload is followed with.
#[derive(Debug)]
pub(super) struct Tracker {
    told: Told,
    follows: Follows,
}

/// How a payload is followed.
#[derive(Debug)]
enum Follows {
    /// It is not.
    Nothing,
    Json(json::Tracker),
    Code(code::Tracker),
    Elements(elements::Tracker),
}

/// How much of a call has been reported.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// The call.
    index: u32,
    is_named: bool,
    /// How many bytes of its arguments.
    bytes: usize,
}

impl Tracker {
    /// Of a call that is not followed.
    pub(super) const fn silent(index: u32) -> Self {
        Self { told: Told::nothing(index), follows: Follows::Nothing }
    }

    /// Of a call whose name is reported now, and its arguments at its end.
    pub(super) fn named(index: u32, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Self {
        let mut tracker = Self::silent(index);
        if stream.syntax.tells_deltas {
            tracker.told.name(&stream.label, sink);
        }
        tracker
    }

    /// Of the payload that begins. Its name is reported if it stands before it.
    pub(super) fn new(index: u32, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Self {
        let mut tracker = Self::silent(index);
        if !stream.syntax.tells_deltas {
            return tracker;
        }
        tracker.follows = match &stream.row().body {
            Body::Keyed | Body::Tagged(_) => Follows::Nothing,
            Body::Json(_) => Follows::Json(json::Tracker::default()),
            Body::Arguments => Follows::Json(json::Tracker::of_arguments()),
            Body::Pythonic(_) | Body::PythonicLines(_) => Follows::Code(code::Tracker::python()),
            Body::Loose(delimiter) => Follows::Code(code::Tracker::loose(delimiter)),
            Body::Nested(elements) => Follows::Elements(elements::Tracker::new(elements)),
        };
        if matches!(stream.row().body, Body::Arguments | Body::Loose(_) | Body::Nested(_)) {
            tracker.told.name(&stream.label, sink);
        }
        tracker
    }

    /// Reads the new bytes of the payload, and reports what is certain. The scanner has read them, and the
    /// stream's buffer ends with them. `text` holds the same bytes, if they are known to be UTF-8.
    #[inline]
    pub(super) fn advance(
        &mut self,
        text: Option<&str>,
        stop: Option<Stop>,
        scanner: &mut Scanner,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        match &mut self.follows {
            Follows::Json(json) if json.is_in_arguments() => {
                json.pass_arguments(&stream.buffer, text, stop, &mut self.told, sink);
            }
            Follows::Nothing => {}
            _ => self.follow(scanner, stream, sink),
        }
    }

    /// Reads the new bytes of a payload. Not inlined, because most bytes are arguments of JSON.
    #[inline(never)]
    fn follow(
        &mut self,
        scanner: &mut Scanner,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let told = &mut self.told;
        match &mut self.follows {
            Follows::Nothing => {}
            Follows::Json(json) => {
                json.advance(&stream.buffer, stream.row().keys(), told, sink);
                json.hand_over(scanner);
            }
            Follows::Code(code) => code.advance(&stream.buffer, told, sink),
            Follows::Elements(elements) => elements.advance(stream, told, sink),
        }
    }

    /// Hands out the call, and what has not been reported of it.
    pub(super) fn complete(
        &self,
        call: ParsedCall,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        if stream.settings().argument_deltas {
            let mut told = self.told;
            if !told.is_named {
                told.name(&call.name, sink);
            }
            told.arguments(call.arguments.as_str().get(told.bytes..).unwrap_or_default(), sink);
        }
        sink(Segment::CallCompleted(call));
    }
}

impl Told {
    const fn nothing(index: u32) -> Self {
        Self { index, is_named: false, bytes: 0 }
    }

    fn name(&mut self, name: &str, sink: &mut impl FnMut(Segment<'_>)) {
        self.is_named = true;
        sink(Segment::CallNamed { index: self.index, name });
    }

    fn arguments(&mut self, json: &str, sink: &mut impl FnMut(Segment<'_>)) {
        self.bytes += json.len();
        if !json.is_empty() {
            sink(Segment::ArgumentsDelta { index: self.index, json });
        }
    }
}
