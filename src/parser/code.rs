//! A message to a tool that is code: the text of the tool's one argument.
//!
//! ```text
//!   <|channel|>analysis to=python code<|message|> print(1) <|call|>
//!                                                 '-code-'
//! ```
//!
//! Code has no bracket that ends it, and strings that no format knows. So it ends where its message does, and is
//! not read as a payload. An object is: models write arguments as JSON, too.

use std::sync::Arc;

use memchr::memmem;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::call::{self, Fault};
use super::deltas::Tracker;
use super::examined;
use super::marks::{Held, Mark};
use super::segment::{ErrorCode, ParsedCall, Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{self, Addressee};
use crate::limits::parser::HEADER_BYTES_MAX;

/// The code so far is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Code {
    opened: Opened,
    index: u32,
    tracker: Tracker,
    /// The part that has been read of a mark.
    held: Held,
    /// Where the current line begins in the buffer, if a line may be a header.
    line: usize,
    /// Whether it is too long. If so, the buffer holds what its end may begin in.
    is_refused: bool,
}

impl Code {
    /// Begins a call whose name the stream has.
    pub(super) fn enter(
        opened: Opened,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Self {
        let index = stream.start_call(opened.at, sink);
        let tracker = Tracker::named(index, stream, sink);
        Self { opened, index, tracker, held: Held::NONE, line: 0, is_refused: false }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let most = stream.settings().max_payload_bytes;
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            if !self.is_refused && stream.buffer.len() >= most {
                self.refuse(most, stream, sink);
            }
            if self.is_refused && stream.buffer.len() >= 2 * HEADER_BYTES_MAX {
                self.forget(stream);
            }
            stream.keep(&[byte], most);
            if let Some(mark) = syntax.code.push(&mut self.held, byte)
                && let Some(flow) = self.end(mark, at + 1, stream, sink)
            {
                return flow;
            }
        }
        Flow::Stay
    }

    /// Servers leave out the mark at its end, and nothing else tells whether code is whole.
    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let fault = Fault::new(ErrorCode::IncompletePayload, "the text ended inside the payload");
        let place = self.tell(fault, stream, sink);
        stream.end_call(self.opened, place, stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Ends the code at a mark, which ends before `at`. `None` if it only ends a line.
    fn end(
        &mut self,
        mark: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Option<Flow> {
        let syntax = Arc::clone(&stream.syntax);
        let (mark, text) = (syntax.code.mark(mark), syntax.code.pattern(mark));
        let length = match mark {
            Mark::HeaderEnd => {
                let length = self.header_length(stream);
                self.line = stream.buffer.len();
                length?
            }
            _ => text.len(),
        };
        let again = stream.buffer.split_off(stream.buffer.len() - length);
        let fault = Fault::new(ErrorCode::InvalidJson, "the code is not UTF-8");
        let place = self.tell(fault, stream, sink);
        let start = stream.position(at) - length as u64;
        if mark == Mark::Closer {
            return Some(Flow::Enter(Next::closed(self.opened, place), at));
        }
        stream.end_call(self.opened, place, start, sink);
        let is_name = stream.row().header.as_ref().is_some_and(call_format::Header::is_name);
        let next = if is_name { stream.after_call() } else { Next::prose() };
        Some(Flow::again(next, again, at))
    }

    /// The length of the header that has ended, with its end. Openers that are ordinary text may occur in code,
    /// as `>>>` does, so the name must be known. In any case, the last one that makes a header counts.
    fn header_length(&self, stream: &Stream) -> Option<usize> {
        let header = stream.row().header.as_ref()?;
        let line = &stream.buffer[self.line..];
        let line = &line[line.len().saturating_sub(HEADER_BYTES_MAX)..];
        examined::note(2 * line.len());
        header.openers.iter().find_map(|opener| {
            let start = memmem::rfind(line, opener.as_bytes())?;
            let text = std::str::from_utf8(&line[start..]).ok()?;
            let is_header = match header.addressee(text.strip_suffix(header.end)?)? {
                Addressee::Tool(name) => {
                    !header.is_name() || stream.settings().tools.may_have(name)
                }
                Addressee::Model | Addressee::User => true,
            };
            is_header.then_some(text.len())
        })
    }

    /// Reports that the code is too long.
    fn refuse(&mut self, most: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let message = format!("the payload is longer than {most} bytes");
        let fault = Fault::new(ErrorCode::PayloadTooLarge, message);
        fault.say(self.opened, self.index, &stream.buffer, sink);
        self.is_refused = true;
        self.forget(stream);
    }

    /// Forgets all but what a header or a mark may begin in.
    fn forget(&mut self, stream: &mut Stream) {
        let from = self.line.max(stream.buffer.len().saturating_sub(HEADER_BYTES_MAX));
        stream.buffer.drain(..from);
        self.line = 0;
    }

    /// Reports the call, or this fault if its code is no text.
    fn tell(&self, fault: Fault, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) -> Place {
        if self.is_refused {
            return Place::Error(ErrorCode::PayloadTooLarge);
        }
        match self.arguments(fault, stream) {
            Ok(arguments) => {
                let (index, name) = (self.index, stream.label.clone());
                let call = ParsedCall { index, name, arguments, repaired: Vec::new() };
                self.tracker.complete(call, stream, sink);
                Place::Call
            }
            Err(fault) => {
                let place = Place::Error(fault.code);
                fault.say(self.opened, self.index, &stream.buffer, sink);
                place
            }
        }
    }

    /// The code as an argument, without one line break at its end.
    fn arguments(&self, fault: Fault, stream: &Stream) -> Result<Arguments, Fault> {
        let text = std::str::from_utf8(&stream.buffer).ok();
        let text = text.filter(|_| !stream.is_cut_off);
        let (Some(key), Some(text)) = (stream.code_argument(self.opened), text) else {
            return Err(fault);
        };
        let end = stream.row().header.as_ref().map_or("", |header| header.message_end);
        let text = text.strip_suffix(end).unwrap_or(text);
        let text = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
        let arguments = Map::from_iter([(key.to_owned(), text.into())]);
        call::converted(&Value::Object(arguments).to_string())
    }
}
