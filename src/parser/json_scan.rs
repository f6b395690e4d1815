//! Finds the end of a payload by following brackets, strings and escapes, and nothing else. Payloads
//! that look like code have other quotes.
//!
//! ```text
//!    {"a": "x\"}", "b": [1]} text
//!    1                  2 1 0        open brackets: at 0, the payload ends
//!     '-'  '----'  '-'               strings, in which no bracket counts
//! ```
//!
//! Framing before decoding: a payload's end is known whether or not it is JSON, so garbage is
//! skipped safely and memory is bounded before anything is decoded.
//!
//! A model may forget to close a string. In formats of messages, the next message then shows that:
//!
//! ```text
//!    {"a": "x} <|call|><|start|>assistant ...
//!              '-- boundary ---'
//! ```
//!
//! A mark alone may be what the string is about.

use std::mem;

use super::marks::{Held, Mark, Marks};
use super::{examined, find, format_marks};
use crate::call_format::{Body, CallFormat};
use crate::limits::parser::DEPTH_MAX;

/// What stops a scan, and has itself been scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bracket that balances the first one.
    End,
    /// The bracket that [`Scanner::pause_after`] asked for.
    Pause,
    /// A closing bracket of the wrong kind.
    WrongCloser,
    /// A bracket that nests deeper than [`DEPTH_MAX`].
    TooDeep,
    /// The end of this mark of the format, outside strings.
    Mark(usize),
    /// The end of this boundary between messages, in a string.
    Boundary(usize),
}

/// How many bytes a scan has read, and what has stopped it, if anything has.
type Scanned = (usize, Option<Stop>);

/// What a scan looks for, besides brackets and double-quoted strings.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Brackets may close in any order.
    lenient: bool,
    /// Brackets mean nothing: a mark ends the payload.
    is_block: bool,
    /// Which quotes delimit strings.
    quotes: &'static [u8],
    /// What delimits strings in place of quotes. Nothing is escaped in those.
    delimiter: Option<&'static [u8]>,
    /// The format's openers and closers, those of frames too, except those that JSON may contain outside strings.
    marks: Option<Marks>,
    /// What ends the payload even in a string.
    boundaries: Option<Marks>,
    /// Bytes that mean something outside strings.
    special: [bool; 256],
}

impl Rules {
    pub(super) fn new(format: &CallFormat, lenient: bool) -> Self {
        let marks = format_marks::openers(format).chain(format_marks::closers(format.row()));
        let delimiter = match format.row().body {
            Body::Loose(delimiter) => Some(delimiter),
            _ => None,
        };
        let quotes: &[u8] = match format.row().body {
            Body::Loose(_) | Body::Nested(_) => b"",
            Body::Pythonic(_) | Body::PythonicLines(_) => b"\"'",
            _ if lenient => b"\"'",
            _ => b"\"",
        };
        let marks = marks.filter(|(_, text)| !may_stand_in_json(text));
        let marks: Vec<_> = marks.chain(delimiter.map(|text| (Mark::Quote, text))).collect();
        let marks = (!marks.is_empty()).then(|| Marks::new(marks.into_iter()));
        let boundaries: Vec<String> = format_marks::boundaries(format.row()).collect();
        let boundaries = (!boundaries.is_empty())
            .then(|| Marks::new(boundaries.iter().map(|text| (Mark::Closer, &**text))));
        let is_block = format.row().body.ends_at_closer();
        let mut special = [false; 256];
        for byte in 0..=u8::MAX {
            special[usize::from(byte)] = !is_block && matches!(byte, b'{' | b'[' | b'}' | b']')
                || quotes.contains(&byte)
                || marks.as_ref().is_some_and(|marks| marks.begins(byte));
        }
        let delimiter = delimiter.map(str::as_bytes);
        Self { lenient, is_block, quotes, delimiter, marks, boundaries, special }
    }

    /// The text of a boundary.
    pub(super) fn boundary(&self, boundary: usize) -> &[u8] {
        let boundaries = self.boundaries.as_ref().expect("one has stopped the scan");
        boundaries.pattern(boundary)
    }

