//! A call whose arguments stand in tags, one after the other.
//!
//! ```text
//!   <function=write> \n <parameter=path> \n a.txt \n </parameter> \n <parameter=n> 3 </parameter> ...
//!   '---- head ----'    '----- key ----'   value   '-- close --'     '--- key ---' v '- close --'
//! ```
//!
//! Values are text and have no escapes, so a value that mentions its own closing tag looks finished
//! there. A closing tag counts only if, after white space, another tag of the format follows it. At
//! the end of the input, the last one counts. Where it was forgotten, see [`value`].
//!
//! What a text means, a number or a word, is up to the tool's schema: see [`types`](super::types).

mod outcome;
mod rest;
mod value;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::call::Fault;
use super::examined;
use super::marks::{Held, Landing, Mark, Step};
use super::segment::{ErrorCode, Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{Hint, Tags};
use crate::limits::parser::{GAP_BYTES_MAX, LABEL_BYTES_MAX};
use rest::Rest;
use value::{End, Found, Over, Value};

/// What has been read of the arguments is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Tagged {
    opened: Opened,
    index: u32,
    tags: &'static Tags,
    part: Part,
    /// `buffer[..at]` needs no second look.
    at: usize,
    /// The last key, and what its tag says of the value's type.
    key: Range<usize>,
    hint: Range<usize>,
    /// The arguments so far, as JSON without its last brace.
    json: String,
    /// How much of it has been reported.
    told: usize,
    /// How many bytes of the value that arrives stand in it already: all but those that may be its end.
    streamed: Option<usize>,
    keys: HashSet<String>,
    /// Why this is no call. The rest is read all the same.
    fault: Option<Fault>,
}

/// What is being read. Positions are in the buffer.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// What comes between arguments: white space, or a mark of which this much has been read.
    Between(Held),
    /// A key that begins here.
    Key(usize),
    /// A word on the value's type that begins here.
    Hint(usize),
    /// White space between a key and its value.
    BeforeValue,
    Value(Value),
    /// What follows a closing tag: white space, or a mark of which this much has been read.
    AfterValue(Closed, Held),
    /// The rest of arguments that were too long.
    Discard(Rest),
}

/// A value, and the closing tag after it.
#[derive(Debug, Clone, Copy)]
struct Closed {
    value: Value,
    tag: usize,
    end: usize,
}

/// What a step leads to.
enum Turn {
    /// More bytes are needed.
    Wait,
    Go,
    Over(Over),
}

impl Tagged {
    /// Begins a call whose name the stream has.
    pub(super) fn enter(
        opened: Opened,
        tags: &'static Tags,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Self {
        let index = stream.start_call(opened.at, sink);
        if stream.settings().argument_deltas {
            sink(Segment::CallNamed { index, name: &stream.label });
        }
        Self {
            opened,
            index,
            tags,
            part: Part::Between(Held::NONE),
            at: 0,
            key: 0..0,
            hint: 0..0,
            json: "{".to_owned(),
            told: 0,
            streamed: None,
            keys: HashSet::new(),
            fault: None,
        }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        if let Part::Discard(rest) = self.part {
            return self.discard(rest, stream, bytes, at, sink);
        }
        let most = stream.settings().max_payload_bytes;
        let mut at = at;
        // Not all at once: what is kept beyond the call's end is copied in vain.
        while at < bytes.len() && stream.buffer.len() < most {
            let room = (most - stream.buffer.len()).min(bytes.len() - at).min(STEP_BYTES);
            stream.keep(&bytes[at..at + room], most);
            at += room;
            if let Some(over) = self.advance(stream, sink) {
                return self.end(over, at, stream, sink);
            }
        }
        if at == bytes.len() {
            self.tell_text(stream, sink);
            return Flow::Stay;
        }
        self.refuse_length(most, stream, sink);
        let shown = match &self.part {
            Part::Value(value) | Part::AfterValue(Closed { value, .. }, _) => Some(value.shown()),
            _ => None,
        };
        let held = self.half_read(stream);
        self.discard(Rest { held, shown }, stream, bytes, at, sink)
    }

