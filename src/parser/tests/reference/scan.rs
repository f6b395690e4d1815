//! Where a payload ends.

use super::{Opener, closers, headers, openers};
use crate::call_format::Body;
use crate::parser::{ErrorCode, Settings};

pub(super) enum End {
    /// The payload's length.
    Balanced(usize),
    Refused {
        code: ErrorCode,
        quoted: usize,
        end: usize,
        discarded: Discarded,
    },
    /// The payload lacks its end: where it stops, and how long the closer there is; 0 at the end of the
    /// input.
    Cut(usize, usize),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Discarded {
    End,
    /// Another call or frame begins, with an opener of this length.
    Marker(usize, Opener),
    /// A closer of this length.
    Closer(usize),
}

/// The quotes of a format's texts, and what delimits them in place of quotes.
fn text_marks(s: &Settings) -> (&'static [u8], &'static [u8]) {
    match s.format.row().body {
        Body::Loose(text) => (b"", text.as_bytes()),
        Body::Nested(_) => (b"", b""),
        Body::Pythonic(_) | Body::PythonicLines(_) => (b"\"'", b""),
        _ if s.strict_balancing => (b"\"", b""),
        _ => (b"\"'", b""),
    }
}

/// A closer, directly followed by the opener of a header, with which the bytes end, of which this many lie in a
/// string: where the closer begins, and its length.
fn boundary(s: &Settings, bytes: &[u8], inside: usize) -> Option<(usize, usize)> {
    headers(s).into_iter().find_map(|opener| {
        let before = bytes.strip_suffix(opener)?;
        let closer = closers(s).into_iter().find(|closer| before.ends_with(closer))?;
        let start = before.len() - closer.len();
        (bytes.len() - start <= inside).then_some((start, closer.len()))
    })
}

/// A payload that a closer of this length ends here, unless it was refused before.
const fn cut(said: Option<(ErrorCode, usize)>, end: usize, length: usize) -> End {
    match said {
        None => End::Cut(end, length),
        Some((code, quoted)) => {
            End::Refused { code, quoted, end, discarded: Discarded::Closer(length) }
        }
    }
}

/// Walks a payload from its first bracket.
pub(super) fn scan(s: &Settings, bytes: &[u8]) -> End {
    let may_be_json =
        |mark: &[u8]| mark.iter().all(|b| b"{}[]:, \t\r\n0123456789+-.eEtrufalsn".contains(b));
    let ends = |marks: Vec<&'static [u8]>, so_far: &[u8], outside: usize| {
        let ends =
            |mark: &&&[u8]| !may_be_json(mark) && outside >= mark.len() && so_far.ends_with(mark);
        marks.iter().find(ends).map(|mark| mark.len())
    };
    let (marks_of_text, delimiter) = text_marks(s);
    // Where a text between delimiters begins.
    let mut text_from = None;
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    // How many bytes in a row, up to here, are outside strings, and how many inside one.
    let (mut outside, mut inside) = (0, 0);
    let mut said = None;
    for (at, &b) in bytes.iter().enumerate() {
        if at == s.max_payload_bytes && said.is_none() {
            said = Some((ErrorCode::PayloadTooLarge, at));
        }
        if let Some(q) = quote {
            inside += 1;
            if escaped {
                (escaped, inside) = (false, 0);
            } else if b == b'\\' {
                escaped = true;
            } else if b == q {
                quote = None;
            }
            if let Some((end, length)) = boundary(s, &bytes[..=at], inside) {
                return cut(said, end, length);
            }
            outside = 0;
            continue;
        }
        if let Some(from) = text_from {
            if bytes[from..=at].ends_with(delimiter) {
                text_from = None;
            }
            outside = 0;
            continue;
        }
        outside += 1;
        if !delimiter.is_empty() && outside >= delimiter.len() && bytes[..=at].ends_with(delimiter)
        {
            text_from = Some(at + 1);
            outside = 0;
            continue;
        }
        let marker = openers(s).into_iter().find(|(mark, _)| {
            !may_be_json(mark) && outside >= mark.len() && bytes[..=at].ends_with(mark)
        });
        if let Some((length, kind)) = marker.map(|(mark, kind)| (mark.len(), kind)) {
            let end = at + 1 - length;
            let (code, quoted) = said.unwrap_or((ErrorCode::UnbalancedPayload, end));
            return End::Refused { code, quoted, end, discarded: Discarded::Marker(length, kind) };
        }
        if let Some(length) = ends(closers(s), &bytes[..=at], outside) {
            let end = at + 1 - length;
            return cut(said, end, length);
        }
        let refused =
            |code, quoted| End::Refused { code, quoted, end: at + 1, discarded: Discarded::End };
        match b {
            b if marks_of_text.contains(&b) => {
                quote = Some(b);
                (outside, inside) = (0, 0);
            }
            b'{' | b'[' | b'}' | b']' if s.format.row().body.ends_at_closer() => {}
            b'{' | b'[' => {
                open.push(b);
                if open.len() > 128 && said.is_none() {
                    said = Some((ErrorCode::PayloadTooDeep, at + 1));
                }
            }
            b'}' | b']' => {
                let deep = open.len() > 128;
                let fits = open.pop() == Some(if b == b'}' { b'{' } else { b'[' });
                if !fits && !deep && s.strict_balancing {
                    let (code, quoted) = said.unwrap_or((ErrorCode::UnbalancedPayload, at + 1));
                    return refused(code, quoted);
                }
                if open.is_empty() {
                    return match said {
                        None => End::Balanced(at + 1),
                        Some((code, quoted)) => refused(code, quoted),
                    };
                }
            }
            _ => {}
        }
    }
    match said {
        None => End::Cut(bytes.len(), 0),
        Some((code, quoted)) => {
            End::Refused { code, quoted, end: bytes.len(), discarded: Discarded::End }
        }
    }
}
