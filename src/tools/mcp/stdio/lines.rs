//! Lines of a stream, each with a limit.

use crate::limits::mcp::{KEPT_BUFFER_BYTES, MESSAGE_BYTES_MAX, READ_BYTES};
use crate::tools::mcp::envelope::Envelope;

/// Bytes on their way to lines.
///
/// ```text
///   |-- read already --|-- lines that are complete --|-- the beginning of one --|
///                      ^ begin                        ^ searched up to here
/// ```
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    begin: usize,
    searched: usize,
    /// The line that is being thrown away, because it is too long.
    long: Option<Long>,
}

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// A line that is too long. It may be an answer to the request with this id, if it has one.
    TooLong(Option<i64>),
}

impl Lines {
    /// The buffer, to append bytes to.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            let rest = &self.buffer[self.searched..];
            let found = memchr::memchr(b'\n', rest).map(|at| self.searched + at);
            let end = found.unwrap_or(self.buffer.len());
            let line = &self.buffer[self.begin..end];
            if self.long.is_none() && line.len() <= MESSAGE_BYTES_MAX {
                let whole = found.map(|_| Line::Whole(line.to_vec()));
                self.searched = end;
                if found.is_some() {
                    self.searched += 1;
                    self.begin = self.searched;
                }
                return whole;
            }
            let long = self.long.get_or_insert_default();
            let known = long.push(line, found.is_some());
            self.throw_away(found);
            if known.is_some() || found.is_none() {
                return known;
            }
        }
    }

    /// Throws away part of a line that is too long, perhaps up to its end.
    fn throw_away(&mut self, end: Option<usize>) {
        if let Some(end) = end {
            self.begin = end + 1;
            self.long = None;
        } else {
            self.buffer = Vec::new();
            self.begin = 0;
        }
        self.searched = self.begin;
    }
}

/// A line that is too long.
#[derive(Debug, Default)]
struct Long {
    envelope: Envelope,
    is_known: bool,
}

impl Long {
    /// Looks at more of the line. Returns it as soon as it is known what it answers, or that
    /// nothing says so.
    fn push(&mut self, part: &[u8], is_end: bool) -> Option<Line> {
        if self.is_known {
            return None;
        }
        self.envelope.push(part);
        let answered = self.envelope.answered();
        self.is_known = answered.is_some() || is_end;
        let is_told = self.is_known && self.envelope.may_be_answer();
        is_told.then_some(Line::TooLong(answered))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: impl Iterator<Item = Vec<u8>>) -> Vec<Line> {
        let mut lines = Lines::default();
        let mut read = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(&chunk);
            while let Some(line) = lines.next() {
                read.push(line);
            }
        }
        read
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_are_cut(
            text in "[ab\n]{0,60}",
            size in 1_usize..10,
        ) {
            let whole: Vec<Line> = match text.rsplit_once('\n') {
                Some((complete, _)) => complete
                    .split('\n')
                    .map(|line| Line::Whole(line.as_bytes().to_vec()))
                    .collect(),
                None => Vec::new(),
            };
            let chunks = text.as_bytes().chunks(size).map(<[u8]>::to_vec);
            prop_assert_eq!(lines(chunks), whole);
        }
    }

    const LIMIT: usize = MESSAGE_BYTES_MAX;

    /// A line of this length, in bytes.
    fn long(begin: &str, bytes: usize, end: &str) -> Vec<u8> {
        let filler = "x".repeat(bytes - begin.len() - end.len());
        format!("{begin}{filler}{end}").into_bytes()
    }

    #[test]
    fn a_line_that_is_too_long_is_known_by_its_id_and_the_next_is_read() {
        for (begin, end) in [
            (r#"{"jsonrpc":"2.0","id": 12,"result":""#, ""),
            (r#"{"jsonrpc":"2.0","result":{"id":7,"text":""#, r#""},"id":12}"#),
        ] {
            let text = [
                long(begin, LIMIT, end),
                b"\n".to_vec(),
                long(begin, LIMIT + 1, end),
                b"\nnext\n".to_vec(),
            ];
            for size in [1 << 16, LIMIT * 2 + 100] {
                let read = lines(text.concat().chunks(size).map(<[u8]>::to_vec));
                let [Line::Whole(whole), Line::TooLong(answered), Line::Whole(next)] = &read[..]
                else {
                    panic!("{} lines", read.len());
                };
                assert_eq!((whole.len(), &next[..]), (LIMIT, &b"next"[..]));
                assert_eq!(*answered, Some(12));
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_told_before_it_ends_if_it_says_what_it_answers() {
        let begin = r#"{"id":12,"result":""#;
        let read = lines([long(begin, LIMIT + 1, "")].into_iter());
        assert_eq!(read, [Line::TooLong(Some(12))]);
    }

    #[test]
    fn a_line_that_is_too_long_without_an_id_may_be_an_answer_unless_it_has_a_method() {
        for (begin, read_as) in [
            (r#"{"result":""#, &[Line::TooLong(None)][..]),
            (r#"{"method":"notifications/message","params":""#, &[]),
        ] {
            let text = [long(begin, LIMIT * 2, "\"}"), b"\n".to_vec()].concat();
            assert_eq!(lines(text.chunks(1 << 16).map(<[u8]>::to_vec)), read_as);
        }
    }
}
