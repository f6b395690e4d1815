//! The rest of arguments in tags that were too long.

use std::sync::Arc;

use super::super::call::Fault;
use super::super::examined;
use super::super::marks::{Held, Mark, Marks, Step};
use super::super::segment::{ErrorCode, Place, Segment};
use super::super::stream::Stream;
use super::super::transition::Flow;
use super::{Part, Tagged, landed};

/// The rest of arguments that were too long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// The part of a mark that has been read.
    pub(super) held: Held,
    /// How many calls and frames have begun in it that have not ended, if it is the rest of a value: a value may show
    /// calls, which are not to run.
    pub(super) shown: Option<usize>,
}

impl Tagged {
    /// The part of a mark that the last bytes may be.
    pub(super) fn half_read(&self, stream: &Stream) -> Held {
        let mut held = match &self.part {
            Part::Between(held) | Part::AfterValue(_, held) => *held,
            Part::Value(value) if value.is_wrapped() => return Held::NONE,
            Part::Value(value) => value.held(),
            _ => Held::NONE,
        };
        let unread = &stream.buffer[self.at..];
        examined::note(unread.len());
        for &byte in unread {
            held = loop {
                match stream.syntax.tags.step(held, byte) {
                    Step::Hold(held) => break held,
                    Step::Miss | Step::Match(_) => break Held::NONE,
                    Step::Fall(fall) => held = landed(fall.landing),
                }
            }
        }
        held
    }

    /// Reports that the arguments are too long.
    pub(super) fn refuse_length(
        &self,
        most: usize,
        stream: &Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let message = format!("the payload is longer than {most} bytes");
        let fault = Fault::new(ErrorCode::PayloadTooLarge, message);
        fault.say(self.opened, self.index, &stream.buffer, sink);
    }

    /// Skips to the next mark that ends a call, wherever it stands; in a value, to one that ends none that it shows.
    pub(super) fn discard(
        &mut self,
        Rest { mut held, mut shown }: Rest,
        stream: &mut Stream,
        bytes: &[u8],
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let marks = Arc::clone(&stream.syntax);
        let marks: &Marks = &marks.tags;
        while let Some(&byte) = bytes.get(at) {
            match marks.step(held, byte) {
                Step::Hold(more) => (held, at) = (more, at + 1),
                Step::Miss => at += 1,
                Step::Fall(fall) => held = landed(fall.landing),
                Step::Match(mark) => {
                    (held, at) = (Held::NONE, at + 1);
                    match (marks.mark(mark), &mut shown) {
                        (Mark::Key | Mark::ValueClose, _) => {}
                        (Mark::Opener | Mark::FrameOpen, Some(shown)) => *shown += 1,
                        (Mark::Closer | Mark::FrameClose, Some(shown)) if *shown > 0 => *shown -= 1,
                        _ => {
                            let place = Place::Error(ErrorCode::PayloadTooLarge);
                            let end = stream.position(at);
                            return Flow::Enter(self.leave(mark, place, end, stream, sink), at);
                        }
                    }
                }
            }
        }
        self.part = Part::Discard(Rest { held, shown });
        Flow::Stay
    }
}
