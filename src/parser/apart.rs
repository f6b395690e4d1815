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
    /// Reads a chunk of reasoning from the server's own field. [End it](Self::end_reasoning) before the answer goes on.
    ///
    /// Such a chunk passes straight through if calls inside reasoning do not count, or while a call or an opener of
    /// the answer is being read. Spans do not cover it then.
    pub fn push_reasoning(&mut self, chunk: &str, mut sink: impl FnMut(Segment<'_>)) {
        if chunk.is_empty() {
            return;
        }
        if !self.stream.is_apart {
            if !self.syntax.has_calls_in_reasoning() || !self.is_between_calls() {
                return sink(Segment::Reasoning(chunk));
            }
            self.switch_to(true, &mut sink);
        }
        self.push_str(chunk, sink);
    }

    /// Settles what was held back of such reasoning, if there was any. A call is whole only if its end has arrived.
    /// **Call this before the first chunk of the answer that follows.**
    #[inline]
    pub fn end_reasoning(&mut self, sink: impl FnMut(Segment<'_>)) {
        if self.stream.is_apart {
            self.leave_reasoning(sink);
        }
    }

    fn leave_reasoning(&mut self, mut sink: impl FnMut(Segment<'_>)) {
        self.stream.is_cut_off = true;
        self.release(&mut sink);
        self.stream.is_cut_off = false;
        self.switch_to(false, &mut sink);
    }

    /// Whether neither a call nor an opener is being read.
    fn is_between_calls(&self) -> bool {
        match &self.state {
            State::Start => self.stream.buffer.is_empty(),
            State::Prose(prose) => prose.is_calm(),
            _ => false,
        }
    }

    /// Switches between the answer and reasoning.
    fn switch_to(&mut self, is_apart: bool, sink: &mut impl FnMut(Segment<'_>)) {
        let stream = &mut self.stream;
        stream.flush(sink);
        stream.is_apart = is_apart;
        stream.reasoning = is_apart;
        stream.last = b'\n';
        // What is left there of a call that was none has been passed on.
        stream.buffer.clear();
        self.state = State::first(stream);
        self.calm = stream.is_calm();
    }
}
