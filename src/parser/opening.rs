//! What comes between two marks of a call's beginning: white space, and the next mark.
//!
//! ```text
//!   <tool_call>  \n  <function= now  >  \n  <parameter=  ...
//!   '- frame -'      '- opener '- label    '- arguments
//! ```

use std::sync::Arc;

use super::marks::{Held, Mark, Step};
use super::segment::Segment;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::limits::parser::GAP_BYTES_MAX;

/// What has been read after the last mark is in the stream's buffer.
#[derive(Debug)]
pub(super) struct Opening {
    opened: Opened,
    awaits: Awaits,
    /// The part of a mark that has been read.
    held: Held,
}

/// The next mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The opener of a frame, after the header of a message to a tool.
    Frame,
    /// The opener of a call, after that of its frame.
    Call,
    /// The tag of an argument or, without any, what closes the call.
    Arguments,
}

impl Opening {
    pub(super) const fn new(opened: Opened, awaits: Awaits) -> Self {
        Self { opened, awaits, held: Held::NONE }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        let marks = match self.awaits {
            Awaits::Frame => &syntax.frames,
            Awaits::Call => &syntax.openers,
            Awaits::Arguments => &syntax.tags,
        };
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            match marks.step(self.held, byte) {
                Step::Hold(held) => self.held = held,
                Step::Miss if byte.is_ascii_whitespace() && stream.buffer.len() < GAP_BYTES_MAX => {
                }
                Step::Match(mark) => {
                    stream.keep(&[byte], GAP_BYTES_MAX);
                    let text = marks.pattern(mark).to_vec();
                    return self.decide(marks.mark(mark), text, at + 1, stream, sink);
                }
                Step::Miss | Step::Fall(_) => {
                    return self.refuse(self.held.len(), at, stream, sink);
                }
            }
            stream.keep(&[byte], GAP_BYTES_MAX);
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let is_open = self.awaits == Awaits::Arguments && self.held.is_empty();
        if is_open && stream.is_message(self.opened) && !stream.is_cut_off {
            return Flow::Enter(Next::Arguments(self.opened), 0);
        }
        self.refuse(self.held.len(), 0, stream, sink)
    }

    /// Goes on at a mark that ends before `at`.
    fn decide(
        &self,
        mark: Mark,
        text: Vec<u8>,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        match (self.awaits, mark) {
            (Awaits::Frame, Mark::FrameOpen) => {
                stream.head.extend_from_slice(&stream.buffer);
                Flow::Enter(Next::Frame(self.opened), at)
            }
            (Awaits::Frame | Awaits::Call, _) => {
                stream.head.extend_from_slice(&stream.buffer);
                Flow::Enter(Next::Call(Opened { is_framed: true, ..self.opened }), at)
            }
            // The model has started over, or a tag closes nothing.
            (Awaits::Arguments, Mark::Opener | Mark::FrameOpen | Mark::ValueClose) => {
                self.refuse(text.len(), at, stream, sink)
            }
            // A name alone, outside a frame, is a call only if it is a tool's.
            (Awaits::Arguments, Mark::Header | Mark::Closer | Mark::FrameClose)
                if !stream.is_meant(self.opened) =>
            {
                self.refuse(text.len(), at, stream, sink)
            }
            (Awaits::Arguments, _) => Flow::again(Next::Arguments(self.opened), text, at),
        }
    }

    /// Reports that there is no call: what has been read is text after all, but for the last bytes,
    /// which may begin a mark and are read again.
    fn refuse(
        &self,
        last: usize,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let message = match self.awaits {
            Awaits::Frame => "no call follows the header",
            Awaits::Call => "no call follows the marker",
            Awaits::Arguments => "no arguments follow the marker",
        };
        stream.refuse_opening(self.opened, message, last, at, sink)
    }
}
