//! A call whose arguments stand in tags, one after the other.
//!
//! ```text
//!   <function=write> \n <parameter=path> \n a.txt \n </parameter> \n <parameter=n> 3 </parameter> ...
//!   '---- head ----'    '----- key ----'   value   '-- close --'     '--- key ---' v '- close --'
//! ```
//!
//! Values are text and have no escapes, so a value that mentions its own closing tag looks finished
//! there. A closing tag counts only if, after white space, another tag of the format follows it. At
//! the end of the input, the last one counts.
//!
//! What a text means, a number or a word, is up to the tool's schema: see [`types`](super::types).

mod outcome;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::call::Fault;
use super::marks::{Held, Landing, Mark, Marks, Step};
use super::segment::{ErrorCode, Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use super::{examined, find};
use crate::call_format::{Body, Tags};
use crate::limits::parser::GAP_BYTES_MAX;

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
    /// What says which type the value has, from here on.
    Hint(usize),
    /// White space between a key and its value.
    BeforeValue,
    /// A value that begins here.
    Value(usize),
    /// What follows a closing tag: white space, or a mark of which this much has been read.
    AfterValue(Closed, Held),
    /// The rest of arguments that were too long.
    Discard(Held),
}

/// A value, and the closing tag behind it.
#[derive(Debug, Clone, Copy)]
struct Closed {
    value: usize,
    tag: usize,
    end: usize,
}

/// What a step leads to.
enum Turn {
    /// More bytes are needed.
    Wait,
    Go,
    /// The call ends before this mark, which has been read.
    Over(usize),
}

