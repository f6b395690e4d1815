//! Writes a log record as a single line, so that data from a peer cannot forge records. The
//! formatter escapes terminal control sequences; the colours are its own.

use std::ascii;

/// Appends a complete record, as the formatter passes it.
pub(super) fn push_line(out: &mut Vec<u8>, record: &[u8]) {
    let (text, end) = match record.strip_suffix(b"\n") {
        Some(text) => (text, &b"\n"[..]),
        None => (record, &b""[..]),
    };
    for piece in text.split_inclusive(|byte| is_control(*byte)) {
        match piece.split_last() {
            Some((control, before)) if is_control(*control) => {
                out.extend_from_slice(before);
                out.extend(ascii::escape_default(*control));
            }
            _ => out.extend_from_slice(piece),
        }
    }
    out.extend_from_slice(end);
}

/// The formatter handles ESC, which starts its colours.
const fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t' && byte != 0x1b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: &str, line: &str) {
        let mut out = Vec::new();
        push_line(&mut out, record.as_bytes());
        assert_eq!(String::from_utf8(out).unwrap(), line);
    }

    #[test]
    fn a_record_stays_on_one_line() {
        check("INFO plain\n", "INFO plain\n");
        check("INFO a\nINFO forged\n", "INFO a\\nINFO forged\n");
        check("INFO a\r\nb\n", "INFO a\\r\\nb\n");
        check("\0INFO\n\n", "\\x00INFO\\n\n");
        check("tab\tand ünïcode\n", "tab\tand ünïcode\n");
        check("no end", "no end");
        check("", "");
    }
}
