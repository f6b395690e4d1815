//! The gap between an opener, or its label, and the payload.

use std::mem;

use super::repair::{Repair, note};
use super::segment::Segment;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::Body;
use crate::limits::parser::GAP_BYTES_MAX;

/// Words that models write before JSON. Any other word means that the marker is only mentioned,
/// unless a code fence came first.
const LANGUAGE_WORDS: &[&str] =
    &["json", "json5", "jsonc", "javascript", "js", "python", "py", "tool_call", "tool_code"];

/// The bytes between a marker and its payload: white space and, in lenient mode, one code fence or
/// language word.
#[derive(Debug)]
pub(super) struct Gap {
    opened: Opened,
    part: Part,
    /// Whether a code fence has opened.
    fence: bool,
    /// The repairs so far, which count if a payload follows.
    repaired: Vec<Repair>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    #[default]
    Space,
    /// This many backticks of an unfinished fence.
    Ticks(u8),
    /// A word that begins at this position in the gap.
    Word(usize),
}

/// What a byte of the gap means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It belongs to the gap.
    Skip,
    /// It begins the payload.
    Begin,
    /// There is no payload.
    Refuse,
}

/// What may stand in a gap, and follow it.
#[derive(Debug, Clone, Copy)]
struct GapRules {
    lenient: bool,
    /// Whether the format itself has a code fence there.
    is_fenced: bool,
    /// Whether an object may follow, and an array of calls.
    takes: [bool; 2],
}

impl GapRules {
    fn of(stream: &Stream) -> Self {
        let row = stream.settings().format.row();
        let is_code = matches!(row.body, Body::Pythonic(_));
        Self {
            lenient: !stream.settings().strict_balancing,
            is_fenced: row.is_fenced,
            takes: [!is_code, is_code || row.keys().is_some()],
        }
    }
}

impl Gap {
    pub(super) const fn new(opened: Opened) -> Self {
        Self { opened, part: Part::Space, fence: false, repaired: Vec::new() }
    }

    pub(super) fn read(
        &mut self,
        stream: &mut Stream,
        bytes: &[u8],
        at: usize,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flow {
        let rules = GapRules::of(stream);
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            match self.step(byte, &stream.buffer, rules) {
                Step::Skip => stream.keep(&[byte], GAP_BYTES_MAX),
                Step::Begin => {
                    let (opened, fence) = (self.opened, self.fence);
                    let repaired = mem::take(&mut self.repaired);
                    return Flow::Enter(Next::Payload { opened, fence, repaired }, at);
                }
                Step::Refuse => {
                    self.refuse(stream, sink);
                    return Flow::Enter(Next::prose(), at);
                }
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        self.refuse(stream, sink);
        Flow::Enter(Next::prose(), 0)
    }

    /// Reports that there is no payload: the marker and the gap are text after all.
    fn refuse(&self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) {
        stream.refuse_opening(self.opened, "no call follows the marker", 0, sink);
    }

    /// What the next byte means. `before` is the gap so far.
    fn step(&mut self, byte: u8, before: &[u8], rules: GapRules) -> Step {
        match byte {
            b'{' if rules.takes[0] && self.end_word(before) => Step::Begin,
            b'[' if rules.takes[1] && self.end_word(before) => Step::Begin,
            _ if before.len() >= GAP_BYTES_MAX => Step::Refuse,
            b' ' | b'\t' | b'\r' | b'\n' if self.end_word(before) => Step::Skip,
            b'`' if rules.lenient || rules.is_fenced => self.tick(before.len(), rules.is_fenced),
            _ if is_word(byte) && (rules.lenient || self.fence) => self.letter(before.len()),
            _ => Step::Refuse,
        }
    }

    /// Ends the word, if one is open. Returns whether a payload or white space may follow it.
    fn end_word(&mut self, before: &[u8]) -> bool {
        match self.part {
            Part::Space => true,
            Part::Ticks(_) => false,
            Part::Word(start) => {
                self.part = Part::Space;
                let word = &before[start..];
                let known = LANGUAGE_WORDS.iter().any(|w| w.as_bytes().eq_ignore_ascii_case(word));
                if !self.fence && known {
                    note(&mut self.repaired, Repair::LanguageWord);
                }
                self.fence || known
            }
        }
    }

    fn tick(&mut self, at: usize, is_fenced: bool) -> Step {
        self.part = match self.part {
            Part::Space if self.repaired.is_empty() && !self.fence => Part::Ticks(1),
            Part::Ticks(1) => Part::Ticks(2),
            Part::Ticks(_) => {
                self.fence = true;
                if !is_fenced {
                    note(&mut self.repaired, Repair::CodeFence);
                }
                // A fence may name any language.
                Part::Word(at + 1)
            }
            _ => return Step::Refuse,
        };
        Step::Skip
    }

    fn letter(&mut self, at: usize) -> Step {
        match self.part {
            Part::Word(_) => Step::Skip,
            Part::Space if self.repaired.is_empty() && !self.fence => {
                self.part = Part::Word(at);
                Step::Skip
            }
            _ => Step::Refuse,
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+')
}
