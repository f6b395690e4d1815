//! The rest of a payload that was refused before its end.

use std::sync::Arc;

use super::json_scan::{Scanner, Stop};
use super::marks::Mark;
use super::segment::{ErrorCode, Place, Segment};
use super::stream::Stream;
use super::transition::{After, Flow, Next, Opened};

/// Skips to the bracket that balances the payload's first one. Nothing is kept.
#[derive(Debug)]
pub(super) struct Discard {
    opened: Opened,
    /// Why it was refused.
    code: ErrorCode,
    scanner: Scanner,
    /// Whether a code fence has opened before it.
    fence: bool,
}

impl Discard {
    pub(super) fn new(opened: Opened, code: ErrorCode, scanner: Scanner, fence: bool) -> Self {
        Self { opened, code, scanner, fence }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let place = Place::Error(self.code);
        let syntax = Arc::clone(&stream.syntax);
        loop {
            let (taken, stop) = self.scanner.scan(0, &bytes[at..], &stream.syntax.rules);
            at += taken;
            let end = stream.position(at);
            let next = match stop {
                None => return Flow::Stay,
                // The payload is refused already.
                Some(Stop::TooDeep | Stop::Pause) => continue,
                Some(Stop::End | Stop::WrongCloser) => {
                    stream.end_refused(self.opened, place, end, self.fence, sink)
                }
                Some(Stop::Boundary(boundary)) => {
                    let after = After::Payload { fence: false };
                    let next = Next::Tail { opened: self.opened, place, after };
                    let again = syntax.rules.boundary(boundary).to_vec();
                    return Flow::again(next, again, at);
                }
                Some(Stop::Mark(mark)) => match syntax.rules.mark(mark) {
                    (Mark::Closer | Mark::FrameClose, _) => Next::closed(self.opened, place),
                    (mark, text) => {
                        let start = end - text.len() as u64;
                        stream.span(place, self.opened.at..start, sink);
                        stream.begin_head(text);
                        Next::opened(mark, Opened::at(start)).unwrap_or_else(Next::prose)
                    }
                },
            };
            return Flow::Enter(next, at);
        }
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        stream.end_call(self.opened, Place::Error(self.code), stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }
}
