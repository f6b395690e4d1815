//! A key that a server was sent, taken out of what the server says: some repeat it as they refuse it, and models and
//! clients read that.
//!
//! ```text
//!   key    s  k  -       a  b  /   c
//!   said   s  k  \u002d  a  b  \/  c     as JSON may write it, or even JSON in JSON: \\u002d
//! ```

use std::fmt;
use std::sync::Arc;

use memchr::memchr2_iter;

use crate::limits::HIDDEN_KEY_BYTES_MIN;
use crate::text::ELLIPSIS;

/// JSON that is quoted in JSON, three times over.
const BACKSLASHES_MAX: usize = 7;

/// What is shown instead.
const SHOWN: &str = "[the key]";

/// A key that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HiddenKey(Arc<str>);

impl fmt::Debug for HiddenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenKey")
    }
}

impl HiddenKey {
    /// `None` for a key that is too short to be a secret.
    pub(crate) fn of(key: &str) -> Option<Self> {
        (key.len() >= HIDDEN_KEY_BYTES_MIN).then(|| Self(key.into()))
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What a server says, without the key.
    pub(crate) fn hide(&self, told: String) -> String {
        self.hidden_in(&told).unwrap_or(told)
    }

    /// The same; `None` if the key is not in it.
    pub(crate) fn hidden_in(&self, told: &str) -> Option<String> {
        let mut hidden = String::new();
        let mut rest = told;
        while let Some((before, after)) = self.find(rest) {
            hidden.push_str(before);
            hidden.push_str(SHOWN);
            rest = after;
        }
        if hidden.is_empty() {
            return None;
        }
        hidden.push_str(rest);
        Some(hidden)
    }

    /// What is before the key and after it.
    fn find<'t>(&self, told: &'t str) -> Option<(&'t str, &'t str)> {
        let first = *self.0.as_bytes().first()?;
        memchr2_iter(first, b'\\', told.as_bytes()).find_map(|at| {
            let (before, key) = told.split_at(at);
            Some((before, self.strip(key)?))
        })
    }

    /// The text after the key, if it begins with the key, or is cut off within it.
    fn strip<'t>(&self, told: &'t str) -> Option<&'t str> {
        let mut rest = told;
        for (read, character) in self.0.char_indices() {
            if read >= HIDDEN_KEY_BYTES_MIN
                && let Some(after) = after_cut(rest)
            {
                return Some(after);
            }
            rest = strip_character(rest, character)?;
        }
        Some(rest)
    }
}

/// What follows if the text is cut off here, perhaps within an escape: nothing, or the mark of the cut.
fn after_cut(rest: &str) -> Option<&str> {
    let rest = strip_backslashes(rest).map_or(rest, strip_begun_code);
    (rest.is_empty() || rest.starts_with(ELLIPSIS)).then_some(rest)
}

/// What follows a code that has been begun: `u` and up to three digits.
fn strip_begun_code(code: &str) -> &str {
    let Some(hex) = code.strip_prefix('u') else { return code };
    let digits = hex.bytes().take_while(u8::is_ascii_hexdigit).take(4).count();
    if digits < 4 { &hex[digits..] } else { code }
}

/// What follows the backslashes at the beginning, if there are any.
fn strip_backslashes(text: &str) -> Option<&str> {
    let count = text.bytes().take(BACKSLASHES_MAX).take_while(|byte| *byte == b'\\').count();
    (count > 0).then(|| &text[count..])
}

/// What follows this character, which may be escaped, even more than once.
fn strip_character(told: &str, character: char) -> Option<&str> {
    if let Some(rest) = told.strip_prefix(character) {
        return Some(rest);
    }
    let escaped = strip_backslashes(told)?;
    // First: `u` may be written as `\u0075`.
    strip_code(escaped, character).or_else(|| escaped.strip_prefix(character))
}

/// What follows this character, written as `u` and four hexadecimal digits.
fn strip_code(escaped: &str, character: char) -> Option<&str> {
    let code = escaped.strip_prefix('u')?;
    let value = u32::from_str_radix(code.get(..4)?, 16).ok()?;
    (value == u32::from(character)).then(|| &code[4..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hidden_wherever_it_stands() {
        let key = HiddenKey::of("sk-ab/cd").unwrap();
        for (told, shown) in [
            ("no such thing", "no such thing"),
            ("sk-ab/cd, or Bearer sk-ab/cd?", "[the key], or Bearer [the key]?"),
            ("ssk-ab/cd", "s[the key]"),
            ("sk-ab/c", "sk-ab/c"),
        ] {
            assert_eq!(key.hide(told.to_owned()), shown);
        }
        assert!(HiddenKey::of("none").is_none());
        assert!(!format!("{key:?}").contains("sk"));
    }

    /// Encoders escape more than they have to, and errors are quoted in errors.
    #[test]
    fn a_key_is_hidden_however_json_writes_it() {
        let key = HiddenKey::of("sk-ab/=+").unwrap();
        for told in [
            r"sk-ab\/=+",
            r"sk\u002dab/\u003d\u002B",
            r"sk\\u002dab\\/=+",
            r"\u0073\u006b\u002d\u0061\u0062\u002f\u003d\u002b",
            r"sk-ab\\\/=+",
        ] {
            let said = format!(r#"{{"error":"{told} is no key"}}"#);
            assert_eq!(key.hide(said), r#"{"error":"[the key] is no key"}"#);
        }
        for told in [r"sk\u002eab/=+", r"sk\u00", r"sk\u", r"sk\", "sk\\u00é"] {
            assert_eq!(key.hide(told.to_owned()), told);
        }
    }

    #[test]
    fn a_key_with_the_letter_of_escapes_is_hidden() {
        let key = HiddenKey::of("sk-unusual").unwrap();
        for told in
            ["sk-unusual", r"sk-\u0075n\u0075sual", r"\u0073k-un\\u0075sual", r"sk-\unusual"]
        {
            assert_eq!(key.hide(told.to_owned()), "[the key]", "{told}");
        }
    }

    #[test]
    fn a_key_is_hidden_in_a_text_that_is_cut_off_in_it() {
        let key = HiddenKey::of("sk-abcdefghij").unwrap();
        assert_eq!(key.hide("no: sk-abcde".to_owned()), "no: [the key]");
        assert_eq!(key.hide("no: sk-abcd".to_owned()), "no: sk-abcd", "it may be a word");
        assert_eq!(key.hide("no: sk-abcde or so".to_owned()), "no: sk-abcde or so");
        assert_eq!(key.hide("no: sk-abcde…; help".to_owned()), "no: [the key]…; help");
        let escaped = "sk-abcdefghij".chars().map(|it| format!("\\u{:04x}", u32::from(it)));
        let escaped = escaped.collect::<Vec<_>>().concat();
        for end in 8 * 6..=escaped.len() {
            assert_eq!(key.hide(escaped[..end].to_owned()), "[the key]", "{end}");
            assert_eq!(key.hide(format!("{}…", &escaped[..end])), "[the key]…", "{end}");
        }
    }
}
