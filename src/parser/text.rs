//! Bytes as text: borrowed if they are UTF-8, with replacement characters if not.

use std::ops::Range;

use super::examined;

/// A chunk of the stream, as its caller gave it.
pub(super) trait Chunk: Copy {
    fn bytes(&self) -> &[u8];

    /// The chunk as text, if it is known to be UTF-8.
    fn whole_text(&self) -> Option<&str>;

    /// A range of the chunk as text, if it is known to be UTF-8.
    fn text(&self, range: Range<usize>) -> Option<&str>;

    /// Passes on a range of the chunk as text.
    fn say(&self, range: Range<usize>, utf8: &mut Utf8, out: &mut impl FnMut(&str));
}

/// Bytes that may not be UTF-8.
#[derive(Clone, Copy)]
pub(super) struct Unchecked<'a>(pub &'a [u8]);

impl Chunk for Unchecked<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0
    }

    #[inline]
    fn whole_text(&self) -> Option<&str> {
        None
    }

    #[inline]
    fn text(&self, _: Range<usize>) -> Option<&str> {
        None
    }

    #[inline]
    fn say(&self, range: Range<usize>, utf8: &mut Utf8, out: &mut impl FnMut(&str)) {
        utf8.decode(&self.0[range], out);
    }
}

/// Text. Ranges of it begin and end between characters: openers are text themselves, so they never
/// begin inside one. Only what is given up on for its length may end inside one.
#[derive(Clone, Copy)]
pub(super) struct Vouched<'a>(pub &'a str);

impl Chunk for Vouched<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    #[inline]
    fn whole_text(&self) -> Option<&str> {
        Some(self.0)
    }

    #[inline]
    fn text(&self, range: Range<usize>) -> Option<&str> {
        self.0.get(range)
    }

    #[inline]
    fn say(&self, range: Range<usize>, utf8: &mut Utf8, out: &mut impl FnMut(&str)) {
        let Some(text) = self.0.get(range.clone()) else {
            return utf8.decode(&self.0.as_bytes()[range], out);
        };
        utf8.flush(out);
        if !text.is_empty() {
            out(text);
        }
    }
}

/// Decodes UTF-8 that is cut anywhere, as [`String::from_utf8_lossy`] would decode the whole: each
/// maximal subpart of an invalid sequence becomes U+FFFD.
///
/// `held[..len]` is the beginning of a character that may still become whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Utf8 {
    held: [u8; 4],
    len: usize,
}

impl Utf8 {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn decode(&mut self, bytes: &[u8], out: &mut impl FnMut(&str)) {
        let rest = self.complete(bytes, out);
        let (whole, unfinished) = rest.split_at(rest.len() - unfinished_length(rest));
        if let Ok(text) = valid(whole) {
            if !text.is_empty() {
                out(text);
            }
        } else {
            for piece in whole.utf8_chunks() {
                if !piece.valid().is_empty() {
                    out(piece.valid());
                }
                if !piece.invalid().is_empty() {
                    out(REPLACEMENT);
                }
            }
        }
        if !unfinished.is_empty() {
            self.len = unfinished.len();
            self.held[..self.len].copy_from_slice(unfinished);
        }
    }

    /// Replaces a held character that will never become whole.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut impl FnMut(&str)) {
        if self.len > 0 {
            self.len = 0;
            out(REPLACEMENT);
        }
    }

    /// Continues the held character, and returns the bytes after it.
    fn complete<'a>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(&str)) -> &'a [u8] {
        let mut rest = bytes;
        while self.len > 0 {
            let Some((&byte, behind)) = rest.split_first() else { break };
            examined::note(self.len + 1);
            self.held[self.len] = byte;
            let so_far = &self.held[..=self.len];
            if let Ok(character) = std::str::from_utf8(so_far) {
                out(character);
                self.len = 0;
                rest = behind;
            } else if is_unfinished(so_far) {
                self.len += 1;
                rest = behind;
            } else {
                self.flush(out);
            }
        }
        rest
    }
}

const REPLACEMENT: &str = "\u{FFFD}";

/// The length of an unfinished character at the end.
fn unfinished_length(bytes: &[u8]) -> usize {
    let begins = bytes.iter().rev().take(3).position(|&b| b >= 0xC0);
    match begins.map(|back| back + 1) {
        Some(length) if is_unfinished(&bytes[bytes.len() - length..]) => length,
        _ => 0,
    }
}

/// Whether the bytes are the beginning of one character.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
}

/// The bytes as text, up to the first that is wrong or cut off. Nothing after it is looked at: what is not UTF-8 never
/// becomes a call, and may be asked about with each chunk.
pub(super) fn whole_characters(bytes: &[u8]) -> &str {
    match simdutf8::compat::from_utf8(bytes) {
        Ok(text) => {
            examined::note(text.len());
            text
        }
        Err(error) => {
            let whole = &bytes[..error.valid_up_to()];
            examined::note(2 * whole.len());
            std::str::from_utf8(whole).unwrap_or_default()
        }
    }
}

/// The bytes as text, if they are UTF-8.
#[inline]
pub(super) fn valid(bytes: &[u8]) -> Result<&str, ()> {
    /// Below this length, the standard library is done before a vectorised check gets going.
    const SHORT: usize = 64;
    examined::note(bytes.len());
    if bytes.len() < SHORT {
        std::str::from_utf8(bytes).map_err(drop)
    } else {
        simdutf8::basic::from_utf8(bytes).map_err(drop)
    }
}
