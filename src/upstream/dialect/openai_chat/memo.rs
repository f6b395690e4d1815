//! The shape of the frame before, so that the next one need not be parsed.
//!
//! The frames of one stream differ in a single string: a JSON parser reads 250
//! bytes to find the three that are new. So the bytes before and behind that
//! string are remembered. A frame with the same ones, whose middle is the body of
//! one JSON string, *is* the remembered JSON with another string in that place,
//! and what the parser would make of it is known. Any doubt goes to the parser.

use crate::upstream::Delta;
use crate::upstream::dialect::json_string::unescape;

/// Which delta the string becomes.
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

/// A frame whose one effect was a string, without that string.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Up to the opening quote, with it. Empty: nothing is remembered.
    before: Vec<u8>,
    /// From the closing quote on, with it.
    behind: Vec<u8>,
    words: Option<Words>,
}

impl Shape {
    /// Remembers a frame that the parser has read, whose one effect was
    /// `words`, from the string whose body is `frame[start..end]`.
    pub(super) fn learn(&mut self, frame: &[u8], start: usize, end: usize, words: Words) {
        self.before.clear();
        self.before.extend_from_slice(&frame[..start]);
        self.behind.clear();
        self.behind.extend_from_slice(&frame[end..]);
        self.words = Some(words);
    }

    /// The words of a frame of the remembered shape. `None`: ask the parser.
    pub(super) fn recognise<'a>(
        &self,
        frame: &'a [u8],
        scratch: &'a mut String,
    ) -> Option<(Words, &'a str)> {
        let words = self.words?;
        let body =
            frame.strip_prefix(self.before.as_slice())?.strip_suffix(self.behind.as_slice())?;
        Some((words, unescape(body, scratch)?))
    }
}
