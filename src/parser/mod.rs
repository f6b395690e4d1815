//! Finds the tool calls in a model's text as it streams.
//!
//! A model that calls tools in plain text writes a marker and a JSON object:
//!
//! ```text
//! Let me look. <<function_call>> {"name": "get_weather", "arguments": {"city": "Oslo"}}
//! ```
//!
//! A [`Parser`] takes that text in chunks cut anywhere, even inside the marker or inside a
//! character, and returns [`Segment`]s: text, reasoning, calls, errors. It does no I/O, reads no
//! clock and starts no thread. It runs nothing, and it need not know which tools exist:
//! [`Settings::tools`] only helps it to tell calls from talk.
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
//! # Promises
//!
//! 1. **Chunking never matters.** With adjacent text merged, the segments depend only on the whole
//!    input and the settings. (Chunks do cut the [argument deltas](Segment::ArgumentsDelta). For a
//!    call that completes, the merged deltas are always the same.)
//! 2. **Nothing waits without need.** Apart from payloads, the parser holds back only a proper
//!    prefix of an opener, an opener with the gap after it, the line ending and code fence after a
//!    payload, whatever may still lead to a closer in formats that close calls, the start of an
//!    answer, up to 512 bytes, in formats without an opener, a message's header, up to 256 bytes, or an
//!    unfinished UTF-8 character.
//! 3. **Nothing is lost and nothing leaks.** Every input byte ends up in exactly one place, as
//!    [`Settings::spans`] can show.
//! 4. **Linear and bounded.** Each byte is read a constant number of times. Memory is bounded by
//!    [`Settings::max_payload_bytes`] plus a constant; a repair needs that much again, and so does
//!    a completed call. Text is borrowed from the chunk, without a copy or an allocation.
//! 5. **No input breaks it**: none makes it panic, overflow, hang or exceed these bounds.
//! 6. **It recovers from every error** and carries on where the table below says.
//!
//! # Errors
//!
//! A model's bad output is ordinary input: it becomes a [`Segment::Error`], and the parser carries
//! on. The only real failure is [`SettingsError`].
//!
//! | [`ErrorCode`] | cause | carries on |
//! | --- | --- | --- |
//! | `missing_payload` | neither a payload, nor a name, nor an argument after an opener (it was only mentioned) | with the opener and what follows it as text; a message's header is not shown |
//! | `unbalanced_payload` | a closing bracket of the wrong kind | after it |
//! | | an opener outside strings: the model started over | with that opener |
//! | | the closer before the brackets balance, or before an argument in tags is closed | after the closer |
//! | | the end of a message and the opener of the next one, in a string or an argument in tags | with that message |
//! | `payload_too_large` | longer than [`Settings::max_payload_bytes`] | after the balancing bracket |
//! | `payload_too_deep` | nested deeper than 128 | after the balancing bracket |
//! | `incomplete_payload` | the stream ended inside it | |
//! | `invalid_json` | balanced, but not JSON, or with a number or string that cannot be decoded | after it |
//! | `invalid_call` | JSON, but not a call: no name, arguments that are not an object, or a repeated key; text between arguments in tags | after it; in an array, with the next element |
//!
//! # The states
//!
//! ```text
//!        <think>, </think>
//!           .------.
//!           v      |      opener           { or [          balanced
//!  ----->  prose --'  ------------> gap ----------> payload ---------> tail
//!           ^                        |               |   |               |
//!           |       anything else    | wrong bracket |   | too large     | line ending,
//!           +------------------------+---------------'   | too deep      | fence, closer
//!           |                     balanced               v               |
//!           +--------------------------------------- discard             |
//!           '------------------------------------------------------------'
//! ```
//!
//! From payload and discard, an opener outside strings leads back to gap. In a format that closes
//! calls, a closer leads from both to tail, and so does the end of a refused payload (in any format,
//! if a code fence may follow it). There, a `{` after a payload leads from tail back to payload:
//! another call before the same closer.
//!
//! In a format whose label has the name, a closer leads from gap to tail: a call without arguments. A
//! format whose calls have no opener begins elsewhere:
//!
//! ```text
//!            a call of an offered tool
//!   ----> start ----------------------> payload
//!         |   ^
//!    else |   | </think>, before any text       |
//!         v   |                                 v
//!         prose             start <----------- tail
//! ```
//!
//! Formats with more marks have more states, and from each of them anything else leads back to prose:
//!
//! ```text
//!            frame           opener          name, end         { of the arguments
//!   prose ----------> opening ------> label -----------> gap ----------------------> payload
//!                        ^              |                                               |
//!                        |              | name, end          tag       closer           v
//!                        |              '-----------> opening ---> tagged ----------> tail
//!                        '------------------ opener of the next call in the frame -------'
//! ```
//!
//! Where each message has a header, that decides what its message is. The answer may begin inside one:
//!
//! ```text
//!             <|start|>, <|channel|>          for the user, or the model
//!   prose ---------------------------> header ---------------------------> prose
//!     ^                                 |   |
//!     |  anything else                  |   | for a tool                  { of the arguments, or a tag
//!     '---------------------------------'   '--> (opening, a frame) --> gap, opening -----> payload, tagged
//! ```
//!
//! If no payload follows in a message to a tool that is addressed in code, gap leads to code, and that to tail.

