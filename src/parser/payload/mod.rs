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
use super::text::Chunk;
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
        // From here on, what fits into the buffer without growing it is within the limit: a `Vec` of bytes gets exactly
        // what is asked for here and in `Stream::keep`. The tests of the limit fail if that changes.
        stream.buffer.shrink_to(stream.settings().max_payload_bytes);
        let scanner = Scanner::default();
        let tracker = Tracker::new(index, stream, sink);
        Self { opened, index, scanner, tracker, fence, repaired }
    }

    /// Takes a chunk that fits and only continues a string. For any other, the error is how many of its first
    /// bytes continue one.
    #[inline]
    pub(super) fn take_string<C: Chunk>(
        &mut self,
        stream: &mut Stream,
        chunk: C,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Result<(), usize> {
        let bytes = chunk.bytes();
        if let Some(seen) = self.scanner.string_length(bytes, &stream.syntax.rules) {
            return Err(seen);
        }
        if bytes.len() > stream.buffer.capacity() - stream.buffer.len() {
            return Err(bytes.len());
        }
        stream.buffer.extend_from_slice(bytes);
        self.tracker.advance(chunk.whole_text(), None, &mut self.scanner, stream, sink);
        Ok(())
    }

    /// Reads on after `at`. The next `seen` bytes are known to continue a string.
    pub(super) fn read<C: Chunk>(
        &mut self,
        stream: &mut Stream,
        chunk: C,
        mut at: usize,
        mut seen: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let most = stream.settings().max_payload_bytes;
        loop {
            let rest = &chunk.bytes()[at..];
            let fits = &rest[..rest.len().min(most - stream.buffer.len())];
            let seen = mem::take(&mut seen).min(fits.len());
            let (taken, stop) = self.scanner.scan(seen, fits, &stream.syntax.rules);
            stream.keep(&rest[..taken], most);
            if stream.syntax.tells_deltas {
                let text = chunk.text(at..at + taken);
                self.tracker.advance(text, stop, &mut self.scanner, stream, sink);
            }
            at += taken;
            match stop {
                Some(Stop::Pause) => {}
                None if taken == rest.len() => return Flow::Stay,
                _ => return self.leave(stop, at, stream, sink),
            }
        }
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
                    _ => self.restart(mark, text, end, stream, sink),
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
            // `read` goes on after a pause, so only the lack of room is left.
            Some(Stop::Pause) | None => {
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
        mark: Mark,
        text: &[u8],
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
