//! A payload as it arrives: kept until a bracket balances the first one or, in formats without brackets, the
//! closer comes, until a limit is exceeded, or it is clear that it will not be JSON.

mod outcome;

use std::mem;
use std::sync::Arc;

use super::call::Fault;
use super::deltas::Tracker;
use super::json_scan::{Scanner, Stop};
use super::marks::Mark;
use super::repair::Repair;
use super::segment::{ErrorCode, Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::limits::parser::DEPTH_MAX;

#[derive(Debug)]
pub(super) struct Payload {
    opened: Opened,
    /// The number of the call, or of the first one in an array.
    index: u32,
    scanner: Scanner,
    tracker: Tracker,
    /// Whether a code fence has opened before it.
    fence: bool,
    /// The repairs made before it.
    repaired: Vec<Repair>,
}

impl Payload {
    /// Begins a payload; its first byte is the next one.
    pub(super) fn enter(
        opened: Opened,
        fence: bool,
        repaired: Vec<Repair>,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Self {
        let index = stream.start_call(opened.at, sink);
        let scanner = Scanner::default();
        let tracker = Tracker::new(index, stream, sink);
        Self { opened, index, scanner, tracker, fence, repaired }
    }

    /// Takes a chunk that fits and only continues a string, as most of a payload does. False for
    /// any other.
    #[inline]
    pub(super) fn takes(
        &mut self,
        chunk: &[u8],
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> bool {
        let (most, rules) = (stream.settings().max_payload_bytes, &stream.syntax.rules);
        if chunk.len() > most - stream.buffer.len() || !self.scanner.stays_in_string(chunk, rules) {
            return false;
        }
        stream.keep(chunk, most);
        if stream.syntax.tells_deltas {
            self.tracker.pass_string(stream, sink);
        }
        true
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let most = stream.settings().max_payload_bytes;
        let rest = &bytes[at..];
        let room = most - stream.buffer.len();
        let (taken, stop) = self.scanner.scan(&rest[..rest.len().min(room)], &stream.syntax.rules);
        stream.keep(&rest[..taken], most);
        if stream.syntax.tells_deltas {
            self.tracker.advance(stream, sink);
        }
        if stop.is_none() && rest.len() <= room {
            return Flow::Stay;
        }
        self.leave(stop, at + taken, stream, sink)
    }

    pub(super) fn finish(
        mut self,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        self.cut(stream, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Leaves the payload because of `stop` or, without one, because of its length.
    #[inline(never)]
    fn leave(
        &mut self,
        stop: Option<Stop>,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let end = stream.position(at);
        let next = match stop {
            Some(Stop::End) => self.complete(stream, sink),
            Some(Stop::WrongCloser) => {
                let code = ErrorCode::UnbalancedPayload;
                let message = "a closing bracket does not match the open one";
                self.refuse(Fault::new(code, message), stream, sink);
                stream.end_refused(self.opened, Place::Error(code), end, self.fence, sink)
            }
            Some(Stop::Mark(mark)) => {
                let syntax = Arc::clone(&stream.syntax);
                let (mark, text) = syntax.rules.mark(mark);
                match mark {
                    Mark::Closer | Mark::FrameClose => self.close(text.len(), stream, sink),
                    _ => self.restart((mark, text), end, stream, sink),
                }
            }
            Some(Stop::Boundary(boundary)) => {
                let syntax = Arc::clone(&stream.syntax);
                let text = syntax.rules.boundary(boundary);
                let next = self.break_off(text.len(), stream, sink);
                return Flow::again(next, text.to_vec(), at);
            }
            Some(Stop::TooDeep) => {
                let message = format!("the payload is nested deeper than {DEPTH_MAX}");
                self.discard(Fault::new(ErrorCode::PayloadTooDeep, message), stream, sink)
            }
            None => {
                let most = stream.settings().max_payload_bytes;
                let message = format!("the payload is longer than {most} bytes");
                self.discard(Fault::new(ErrorCode::PayloadTooLarge, message), stream, sink)
            }
        };
        Flow::Enter(next, at)
    }

    /// Refuses a payload that contains another opener, and reads on after that opener.
    fn restart(
        &self,
        (mark, text): (Mark, &[u8]),
        end: u64,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        stream.buffer.truncate(stream.buffer.len() - text.len());
        let code = ErrorCode::UnbalancedPayload;
        let fault = Fault::new(code, "the payload contains another marker");
        self.refuse(fault, stream, sink);
        let at = end - text.len() as u64;
        stream.span(Place::Error(code), self.opened.at..at, sink);
        stream.begin_head(text);
        let at_line_start = stream.buffer.last() == Some(&b'\n');
        Next::opened(mark, Opened { at_line_start, ..Opened::at(at) }).unwrap_or_else(Next::prose)
    }

    fn discard(
        &mut self,
        fault: Fault,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        let code = fault.code;
        self.refuse(fault, stream, sink);
        let scanner = mem::take(&mut self.scanner);
        Next::Discard { opened: self.opened, code, scanner, fence: self.fence }
    }

    fn refuse(&self, fault: Fault, stream: &Stream, sink: &mut impl FnMut(Segment<'_>)) {
        fault.say(self.opened, self.index, &stream.buffer, sink);
    }
}
