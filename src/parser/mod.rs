//! Finds the tool calls in a model's text as it streams.
//!
//! A model that calls tools in plain text writes a marker and a JSON object:
//!
//! ```text
//! Let me look. <<function_call>> {"name": "get_weather", "arguments": {"city": "Oslo"}}
//! ```
//!
//! A [`Parser`] takes that text in chunks cut anywhere, between two bytes of the
//! marker or of one character, and gives back [`Segment`]s: text, reasoning, calls,
//! errors. It does no I/O, knows no clock and starts no thread. It does not know which
//! tools exist, and it runs nothing.
//!
//! ```
//! use tether::parser::{Parser, Segment, Settings};
//!
//! let mut parser = Parser::new(Settings::default())?;
//! let (mut text, mut calls) = (String::new(), Vec::new());
//! let mut take = |segment: Segment<'_>| match segment {
//!     Segment::Text(piece) => text.push_str(piece),
//!     Segment::CallCompleted(call) => calls.push(call),
//!     Segment::Error(error) => eprintln!("{error}"),
//!     _ => {}
//! };
//!
//! for chunk in ["One moment. <<funct", "ion_call>> {\"name\": \"now\"", "}\nBye."] {
//!     parser.push_str(chunk, &mut take);
//! }
//! parser.finish(&mut take);
//!
//! assert_eq!(text, "One moment. Bye.");
//! assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_str()), ("now", "{}"));
//! # Ok::<(), tether::parser::SettingsError>(())
//! ```
//!
//! # What is promised
//!
//! 1. **Chunking never matters.** The segments, adjacent text merged, depend on the
//!    whole input and the settings alone. ([Argument deltas](Segment::ArgumentsDelta) are
//!    cut by the chunks; merged, and apart from where they stand, they do not either.)
//! 2. **Nothing waits without need.** Held back is at most a proper prefix of an opener,
//!    a marker with what stands before its payload, the line ending and code fence behind
//!    a payload, or an unfinished UTF-8 character.
//! 3. **Nothing is lost and nothing leaks.** Every input byte ends up in exactly one
//!    place; [`Settings::spans`] says in which.
//! 4. **Linear and bounded.** Each byte is looked at a constant number of times. Memory is
//!    bounded by [`Settings::max_payload_bytes`] plus a constant; mending and a call that
//!    is handed out take that much again. Text is borrowed from the chunk: no copy,
//!    no allocation.
//! 5. **It cannot be broken.** No input panics, overflows, hangs or grows it.
//! 6. **After an error it goes on** with the next byte, as text.
//!
//! # Errors
//!
//! A model's bad output is ordinary input: [`Segment::Error`], with the
//! [codes](ErrorCode) listed there. Only settings can be refused ([`SettingsError`]).
//!
//! # The states
//!
//! ```text
//!        <think>, </think>
//!           .------.
//!           v      |      marker           { or [          balanced
//!  ----->  prose --'  ------------> gap ----------> payload ---------> tail
//!           ^                        |               |   |               |
//!           |       anything else    |  wrong closer |   | too large     | one line
//!           +------------------------+---------------'   | too deep      | ending
//!           |                     balanced               v               |
//!           +--------------------------------------- discard             |
//!           '------------------------------------------------------------'
//! ```
//!
//! A marker outside strings leads from payload and discard back to gap.

mod arguments;
mod call;
mod deltas;
mod examined;
mod format;
mod gap;
mod json_scan;
mod marker;
mod payload;
mod prose;
mod repair;
mod segment;
mod settings;
mod text;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::mem;

pub use arguments::Arguments;
pub use call::Call;
pub use repair::Repair;
pub use segment::{ErrorCode, ParseError, Place, Segment, Span};
pub use settings::{Settings, SettingsError};

use deltas::Tracker;
use format::{Format, MARKER_JSON};
use gap::{Gap, Tail};
use json_scan::{Rules, Scanner};
use marker::{Held, Opener, Openers};
use text::{Chunk, Unchecked, Utf8, Vouched};

/// Reads one model's output.
///
/// **Push chunks in the order they came, then finish once.** After
/// [`finish`](Self::finish) the parser is as new and may read another stream; it keeps
/// its buffer.
#[derive(Debug)]
pub struct Parser {
    settings: Settings,
    format: &'static Format,
    /// What ends a run of text, and of reasoning.
    openers: [Openers; 2],
    rules: Rules,
    state: State,
    /// Whether prose is reasoning at the moment.
    reasoning: bool,
    /// In prose: what has been read of an opener.
    held: Held,
    /// In prose: an unfinished character.
    utf8: Utf8,
    /// In prose with nothing held: a chunk without an opener's first byte goes
    /// straight through.
    calm: bool,
    /// The last byte of text, or LF where a line of its own begins: at the start,
    /// behind tags and calls.
    last: u8,
    /// The gap or the payload so far.
    buffer: Vec<u8>,
    /// Where the chunk begins, in bytes from the stream's start.
    offset: u64,
    calls: u32,
}

