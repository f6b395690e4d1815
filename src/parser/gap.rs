//! What stands between a marker and its payload, and behind a payload.

use super::repair::{Repair, note};
use crate::limits::parser::GAP_BYTES_MAX;

/// Words that models write in front of JSON, with or without a code fence. Other
/// words mean that the marker is talked about.
const LANGUAGE_WORDS: &[&str] =
    &["json", "json5", "jsonc", "javascript", "js", "python", "py", "tool_call", "tool_code"];

/// What a byte of the gap means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It belongs to the gap.
    Skip,
    /// It begins the payload.
    Begin,
    /// There is no payload.
    Refuse,
}

/// The bytes behind a marker, up to its payload: white space and, leniently, one
/// code fence or language word.
#[derive(Debug, Clone, Default)]
pub(super) struct Gap {
    part: Part,
    /// Whether a code fence has opened.
    pub fence: bool,
    /// What will have been mended, if a payload follows.
    pub repaired: Vec<Repair>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    #[default]
    Space,
    /// So many backticks of a fence that is not whole.
    Ticks(u8),
    /// A word that begins at this position of the gap.
    Word(usize),
}

impl Gap {
    /// Looks at the next byte. `before` is the gap up to here.
    pub(super) fn step(&mut self, byte: u8, before: &[u8], lenient: bool) -> Step {
        match byte {
            b'{' | b'[' if self.word_ends(before) => Step::Begin,
            _ if before.len() >= GAP_BYTES_MAX => Step::Refuse,
            b' ' | b'\t' | b'\r' | b'\n' if self.word_ends(before) => Step::Skip,
            b'`' if lenient => self.tick(before.len()),
            _ if lenient && is_word(byte) => self.letter(before.len()),
            _ => Step::Refuse,
        }
    }

    /// Whether a payload or white space may stand here.
    fn word_ends(&mut self, before: &[u8]) -> bool {
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

    fn tick(&mut self, at: usize) -> Step {
        self.part = match self.part {
            Part::Space if self.repaired.is_empty() => Part::Ticks(1),
            Part::Ticks(1) => Part::Ticks(2),
            Part::Ticks(_) => {
                self.fence = true;
                note(&mut self.repaired, Repair::CodeFence);
                // A fence may name its language, whichever it is.
                Part::Word(at + 1)
            }
            _ => return Step::Refuse,
        };
        Step::Skip
    }

    fn letter(&mut self, at: usize) -> Step {
        match self.part {
            Part::Word(_) => Step::Skip,
            Part::Space if self.repaired.is_empty() => {
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

/// The bytes behind a payload that still belong to it: one line ending, and the
/// end of a code fence that the gap began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tail {
    /// Whether a closing fence may come, with a line ending of its own behind it.
    fence: bool,
    part: TailPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TailPart {
    #[default]
    Line,
    /// Behind a CR, which counts only with an LF.
    Return,
    /// Behind a line ending, where a fence may close.
    Fence,
    /// Behind so many backticks of it.
    Ticks(u8),
}

/// What a byte behind a payload means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TailStep {
    /// It may belong to the call; the next byte decides or goes on.
    Skip,
    /// It is the last byte of the call.
    Last,
    /// The call ended before it.
    Ended,
}

impl Tail {
    pub(super) fn new(fence: bool) -> Self {
        Self { fence, part: TailPart::Line }
    }

    pub(super) fn step(&mut self, byte: u8) -> TailStep {
        match (self.part, byte) {
            (TailPart::Line, b'\r') => self.part = TailPart::Return,
            (TailPart::Line | TailPart::Return, b'\n') if self.fence => self.part = TailPart::Fence,
            (TailPart::Line | TailPart::Return, b'\n') => return TailStep::Last,
            (TailPart::Line | TailPart::Fence, b'`') if self.fence => {
                self.part = TailPart::Ticks(1);
            }
            (TailPart::Ticks(1), b'`') => self.part = TailPart::Ticks(2),
            (TailPart::Ticks(_), b'`') => *self = Self::new(false),
            _ => return TailStep::Ended,
        }
        TailStep::Skip
    }

    /// What was skipped but does not belong to the call, if it ends here.
    pub(super) fn given_back(self) -> &'static [u8] {
        match self.part {
            TailPart::Line | TailPart::Fence => b"",
            TailPart::Return => b"\r",
            TailPart::Ticks(1) => b"`",
            TailPart::Ticks(_) => b"``",
        }
    }
}
