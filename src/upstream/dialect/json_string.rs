//! Unescapes the body of a JSON string.
//!
//! Hand-written because a memoised frame (`memo`) never reaches a JSON parser: one pass both
//! validates the body and decodes it.

use serde_json::value::RawValue;

/// The text of a JSON string, which is given with its quotes; see [`unescape`].
pub(in crate::upstream) fn text_of<'a>(
    raw: &'a RawValue,
    scratch: &'a mut String,
) -> Option<&'a str> {
    let body = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    unescape(body.as_bytes(), scratch)
}

/// Decodes `body`, the bytes between two quotes. The result is borrowed from `body` if it has
/// no escapes, else from `scratch`, whose content is replaced.
///
/// `None` if `body` is not the body of a JSON string: it has a quote, a control byte, an
/// unknown or truncated escape, or invalid UTF-8. Half a surrogate pair, which JSON's grammar
/// allows but no text can hold, becomes U+FFFD: a model that was cut off inside a character
/// must not end the turn.
pub(in crate::upstream) fn unescape<'a>(
    body: &'a [u8],
    scratch: &'a mut String,
) -> Option<&'a str> {
    let Some(special) = body.iter().position(|byte| is_special(*byte)) else {
        return std::str::from_utf8(body).ok();
    };
    let body = std::str::from_utf8(body).ok()?;
    scratch.clear();
    let mut rest = body;
    let mut plain = special;
    loop {
        scratch.push_str(&rest[..plain]);
        // A quote or a control byte does not begin an escape.
        rest = rest[plain..].strip_prefix('\\')?;
        rest = push_escape(rest, scratch)?;
        match rest.bytes().position(is_special) {
            Some(next) => plain = next,
            None => break,
        }
    }
    scratch.push_str(rest);
    Some(scratch)
}

/// The text of strings that follow each other, if a surrogate pair may be split between two: servers that count
/// in UTF-16 cut there. The first half is held until the second comes.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Unescaper {
    held: Option<[u8; HALF_BYTES]>,
}

impl Unescaper {
    /// Does what [`unescape`] does. The text may begin with a character whose first half came before.
    pub(in crate::upstream) fn unescape<'a>(
        &mut self,
        body: &'a [u8],
        scratch: &'a mut String,
    ) -> Option<&'a str> {
        let half = first_half_at_end(body);
        if body.is_empty() || (self.held.is_none() && half.is_none()) {
            return unescape(body, scratch);
        }
        let held = self.held.as_ref().map_or(&[][..], |held| held);
        let rest = &body[..body.len() - half.map_or(0, |_| HALF_BYTES)];
        let joined = [held, rest].concat();
        // A string that cannot be read changes nothing.
        let text = unescape(&joined, &mut String::new())?.to_owned();
        self.held = half;
        *scratch = text;
        Some(scratch)
    }

    /// Gives up the half that is held: nothing follows it. True if there was one.
    pub(in crate::upstream) fn give_up(&mut self) -> bool {
        self.held.take().is_some()
    }
}

/// A backslash, `u` and four digits.
const HALF_BYTES: usize = 6;

/// The first half of a surrogate pair, as an escape at the end of a string's body.
fn first_half_at_end(body: &[u8]) -> Option<[u8; HALF_BYTES]> {
    let (before, half) = body.split_last_chunk::<HALF_BYTES>()?;
    let [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', last @ ..] = half
    else {
        return None;
    };
    // After an odd number of backslashes, this one is text.
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    (backslashes.is_multiple_of(2) && last.iter().all(u8::is_ascii_hexdigit)).then_some(*half)
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Reads what follows a backslash; returns the text after the escape.
fn push_escape<'a>(escape: &'a str, text: &mut String) -> Option<&'a str> {
    let (kind, rest) = escape.split_at_checked(1)?;
    let character = match kind {
        "\"" | "\\" | "/" => kind.chars().next()?,
        "b" => '\u{8}',
        "f" => '\u{C}',
        "n" => '\n',
        "r" => '\r',
        "t" => '\t',
        "u" => return push_unicode_escape(rest, text),
        _ => return None,
    };
    text.push(character);
    Some(rest)
}

/// Reads what follows `\u`, including the second half of a surrogate pair.
fn push_unicode_escape<'a>(digits: &'a str, text: &mut String) -> Option<&'a str> {
    let (unit, rest) = hex_unit(digits)?;
    if let Some(character) = char::from_u32(unit) {
        text.push(character);
        return Some(rest);
    }
    let is_high = unit < 0xDC00;
    if is_high && let Some(second) = rest.strip_prefix("\\u") {
        let (low, after) = hex_unit(second)?;
        if (0xDC00..0xE000).contains(&low) {
            let pair = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            text.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Some(after);
        }
    }
    text.push(char::REPLACEMENT_CHARACTER);
    Some(rest)
}

