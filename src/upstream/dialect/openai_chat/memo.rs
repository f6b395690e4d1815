//! The shape of the previous frame, so that the next need not be parsed.
//!
//! ```text
//!   {"choices":[{"delta":{"content":"Hel"}}]}
//!   |----------- before ------------|   |---| after
//! ```
//! The frames of one stream differ in a single string: a JSON parser reads 250 bytes to find
//! the three that are new. So the bytes before and after that string are remembered. A frame
//! with the same bytes around the body of one JSON string *is* the remembered JSON with another
//! string in that place, so the parser's result is known. Any doubt goes to the parser.

use crate::upstream::Delta;

/// The kind of delta that the string becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Text,
    Reasoning,
}

impl Words {
    pub(super) const fn delta(self, words: &str) -> Delta<'_> {
        match self {
            Self::Text => Delta::Text(words),
            Self::Reasoning => Delta::Reasoning(words),
        }
    }
}

/// A frame whose only effect was a string, without that string.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Up to and including the opening quote, and then from the closing quote on, inclusive.
    around: Vec<u8>,
    /// Where the string was.
    at: usize,
    words: Option<Words>,
}

impl Shape {
    /// Remembers a frame that the parser has read. Its only effect was `words`, from the string
    /// whose body is `frame[start..end]`.
    pub(super) fn learn(&mut self, frame: &[u8], start: usize, end: usize, words: Words) {
        self.around.clear();
        self.around.extend_from_slice(&frame[..start]);
        self.around.extend_from_slice(&frame[end..]);
        self.at = start;
        self.words = Some(words);
    }

    /// The words of a frame with the remembered shape, as the body of a JSON string, if it is one; `None`
    /// means that the parser must read the frame.
    pub(super) fn recognise<'a>(&self, frame: &'a [u8]) -> Option<(Words, &'a [u8])> {
        let words = self.words?;
        let (before, after) = self.around.split_at(self.at);
        let body = frame.strip_prefix(before)?.strip_suffix(after)?;
        Some((words, body))
    }
}
