//! What stands behind a payload and still belongs to it.

use super::segment::{Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};

/// The bytes behind a payload: one line ending, and the end of a code fence that the
/// gap began.
#[derive(Debug)]
pub(super) struct Tail {
    opened: Opened,
    /// Where the payload went.
    place: Place,
    /// Whether a closing fence may come, with a line ending of its own behind it.
    fence: bool,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Line,
    /// Behind a CR, which counts only with an LF.
    Return,
    /// Behind a line ending, where a fence may close.
    Fence,
    /// Behind so many backticks of it.
    Ticks(u8),
}

/// What a byte means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It may belong to the call; the next byte decides or goes on.
    Skip,
    /// It is the last byte of the call.
    Last,
    /// The call ended before it.
    Ended,
}

impl Tail {
    pub(super) fn new(opened: Opened, place: Place, fence: bool) -> Self {
        Self { opened, place, fence, part: Part::Line }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            match self.step(byte) {
                Step::Skip => {}
                Step::Last => {
                    stream.end_call(self.opened, self.place, stream.position(at + 1), sink);
                    return Flow::Enter(Next::prose(), at + 1);
                }
                Step::Ended => return self.end(at, stream, sink),
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.end(0, stream, sink)
    }

    /// Ends the call in front of `at`, less what was skipped and does not belong to it:
    /// that is read again, as text.
    fn end(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let given_back = self.given_back();
        let end = stream.position(at) - given_back.len() as u64;
        stream.end_call(self.opened, self.place, end, sink);
        let next = Next::prose();
        match at.checked_sub(given_back.len()) {
            Some(at) => Flow::Enter(next, at),
            None => Flow::Reread(next, given_back[..given_back.len() - at].to_vec()),
        }
    }

    fn step(&mut self, byte: u8) -> Step {
        match (self.part, byte) {
            (Part::Line, b'\r') => self.part = Part::Return,
            (Part::Line | Part::Return, b'\n') if self.fence => self.part = Part::Fence,
            (Part::Line | Part::Return, b'\n') => return Step::Last,
            (Part::Line | Part::Fence, b'`') if self.fence => self.part = Part::Ticks(1),
            (Part::Ticks(1), b'`') => self.part = Part::Ticks(2),
            (Part::Ticks(_), b'`') => (self.fence, self.part) = (false, Part::Line),
            _ => return Step::Ended,
        }
        Step::Skip
    }

    /// What was skipped but does not belong to the call, if it ends here.
    fn given_back(&self) -> &'static [u8] {
        match self.part {
            Part::Line | Part::Fence => b"",
            Part::Return => b"\r",
            Part::Ticks(1) => b"`",
            Part::Ticks(_) => b"``",
        }
    }
}
