//! Reasoning that a server sends apart from the answer, in a field of its own.
//!
//! ```text
//!   field    reasoning_content                                 content
//!   bytes    Let me look. <tool_call> ... </tool_call> Done.   It is 5 °C.
//!            '- reasoning -''--------- call ---------''-----'   '- text --'
//! ```
//!
//! Where calls inside reasoning count, they count here, too: some models never close their
//! reasoning, and then the server puts the whole answer into this field.

use super::segment::Segment;
use super::{Parser, State};

impl Parser {
    /// Reads a chunk of reasoning that does not stand between tags. The answer goes on after
    /// [`end_reasoning`](Self::end_reasoning).
    ///
    /// Where no call inside reasoning counts, and while a call of the answer or an opener is being read, the
    /// chunk goes straight through. It then is no part of the stream that spans account for.
    pub fn push_reasoning(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        if chunk.is_empty() {
            return;
        }
        if !self.stream.is_apart {
            if !self.syntax.has_calls_in_reasoning() || !self.is_between_calls() {
                return sink(Segment::Reasoning(chunk));
            }
            self.turn(true, &mut sink);
        }
        self.push_str(chunk, sink);
    }

    /// Whether the last chunk was such reasoning, and was read.
    #[must_use]
    pub const fn is_in_reasoning_apart(&self) -> bool {
        self.stream.is_apart
    }

    /// Settles what was held back of such reasoning. What comes next belongs to the answer. A call is whole only if
    /// its end has arrived.
    pub fn end_reasoning(&mut self, mut sink: impl FnMut(Segment<'_>)) {
        self.stream.is_cut_off = true;
        self.release(&mut sink);
        self.stream.is_cut_off = false;
        self.turn(false, &mut sink);
    }

    /// Whether neither a call nor an opener is being read.
    fn is_between_calls(&self) -> bool {
        match &self.state {
            State::Start => self.stream.buffer.is_empty(),
            State::Prose(prose) => prose.is_calm(),
            _ => false,
        }
    }

    /// Turns from the answer to reasoning, or back.
    fn turn(&mut self, is_apart: bool, sink: &mut impl FnMut(Segment<'_>)) {
        let stream = &mut self.stream;
        stream.flush(sink);
        stream.is_apart = is_apart;
        stream.reasoning = is_apart;
        stream.last = b'\n';
        self.state = State::first(stream);
        self.calm = stream.is_calm();
    }
}
