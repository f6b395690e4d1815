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
//! A model's bad output is ordinary input: it comes out as [`Segment::Error`], and the
//! parser goes on. Nothing else fails, except settings that no parser can be made of
//! ([`SettingsError`]).
//!
//! | [`ErrorCode`] | what was wrong | goes on |
//! | --- | --- | --- |
//! | `missing_payload` | no `{` or `[` behind a marker: it was talked about | with marker and gap as text |
//! | `unbalanced_payload` | a closing bracket of the wrong kind | behind it |
//! | | a marker outside strings: the model began anew | with that marker |
//! | `payload_too_large` | longer than [`Settings::max_payload_bytes`] | behind the balancing bracket |
//! | `payload_too_deep` | nested deeper than 128 | behind the balancing bracket |
//! | `incomplete_payload` | the stream ended inside it | |
//! | `invalid_json` | balanced, but not JSON | behind it |
//! | `invalid_call` | JSON, but no object with a `name` and `arguments`; or a key stands twice in one object of these | behind it; in an array, with the next element |
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
mod closing;
mod deltas;
mod discard;
mod examined;
mod find;
mod gap;
mod json_scan;
mod native_call;
mod openers;
mod payload;
mod prose;
mod repair;
mod segment;

mod settings;
mod stream;
mod tail;
mod text;
mod transition;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::mem;

pub use arguments::Arguments;
pub use native_call::read_call;
pub use repair::Repair;
pub use segment::{Call, ErrorCode, ParseError, Place, Segment, Span};
pub use settings::{Settings, SettingsError};

use closing::Closing;
use discard::Discard;
use gap::Gap;
use openers::{Opener, Openers};
use payload::Payload;
use prose::Prose;
use stream::Stream;
use tail::Tail;
use text::{Chunk, Unchecked, Vouched};
use transition::{Flow, Next};

/// Reads one model's output.
///
/// **Push chunks in the order they came, then finish once.** After
/// [`finish`](Self::finish) the parser is as new and may read another stream; it keeps
/// its buffer.
#[derive(Debug)]
pub struct Parser {
    state: State,
    stream: Stream,
    /// What ends a run of text, and of reasoning.
    openers: [Openers; 2],
    /// In prose with nothing held back: a chunk in which no opener begins goes straight
    /// through.
    calm: bool,
}

/// What the next byte is part of. Each state reads on for itself ([`Flow`]) and knows
/// what the end of input means to it.
#[derive(Debug)]
enum State {
    Prose(Prose),
    Gap(Gap),
    Payload(Payload),
    Discard(Discard),
    Closing(Closing),
    Tail(Tail),
}

