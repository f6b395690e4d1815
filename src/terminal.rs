//! What a terminal obeys instead of showing it.
//!
//! Models, servers and clients can put escape sequences into what they say. They could change what is already on the
//! screen, the window's title or the clipboard. Marks that override the direction of text make one thing look like
//! another.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal acts on this character instead of showing it: a control character (line breaks and tabs included), or
/// a mark that changes the direction of text.
pub(crate) fn obeys(char: char) -> bool {
    char.is_control() || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with such characters spelled out as JSON does, as in `\u001b`, but for those that stay.
pub(crate) fn spelled_out<'t>(text: &'t str, stay: &[char]) -> Cow<'t, str> {
    let is_spelled_out = |char: char| obeys(char) && !stay.contains(&char);
    if !text.contains(is_spelled_out) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match char {
            char if !is_spelled_out(char) => shown.push(char),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            // All of them have four digits.
            char => write!(shown, "\\u{:04x}", u32::from(char)).expect("a string takes everything"),
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, shown) in [
            ("plain, Größe 🙂 👩🏽\u{200d}🚀", "plain, Größe 🙂 👩🏽\u{200d}🚀"),
            ("\u{1b}[31m\u{1b}]0;title\u{7}", "\\u001b[31m\\u001b]0;title\\u0007"),
            ("\u{9b}2J\u{7f}\0", "\\u009b2J\\u007f\\u0000"),
            ("\u{202e}gnp.exe\u{2069}", "\\u202egnp.exe\\u2069"),
            ("a\r\n\tb", "a\\r\n\\tb"),
        ] {
            assert_eq!(spelled_out(text, &['\n']), shown, "{text:?}");
        }
    }
}
