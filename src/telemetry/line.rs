//! Writes a log record as a single line, so that data from a peer can neither forge records nor command a terminal.

use crate::terminal;

/// What the formatter colours a record with, for a terminal: SGR sequences (ECMA-48, section 8.3.117). A field from
/// outside may have them too, but no others, and not beyond its line.
const COLOURS: [&str; 9] = [
    RESET,
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
];

const RESET: &str = "\u{1b}[0m";

/// Appends a complete record, as the formatter passes it, which `is_coloured` for a terminal or not.
pub(super) fn push_line(out: &mut Vec<u8>, record: &[u8], is_coloured: bool) {
    if is_printable(record.strip_suffix(b"\n").unwrap_or(record)) {
        out.extend_from_slice(record);
        return;
    }
    let record = String::from_utf8_lossy(record);
    let (mut rest, end) = match record.strip_suffix('\n') {
        Some(text) => (text, "\n"),
        None => (&*record, ""),
    };
    let mut is_plain = true;
    let colour = |text: &str| COLOURS.iter().find(|it| is_coloured && text.starts_with(**it));
    while let Some(at) = rest.find(|char| terminal::obeys(char) && char != '\t') {
        let (before, obeyed) = rest.split_at(at);
        out.extend_from_slice(before.as_bytes());
        if let Some(colour) = colour(obeyed) {
            out.extend_from_slice(colour.as_bytes());
            rest = &obeyed[colour.len()..];
            is_plain = *colour == RESET;
            continue;
        }
        let (char, after) = obeyed.split_at(obeyed.chars().next().map_or(0, char::len_utf8));
        out.extend_from_slice(terminal::spelled_out(char, &[]).as_bytes());
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    if !is_plain {
        out.extend_from_slice(RESET.as_bytes());
    }
    out.extend_from_slice(end.as_bytes());
}

/// Whether this is printable ASCII, as almost all records are. Pieces are searched without branches, which compilers
/// vectorize.
fn is_printable(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    text.chunks(32).all(|piece| piece.iter().fold(true, |all, byte| all & is_plain(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(record: &str, is_coloured: bool) -> String {
        let mut out = Vec::new();
        push_line(&mut out, record.as_bytes(), is_coloured);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_stays_on_one_line() {
        for (record, expected) in [
            ("INFO plain\n", "INFO plain\n"),
            ("INFO a\nINFO forged\n", "INFO a\\nINFO forged\n"),
            ("INFO a\r\nb\n", "INFO a\\r\\nb\n"),
            ("\0INFO\n\n", "\\u0000INFO\\n\n"),
            ("tab\tand ünïcode\n", "tab\tand ünïcode\n"),
            ("no end", "no end"),
            ("", ""),
        ] {
            assert_eq!(line(record, false), expected);
            assert_eq!(line(record, true), expected);
        }
    }

    #[test]
    fn a_record_commands_no_terminal() {
        let record =
            "\u{1b}[2mINFO\u{1b}[0m \u{1b}]0;owned\u{7} \u{9b}2J \u{1b}[8m\u{202e}\u{1b}\n";
        let told = " \\u001b]0;owned\\u0007 \\u009b2J \\u001b[8m\\u202e\\u001b\n";
        assert_eq!(line(record, true), format!("\u{1b}[2mINFO\u{1b}[0m{told}"));
        assert_eq!(line("a \u{1b}[31mb\n", true), "a \u{1b}[31mb\u{1b}[0m\n");
        assert_eq!(line(record, false), format!("\\u001b[2mINFO\\u001b[0m{told}"));
    }
}
