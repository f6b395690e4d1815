//! A value in tags, and what in it may be the end of the whole call.
//!
//! ```text
//!   <parameter=path>  a.txt </function> </tool_call>  <tool_call> <function=g> ...
//!                     '- value '--- end of the call   '- another call begins: it was the end
//! ```
//!
//! Models forget a closing tag. A value may also mention how calls end, so such an end counts only if
//! another call begins directly behind it, or if the input ends inside the value. An end that belongs
//! to a call in the value itself never counts.

use super::super::marks::{Held, Mark, Marks, Step};
use super::landed;
use crate::limits::parser::GAP_BYTES_MAX;

/// A value whose closing tag has not come yet. Positions are in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    /// Where it begins.
    pub start: usize,
    /// The part of a mark that has been read.
    held: Held,
    /// How many calls, and frames, have begun in it and have not ended.
    inner: [usize; 2],
    /// The first end of the call in it.
    first: Option<End>,
    /// The last one, and where the marks behind it end.
    last: Option<(End, usize)>,
}

/// A mark that ends a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub mark: usize,
    /// Where it ends.
    pub at: usize,
}

/// What has been found in a value.
pub(super) enum Found {
    /// Its closing tag, which begins here.
    Tag(usize),
    /// The end of the call: the tag was forgotten.
    End(End),
}

impl Value {
    pub(super) const fn new(start: usize) -> Self {
        Self { start, held: Held::NONE, inner: [0; 2], first: None, last: None }
    }

    /// Where the call ends if the input does.
    pub(super) const fn end_of_call(&self) -> Option<End> {
        self.first
    }

    /// Reads from `at` as far as a decision, or all there is.
    pub(super) fn read(&mut self, marks: &Marks, buffer: &[u8], at: &mut usize) -> Option<Found> {
        loop {
            if self.held.is_empty() {
                match marks.find(&buffer[*at..]) {
                    Some(skipped) => *at += skipped,
                    None => *at = buffer.len(),
                }
            }
            let &byte = buffer.get(*at)?;
            match marks.step(self.held, byte) {
                Step::Hold(held) => (self.held, *at) = (held, *at + 1),
                Step::Miss => *at += 1,
                Step::Fall(fall) => self.held = landed(fall.landing),
                Step::Match(mark) => {
                    (self.held, *at) = (Held::NONE, *at + 1);
                    let start = *at - marks.pattern(mark).len();
                    if marks.mark(mark) == Mark::ValueClose {
                        return Some(Found::Tag(start));
                    }
                    let end = End { mark, at: *at };
                    if let Some(end) = self.take(marks.mark(mark), start, end, buffer) {
                        return Some(Found::End(end));
                    }
                }
            }
        }
    }

    /// Takes a mark that begins or ends a call. Returns where this call ended, if that is clear now.
    fn take(&mut self, mark: Mark, start: usize, end: End, buffer: &[u8]) -> Option<End> {
        let is_behind = |behind: usize| {
            start - behind <= GAP_BYTES_MAX && buffer[behind..start].trim_ascii().is_empty()
        };
        let last = self.last.take().filter(|(_, behind)| is_behind(*behind));
        let inner =
            &mut self.inner[usize::from(matches!(mark, Mark::FrameOpen | Mark::FrameClose))];
        if matches!(mark, Mark::Opener | Mark::FrameOpen) {
            *inner += 1;
            return last.map(|(end, _)| end);
        }
        if *inner > 0 {
            *inner -= 1;
            return None;
        }
        self.first.get_or_insert(end);
        self.last = Some((last.map_or(end, |(first, _)| first), end.at));
        None
    }
}