impl Parser {
    /// Makes a parser for one stream.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let stream = Stream::new(settings);
        let openers = openers(&stream);
        let state = State::default();
        let calm = stream.is_calm();
        Ok(Self { state, stream, openers, calm })
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
            let openers = &self.openers[usize::from(self.stream.reasoning)];
            let stream = &mut self.stream;
            let flow = match mem::take(&mut self.state) {
                State::Prose(prose) => prose.finish(openers, stream, sink),
                State::Gap(gap) => gap.finish(stream, sink),
                State::Payload(payload) => payload.finish(stream, sink),
                State::Discard(discard) => discard.finish(stream, sink),
                State::Closing(closing) => closing.finish(stream, sink),
                State::Tail(tail) => tail.finish(stream, sink),
            };
            match flow {
                Flow::Stay => break,
                Flow::Enter(next, _) => self.enter(next, sink),
                Flow::Reread(next, bytes) => self.reread(next, &bytes, sink),
            }
        }
        self.stream.flush(sink);
        self.stream.begin();
        self.calm = self.stream.is_calm();
    }

    /// Ends the stream without its end, for a caller who has heard enough: what was
    /// held back, half a marker or half a call, is forgotten and not decided.
    pub fn abandon(&mut self) {
        self.state = State::default();
        self.stream.abandon();
        self.calm = self.stream.is_calm();
    }

    #[inline]
    fn lets_through(&self, chunk: &[u8]) -> bool {
        self.calm && self.openers[usize::from(self.stream.reasoning)].absent(chunk)
    }

    /// Hands a chunk through that is nothing but text.
    #[inline]
    fn pass(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        let Some(&last) = chunk.as_bytes().last() else { return };
        self.stream.last = last;
        self.stream.offset += chunk.len() as u64;
        sink(stream::prose(self.stream.reasoning, chunk));
    }

    /// Reads a chunk; one inside a string is soon read.
    fn drive<C: Chunk, S: FnMut(Segment<'_>)>(&mut self, chunk: C, sink: &mut S) {
        if let State::Payload(payload) = &mut self.state
            && payload.takes(chunk.bytes(), &mut self.stream, sink)
        {
            self.stream.offset += chunk.bytes().len() as u64;
            return;
        }
        self.run(chunk, sink);
    }

    /// Reads a chunk from state to state. Out of line, so that `drive` stays small.
    #[inline(never)]
    fn run<C: Chunk, S: FnMut(Segment<'_>)>(&mut self, chunk: C, sink: &mut S) {
        let bytes = chunk.bytes();
        let mut at = 0;
        while at < bytes.len() {
            let stream = &mut self.stream;
            let flow = match &mut self.state {
                State::Prose(prose) => {
                    let openers = &self.openers[usize::from(stream.reasoning)];
                    let flow = prose.read(openers, stream, chunk, at, sink);
                    self.calm = matches!(flow, Flow::Stay) && prose.is_calm() && stream.is_calm();
                    flow
                }
                State::Gap(gap) => gap.read(stream, bytes, at, sink),
                State::Payload(payload) => payload.read(stream, bytes, at, sink),
                State::Discard(discard) => discard.read(stream, bytes, at, sink),
                State::Closing(closing) => closing.read(stream, bytes, at, sink),
                State::Tail(tail) => tail.read(stream, bytes, at, sink),
            };
            at = match flow {
                Flow::Stay => break,
                Flow::Enter(next, at) => {
                    self.enter(next, sink);
                    at
                }
                Flow::Reread(next, bytes) => {
                    self.reread(next, &bytes, sink);
                    0
                }
            };
        }
        self.stream.offset += bytes.len() as u64;
    }

    /// Makes the state that the last one leads to.
    fn enter<S: FnMut(Segment<'_>)>(&mut self, next: Next, sink: &mut S) {
        let stream = &mut self.stream;
        self.state = match next {
            Next::Prose(held) => State::Prose(Prose::new(held)),
            Next::Gap(opened) => {
                stream.buffer.clear();
                State::Gap(Gap::new(opened))
            }
            Next::Payload { opened, fence, repaired } => {
                stream.buffer.clear();
                State::Payload(Payload::enter(opened, fence, repaired, stream, sink))
            }
            Next::Discard { opened, code, scanner } => {
                stream.buffer.clear();
                State::Discard(Discard::new(opened, code, scanner))
            }
            Next::Closing { opened, place, fence, is_closed } => {
                stream.buffer.clear();
                State::Closing(Closing::new(opened, place, fence, is_closed))
            }
            Next::Tail { opened, place, fence } => State::Tail(Tail::new(opened, place, fence)),
        };
    }

    /// Reads bytes of earlier chunks again, in a state that gives them another meaning.
    fn reread<S: FnMut(Segment<'_>)>(&mut self, next: Next, bytes: &[u8], sink: &mut S) {
        self.enter(next, sink);
        self.stream.offset -= bytes.len() as u64;
        self.drive(Unchecked(bytes), sink);
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Prose(Prose::default())
    }
}

/// What ends a run of text, and of reasoning.
fn openers(stream: &Stream) -> [Openers; 2] {
    let settings = &stream.settings;
    let [open, close] = settings.format.row().reasoning;
    let calls = settings.format.openers().zip(0..).map(|(text, which)| (Opener::Call(which), text));
    let calls: Vec<_> = calls.filter(|_| settings.calls).collect();
    let open = settings.reasoning.then_some((Opener::ReasoningOpen, open));
    let in_text = calls.iter().copied().chain(open);
    let close = [(Opener::ReasoningClose, close)].into_iter();
    let in_reasoning = close.chain(calls.iter().copied().filter(|_| settings.tools_in_reasoning));
    [Openers::new(in_text), Openers::new(in_reasoning)]
}
