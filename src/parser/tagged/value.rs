//! A value in tags, and what in it may be the end of the whole call.
//!
//! ```text
//!   <parameter=path>  a.txt </function> </tool_call>  <tool_call> <function=g> <parameter= ...
//!                     '- value '--- end of the call   '- another call begins: it was the end
//! ```
//!
//! Models forget closing tags. But a value may also show calls, or mention how they begin and end. So the
//! tags of a whole call in the value are that call's, and an end that closes no call in the value counts
//! only if another call follows, or if the input ends inside the value. In formats of messages, any end that
//! the header of the next message directly follows counts.

use std::ops::Range;

use memchr::memmem;

use super::super::examined;
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
    wrap: Wrap,
    /// How many calls, frames and arguments have begun in it and have not ended.
    inner: Inner,
    /// The first end of the call in it.
    first: Option<End>,
    /// The last ends of the call, if nothing but white space has followed.
    run: Option<Run>,
    /// The last mark, if it ends a call, a frame or a message.
    closer: Option<End>,
    /// Where the last closing tag ends that nothing of the format followed.
    tag: Option<usize>,
}

/// What a value may be wrapped in. No mark counts in there.
#[derive(Debug, Clone, Copy)]
enum Wrap {
    None,
    /// It may begin, with white space from here on before it.
    Before([&'static str; 2], usize),
    /// It ends with this, which does not begin before here.
    Inside(&'static str, usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct Inner {
    calls: usize,
    frames: usize,
    arguments: usize,
}

/// Ends of the call with nothing but white space between them.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: End,
    /// Where the last one ends.
    end: usize,
}

/// A mark that ends the call, or begins the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// Which one of the format's marks between tags.
    pub mark: usize,
    /// Where it ends.
    pub at: usize,
}

/// What has been found in a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// Its closing tag, which begins here.
    Tag(usize),
    /// The call is over, and was not closed as it should be.
    Over(Over),
}

/// Where a call is over that was not closed as it should be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Over {
    /// With this mark.
    Mark(End),
    /// With a closing tag that ends here.
    Tag(usize),
}

impl Value {
    /// How many calls and frames it shows that have not ended.
    pub(super) const fn shown(&self) -> usize {
        self.inner.calls + self.inner.frames
    }

    pub(super) fn new(start: usize, wrap: Option<[&'static str; 2]>) -> Self {
        let wrap = wrap.map_or(Wrap::None, |tags| Wrap::Before(tags, start));
        let inner = Inner::default();
        Self {
            start,
            held: Held::NONE,
            wrap,
            inner,
            first: None,
            run: None,
            closer: None,
            tag: None,
        }
    }

    /// The part of a mark that has been read.
    pub(super) const fn held(&self) -> Held {
        self.held
    }

    /// Whether it has begun with what it may be wrapped in, which has not ended.
    pub(super) const fn is_wrapped(&self) -> bool {
        matches!(self.wrap, Wrap::Inside(..))
    }

    /// Where the call is over if no closing tag comes any more.
    pub(super) fn over(&self) -> Option<Over> {
        self.first.map(Over::Mark).or_else(|| self.tag.map(Over::Tag))
    }

    /// What has come of it, if it has been read up to `at`.
    pub(super) const fn so_far(&self, at: usize) -> Range<usize> {
        self.start..at - self.held.len()
    }

    /// The same value, of which the closing tag that ends here was a part.
    pub(super) const fn with_tag(self, end: usize) -> Self {
        Self { tag: Some(end), ..self }
    }

    /// Reads from `at` as far as a decision, or all there is.
    pub(super) fn read(&mut self, marks: &Marks, buffer: &[u8], at: &mut usize) -> Option<Found> {
        self.unwrap(buffer, at)?;
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
                    let end = End { mark, at: *at };
                    if let Some(found) = self.note(marks.mark(mark), start, end, buffer) {
                        return Some(found);
                    }
                }
            }
        }
    }

    /// Skips what the value is wrapped in. `None` if more bytes are needed.
    fn unwrap(&mut self, buffer: &[u8], at: &mut usize) -> Option<()> {
        if let Wrap::Before(tags @ [open, close], space) = self.wrap {
            examined::note(buffer.len() - space);
            let rest = buffer[space..].trim_ascii_start();
            if rest.len() < open.len() && open.as_bytes().starts_with(rest) {
                self.wrap = Wrap::Before(tags, buffer.len() - rest.len());
                return None;
            }
            let from = buffer.len() - rest.len() + open.len();
            let is_wrapped = rest.starts_with(open.as_bytes());
            self.wrap = if is_wrapped { Wrap::Inside(close, from) } else { Wrap::None };
        }
        if let Wrap::Inside(close, from) = self.wrap {
            let found = memmem::find(&buffer[from..], close.as_bytes());
            examined::note(buffer.len() - from);
            let Some(found) = found else {
                let next = from.max((buffer.len() + 1).saturating_sub(close.len()));
                self.wrap = Wrap::Inside(close, next);
                return None;
            };
            (self.wrap, *at) = (Wrap::None, from + found + close.len());
        }
        Some(())
    }

    /// Notes a mark of the format. Returns what it decides.
    fn note(&mut self, mark: Mark, start: usize, end: End, buffer: &[u8]) -> Option<Found> {
        let follows =
            |end: usize| start - end <= GAP_BYTES_MAX && buffer[end..start].trim_ascii().is_empty();
        let run = self.run.take().filter(|run| follows(run.end));
        let closer = self.closer.take();
        if matches!(mark, Mark::Closer | Mark::FrameClose | Mark::MessageEnd) {
            self.closer = Some(end);
        }
        match mark {
            Mark::ValueClose if self.inner.arguments > 0 => self.inner.arguments -= 1,
            Mark::ValueClose => return Some(Found::Tag(start)),
            Mark::Key if self.inner.calls > 0 => {
                if let Some(over) = self.over() {
                    return Some(Found::Over(over));
                }
                self.inner.arguments += 1;
            }
            // The next message: no value goes on after it.
            Mark::Header => {
                let over = closer.filter(|closer| closer.at == start).map(Over::Mark);
                return over.map(Found::Over);
            }
            Mark::Opener | Mark::FrameOpen => {
                *self.inner.of(mark) += 1;
                return run.map(|run| Found::Over(Over::Mark(run.first)));
            }
            Mark::Closer | Mark::FrameClose if *self.inner.of(mark) > 0 => {
                *self.inner.of(mark) -= 1;
                if self.inner.calls == 0 {
                    self.inner.arguments = 0;
                }
            }
            Mark::Closer | Mark::FrameClose => {
                self.first.get_or_insert(end);
                self.run = Some(Run { first: run.map_or(end, |run| run.first), end: end.at });
            }
            _ => {}
        }
        None
    }
}

impl Inner {
    /// The calls or the frames, whichever this mark begins or ends.
    const fn of(&mut self, mark: Mark) -> &mut usize {
        match mark {
            Mark::FrameOpen | Mark::FrameClose => &mut self.frames,
            _ => &mut self.calls,
        }
    }
}
