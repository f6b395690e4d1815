//! Finds the end of a payload: follows brackets, strings and escapes, no more.
//!
//! Framing before decoding: where a payload ends is known whether or not it is
//! JSON, so garbage is skipped safely and memory is bounded before anything is
//! decoded.

use super::examined;
use super::marker::{Held, Landing, Opener, Openers, Step};
use crate::limits::parser::DEPTH_MAX;

/// What stopped a scan, with the number of bytes scanned, the stopper included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// All bytes were scanned and the payload goes on.
    Nothing(usize),
    /// The bracket that balances the first one.
    End(usize),
    /// A closing bracket of the wrong kind.
    WrongCloser(usize),
    /// A bracket that nests deeper than [`DEPTH_MAX`].
    TooDeep(usize),
    /// The last byte of a marker outside strings.
    Marker(usize),
}

/// What a scan minds, besides double-quoted strings.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Single quotes delimit strings, and brackets may close in any order.
    lenient: bool,
    marker: Option<Openers>,
    /// Bytes that are more than content outside strings.
    special: [bool; 256],
}

impl Rules {
    pub(super) fn new(marker: &str, lenient: bool) -> Self {
        let marker =
            (!may_stand_in_json(marker)).then(|| Openers::new(&[(Opener::Marker, marker)]));
        let mut special = [false; 256];
        for byte in 0..=u8::MAX {
            special[usize::from(byte)] = matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')
                || lenient && byte == b'\''
                || marker.as_ref().is_some_and(|marker| marker.begins(byte));
        }
        Self { lenient, marker, special }
    }
}

/// Whether JSON outside strings can have the marker: then it is no sign that the
/// model has begun anew.
fn may_stand_in_json(marker: &str) -> bool {
    marker.bytes().all(|b| b"{}[]:, \t\r\n0123456789+-.eEtrufalsn".contains(&b))
}

/// Where a scan stands inside a payload.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    /// Open brackets.
    depth: usize,
    /// Kinds of the first [`DEPTH_MAX`] of them, a bit each, the innermost lowest:
    /// 1 for `[`. Deeper ones are counted alone, since their payload is discarded.
    kinds: u128,
    /// The quote that ends the string we are in; 0 outside strings.
    quote: u8,
    /// The next byte is escaped.
    escape: bool,
    /// What has been read of a marker, outside strings.
    held: Held,
}

const _: () = assert!(DEPTH_MAX == u128::BITS as usize, "a bit for each open bracket");

impl Scanner {
    /// Scans on. The first byte ever must be the payload's opening bracket.
    #[inline]
    pub(super) fn scan(&mut self, bytes: &[u8], rules: &Rules) -> Found {
        let mut at = 0;
        while at < bytes.len() {
            if self.quote != 0 {
                at += self.skip_string(&bytes[at..]);
                continue;
            }
            let byte = bytes[at];
            at += 1;
            examined::note(1);
            if !rules.special[usize::from(byte)] && self.held.is_empty() {
                continue;
            }
            if self.completes_marker(byte, rules) {
                return Found::Marker(at);
            }
            match byte {
                b'"' => self.enter_string(byte),
                b'\'' if rules.lenient => self.enter_string(byte),
                b'{' | b'[' => {
                    let too_deep = self.open(byte);
                    if too_deep {
                        return Found::TooDeep(at);
                    }
                }
                b'}' | b']' => {
                    if !self.close(byte) && !rules.lenient {
                        return Found::WrongCloser(at);
                    }
                    if self.depth == 0 {
                        return Found::End(at);
                    }
                }
                _ => {}
            }
        }
        Found::Nothing(at)
    }

    /// Skips a string's content and closing quote, as far as they are there.
    #[inline]
    fn skip_string(&mut self, bytes: &[u8]) -> usize {
        /// Up to this length a plain loop is faster than a call of `memchr2`.
        const SHORT: usize = 16;
        if self.escape {
            self.escape = false;
            return 1;
        }
        let quote = self.quote;
        let stop = if bytes.len() < SHORT {
            bytes.iter().position(|&b| b == quote || b == b'\\')
        } else {
            memchr::memchr2(quote, b'\\', bytes)
        };
        examined::note(stop.unwrap_or(bytes.len()));
        let Some(stop) = stop else { return bytes.len() };
        if bytes[stop] == quote {
            self.quote = 0;
        } else {
            self.escape = true;
        }
        stop + 1
    }

    fn enter_string(&mut self, quote: u8) {
        self.quote = quote;
        self.held = Held::NONE;
    }

    /// Returns whether this bracket is the first one too deep.
    #[inline]
    fn open(&mut self, bracket: u8) -> bool {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            self.kinds = self.kinds << 1 | u128::from(bracket == b'[');
        }
        self.depth == DEPTH_MAX + 1
    }

    /// Returns whether the bracket is of the right kind.
    #[inline]
    fn close(&mut self, bracket: u8) -> bool {
        let known = self.depth <= DEPTH_MAX;
        self.depth -= 1;
        if !known {
            return true;
        }
        let square = self.kinds & 1 == 1;
        self.kinds >>= 1;
        square == (bracket == b']')
    }

    #[inline]
    fn completes_marker(&mut self, byte: u8, rules: &Rules) -> bool {
        let Some(marker) = &rules.marker else { return false };
        loop {
            match marker.step(self.held, byte) {
                Step::Match(_) => return true,
                Step::Hold(held) => self.held = held,
                Step::Miss => {}
                Step::Fall(fall) => {
                    let Landing::Held(held) = fall.landing else {
                        unreachable!("a marker does not lie inside its own proper prefix")
                    };
                    self.held = held;
                    continue;
                }
            }
            return false;
        }
    }
}