mod apart;
mod arguments;
mod call;
mod code;
mod deltas;
mod discard;
mod examined;
mod find;
mod format_marks;
mod gap;
mod header;
mod json_scan;
mod label;
mod literal;
mod marks;
mod native_call;
mod nested;
mod opening;
mod payload;
mod prose;
mod repair;
mod segment;
mod settings;
mod start;
mod stream;
mod syntax;
mod tagged;
mod tail;
mod text;
mod transition;
mod types;

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::Arc;

use crate::call_format::Body;

pub use arguments::Arguments;
pub(crate) use arguments::twice;
pub use native_call::{cut_call, lost_arguments, lost_call, read_call};
pub use repair::Repair;
pub use segment::{ErrorCode, ParseError, ParsedCall, Place, Segment, Span};
pub use settings::{Settings, SettingsError};
pub use syntax::Syntax;
pub use types::Tools;

use code::Code;
use discard::Discard;
use gap::Gap;
use header::Header;
use label::Label;
use opening::{Awaits, Opening};
use payload::Payload;
use prose::Prose;
use stream::Stream;
use tagged::Tagged;
use tail::Tail;
use text::{Chunk, Unchecked, Vouched};
use transition::{Flow, Next};

/// Reads one model's output.
///
/// **Push chunks in order, then finish once.** After [`finish`](Self::finish) the parser is
/// as good as new and can read another stream; it keeps its buffer.
#[derive(Debug)]
pub struct Parser {
    state: State,
    stream: Stream,
    syntax: Arc<Syntax>,
    /// Whether the state is prose with nothing held back. If so, a chunk in which no opener begins
    /// goes straight through.
    calm: bool,
}

/// What the next byte is part of. Each state reads as far as it can ([`Flow`]) and decides what the
/// end of the input means.
#[derive(Debug)]
enum State {
    Start,
    Prose(Prose),
    Header(Header),
    Opening(Opening),
    Label(Label),
    Gap(Gap),
    Payload(Payload),
    Tagged(Box<Tagged>),
    Code(Code),
    Discard(Discard),
    Tail(Tail),
}

