//! Text and reasoning: everything up to the next opener goes out, whatever may
//! belong to one is held.

use std::mem;
use std::ops::Range;

use super::marker::{Fall, Held, Landing, Opener, Openers, Step};
use super::text::{Chunk, Unchecked};
use super::{Marker, Parser, Place, Segment, Span};
use crate::limits::parser::MARKER_BYTES_MAX;

impl Parser {
    fn openers(&self) -> &Openers {
        &self.openers[usize::from(self.reasoning)]
    }

    pub(super) fn prose<C: Chunk, S: FnMut(Segment<'_>)>(
        &mut self,
        chunk: C,
        mut at: usize,
        sink: &mut S,
    ) -> usize {
        let bytes = chunk.bytes();
        // `bytes[from..at]` is text, less what is held of this chunk.
        let from = at;
        // So many of the held bytes came before this chunk.
        let mut before = self.held.len();
        while at < bytes.len() {
            if self.held.is_empty() {
                match self.openers().find(&bytes[at..]) {
                    Some(skipped) => at += skipped,
                    None => break,
                }
            }
            match self.openers().step(self.held, bytes[at]) {
                Step::Hold(held) => {
                    self.held = held;
                    at += 1;
                }
                Step::Miss => at += 1,
                Step::Fall(fall) => match fall.landing {
                    Landing::Held(held) => {
                        let gone = fall.drop.min(before);
                        self.say_held(gone, before, sink);
                        before -= gone;
                        self.held = held;
                    }
                    Landing::Match(_) => {
                        let in_chunk = self.held.len() - before;
                        let dropped = fall.drop.saturating_sub(before);
                        self.say_held(fall.drop.min(before), before, sink);
                        self.say(chunk, from..at - in_chunk + dropped, sink);
                        // What is left to decide is all in front of `at`.
                        return self.enter_inner(fall, at, before, sink);
                    }
                },
                Step::Match(which) => {
                    let length = self.openers().pattern(which).len();
                    at += 1;
                    self.say(chunk, from..at - (length - before), sink);
                    self.enter(which, self.position(at) - length as u64, sink);
                    return at;
                }
            }
        }
        let text_ends =
            if self.held.is_empty() { bytes.len() } else { at + before - self.held.len() };
        self.say(chunk, from..text_ends, sink);
        if !self.held.is_empty() {
            // Openers begin with a whole character, so what is unfinished stays so.
            self.flush(sink);
        }
        bytes.len()
    }

    /// Decides on what is held when no byte follows.
    pub(super) fn give_up_held(&mut self, sink: &mut impl FnMut(Segment<'_>)) {
        let before = self.held.len();
        let fall = self.openers().fall(self.held);
        self.say_held(fall.drop, before, sink);
        match fall.landing {
            Landing::Held(held) => self.held = held,
            Landing::Match(_) => {
                self.enter_inner(fall, 0, before, sink);
            }
        }
    }

    /// Enters an opener that lies inside what is held, of which the first `before`
    /// bytes came before this chunk and the rest ends at `at`. Returns where to go on.
    fn enter_inner<S: FnMut(Segment<'_>)>(
        &mut self,
        fall: Fall,
        at: usize,
        before: usize,
        sink: &mut S,
    ) -> usize {
        let Landing::Match(which) = fall.landing else { unreachable!("the caller looked") };
        let (held, bytes) = self.copy_held();
        let behind = fall.drop + self.openers().pattern(which).len();
        let start = self.position(at) - (held - fall.drop) as u64;
        self.enter(which, start, sink);
        if behind >= before {
            return at - (held - behind);
        }
        // What stands behind it came in earlier chunks and is read once more, in a
        // state that gives it another meaning.
        self.replay(&bytes[behind..before], sink);
        0
    }

    /// Reads bytes that came before this chunk.
    pub(super) fn replay<S: FnMut(Segment<'_>)>(&mut self, bytes: &[u8], sink: &mut S) {
        self.offset -= bytes.len() as u64;
        self.drive(Unchecked(bytes), sink);
    }

    fn copy_held(&self) -> (usize, [u8; MARKER_BYTES_MAX]) {
        let mut copy = [0; MARKER_BYTES_MAX];
        let held = self.openers().held(self.held);
        copy[..held.len()].copy_from_slice(held);
        (held.len(), copy)
    }

    /// Leaves prose through an opener that begins at `start`.
    fn enter(&mut self, which: usize, start: u64, sink: &mut impl FnMut(Segment<'_>)) {
        let openers = self.openers();
        let (opener, length) = (openers.opener(which), openers.pattern(which).len());
        self.held = Held::NONE;
        self.flush(sink);
        if opener == Opener::Marker {
            return self.enter_gap(Marker { at: start, at_line_start: self.last == b'\n' });
        }
        self.reasoning = opener == Opener::ReasoningOpen;
        self.last = b'\n';
        self.span(Place::Tag, start..start + length as u64, sink);
    }

    /// Hands on a range of the chunk as text or reasoning.
    fn say<C: Chunk>(&mut self, chunk: C, range: Range<usize>, sink: &mut impl FnMut(Segment<'_>)) {
        let Some(&last) = chunk.bytes()[range.clone()].last() else { return };
        self.last = last;
        let span = self.position(range.start)..self.position(range.end);
        let reasoning = self.reasoning;
        chunk.say(range, &mut self.utf8, &mut |text| {
            sink(if reasoning { Segment::Reasoning(text) } else { Segment::Text(text) });
        });
        self.span(self.prose_place(), span, sink);
    }

    /// Hands on the first `count` held bytes, all from before this chunk.
    fn say_held(&mut self, count: usize, before: usize, sink: &mut impl FnMut(Segment<'_>)) {
        if count == 0 {
            return;
        }
        let (_, bytes) = self.copy_held();
        self.say_before(&bytes[..count], self.offset - before as u64, sink);
    }

    /// Hands on bytes that came before this chunk.
    pub(super) fn say_before(
        &mut self,
        bytes: &[u8],
        start: u64,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let offset = mem::replace(&mut self.offset, start);
        self.say(Unchecked(bytes), 0..bytes.len(), sink);
        self.offset = offset;
    }

    /// Gives up on a character that will never become whole.
    pub(super) fn flush(&mut self, sink: &mut impl FnMut(Segment<'_>)) {
        let reasoning = self.reasoning;
        self.utf8.flush(&mut |text| {
            sink(if reasoning { Segment::Reasoning(text) } else { Segment::Text(text) });
        });
    }

    fn prose_place(&self) -> Place {
        if self.reasoning { Place::Reasoning } else { Place::Text }
    }

    pub(super) fn span(&self, place: Place, range: Range<u64>, sink: &mut impl FnMut(Segment<'_>)) {
        if self.settings.spans && !range.is_empty() {
            sink(Segment::Span(Span { place, range }));
        }
    }
}