#[derive(Debug)]
enum State {
    Prose,
    Gap { marker: Marker, gap: Gap },
    Payload(Payload),
    Discard { marker: Marker, code: ErrorCode, scanner: Scanner },
    Tail { marker: Marker, place: Place, tail: Tail },
}

/// A marker that was read.
#[derive(Debug, Clone, Copy)]
struct Marker {
    /// Where it begins.
    at: u64,
    at_line_start: bool,
}

#[derive(Debug)]
struct Payload {
    marker: Marker,
    index: u32,
    scanner: Scanner,
    tracker: Tracker,
    gap: Gap,
}

impl Parser {
    /// Makes a parser for one stream.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let format = &MARKER_JSON;
        let [open, close] = format.reasoning;
        let marker = (Opener::Marker, settings.marker.as_str());
        let in_text = [marker, (Opener::ReasoningOpen, open)];
        let in_reasoning = [(Opener::ReasoningClose, close), marker];
        let openers = [
            Openers::new(if settings.reasoning { &in_text } else { &in_text[..1] }),
            Openers::new(if settings.tools_in_reasoning {
                &in_reasoning
            } else {
                &in_reasoning[..1]
            }),
        ];
        let rules = Rules::new(&settings.marker, !settings.strict_balancing);
        let mut parser = Self {
            settings,
            format,
            openers,
            rules,
            state: State::Prose,
            reasoning: false,
            held: Held::NONE,
            utf8: Utf8::default(),
            calm: false,
            last: b'\n',
            buffer: Vec::new(),
            offset: 0,
            calls: 0,
        };
        parser.begin();
        Ok(parser)
    }

    /// Reads a chunk of bytes and hands what it decides to `sink`.
    #[inline]
    pub fn push(&mut self, chunk: &[u8], mut sink: impl FnMut(Segment<'_>)) {
        if self.lets_through(chunk)
            && let Ok(text) = text::valid(chunk)
        {
            return self.pass(text, sink);
        }
        self.drive(Unchecked(chunk), &mut sink);
    }

    /// Reads a chunk that the caller vouches to be UTF-8, which saves looking.
    ///
    /// It may be mixed with [`push`](Self::push); a character that was left unfinished
    /// there is replaced by U+FFFD then.
    #[inline]
    pub fn push_str(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        if self.lets_through(chunk.as_bytes()) {
            return self.pass(chunk, sink);
        }
        self.drive(Vouched(chunk), &mut sink);
    }

    /// Ends the stream: what was held back is decided.
    pub fn finish(&mut self, mut sink: impl FnMut(Segment<'_>)) {
        let sink = &mut sink;
        loop {
            match mem::replace(&mut self.state, State::Prose) {
                State::Prose if !self.held.is_empty() => self.give_up_held(sink),
                State::Prose => break,
                State::Gap { marker, .. } => self.refuse_gap(marker, sink),
                State::Payload(payload) => self.cut_payload(payload, sink),
                State::Discard { marker, code, .. } => {
                    self.span(Place::Error(code), marker.at..self.offset, sink);
                }
                State::Tail { marker, place, tail } => {
                    self.end_tail(marker, place, tail, 0, sink);
                }
            }
        }
        self.flush(sink);
        self.begin();
    }

    fn begin(&mut self) {
        self.state = State::Prose;
        self.reasoning = self.settings.reasoning && self.settings.starts_in_reasoning;
        self.last = b'\n';
        self.offset = 0;
        self.calls = 0;
        self.settle();
    }

    /// Decides whether the next chunk may go straight through.
    fn settle(&mut self) {
        self.calm = matches!(self.state, State::Prose)
            && self.held.is_empty()
            && self.utf8.is_empty()
            && !self.settings.spans;
    }

    #[inline]
    fn lets_through(&self, chunk: &[u8]) -> bool {
        self.calm && self.openers[usize::from(self.reasoning)].find(chunk).is_none()
    }

    /// Hands a chunk through that is nothing but text.
    #[inline]
    fn pass(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        let Some(&last) = chunk.as_bytes().last() else { return };
        self.last = last;
        self.offset += chunk.len() as u64;
        sink(if self.reasoning { Segment::Reasoning(chunk) } else { Segment::Text(chunk) });
    }

    fn drive<C: Chunk, S: FnMut(Segment<'_>)>(&mut self, chunk: C, sink: &mut S) {
        let bytes = chunk.bytes();
        let mut at = 0;
        while at < bytes.len() {
            at = match &self.state {
                State::Prose => self.prose(chunk, at, sink),
                State::Gap { .. } => self.gap(bytes, at, sink),
                State::Payload(_) => self.payload(bytes, at, sink),
                State::Discard { .. } => self.discard(bytes, at, sink),
                State::Tail { .. } => self.tail(bytes, at, sink),
            };
        }
        self.offset += bytes.len() as u64;
        self.settle();
    }

    /// Where a byte of the chunk stands in the stream.
    fn position(&self, at: usize) -> u64 {
        self.offset + at as u64
    }
}