    /// The kind of a mark, and its text.
    pub(super) fn mark(&self, mark: usize) -> (Mark, &[u8]) {
        let marks = self.marks.as_ref().expect("one has stopped the scan");
        (marks.mark(mark), marks.pattern(mark))
    }
}

/// Whether JSON can contain a mark outside strings. If so, the mark does not show that the model
/// has started over, or is done.
fn may_stand_in_json(mark: &str) -> bool {
    mark.bytes().all(|b| b"{}[]:, \t\r\n0123456789+-.eEtrufalsn".contains(&b))
}

/// The state of a scan inside a payload.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    /// How many brackets are open.
    depth: usize,
    /// A bracket that leaves no more than this many open stops the scan.
    pause: usize,
    /// The kinds of the first [`DEPTH_MAX`] of them, one bit each, the innermost lowest: 1 for `[`.
    /// Deeper ones are only counted, because their payload is discarded.
    kinds: Kinds,
    /// The quote that ends the string we are in; 0 outside strings, [`DELIMITED`] if a delimiter
    /// ends it.
    quote: u8,
    /// How much of that delimiter has been read.
    ending: usize,
    /// The next byte is escaped.
    escape: bool,
    /// The part that has been read of a mark or, in a string, of a boundary.
    held: Held,
}

/// A bit for each open bracket. Packed, because a parser would be 16 bytes longer if these were aligned to 16.
#[derive(Debug, Clone, Copy, Default)]
#[repr(Rust, packed(8))]
struct Kinds(u128);

const _: () = assert!(DEPTH_MAX == u128::BITS as usize, "a bit for each open bracket");

/// Stands for a delimiter in place of a quote.
const DELIMITED: u8 = 1;

impl Scanner {
    /// Makes the scan pause once the innermost `open` brackets are closed.
    pub(super) const fn pause_after(&mut self, open: usize) {
        self.pause = self.depth.saturating_sub(open);
    }

    /// How many bytes at the beginning only continue a string, as most of a payload does. `None`: all do.
    #[inline]
    pub(super) fn string_length(&self, bytes: &[u8], rules: &Rules) -> Option<usize> {
        if self.quote <= DELIMITED || self.escape || rules.boundaries.is_some() {
            return Some(0);
        }
        let stop = find::either_inlined(self.quote, b'\\', bytes);
        examined::note(stop.unwrap_or(bytes.len()));
        stop
    }

    /// Scans more bytes, and returns how many: all of them, unless something stops it. The first ones, up to
    /// `at`, are known to continue a string. The very first byte must be the payload's opening bracket, if it
    /// has one.
    pub(super) fn scan(&mut self, mut at: usize, bytes: &[u8], rules: &Rules) -> Scanned {
        while at < bytes.len() {
            let skipped = match self.quote {
                0 => self.skip_to_string(at, bytes, rules),
                DELIMITED => Ok(self.skip_delimited(at, bytes, rules)),
                quote => self.skip_string(quote, at, bytes, rules),
            };
            match skipped {
                Ok(end) => at = end,
                Err(scanned) => return scanned,
            }
        }
        (at, None)
    }

