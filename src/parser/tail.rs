//! What follows a payload and still belongs to its call.
//!
//! ```text
//!    a format without a closer       payload }  \n  ``` \n  text
//!                                             |  |        |
//!                                             '--+- taken '- end
//!
//!    a format with one               payload }  \n  ``` \n  </tool_call>  \n  </tool_call>  \n  text
//!                                             |  |        |             |   |             |   |
//!                                             '--+- taken '-- taken ----'---'---- taken --'---'
//! ```
//!
//! What is taken belongs to the call. Later bytes are kept until one of them decides: a closer
//! takes them all, `{` begins another call before the same closer, and anything else makes them
//! text. If a model closes a call twice, it means it once; if it forgets to close it, the call
//! still counts; and an extra bracket before the closer is not meant for the user.

use super::segment::{Place, Segment};
use super::stream::Stream;
use super::transition::{After, Flow, Next, Opened};
use crate::limits::parser::GAP_BYTES_MAX;

/// The bytes after a payload. Those that are kept are in the stream's buffer.
#[derive(Debug)]
pub(super) struct Tail {
    opened: Opened,
    /// Where the payload went.
    place: Place,
    /// Whether the end of a code fence may come.
    fence: bool,
    /// What closes the call; empty if nothing does.
    closer: &'static [u8],
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// After the payload or a fence: one line ending belongs to the call whatever follows.
    Line,
    /// After a CR there.
    Return,
    /// After that line ending, before the closer.
    Space,
    /// After this many backticks of a fence.
    Ticks(u8),
    /// After this many bytes of the closer.
    Closer(usize),
    /// After the closer, where one line ending belongs to the call.
    Closed,
    /// After a CR there.
    ClosedReturn,
    /// After that line ending, where only another closer can come.
    Over,
}

/// What a byte means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It may belong to the call; a later byte decides.
    Keep,
    /// It belongs to the call, and so do the bytes that were kept.
    Take,
    /// The same, and the call ends here.
    Last,
    /// It begins another call under the same opener, and what was kept belongs to this one.
    Again,
    /// It does not belong to the call, nor do the bytes that were kept.
    Refuse,
}

impl Tail {
    pub(super) fn new(opened: Opened, place: Place, after: After, stream: &Stream) -> Self {
        let (part, fence) = match after {
            After::Payload { fence } => (Part::Line, fence),
            After::Closer => (Part::Closed, false),
        };
        Self { opened, place, fence, closer: stream.closer().unwrap_or_default(), part }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            let (step, part) = self.step(byte, stream.buffer.len());
            self.part = part;
            match step {
                Step::Keep => stream.keep(&[byte], GAP_BYTES_MAX),
                Step::Take => stream.buffer.clear(),
                Step::Last => {
                    stream.end_call(self.opened, self.place, stream.position(at + 1), sink);
                    return Flow::Enter(Next::prose(), at + 1);
                }
                Step::Again => return self.next_payload(at, stream, sink),
                Step::Refuse => return self.end(at, stream, sink),
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.end(0, stream, sink)
    }

    /// Ends the call before `at`, less the bytes that were kept: they are read again, as text.
    fn end(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let kept = stream.buffer.len();
        stream.end_call(self.opened, self.place, stream.position(at) - kept as u64, sink);
        match at.checked_sub(kept) {
            Some(at) => Flow::Enter(Next::prose(), at),
            None => Flow::Reread(Next::prose(), stream.buffer[..kept - at].to_vec()),
        }
    }

    /// Ends the call before `at`, where the payload of another one begins.
    fn next_payload(
        &self,
        at: usize,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let start = stream.position(at);
        stream.end_call(self.opened, self.place, start, sink);
        let opened = Opened { at: start, at_line_start: false, ..self.opened };
        Flow::Enter(Next::Payload { opened, fence: self.fence, repaired: Vec::new() }, at)
    }

    /// What a byte means after `kept` bytes, and where it leads.
    fn step(&mut self, byte: u8, kept: usize) -> (Step, Part) {
        match (self.part, byte) {
            // Nothing more can come, so nothing waits for it.
            (Part::Line | Part::Return, b'\n') if !self.closes() && !self.fence => {
                (Step::Last, Part::Space)
            }
            (Part::Line | Part::Return, b'\n') => (Step::Take, Part::Space),
            (Part::Line, b'\r') => (Step::Keep, Part::Return),
            (Part::Closed | Part::ClosedReturn, b'\n') => (Step::Take, Part::Over),
            (Part::Closed, b'\r') => (Step::Keep, Part::ClosedReturn),
            (Part::Ticks(1), b'`') => (Step::Keep, Part::Ticks(2)),
            (Part::Ticks(_), b'`') => {
                self.fence = false;
                (Step::Take, Part::Line)
            }
            (Part::Closer(read), _) if self.closer.get(read) == Some(&byte) => self.closer(read),
            (Part::Line | Part::Return | Part::Space, _) => self.before_closer(byte, kept),
            (Part::Closed | Part::Over, _) if self.closer.first() == Some(&byte) => self.closer(0),
            (part, _) => (Step::Refuse, part),
        }
    }

    /// What any other byte means if a fence or the closer may come.
    fn before_closer(&self, byte: u8, kept: usize) -> (Step, Part) {
        match byte {
            b'`' if self.fence && (self.closes() || kept == 0) => (Step::Keep, Part::Ticks(1)),
            _ if self.closer.first() == Some(&byte) => self.closer(0),
            b'{' if self.closes() => (Step::Again, self.part),
            _ if self.closes() && is_slip(byte) && kept < GAP_BYTES_MAX => {
                (Step::Keep, Part::Space)
            }
            _ => (Step::Refuse, self.part),
        }
    }

    /// Reads the closer's next byte, after `read` others.
    fn closer(&self, read: usize) -> (Step, Part) {
        if read + 1 == self.closer.len() {
            (Step::Take, Part::Closed)
        } else {
            (Step::Keep, Part::Closer(read + 1))
        }
    }

    fn closes(&self) -> bool {
        !self.closer.is_empty()
    }
}

/// White space, and what models write between a call and its closer by mistake: an extra bracket, a
/// comma or a semicolon.
const fn is_slip(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'}' | b']' | b',' | b';')
}