    /// Reads all that is kept, or up to the call's end.
    fn advance(&mut self, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Option<Over> {
        loop {
            match self.step(stream, sink) {
                Turn::Go => {}
                Turn::Wait => return None,
                Turn::Over(over) => return Some(over),
            }
        }
    }

    /// At the end of the input, what would follow the last closing tag is missing. A value without a
    /// closing tag ends at the first end of the call in it or, if there is none, at the last closing tag.
    /// If the input was cut off, more arguments might have followed.
    pub(super) fn finish(
        mut self,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let code = ErrorCode::IncompletePayload;
        let is_over = |over: &Over| !stream.is_cut_off || matches!(over, Over::Mark(_));
        let open = match self.part {
            Part::Value(value) => Some(value),
            Part::AfterValue(Closed { value, .. }, held) if !held.is_empty() => Some(value),
            _ => None,
        };
        if let Some(over) = open.and_then(|value| value.over()).filter(is_over) {
            self.blame_end();
            return self.end(over, 0, stream, sink);
        }
        let place = match self.part {
            Part::Discard(_) => Place::Error(ErrorCode::PayloadTooLarge),
            Part::Between(held) if held.is_empty() && !stream.is_cut_off => self.tell(stream, sink),
            Part::AfterValue(closed, held) if held.is_empty() && !stream.is_cut_off => {
                self.add(closed.value.start..closed.tag, stream, sink);
                self.tell(stream, sink)
            }
            _ => {
                self.fault = Some(Fault::new(code, "the text ended inside the payload"));
                self.tell(stream, sink)
            }
        };
        stream.end_call(self.opened, place, stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Reads on as far as the next decision.
    fn step(&mut self, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Turn {
        let buffer = &*stream.buffer;
        match self.part {
            Part::Between(held) => self.between(held, stream),
            Part::Key(start) => self.key(start, buffer).unwrap_or_else(|turn| turn),
            Part::Hint(start) => self.hint(start, buffer).unwrap_or_else(|turn| turn),
            Part::BeforeValue => self.before_value(buffer),
            Part::Value(mut value) => {
                let found = value.read(&stream.syntax.tags, buffer, &mut self.at);
                self.part = Part::Value(value);
                match found {
                    None => Turn::Wait,
                    Some(Found::Tag(tag)) => {
                        let closed = Closed { value, tag, end: self.at };
                        self.go(Part::AfterValue(closed, Held::NONE))
                    }
                    Some(Found::Over(over)) => {
                        self.blame_end();
                        Turn::Over(over)
                    }
                }
            }
            Part::AfterValue(closed, held) => self.after_value(closed, held, stream, sink),
            Part::Discard(_) => Turn::Wait,
        }
    }

    const fn go(&mut self, part: Part) -> Turn {
        self.part = part;
        Turn::Go
    }

    fn key(&mut self, start: usize, buffer: &[u8]) -> Result<Turn, Turn> {
        let end = self.word(start, self.tags.key[1], buffer)?;
        (self.key, self.hint) = (start..end, 0..0);
        let is_next = self.tags.hint.is_some_and(|hint| hint.open().is_none());
        Ok(self.go(if is_next { Part::Hint(self.at) } else { Part::BeforeValue }))
    }

    fn hint(&mut self, start: usize, buffer: &[u8]) -> Result<Turn, Turn> {
        let end = self.word(start, self.tags.hint.map_or("", Hint::close), buffer)?;
        self.hint = start..end;
        Ok(self.go(Part::BeforeValue))
    }

    /// Where a word ends that began at `start`: before this text, which is read as well. A word that
    /// a tag or a line break cuts short, or that is too long, is a fault.
    fn word(&mut self, start: usize, close: &str, buffer: &[u8]) -> Result<usize, Turn> {
        let from = self.at;
        while let Some(&byte) = buffer.get(self.at) {
            let rest = &buffer[self.at..];
            if rest.starts_with(close.as_bytes()) {
                let end = self.at;
                self.at += close.len();
                examined::note(self.at - from);
                return Ok(end);
            }
            if close.as_bytes().starts_with(rest) {
                break;
            }
            if matches!(byte, b'<' | b'\n') || self.at - start >= LABEL_BYTES_MAX {
                self.blame(ErrorCode::InvalidCall, "the tag of an argument has no end");
                return Err(self.go(Part::Between(Held::NONE)));
            }
            self.at += 1;
        }
        examined::note(buffer.len() - from);
        Err(Turn::Wait)
    }

    /// White space, then the tag of a key, or what ends the call. Anything else is a fault.
    fn between(&mut self, mut held: Held, stream: &Stream) -> Turn {
        let marks = &stream.syntax.tags;
        while let Some(&byte) = stream.buffer.get(self.at) {
            match marks.step(held, byte) {
                Step::Hold(more) => (held, self.at) = (more, self.at + 1),
                Step::Match(mark) => {
                    self.at += 1;
                    match marks.mark(mark) {
                        Mark::Key => return self.go(Part::Key(self.at)),
                        Mark::ValueClose => self.blame(ErrorCode::InvalidCall, BETWEEN),
                        _ => return Turn::Over(Over::Mark(End { mark, at: self.at })),
                    }
                    held = Held::NONE;
                }
                Step::Miss => {
                    if !byte.is_ascii_whitespace() {
                        self.blame(ErrorCode::InvalidCall, BETWEEN);
                    }
                    self.at += 1;
                }
                Step::Fall(fall) => {
                    self.blame(ErrorCode::InvalidCall, BETWEEN);
                    held = landed(fall.landing);
                }
            }
        }
        self.part = Part::Between(held);
        Turn::Wait
    }

    /// White space, then what opens the value, in formats that have that.
    fn before_value(&mut self, buffer: &[u8]) -> Turn {
        let open = self.tags.value[0].as_bytes();
        if open.is_empty() {
            return self.go(Part::Value(Value::new(self.at, self.tags.wrap)));
        }
        // A type comes once at most.
        let hint = self.tags.hint.and_then(Hint::open).filter(|_| self.hint.is_empty());
        let hint = hint.map(str::as_bytes);
        let rest = &buffer[self.at..];
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let here = &rest[space..];
        let may_be = |open: &[u8]| here.len() < open.len() && open.starts_with(here);
        if space <= GAP_BYTES_MAX && (may_be(open) || hint.is_some_and(may_be)) {
            return Turn::Wait;
        }
        examined::note(space + here.len().min(open.len()));
        if space <= GAP_BYTES_MAX && here.starts_with(open) {
            self.at += space + open.len();
            return self.go(Part::Value(Value::new(self.at, self.tags.wrap)));
        }
        if let Some(hint) = hint.filter(|hint| space <= GAP_BYTES_MAX && here.starts_with(hint)) {
            self.at += space + hint.len();
            return self.go(Part::Hint(self.at));
        }
        self.blame(ErrorCode::InvalidCall, "an argument has no value");
        self.go(Part::Between(Held::NONE))
    }

    /// Decides whether a closing tag ends the value.
    fn after_value(
        &mut self,
        closed: Closed,
        mut held: Held,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Turn {
        let marks = &stream.syntax.tags;
        while let Some(&byte) = stream.buffer.get(self.at) {
            let is_space = byte.is_ascii_whitespace() && self.at < closed.end + GAP_BYTES_MAX;
            match marks.step(held, byte) {
                Step::Hold(more) => (held, self.at) = (more, self.at + 1),
                Step::Match(mark) if marks.mark(mark) != Mark::ValueClose => {
                    self.add(closed.value.start..closed.tag, stream, sink);
                    self.at = closed.end;
                    return self.go(Part::Between(Held::NONE));
                }
                Step::Miss if is_space => self.at += 1,
                Step::Match(_) | Step::Miss | Step::Fall(_) => {
                    // It belongs to the value. The next one may begin in what was just read.
                    self.at = closed.end;
                    return self.go(Part::Value(closed.value.with_tag(closed.end)));
                }
            }
        }
        self.part = Part::AfterValue(closed, held);
        Turn::Wait
    }

    /// Notes why this is no call. The first reason counts.
    fn blame(&mut self, code: ErrorCode, message: impl Into<String>) {
        self.fault.get_or_insert_with(|| Fault::new(code, message));
    }

    fn blame_end(&mut self) {
        self.blame(ErrorCode::UnbalancedPayload, "the call ends before its argument is closed");
    }

    /// Ends the call. The bytes that were kept after its end, up to `at`, are read again.
    fn end(
        &mut self,
        over: Over,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let (end, length) = match over {
            Over::Mark(end) => (end.at, stream.syntax.tags.pattern(end.mark).len()),
            Over::Tag(end) => (end, 0),
        };
        let again = stream.buffer.split_off(end);
        stream.buffer.truncate(end - length);
        let place = self.tell(stream, sink);
        let position = stream.position(at) - again.len() as u64;
        let next = match over {
            Over::Mark(end) => self.leave(end.mark, place, position, stream, sink),
            Over::Tag(_) => {
                stream.end_call(self.opened, place, position, sink);
                Next::prose()
            }
        };
        Flow::again(next, again, at)
    }

    /// Leaves the call through a mark that ends at this position of the stream: a closer belongs to it,
    /// an opener to the next call.
    fn leave(
        &self,
        mark: usize,
        place: Place,
        end: u64,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        let syntax = Arc::clone(&stream.syntax);
        let text = syntax.tags.pattern(mark);
        let start = end - text.len() as u64;
        let next = Opened { is_framed: self.opened.is_framed, ..Opened::at(start) };
        let Some(next) = Next::opened(syntax.tags.mark(mark), next) else {
            return Next::closed(self.opened, place);
        };
        stream.end_call(self.opened, place, start, sink);
        stream.begin_head(text);
        next
    }
}

/// How much of a chunk is kept at a time.
const STEP_BYTES: usize = 1024;

const BETWEEN: &str = "there is text between the arguments";

/// What is still held. No mark of a row lies inside another one.
const fn landed(landing: Landing) -> Held {
    match landing {
        Landing::Held(held) => held,
        Landing::Match(_) => Held::NONE,
    }
}