    /// Returns where the next string begins, after its quote, or where the bytes end. An error is what stopped
    /// the scan before that.
    fn skip_to_string(
        &mut self,
        mut at: usize,
        bytes: &[u8],
        rules: &Rules,
    ) -> Result<usize, Scanned> {
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            examined::note(1);
            if !rules.special[usize::from(byte)] && self.held.is_empty() {
                continue;
            }
            let marks = rules.marks.as_ref();
            if let Some(mark) = marks.and_then(|marks| marks.push(&mut self.held, byte)) {
                if rules.mark(mark).0 != Mark::Quote {
                    return Err((at, Some(Stop::Mark(mark))));
                }
                self.quote = DELIMITED;
                return Ok(at);
            }
            match byte {
                b'{' | b'[' | b'}' | b']' if rules.is_block => {}
                b'{' | b'[' => {
                    let too_deep = self.open(byte);
                    if too_deep {
                        return Err((at, Some(Stop::TooDeep)));
                    }
                }
                b'}' | b']' => {
                    if !self.close(byte) && !rules.lenient {
                        return Err((at, Some(Stop::WrongCloser)));
                    }
                    if self.depth <= self.pause {
                        self.pause = 0;
                        let stop = if self.depth == 0 { Stop::End } else { Stop::Pause };
                        return Err((at, Some(stop)));
                    }
                }
                quote if rules.quotes.contains(&quote) => {
                    self.quote = quote;
                    self.held = Held::NONE;
                    return Ok(at);
                }
                _ => {}
            }
        }
        Ok(at)
    }

    /// Returns where the current string ends, after its quote, or where the bytes end. An error is the boundary
    /// that stopped the scan before that.
    fn skip_string(
        &mut self,
        quote: u8,
        mut at: usize,
        bytes: &[u8],
        rules: &Rules,
    ) -> Result<usize, Scanned> {
        // At least one byte is left, so this stays within them.
        at += usize::from(mem::take(&mut self.escape));
        loop {
            let stop = find::either(quote, b'\\', &bytes[at..]);
            examined::note(stop.unwrap_or(bytes.len() - at));
            let end = stop.map_or(bytes.len(), |stop| at + stop);
            if let Some(boundaries) = &rules.boundaries
                && let Some((read, boundary)) = self.find_boundary(&bytes[at..end], boundaries)
            {
                return Err((at + read, Some(Stop::Boundary(boundary))));
            }
            if stop.is_none() {
                return Ok(end);
            }
            // No boundary contains a quote or a backslash.
            self.held = Held::NONE;
            if bytes[end] == quote {
                self.quote = 0;
                return Ok(end + 1);
            }
            if end + 1 == bytes.len() {
                self.escape = true;
                return Ok(end + 1);
            }
            at = end + 2;
        }
    }

    /// Looks for a boundary in a part of a string. Returns where it ends, and which one it is.
    #[inline(never)]
    fn find_boundary(&mut self, bytes: &[u8], boundaries: &Marks) -> Option<(usize, usize)> {
        let mut at = 0;
        loop {
            if self.held.is_empty() {
                at += boundaries.find(&bytes[at..])?;
            }
            let byte = *bytes.get(at)?;
            at += 1;
            if let Some(boundary) = boundaries.push(&mut self.held, byte) {
                return Some((at, boundary));
            }
        }
    }

    /// The same as [`skip_string`](Self::skip_string) for one that a delimiter ends. No delimiter begins inside
    /// itself.
    #[inline(never)]
    fn skip_delimited(&mut self, start: usize, bytes: &[u8], rules: &Rules) -> usize {
        let delimiter = rules.delimiter.unwrap_or_default();
        for (at, &byte) in bytes.iter().enumerate().skip(start) {
            examined::note(1);
            if byte != delimiter[self.ending] {
                self.ending = 0;
            }
            self.ending += usize::from(byte == delimiter[self.ending]);
            if self.ending == delimiter.len() {
                (self.quote, self.ending) = (0, 0);
                return at + 1;
            }
        }
        bytes.len()
    }

    /// Opens a bracket, and returns whether it is the first one too deep.
    #[inline]
    fn open(&mut self, bracket: u8) -> bool {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            self.kinds.0 = self.kinds.0 << 1 | u128::from(bracket == b'[');
        }
        self.depth == DEPTH_MAX + 1
    }

    /// Closes a bracket, and returns whether it is of the right kind.
    #[inline]
    fn close(&mut self, bracket: u8) -> bool {
        let known = self.depth <= DEPTH_MAX;
        self.depth -= 1;
        if !known {
            return true;
        }
        let square = self.kinds.0 & 1 == 1;
        self.kinds.0 >>= 1;
        square == (bracket == b']')
    }
}
