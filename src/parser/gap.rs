//! The gap between an opener, or its label, and the payload. If the label has the name and a closer
//! follows at once, the call has no arguments.

use std::mem;
use std::sync::Arc;

use super::arguments::Arguments;
use super::deltas::Tracker;
use super::marks::{self, Held, Marks};
use super::repair::{Repair, note};
use super::segment::{ParsedCall, Place, Segment};
use super::start;
use super::stream::Stream;
use super::transition::{Flow, Next, Opened};
use crate::call_format::{Body, Fence, JsonKeys};
use crate::limits::parser::{GAP_BYTES_MAX, START_BYTES_MAX};

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
    /// This much of a closer.
    Closer(Held),
    /// What comes after the first bracket, which is at this position in the gap, where only a tool's name is
    /// a sure sign of a payload.
    Inside(usize),
}

/// What a byte of the gap means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It belongs to the gap.
    Skip,
    /// It begins the payload.
    Begin,
    /// It shows that the payload has begun at this position in the gap.
    Confirm(usize),
    /// It completes a closer, or the opener of the next message.
    Close(usize),
    /// There is no payload.
    Refuse,
}

/// What may stand in a gap, and follow it.
#[derive(Debug, Clone, Copy)]
struct GapRules {
    lenient: bool,
    /// What the format says of a code fence.
    fence: Fence,
    /// Whether an object may follow, and an array of calls.
    takes: [bool; 2],
    /// Whether the closer may follow.
    may_close: bool,
    /// The keys of a call that has to name an offered tool, because the format is guessed.
    guessed: Option<&'static JsonKeys>,
}