impl Tagged {
    /// Begins a call whose name the stream has.
    pub(super) fn enter(
        opened: Opened,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Self {
        let Body::Tagged(tags) = &stream.row().body else { unreachable!("`Opening` has looked") };
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
        if let Part::Discard(held) = self.part {
            return self.discard(held, stream, bytes, at, sink);
        }
        let most = stream.settings().max_payload_bytes;
        let room = (most - stream.buffer.len()).min(bytes.len() - at);
        stream.keep(&bytes[at..at + room], most);
        let at = at + room;
        loop {
            match self.step(stream, sink) {
                Turn::Go => {}
                Turn::Wait => break,
                Turn::Over(mark) => {
                    let unread = stream.buffer.len() - self.at;
                    return self.end(mark, at - unread, stream, sink);
                }
            }
        }
        if at == bytes.len() {
            return Flow::Stay;
        }
        self.refuse_length(most, stream, sink);
        self.discard(Held::NONE, stream, bytes, at, sink)
    }

    /// At the end of the input, what would follow the last closing tag is missing.
    pub(super) fn finish(
        mut self,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let code = ErrorCode::IncompletePayload;
        let place = match self.part {
            Part::Discard(_) => Place::Error(ErrorCode::PayloadTooLarge),
            Part::Between(held) if held.is_empty() => self.tell(stream, sink),
            Part::AfterValue(closed, held) if held.is_empty() => {
                self.add(closed.value..closed.tag, stream, sink);
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
        let (buffer, tags) = (&*stream.buffer, self.tags);
        match self.part {
            Part::Between(held) => self.between(held, stream),
            Part::Key(start) => {
                let Some(end) = self.up_to(tags.key[1], buffer) else { return Turn::Wait };
                (self.key, self.hint) = (start..end, 0..0);
                let hint = Part::Hint(self.at);
                self.go(if tags.hint.is_some() { hint } else { Part::BeforeValue })
            }
            Part::Hint(start) => {
                let close = tags.hint.unwrap_or_default();
                let Some(end) = self.up_to(close, buffer) else { return Turn::Wait };
                self.hint = start..end;
                self.go(Part::BeforeValue)
            }
            Part::BeforeValue => self.before_value(buffer),
            Part::Value(value) => {
                let Some(tag) = self.up_to(tags.value[1], buffer) else { return Turn::Wait };
                self.go(Part::AfterValue(Closed { value, tag, end: self.at }, Held::NONE))
            }
            Part::AfterValue(closed, held) => self.after_value(closed, held, stream, sink),
            Part::Discard(_) => Turn::Wait,
        }
    }

    const fn go(&mut self, part: Part) -> Turn {
        self.part = part;
        Turn::Go
    }

    /// Where this text begins; it is read as well. If it is not there, all has been read that cannot be
    /// its beginning.
    fn up_to(&mut self, text: &str, buffer: &[u8]) -> Option<usize> {
        let text = text.as_bytes();
        let found = memmem::find(&buffer[self.at..], text);
        examined::note(found.map_or(buffer.len() - self.at, |at| at + text.len()));
        if let Some(found) = found {
            let start = self.at + found;
            self.at = start + text.len();
            return Some(start);
        }
        let half = self.at.max((buffer.len() + 1).saturating_sub(text.len()));
        examined::note(buffer.len() - half);
        self.at = find::byte(text[0], &buffer[half..]).map_or(buffer.len(), |at| half + at);
        None
    }

    /// White space, then the tag of a key, or what ends the call. Anything else is a fault.
    fn between(&mut self, mut held: Held, stream: &Stream) -> Turn {
        let marks = &stream.syntax.tags;
        while let Some(&byte) = stream.buffer.get(self.at) {
            match marks.step(held, byte) {
                Step::Hold(more) => (held, self.at) = (more, self.at + 1),
                Step::Match(mark) => {
                    self.at += 1;
                    if marks.mark(mark) == Mark::Key {
                        return self.go(Part::Key(self.at));
                    }
                    return Turn::Over(mark);
                }
                Step::Miss => {
                    if !byte.is_ascii_whitespace() {
                        self.blame(BETWEEN);
                    }
                    self.at += 1;
                }
                Step::Fall(fall) => {
                    self.blame(BETWEEN);
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
            return self.go(Part::Value(self.at));
        }
        let rest = &buffer[self.at..];
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let here = &rest[space..];
        if space <= GAP_BYTES_MAX && here.len() < open.len() && open.starts_with(here) {
            return Turn::Wait;
        }
        examined::note(space + here.len().min(open.len()));
        if space <= GAP_BYTES_MAX && here.starts_with(open) {
            self.at += space + open.len();
            return self.go(Part::Value(self.at));
        }
        self.blame("an argument has no value");
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
                Step::Match(_) => {
                    self.add(closed.value..closed.tag, stream, sink);
                    self.at = closed.end;
                    return self.go(Part::Between(Held::NONE));
                }
                Step::Miss if is_space => self.at += 1,
                Step::Miss | Step::Fall(_) => {
                    // It belongs to the value. The next one may begin in what was just read.
                    self.at = closed.end;
                    return self.go(Part::Value(closed.value));
                }
            }
        }
        self.part = Part::AfterValue(closed, held);
        Turn::Wait
    }

    fn blame(&mut self, message: &'static str) {
        self.fault.get_or_insert_with(|| Fault::new(ErrorCode::InvalidCall, message));
    }

    /// Reports that the arguments are too long.
    fn refuse_length(&self, most: usize, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let message = format!("the payload is longer than {most} bytes");
        let fault = Fault::new(ErrorCode::PayloadTooLarge, message);
        fault.say(self.opened, self.index, &stream.buffer, sink);
    }

    /// Skips to the next mark that ends a call, wherever it stands.
    fn discard(
        &mut self,
        mut held: Held,
        stream: &mut Stream,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let marks = Arc::clone(&stream.syntax);
        let marks: &Marks = &marks.tags;
        while let Some(&byte) = bytes.get(at) {
            match marks.step(held, byte) {
                Step::Hold(more) => (held, at) = (more, at + 1),
                Step::Miss => at += 1,
                Step::Fall(fall) => held = landed(fall.landing),
                Step::Match(mark) => {
                    (held, at) = (Held::NONE, at + 1);
                    if marks.mark(mark) != Mark::Key {
                        let place = Place::Error(ErrorCode::PayloadTooLarge);
                        return self.leave(mark, place, at, stream, sink);
                    }
                }
            }
        }
        self.part = Part::Discard(held);
        Flow::Stay
    }

    /// Ends the call at a mark that ends before `at`.
    fn end(
        &mut self,
        mark: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let length = stream.syntax.tags.pattern(mark).len();
        stream.buffer.truncate(self.at - length);
        let place = self.tell(stream, sink);
        self.leave(mark, place, at, stream, sink)
    }

    /// Leaves the call through a mark: a closer belongs to it, an opener to the next call.
    fn leave(
        &self,
        mark: usize,
        place: Place,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let text = syntax.tags.pattern(mark);
        let start = stream.position(at) - text.len() as u64;
        let next = Opened { at: start, at_line_start: false };
        let Some(next) = Next::opened(syntax.tags.mark(mark), next) else {
            return Flow::Enter(Next::closed(self.opened, place), at);
        };
        stream.end_call(self.opened, place, start, sink);
        stream.begin_head(text);
        Flow::Enter(next, at)
    }
}

const BETWEEN: &str = "there is text between the arguments";

/// What is still held. No mark of a row lies inside another one.
const fn landed(landing: Landing) -> Held {
    match landing {
        Landing::Held(held) => held,
        Landing::Match(_) => Held::NONE,
    }
}