impl Parser {
    /// Makes a parser that is ready for a stream.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Ok(Self::of(Arc::new(Syntax::new(settings)?)))
    }

    /// Makes a parser that shares its syntax with others.
    #[must_use]
    pub fn of(syntax: Arc<Syntax>) -> Self {
        let stream = Stream::new(Arc::clone(&syntax));
        let (state, calm) = (State::first(&stream), stream.is_calm());
        Self { state, stream, syntax, calm }
    }

    /// Reads a chunk of bytes and passes the finished segments to `sink`.
    #[inline]
    pub fn push(&mut self, chunk: &[u8], mut sink: impl FnMut(Segment<'_>)) {
        if self.lets_through(chunk)
            && let Ok(text) = text::valid(chunk)
        {
            return self.pass(text, sink);
        }
        self.drive(Unchecked(chunk), &mut sink);
    }

    /// Reads a chunk of text, which needs no check for UTF-8.
    ///
    /// Calls to this and to [`push`](Self::push) may be mixed. A character that `push` left
    /// unfinished becomes U+FFFD.
    #[inline]
    pub fn push_str(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        if self.lets_through(chunk.as_bytes()) {
            return self.pass(chunk, sink);
        }
        self.drive(Vouched(chunk), &mut sink);
    }

    /// The stream that begins is inside reasoning, whatever the settings say: the prompt has opened
    /// it.
    pub fn start_in_reasoning(&mut self) {
        self.stream.reasoning = self.stream.settings().reasoning;
        self.state = State::first(&self.stream);
        self.calm = self.stream.is_calm();
    }

    /// Ends the stream and settles what was held back.
    pub fn finish(&mut self, mut sink: impl FnMut(Segment<'_>)) {
        self.release(&mut sink);
        self.stream.flush(&mut sink);
        self.stream.begin();
        self.settle();
    }

    /// Decides about what the states hold back, as if nothing more came.
    fn release<S: FnMut(Segment<'_>)>(&mut self, sink: &mut S) {
        loop {
            let marks = self.syntax.marks(self.stream.reasoning);
            let stream = &mut self.stream;
            let flow = match mem::take(&mut self.state) {
                State::Start => start::finish(stream, sink),
                State::Prose(prose) => prose.finish(marks, stream, sink),
                State::Header(header) => header.finish(stream, sink),
                State::Opening(opening) => opening.finish(stream, sink),
                State::Label(label) => label.finish(stream, sink),
                State::Gap(gap) => gap.finish(stream, sink),
                State::Payload(payload) => payload.finish(stream, sink),
                State::Tagged(tagged) => tagged.finish(stream, sink),
                State::Code(code) => code.finish(stream, sink),
                State::Discard(discard) => discard.finish(stream, sink),
                State::Tail(tail) => tail.finish(stream, sink),
            };
            match flow {
                Flow::Stay => break,
                Flow::Enter(next, _) => self.enter(next, sink),
                Flow::Reread(next, bytes) => self.reread(next, &bytes, sink),
            }
        }
    }

    /// Ends a stream that a token limit has cut off. A call is whole only if its end has arrived.
    pub fn cut_off(&mut self, sink: impl FnMut(Segment<'_>)) {
        self.stream.is_cut_off = true;
        self.finish(sink);
    }

    /// Abandons the stream. What was held back, such as half an opener or half a call, is
    /// forgotten.
    pub fn abandon(&mut self) {
        self.stream.abandon();
        self.settle();
    }

    /// Takes up what the stream begins with.
    fn settle(&mut self) {
        self.syntax = Arc::clone(&self.stream.syntax);
        self.state = State::first(&self.stream);
        self.calm = self.stream.is_calm();
    }

    #[inline]
    fn lets_through(&self, chunk: &[u8]) -> bool {
        self.calm && self.syntax.marks(self.stream.reasoning).absent(chunk)
    }

    /// Passes on a chunk that is nothing but text.
    #[inline]
    fn pass(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        let Some(&last) = chunk.as_bytes().last() else { return };
        self.stream.last = last;
        self.stream.offset += chunk.len() as u64;
        sink(stream::prose(self.stream.reasoning, chunk));
    }

    /// Reads a chunk, with a shortcut for one that lies inside a string.
    fn drive<C: Chunk, S: FnMut(Segment<'_>)>(&mut self, chunk: C, sink: &mut S) {
        let mut seen = 0;
        if let State::Payload(payload) = &mut self.state {
            match payload.take_string(&mut self.stream, chunk, sink) {
                Ok(()) => {
                    self.stream.offset += chunk.bytes().len() as u64;
                    return;
                }
                Err(length) => seen = length,
            }
        }
        self.run(chunk, seen, sink);
    }

    /// Reads a chunk from state to state. Its first `seen` bytes are known to continue a string. Not inlined, so
    /// that `drive` stays small.
    #[inline(never)]
    fn run<C: Chunk, S: FnMut(Segment<'_>)>(&mut self, chunk: C, mut seen: usize, sink: &mut S) {
        let bytes = chunk.bytes();
        let mut at = 0;
        while at < bytes.len() {
            let seen = mem::take(&mut seen);
            let stream = &mut self.stream;
            let flow = match &mut self.state {
                State::Prose(prose) => {
                    let marks = self.syntax.marks(stream.reasoning);
                    let flow = prose.read(marks, stream, chunk, at, sink);
                    self.calm = matches!(flow, Flow::Stay) && prose.is_calm() && stream.is_calm();
                    flow
                }
                State::Start => start::read(stream, bytes, at, sink),
                State::Header(header) => header.read(stream, bytes, at, sink),
                State::Opening(opening) => opening.read(stream, bytes, at, sink),
                State::Label(label) => label.read(stream, bytes, at, sink),
                State::Gap(gap) => gap.read(stream, bytes, at, sink),
                State::Payload(payload) => payload.read(stream, chunk, at, seen, sink),
                State::Tagged(tagged) => tagged.read(stream, bytes, at, sink),
                State::Code(code) => code.read(stream, bytes, at, sink),
                State::Discard(discard) => discard.read(stream, bytes, at, sink),
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

    /// Enters the state that the last one leads to.
    fn enter<S: FnMut(Segment<'_>)>(&mut self, next: Next, sink: &mut S) {
        let stream = &mut self.stream;
        if !Arc::ptr_eq(&self.syntax, &stream.syntax) {
            self.syntax = Arc::clone(&stream.syntax);
        }
        self.state = match next {
            Next::Start => {
                stream.buffer.clear();
                State::start(stream)
            }
            Next::Prose(held) => State::Prose(Prose::new(held)),
            Next::Header(opened) => {
                stream.buffer.clone_from(&stream.head);
                match &stream.row().header {
                    Some(header) => State::Header(Header::new(opened, header)),
                    None => State::default(),
                }
            }
            Next::Message(opened) => {
                stream.buffer.clear();
                State::Opening(Opening::new(opened, Awaits::Frame))
            }
            Next::Frame(opened) => {
                stream.buffer.clear();
                State::Opening(Opening::new(opened, Awaits::Call))
            }
            Next::Call(opened) => {
                stream.buffer.clear();
                match &stream.row().label {
                    Some(label) => State::Label(Label::new(opened, label)),
                    None => State::Gap(Gap::new(opened)),
                }
            }
            Next::Body(opened) => {
                stream.buffer.clear();
                match stream.row().body {
                    Body::Tagged(_) | Body::Nested(_) => {
                        State::Opening(Opening::new(opened, Awaits::Arguments))
                    }
                    Body::PythonicLines(_) => {
                        State::Payload(Payload::enter(opened, false, Vec::new(), stream, sink))
                    }
                    _ => State::Gap(Gap::new(opened)),
                }
            }
            Next::Arguments(opened) => {
                stream.buffer.clear();
                match &stream.row().body {
                    Body::Tagged(tags) => {
                        State::Tagged(Box::new(Tagged::enter(opened, tags, stream, sink)))
                    }
                    _ => State::Payload(Payload::enter(opened, false, Vec::new(), stream, sink)),
                }
            }
            Next::Code(opened) => {
                stream.buffer.clear();
                State::Code(Code::enter(opened, stream, sink))
            }
            Next::Payload { opened, fence, repaired } => {
                stream.buffer.clear();
                State::Payload(Payload::enter(opened, fence, repaired, stream, sink))
            }
            Next::Discard { opened, code, scanner, fence } => {
                stream.buffer.clear();
                State::Discard(Discard::new(opened, code, scanner, fence))
            }
            Next::Tail { opened, place, after } => {
                stream.buffer.clear();
                State::Tail(Tail::new(opened, place, after, stream))
            }
        };
    }

    /// Reads bytes of earlier chunks again, in a state that reads them differently.
    fn reread<S: FnMut(Segment<'_>)>(&mut self, next: Next, bytes: &[u8], sink: &mut S) {
        self.enter(next, sink);
        self.stream.offset -= bytes.len() as u64;
        self.drive(Unchecked(bytes), sink);
    }
}

impl State {
    /// What a stream begins with.
    fn first(stream: &Stream) -> Self {
        if stream.may_start() { Self::start(stream) } else { Self::default() }
    }

    /// What may begin without an opener: a call, or a header.
    fn start(stream: &Stream) -> Self {
        match &stream.row().header {
            Some(header) => Self::Header(Header::without_opener(header)),
            None => Self::Start,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Prose(Prose::default())
    }
}
