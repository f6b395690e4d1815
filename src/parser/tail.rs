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

use std::mem;
use std::sync::Arc;

use super::marks::{self, Held, Mark, Marks};
use super::segment::{Place, Segment};
use super::stream::Stream;
use super::transition::{After, Flow, Next, Opened};
use crate::call_format::Row;
use crate::limits::parser::GAP_BYTES_MAX;

/// The bytes after a payload. Those that are kept are in the stream's buffer.
#[derive(Debug)]
pub(super) struct Tail {
    opened: Opened,
    /// Where the payload went.
    place: Place,
    /// Whether the end of a code fence may come.
    fence: bool,
    row: &'static Row,
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
    /// After this much of a mark.
    Mark(Held),
    /// After the closer, where one line ending belongs to the call.
    Closed,
    /// After a CR there.
    ClosedReturn,
    /// After that line ending, where only another mark can come; in a frame, after white space.
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
    /// It ends the opener of another call in the same frame.
    Open(usize),
    /// It does not belong to the call, nor do the bytes that were kept.
    Refuse,
}

impl Tail {
    pub(super) fn new(opened: Opened, place: Place, after: After, stream: &Stream) -> Self {
        let (part, fence) = match after {
            After::Payload { fence } => (Part::Line, fence),
            After::Closer => (Part::Closed, false),
        };
        Self { opened, place, fence, row: stream.row(), part }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let syntax = Arc::clone(&stream.syntax);
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            let (step, part) = self.step(byte, stream.buffer.len(), &syntax.after);
            self.part = part;
            match step {
                Step::Keep => stream.keep(&[byte], GAP_BYTES_MAX),
                Step::Take => stream.buffer.clear(),
                Step::Last => {
                    stream.end_call(self.opened, self.place, stream.position(at + 1), sink);
                    return Flow::Enter(stream.after_call(), at + 1);
                }
                Step::Again => return self.next_payload(at, stream, sink),
                Step::Open(mark) => {
                    return self.next_call(at + 1, syntax.after.pattern(mark), stream, sink);
                }
                Step::Refuse => return self.end(at, stream, sink),
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.end(0, stream, sink)
    }

    /// Ends the call before `at`, less the bytes that were kept: they are read again, as what follows it.
    fn end(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let kept = stream.buffer.len();
        stream.end_call(self.opened, self.place, stream.position(at) - kept as u64, sink);
        Flow::again(stream.after_call(), mem::take(&mut stream.buffer), at)
    }

    /// Ends the call before the opener of another one, which ends before `at`.
    fn next_call(
        &self,
        at: usize,
        opener: &[u8],
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let start = stream.position(at) - opener.len() as u64;
        stream.end_call(self.opened, self.place, start, sink);
        stream.begin_head(opener);
        Flow::Enter(Next::Call(Opened { is_framed: true, ..Opened::at(start) }), at)
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
        let (opened, fence) = (Opened::at(start), self.fence);
        Flow::Enter(Next::Payload { opened, fence, repaired: Vec::new() }, at)
    }

    /// What a byte means after `kept` bytes, and where it leads.
    fn step(&mut self, byte: u8, kept: usize, marks: &Marks) -> (Step, Part) {
        let held = match self.part {
            Part::Mark(held) => held,
            _ => Held::NONE,
        };
        match (self.part, byte) {
            // Nothing more can come, so nothing waits for it.
            (Part::Line | Part::Return, b'\n') if !self.row.closes() && !self.fence => {
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
            (Part::Ticks(_) | Part::ClosedReturn, _) => (Step::Refuse, self.part),
            _ => match (marks.step(held, byte), self.part) {
                (marks::Step::Hold(held), _) => (Step::Keep, Part::Mark(held)),
                (marks::Step::Match(mark), _) if marks.mark(mark) == Mark::Opener => {
                    (Step::Open(mark), self.part)
                }
                (marks::Step::Match(_), _) => (Step::Take, Part::Closed),
                (_, Part::Line | Part::Return | Part::Space) => self.before_closer(byte, kept),
                (_, Part::Closed | Part::Over) if self.is_between(byte, kept) => {
                    (Step::Keep, Part::Over)
                }
                (_, part) => (Step::Refuse, part),
            },
        }
    }

    /// What any other byte means if a fence or the closer may come.
    fn before_closer(&self, byte: u8, kept: usize) -> (Step, Part) {
        match byte {
            b'`' if self.fence && (self.row.closes() || kept == 0) => (Step::Keep, Part::Ticks(1)),
            b'{' if self.row.closes() && self.row.has_names_in_objects() => {
                (Step::Again, self.part)
            }
            _ if self.row.closes() && is_slip(byte) && kept < GAP_BYTES_MAX => {
                (Step::Keep, Part::Space)
            }
            _ => (Step::Refuse, self.part),
        }
    }

    /// Whether a byte may stand between the calls of a frame.
    const fn is_between(&self, byte: u8, kept: usize) -> bool {
        self.row.frame.is_some() && byte.is_ascii_whitespace() && kept < GAP_BYTES_MAX
    }
}

/// White space, and what models write between a call and its closer by mistake: an extra bracket, a
/// comma or a semicolon.
const fn is_slip(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'}' | b']' | b',' | b';')
}
