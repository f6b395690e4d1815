//! The rest of a payload that was refused before its end.

use super::json_scan::{Scanner, Stop};
use super::segment::{ErrorCode, Place, Segment};
use super::stream::Stream;
use super::transition::{Flow, Marker, Next};

/// Skips to the bracket that balances the payload's first one. Nothing is kept.
#[derive(Debug)]
pub(super) struct Discard {
    marker: Marker,
    /// Why it was refused.
    code: ErrorCode,
    scanner: Scanner,
}

impl Discard {
    pub(super) fn new(marker: Marker, code: ErrorCode, scanner: Scanner) -> Self {
        Self { marker, code, scanner }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let place = Place::Error(self.code);
        loop {
            let (taken, stop) = self.scanner.scan(&bytes[at..], &stream.rules);
            at += taken;
            let end = stream.position(at);
            let next = match stop {
                None => return Flow::Stay,
                // A payload is refused once.
                Some(Stop::TooDeep) => continue,
                Some(Stop::End | Stop::WrongCloser) => {
                    stream.end_call(self.marker, place, end, sink);
                    Next::prose()
                }
                Some(Stop::Marker) => {
                    let start = end - stream.settings.marker.len() as u64;
                    stream.span(place, self.marker.at..start, sink);
                    Next::Gap(Marker { at: start, at_line_start: false })
                }
            };
            return Flow::Enter(next, at);
        }
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        stream.end_call(self.marker, Place::Error(self.code), stream.offset, sink);
        Flow::Enter(Next::prose(), 0)
    }
}
