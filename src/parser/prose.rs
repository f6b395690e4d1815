//! Text and reasoning: everything up to the next opener goes out, and whatever may belong to an
//! opener is held.
//!
//! ```text
//!    chunk 1             chunk 2
//!    One moment. <<func  tion_call> {
//!    '-- out ---''held'  '-held---'^ does not fit: all 16 held bytes are text
//! ```

use super::marks::{Fall, Held, Landing, Mark, Marks, Step};
use super::segment::{Place, Segment};
use super::stream::Stream;
use super::text::Chunk;
use super::transition::{Flow, Next, Opened};

/// Text or reasoning, outside calls.
#[derive(Debug, Default)]
pub(super) struct Prose {
    /// The part of an opener that has been read.
    held: Held,
}

/// An opener inside the held bytes of another one.
struct Inner {
    which: usize,
    /// How many held bytes come before it.
    drop: usize,
    /// How many held bytes are from earlier chunks.
    before: usize,
}

impl Prose {
    /// Prose with this much of an opener held already.
    pub(super) const fn new(held: Held) -> Self {
        Self { held }
    }

    /// Whether nothing is held.
    pub(super) fn is_calm(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn read<C: Chunk>(
        &mut self,
        marks: &Marks,
        stream: &mut Stream,
        chunk: C,
        mut at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let bytes = chunk.bytes();
        // `bytes[from..at]` is text, except for the held bytes at its end.
        let from = at;
        // How many held bytes are from earlier chunks.
        let mut before = self.held.len();
        while at < bytes.len() {
            if self.held.is_empty() {
                match marks.find(&bytes[at..]) {
                    Some(skipped) => at += skipped,
                    None => break,
                }
            }
            match marks.step(self.held, bytes[at]) {
                Step::Hold(held) => {
                    self.held = held;
                    at += 1;
                }
                Step::Miss => at += 1,
                Step::Fall(Fall { drop, landing: Landing::Held(held) }) => {
                    let gone = drop.min(before);
                    self.say_held(gone, before, marks, stream, sink);
                    before -= gone;
                    self.held = held;
                }
                Step::Fall(Fall { drop, landing: Landing::Match(which) }) => {
                    let in_chunk = self.held.len() - before;
                    let dropped = drop.saturating_sub(before);
                    self.say_held(drop.min(before), before, marks, stream, sink);
                    stream.say(chunk, from..at - in_chunk + dropped, sink);
                    // Everything that is still undecided lies before `at`.
                    let inner = Inner { which, drop, before };
                    return self.enter_inner(&inner, at, marks, stream, sink);
                }
                Step::Match(which) => {
                    let length = marks.pattern(which).len();
                    at += 1;
                    stream.say(chunk, from..at - (length - before), sink);
                    let start = stream.position(at) - length as u64;
                    return Flow::Enter(enter(which, start, marks, stream, sink), at);
                }
            }
        }
        let text_ends =
            if self.held.is_empty() { bytes.len() } else { at + before - self.held.len() };
        stream.say(chunk, from..text_ends, sink);
        if !self.held.is_empty() {
            // Openers begin with a whole character, so an unfinished character before one stays
            // unfinished.
            stream.flush(sink);
        }
        Flow::Stay
    }

    /// Decides about the held bytes at the end of the input.
    pub(super) fn finish(
        self,
        marks: &Marks,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        if self.held.is_empty() {
            return Flow::Stay;
        }
        let before = self.held.len();
        let Fall { drop, landing } = marks.fall(self.held);
        self.say_held(drop, before, marks, stream, sink);
        match landing {
            Landing::Held(held) => Flow::Enter(Next::Prose(held), 0),
            Landing::Match(which) => {
                self.enter_inner(&Inner { which, drop, before }, 0, marks, stream, sink)
            }
        }
    }

    /// Enters an opener inside the held bytes, which end before `at`.
    fn enter_inner(
        &self,
        inner: &Inner,
        at: usize,
        marks: &Marks,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let held = marks.held(self.held);
        let behind = inner.drop + marks.pattern(inner.which).len();
        let start = stream.position(at) - (held.len() - inner.drop) as u64;
        let next = enter(inner.which, start, marks, stream, sink);
        if behind < inner.before {
            Flow::Reread(next, held[behind..inner.before].to_vec())
        } else {
            Flow::Enter(next, at - (held.len() - behind))
        }
    }

    /// Passes on the first `count` held bytes, all of them from earlier chunks.
    fn say_held(
        &self,
        count: usize,
        before: usize,
        marks: &Marks,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) {
        let start = stream.offset - before as u64;
        stream.say_before(&marks.held(self.held)[..count], start, sink);
    }
}

/// Leaves a run of prose through an opener that begins at `start`.
fn enter(
    which: usize,
    start: u64,
    marks: &Marks,
    stream: &mut Stream,
    sink: &mut impl FnMut(Segment<'_>),
) -> Next {
    let (mark, length) = (marks.mark(which), marks.pattern(which).len());
    stream.flush(sink);
    let opened = Opened { at: start, at_line_start: stream.last == b'\n', is_framed: false };
    if let Some(next) = Next::opened(mark, opened) {
        stream.begin_head(marks.pattern(which));
        return next;
    }
    if mark == Mark::ReasoningOpen && stream.is_quoted() {
        stream.say_before(marks.pattern(which), start, sink);
        return Next::prose();
    }
    if mark != Mark::Hidden {
        stream.reasoning = mark == Mark::ReasoningOpen || stream.is_apart;
        stream.last = b'\n';
    }
    stream.span(Place::Tag, start..start + length as u64, sink);
    let header = stream.row().header.as_ref();
    if header.is_some_and(|header| header.message_end.as_bytes() == marks.pattern(which)) {
        return stream.after_message();
    }
    if stream.may_start() { Next::Start } else { Next::prose() }
}