fn hex_unit(digits: &str) -> Option<(u32, &str)> {
    let (digits, rest) = digits.split_at_checked(4)?;
    let value =
        digits.chars().try_fold(0, |value, digit| Some(value << 4 | digit.to_digit(16)?))?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Unescaper, unescape};

    #[track_caller]
    fn check(body: &str, expected: Option<&str>) {
        assert_eq!(unescape(body.as_bytes(), &mut String::from("left over")), expected, "{body:?}");
    }

    #[test]
    fn escapes_are_read() {
        check("", Some(""));
        check("plain", Some("plain"));
        check(r#"\"\\\/\b\f\n\r\t"#, Some("\"\\/\u{8}\u{C}\n\r\t"));
        check(r"a\nb\u0041c", Some("a\nbAc"));
        check(r"\u00e9\u20AC", Some("\u{e9}\u{20ac}"));
        check(r"\ud83d\ude00!", Some("\u{1F600}!"));
        check(r"\u0000", Some("\0"));
        check("caf\u{e9} \u{1F600}\u{7f}", Some("caf\u{e9} \u{1F600}\u{7f}"));
    }

    #[test]
    fn invalid_bodies_are_refused() {
        for body in [
            "a\"",
            "\"",
            "a\nb",
            "\t",
            "\0",
            r"\",
            r"a\\\",
            r"\x",
            r"\u12",
            r"\u12g4",
            r"\u",
            r"\ud83d\u12",
            r"\U0041",
            "\\\u{e9}",
            "\\u00\u{e9}",
        ] {
            check(body, None);
        }
        assert_eq!(unescape(b"\xFF", &mut String::new()), None);
        assert_eq!(unescape(b"\\n\xC3", &mut String::new()), None);
    }

    #[test]
    fn half_a_surrogate_pair_becomes_the_replacement_character() {
        check(r"\ud83d", Some("\u{FFFD}"));
        check(r"\ude00", Some("\u{FFFD}"));
        check(r"a\ud83db", Some("a\u{FFFD}b"));
        check(r"\ud83d\n", Some("\u{FFFD}\n"));
        check(r"\ud83d\ud83d\ude00", Some("\u{FFFD}\u{1F600}"));
        check(r"\ud83dA", Some("\u{FFFD}A"));
        check(r"\ude00\ud83d", Some("\u{FFFD}\u{FFFD}"));
    }

    /// Checks the text of strings that follow each other.
    #[track_caller]
    fn check_all(bodies: &[&str], expected: &[&str]) {
        let mut unescaper = Unescaper::default();
        let texts: Vec<String> = bodies
            .iter()
            .map(|body| unescaper.unescape(body.as_bytes(), &mut String::new()).unwrap().to_owned())
            .collect();
        assert_eq!(texts, expected, "{bodies:?}");
    }

    #[test]
    fn a_surrogate_pair_may_be_split_between_two_strings() {
        check_all(&[r"a\ud83d", r"\ude00b"], &["a", "\u{1F600}b"]);
        check_all(&[r"\uD83D", r"\uDE00\uD83D", r"\uDE00"], &["", "\u{1F600}", "\u{1F600}"]);
        check_all(&[r"\ud83d", "", r"\ude00"], &["", "", "\u{1F600}"]);
        check_all(&[r"\ud83d", "a"], &["", "\u{FFFD}a"]);
        check_all(&[r"\ud83d", r"\ud83d", r"\ude00"], &["", "\u{FFFD}", "\u{1F600}"]);
        check_all(&[r"\\ud83d", r"\ude00"], &[r"\ud83d", "\u{FFFD}"]);
        check_all(&[r"\\\ud83d", r"\ude00"], &["\\", "\u{1F600}"]);
        check_all(&[r"\ud83d\ude00", r"\ude00"], &["\u{1F600}", "\u{FFFD}"]);
    }

    #[test]
    fn a_half_that_nothing_follows_is_given_up() {
        let mut unescaper = Unescaper::default();
        assert_eq!(unescaper.unescape(br"a\ud83d", &mut String::new()), Some("a"));
        assert_eq!(unescaper.unescape(b"\"", &mut String::new()), None);
        assert!(unescaper.give_up(), "an unreadable string has changed nothing");
        assert!(!unescaper.give_up());
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let body = "caf\u{e9}".as_bytes();
        assert_eq!(unescape(body, &mut String::new()).unwrap().as_ptr(), body.as_ptr());
    }

    /// Bodies made of the bytes that matter to the grammar.
    fn bodies() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                r"\",
                r"\\",
                r#"\""#,
                "\"",
                r"\n",
                r"\/",
                r"\u",
                r"\u0041",
                r"\ud83d",
                r"\ude00",
                r"\uDBFF",
                "12",
                "a",
                "\n",
                "\u{e9}",
                "\u{1F600}",
            ])
            .prop_map(|text| text.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..3),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(body in bodies()) {
            let json = [b"\"".as_slice(), &body, b"\""].concat();
            let mut scratch = String::new();
            let ours = unescape(&body, &mut scratch);
            if let Ok(text) = serde_json::from_slice::<String>(&json) {
                prop_assert_eq!(ours, Some(text.as_str()));
            } else {
                // serde_json rejects half a pair as a string, but its grammar allows it.
                let is_string = serde_json::from_slice::<&serde_json::value::RawValue>(&json).is_ok();
                prop_assert_eq!(ours.is_some(), is_string);
            }
        }

        /// However a body is cut between two escapes, the text is that of the whole one.
        #[test]
        fn cut_strings_are_read_like_whole_ones(
            units in prop::collection::vec(
                prop::sample::select(vec![0x61, 0xD83D, 0xDE00, 0x5C, 0x20AC]), 0..12),
            cuts in prop::collection::vec(any::<bool>(), 12),
        ) {
            let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let whole = unescape(escapes.concat().as_bytes(), &mut String::new()).unwrap().to_owned();
            let (mut unescaper, mut said, mut body) = (Unescaper::default(), String::new(), String::new());
            for (escape, is_cut) in escapes.iter().zip(cuts) {
                body.push_str(escape);
                if is_cut {
                    said += unescaper.unescape(body.as_bytes(), &mut String::new()).unwrap();
                    body.clear();
                }
            }
            if !body.is_empty() {
                said += unescaper.unescape(body.as_bytes(), &mut String::new()).unwrap();
            }
            if unescaper.give_up() {
                said.push('\u{FFFD}');
            }
            prop_assert_eq!(said, whole);
        }

        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let body = &json.as_bytes()[1..json.len() - 1];
            let mut scratch = String::new();
            prop_assert_eq!(unescape(body, &mut scratch), Some(text.as_str()));
        }
    }
}
