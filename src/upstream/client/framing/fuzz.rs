//! The body of the fuzz target `upstream_framing`; an ordinary test replays its corpus.

use super::{Framing, FramingError};

/// Checks that the body of an answer does not depend on where its bytes were cut, and that a
/// chunked body is what a reader of whole lines finds.
///
/// ```text
///   input:  | n | lengths of pieces, cyclic | the bytes of an answer's body |
///                '- n % 16 bytes ----------'
/// ```
///
/// # Panics
/// If two ways of reading differ.
pub(crate) fn upstream_framing(input: &[u8]) {
    let Some((&cuts, rest)) = input.split_first() else { return };
    let (cuts, stream) = rest.split_at(rest.len().min(usize::from(cuts % 16)));

    let lengths = [Framing::length(0), Framing::length(7), Framing::UntilClose];
    for framing in lengths.into_iter().chain([Framing::CHUNKED]) {
        let whole = read(framing, std::iter::once(stream));
        assert_eq!(whole, read(framing, stream.chunks(1)), "byte by byte");
        assert_eq!(whole, read(framing, pieces(cuts, stream)), "cut");
        if framing == Framing::CHUNKED {
            let by_lines = by_lines(stream);
            assert_eq!(by_lines.is_some(), whole.is_complete, "{whole:?}");
            if let Some((body, taken)) = by_lines {
                assert_eq!((body, taken), (whole.data, whole.taken));
            }
        }
    }
}

fn pieces<'a>(cuts: &'a [u8], stream: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let (mut rest, mut lengths) = (stream, cuts.iter().cycle());
    std::iter::from_fn(move || {
        let length = lengths.next().map_or(1, |length| usize::from(*length).max(1));
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Body {
    data: Vec<u8>,
    taken: usize,
    is_complete: bool,
    may_end: bool,
    error: Option<FramingError>,
}

fn read<'a>(mut framing: Framing, pieces: impl Iterator<Item = &'a [u8]>) -> Body {
    let (mut body, mut taken, mut error) = (Vec::new(), 0, None);
    for piece in pieces {
        match framing.push(piece, |data| {
            assert!(!data.is_empty(), "an empty piece of a body");
            body.extend_from_slice(data);
        }) {
            Ok(used) => {
                assert!(used == piece.len() || framing.is_complete(), "bytes left over");
                taken += used;
            }
            Err(failed) => error = Some(failed),
        }
    }
    let (is_complete, may_end) = (framing.is_complete(), framing.may_end_here());
    // The body before a fault must not depend on the cuts; the number of bytes taken does.
    Body { data: body, taken: if error.is_some() { 0 } else { taken }, is_complete, may_end, error }
}

/// A complete chunked body and its encoded length, read line by line from all of the bytes.
fn by_lines(stream: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut rest, mut body, mut overhead) = (stream, Vec::new(), 0);
    loop {
        let line = take_line(&mut rest)?;
        let size = line.split(|byte| *byte == b';').next()?;
        if size.len() < line.len() {
            overhead += line.len() - size.len() - 1;
        }
        let text = std::str::from_utf8(size).ok()?.trim_end_matches([' ', '\t']);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let digits = text.trim_start_matches('0');
        let most = usize::from(super::CHUNK_SIZE_BYTES_MAX);
        if text.len() > most || size.len() - text.len() > most {
            return None;
        }
        if digits.len() > 16 || overhead > super::CHUNK_OVERHEAD_BYTES_MAX {
            return None;
        }
        let bytes = usize::from_str_radix(&format!("0{digits}"), 16).ok()?;
        if bytes == 0 {
            break;
        }
        let (chunk, after) = (rest.get(..bytes)?, rest.get(bytes..)?);
        body.extend_from_slice(chunk);
        rest = after.strip_prefix(b"\r\n")?;
    }
    loop {
        let line = take_line(&mut rest)?;
        if line.is_empty() {
            return Some((body, stream.len() - rest.len()));
        }
        overhead += line.len();
        if overhead > super::CHUNK_OVERHEAD_BYTES_MAX {
            return None;
        }
    }
}

/// Takes a line that ends in CR LF and contains neither before its end.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
    let (line, after) = rest.split_at(end);
    *rest = after.strip_prefix(b"\r\n")?;
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_upstream_framing() {
        crate::corpus::replay("upstream_framing", upstream_framing);
    }
}
