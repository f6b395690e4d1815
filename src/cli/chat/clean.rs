//! Makes text safe to show on a terminal.
//!
//! A model, or whoever wrote what it read, can put into its words [what terminals obey](terminal).

use std::borrow::Cow;

use crate::terminal;
use crate::tools::clean;

/// The text without control characters and overrides of direction. Line breaks and tabs stay.
///
/// Each character is looked at by itself, so the pieces of a stream can be cleaned one by one.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|char| is_harmless(*char)).collect())
}

/// The same on one line, without invisible characters, at most this long.
pub(super) fn line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    clean::text(&words.join(" "), chars_max)
}

/// JSON as it is written, on one line and at most this long. Invisible characters are escaped.
pub(super) fn json(json: &str, chars_max: usize) -> String {
    let visible = clean::json(json);
    let mut chars = visible.chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut cut: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        cut.push('…');
    }
    cut
}

fn is_harmless(char: char) -> bool {
    matches!(char, '\n' | '\t') || !terminal::obeys(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (dirty, clean) in [
            ("plain\ttext\nGröße 🙂 👩🏽\u{200d}🚀", "plain\ttext\nGröße 🙂 👩🏽\u{200d}🚀"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "[2J]0;title"),
            ("a\rb\u{8}c\u{7f}d\u{0}", "abcd"),
            ("\u{9b}31mred\u{9d}", "31mred"),
            ("\u{202e}gnp.exe\u{202c}\u{2066}x\u{2069}", "gnp.exex"),
        ] {
            assert_eq!(text(dirty), clean, "{dirty:?}");
        }
    }

    #[test]
    fn a_line_has_no_breaks_and_an_end() {
        assert_eq!(line(" a\n\n b\tc\u{1b}[0m\u{200b} ", 99), "a b c[0m");
        assert_eq!(line("abcdef", 3), "abc…");
    }

    #[test]
    fn json_shows_invisible_characters() {
        assert_eq!(json("{\"a\":\"\u{202e}b\u{200b}\"}", 99), r#"{"a":"\u202eb\u200b"}"#);
        assert_eq!(json("{\"a\":\"\u{2028}\"}", 99), r#"{"a":"\u2028"}"#);
        assert_eq!(json("{\n\t\"a\":1}", 99), "{  \"a\":1}");
        assert_eq!(json(r#"{"a":1}"#, 3), "{\"a…");
    }
}