impl GapRules {
    fn of(opened: Opened, stream: &Stream) -> Self {
        let row = stream.settings().format.row();
        let is_code = matches!(row.body, Body::Pythonic(_));
        Self {
            lenient: !stream.settings().strict_balancing,
            fence: row.fence,
            takes: [!is_code, is_code || row.has_names_in_objects()],
            may_close: row.body == Body::Arguments && stream.is_meant(opened),
            guessed: row.keys().filter(|_| stream.is_guess(opened)),
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
        let (rules, syntax) = (GapRules::of(self.opened, stream), Arc::clone(&stream.syntax));
        for (at, &byte) in bytes.iter().enumerate().skip(at) {
            let step = match (self.part, rules.guessed) {
                (Part::Inside(start), Some(keys)) => inside(byte, start, keys, stream),
                _ => self.step(byte, &stream.buffer, rules, &syntax.closers),
            };
            match step {
                Step::Skip => stream.keep(&[byte], START_BYTES_MAX),
                Step::Begin => return Flow::Enter(self.payload(), at),
                Step::Confirm(start) => {
                    let again = stream.buffer.split_off(start);
                    return Flow::again(self.payload(), again, at);
                }
                Step::Close(mark) => {
                    self.complete(stream, sink);
                    let end = stream.position(at + 1);
                    return Flow::Enter(
                        self.close(mark, &syntax.closers, end, stream, sink),
                        at + 1,
                    );
                }
                Step::Refuse => return self.refuse(at, stream, sink),
            }
        }
        Flow::Stay
    }

    pub(super) fn finish(self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        let is_whole = stream.is_message(self.opened) && !stream.is_cut_off;
        if is_whole && self.part == Part::Space && self.has_only_space() {
            self.complete(stream, sink);
            stream.end_call(self.opened, Place::Call, stream.offset, sink);
            return Flow::Enter(Next::prose(), 0);
        }
        self.refuse(0, stream, sink)
    }

    /// Whether nothing has been dropped: no fence, no word.
    const fn has_only_space(&self) -> bool {
        !self.fence && self.repaired.is_empty()
    }

    /// The payload after it.
    fn payload(&mut self) -> Next {
        let repaired = mem::take(&mut self.repaired);
        Next::Payload { opened: self.opened, fence: self.fence, repaired }
    }

    /// Reports that there is no payload: the marker and the gap are text after all. What may have been
    /// the closer is read again, because it may begin another call. The gap may also have been code.
    fn refuse(&self, at: usize, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) -> Flow {
        if stream.code_argument(self.opened).is_some() {
            return Flow::again(Next::Code(self.opened), mem::take(&mut stream.buffer), at);
        }
        let held = if let Part::Closer(held) = self.part { held.len() } else { 0 };
        stream.refuse_opening(self.opened, "no call follows the marker", held, at, sink)
    }

    /// What follows a call without arguments: a mark that ends at this position.
    fn close(
        &self,
        mark: usize,
        marks: &Marks,
        end: u64,
        stream: &mut Stream,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Next {
        let text = marks.pattern(mark);
        let opened = Opened::at(end - text.len() as u64);
        let Some(next) = Next::opened(marks.mark(mark), opened) else {
            return Next::closed(self.opened, Place::Call);
        };
        stream.end_call(self.opened, Place::Call, opened.at, sink);
        stream.begin_head(text);
        next
    }

    /// Reports a call without arguments.
    fn complete(&self, stream: &mut Stream, sink: &mut impl FnMut(Segment<'_>)) {
        let index = stream.start_call(self.opened.at, sink);
        let (name, arguments) = (stream.label.clone(), Arguments::none());
        let call = ParsedCall { index, name, arguments, repaired: Vec::new() };
        Tracker::silent(index).complete(call, stream, sink);
    }

    /// What the next byte means. `before` is the gap so far.
    fn step(&mut self, byte: u8, before: &[u8], rules: GapRules, closers: &Marks) -> Step {
        let is_outside_word = matches!(self.part, Part::Space | Part::Closer(_));
        if rules.may_close && is_outside_word && self.has_only_space() {
            let held = if let Part::Closer(held) = self.part { held } else { Held::NONE };
            match closers.step(held, byte) {
                marks::Step::Hold(held) => {
                    self.part = Part::Closer(held);
                    return Step::Skip;
                }
                marks::Step::Match(mark) => return Step::Close(mark),
                marks::Step::Fall(_) => return Step::Refuse,
                marks::Step::Miss => {}
            }
        }
        match byte {
            b'{' | b'[' if rules.fence == Fence::Needed && !self.is_fenced_at_line_start() => {
                Step::Refuse
            }
            b'{' if rules.takes[0] && self.end_word(before) => self.bracket(before, rules),
            b'[' if rules.takes[1] && self.end_word(before) => self.bracket(before, rules),
            _ if before.len() >= GAP_BYTES_MAX => Step::Refuse,
            b' ' | b'\t' | b'\r' | b'\n' if self.end_word(before) => Step::Skip,
            b'`' if rules.lenient || rules.fence.is_read() => {
                self.tick(before.len(), rules.fence.is_read())
            }
            _ if is_word(byte) && (rules.lenient || self.fence) => self.letter(before.len()),
            _ => Step::Refuse,
        }
    }

    /// Whether an ordinary word is an opener: it begins a line, and a code fence has opened.
    const fn is_fenced_at_line_start(&self) -> bool {
        self.fence && self.opened.at_line_start
    }

    /// Ends the word, if one is open. Returns whether a payload or white space may follow it.
    fn end_word(&mut self, before: &[u8]) -> bool {
        match self.part {
            Part::Space => true,
            Part::Ticks(_) | Part::Closer(_) | Part::Inside(_) => false,
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

    /// The first bracket.
    fn bracket(&mut self, before: &[u8], rules: GapRules) -> Step {
        if rules.guessed.is_none() {
            return Step::Begin;
        }
        self.part = Part::Inside(before.len());
        Step::Skip
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

/// What a byte means after the bracket at `start` in the gap: it may show the tool's name. The rest is talk.
fn inside(byte: u8, start: usize, keys: &JsonKeys, stream: &mut Stream) -> Step {
    if stream.buffer.len() >= START_BYTES_MAX {
        return Step::Refuse;
    }
    // A letter within a word decides nothing.
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'"');
    if byte.is_ascii_alphanumeric() && stream.buffer.last().is_some_and(is_word) {
        return Step::Skip;
    }
    stream.buffer.push(byte);
    let names_tool = start::names_tool(&stream.buffer[start..], keys, &stream.settings().tools);
    stream.buffer.pop();
    match names_tool {
        None => Step::Skip,
        // This byte ends the name, and is read again.
        Some(true) => Step::Confirm(start),
        Some(false) => Step::Refuse,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+')
}
