//! What stands behind a payload up to the closer of its call, and behind that.
//!
//! ```text
//!    payload }  \n  ``` \n  </tool_call>  \n  </tool_call>  \n  text
//!             |  |        |             |   |             |   |
//!             '--+- taken '-- taken ----'---'---- taken --'---'
//! ```
//! What is taken belongs to the call. What comes after it may, until a byte shows that it does
//! not; then it is text. A model that closes twice means it once, one that forgets to close has
//! called all the same, and a bracket too many before the closer is no word to the user.

use super::segment::{Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::limits::parser::GAP_BYTES_MAX;

/// The bytes behind a payload, in a format that closes calls. Those that are not taken yet
/// are in the stream's buffer.
#[derive(Debug)]
pub(super) struct Closing {
    opened: Opened,
    /// Where the payload went.
    place: Place,
    /// Whether the end of a code fence may come.
    fence: bool,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Behind the payload or a fence: one line ending belongs to the call whatever follows.
    Line,
    /// Behind a CR there.
    Return,
    /// In front of the closer.
    Space,
    /// Behind so many backticks of a fence.
    Ticks(u8),
    /// Behind so many bytes of the closer.
    Closer(usize),
    /// Behind the closer, where one line ending belongs to the call.
    Closed,
    /// Behind a CR there.
    ClosedReturn,
    /// Behind that line ending: only another closer can still come.
    Over,
}

/// What a byte means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It may belong to the call; the next byte decides or goes on.
    Keep,
    /// It belongs to the call, and so does all that was kept.
    Take,
    /// It does not belong to the call, nor does what was kept.
    Refuse,
}

impl Closing {
    pub(super) const fn new(opened: Opened, place: Place, fence: bool, is_closed: bool) -> Self {
        let part = if is_closed { Part::Closed } else { Part::Line };
        Self { opened, place, fence, part }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            match self.step(byte, stream) {
                Step::Keep => stream.keep(&[byte], GAP_BYTES_MAX),
                Step::Take => stream.buffer.clear(),
                Step::Refuse => return self.end(at, stream, sink),
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.end(0, stream, sink)
    }

    /// Ends the call in front of `at`, less what was kept: that is read again, as text.
    fn end(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let kept = stream.buffer.len();
        stream.end_call(self.opened, self.place, stream.position(at) - kept as u64, sink);
        match at.checked_sub(kept) {
            Some(at) => Flow::Enter(Next::prose(), at),
            None => Flow::Reread(Next::prose(), stream.buffer[..kept - at].to_vec()),
        }
    }

    fn step(&mut self, byte: u8, stream: &Stream) -> Step {
        let closer = stream.settings.format.row().closer.as_ref();
        let closer = closer.map_or(&b""[..], |closer| closer.text.as_bytes());
        let (step, part) = match (self.part, byte) {
            (Part::Line | Part::Return, b'\n') => (Step::Take, Part::Space),
            (Part::Line, b'\r') => (Step::Keep, Part::Return),
            (Part::Closed | Part::ClosedReturn, b'\n') => (Step::Take, Part::Over),
            (Part::Closed, b'\r') => (Step::Keep, Part::ClosedReturn),
            (Part::Closer(read), byte) if closer.get(read) == Some(&byte) => {
                if read + 1 == closer.len() {
                    (Step::Take, Part::Closed)
                } else {
                    (Step::Keep, Part::Closer(read + 1))
                }
            }
            (Part::Ticks(1), b'`') => (Step::Keep, Part::Ticks(2)),
            (Part::Ticks(_), b'`') => {
                self.fence = false;
                (Step::Take, Part::Line)
            }
            (Part::Closed | Part::Over, byte) if closer.first() == Some(&byte) => {
                (Step::Keep, Part::Closer(1))
            }
            (
                Part::Closer(_) | Part::Ticks(_) | Part::Closed | Part::ClosedReturn | Part::Over,
                _,
            ) => return Step::Refuse,
            (_, b'`') if self.fence => (Step::Keep, Part::Ticks(1)),
            (_, byte) if closer.first() == Some(&byte) => (Step::Keep, Part::Closer(1)),
            (_, byte) if is_slip(byte) && stream.buffer.len() < GAP_BYTES_MAX => {
                (Step::Keep, Part::Space)
            }
            _ => return Step::Refuse,
        };
        self.part = part;
        step
    }
}

/// White space, and what models write between a call and its closer by mistake: a bracket too
/// many, or a comma.
const fn is_slip(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'}' | b']' | b',' | b';')
}
