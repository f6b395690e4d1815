//! Cleans what strangers wrote about their tools before models read it.
//!
//! Characters that people cannot see can carry instructions that only a model reads, or turn
//! text around. They have no place in a description.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Text without invisible characters: tags (U+E0000 to U+E007F), marks that change the direction
/// of writing, zero-width characters, variation selectors, fillers, and controls other than line
/// breaks and tabs. Longer text is cut at `chars_max` characters, with an ellipsis.
pub(crate) fn text(text: &str, chars_max: usize) -> String {
    let mut shown =
        with_visibility(text).filter_map(|(char, is_visible)| is_visible.then_some(char));
    let mut cleaned: String = shown.by_ref().take(chars_max).collect();
    if shown.next().is_some() {
        cleaned.push('…');
    }
    let trimmed = cleaned.trim();
    if trimmed.len() == cleaned.len() { cleaned } else { trimmed.to_owned() }
}

/// JSON with escapes in place of such characters, and of separators of lines and paragraphs: where
/// people read JSON, these are breaks or nothing. Its strings keep their values, which calls have
/// to repeat, and the model sees that something is there.
pub(crate) fn json(json: &str) -> Cow<'_, str> {
    let stays = |(char, is_visible)| is_visible && !matches!(char, '\u{2028}' | '\u{2029}');
    if with_visibility(json).all(stays) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for (char, is_visible) in with_visibility(json) {
        if stays((char, is_visible)) {
            escaped.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    Cow::Owned(escaped)
}

/// Whether such a character is in one of a value's texts or names, and stays there when the value
/// is written as JSON, which escapes some controls anyway: `"\r\n"` hides nothing.
pub(crate) fn is_hiding(value: &Value) -> bool {
    match value {
        Value::String(text) => is_hiding_text(text),
        Value::Array(items) => items.iter().any(is_hiding),
        Value::Object(members) => {
            members.iter().any(|(name, member)| is_hiding_text(name) || is_hiding(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The same for a text or a name.
pub(crate) fn is_hiding_text(text: &str) -> bool {
    with_visibility(text).any(|(char, is_visible)| !is_visible && char >= ' ')
}

/// The characters of a text, and whether each can be seen.
///
/// Selectors of emoji and joiners belong to the characters around them. Anywhere else, they would
/// be bits that nobody sees.
fn with_visibility(text: &str) -> impl Iterator<Item = (char, bool)> {
    let mut before = None;
    text.char_indices().map(move |(at, char)| {
        let after = || text[at + char.len_utf8()..].chars().next();
        let is_visible = match (char, before) {
            (EMOJI_SELECTOR, Some('0'..='9' | '#' | '*')) => after() == Some(KEYCAP),
            (TEXT_SELECTOR | EMOJI_SELECTOR, Some(before)) => takes_selector(before),
            (ZWNJ, Some(before)) => {
                is_joining_letter(before) && after().is_some_and(is_joining_letter)
            }
            (ZWJ, Some(before)) => [is_joining_letter, is_emoji]
                .into_iter()
                .any(|joins| joins(before) && after().is_some_and(joins)),
            (char, _) => is_visible(char),
        };
        before = is_visible.then_some(char);
        (char, is_visible)
    })
}

const TEXT_SELECTOR: char = '\u{fe0e}';
const EMOJI_SELECTOR: char = '\u{fe0f}';
/// Makes an emoji of a digit with a selector.
const KEYCAP: char = '\u{20e3}';
const ZWNJ: char = '\u{200c}';
const ZWJ: char = '\u{200d}';

/// Whether a character may be an emoji or a plain symbol. Of letters, only two are.
fn takes_selector(char: char) -> bool {
    let is_plain = char.is_ascii() || char.is_whitespace() || char.is_alphanumeric();
    !is_plain && !matches!(char, TEXT_SELECTOR | EMOJI_SELECTOR | ZWNJ | ZWJ)
        || matches!(char, 'ℹ' | 'Ⓜ')
}

/// Whether a character is in the blocks of the emoji that others are made of, or ends one.
const fn is_emoji(char: char) -> bool {
    matches!(char, EMOJI_SELECTOR | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character is a letter or mark of a script in which joiners make a difference, from
/// Arabic and the scripts of India to Mongolian.
fn is_joining_letter(char: char) -> bool {
    let is_in_block = matches!(char,
        '\u{600}'..='\u{109f}'
        | '\u{1700}'..='\u{1cff}'
        | '\u{a800}'..='\u{abff}'
        | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefe}'
        | '\u{10a00}'..='\u{11fff}'
        | '\u{1e900}'..='\u{1e95f}');
    is_in_block && is_visible(char)
}

/// Whether a character can be seen, or is a space or a break, wherever it is.
fn is_visible(char: char) -> bool {
    match char {
        '\n' | '\t' => true,
        // Unicode's `Default_Ignorable_Code_Point`, and others that are shown as nothing.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        char => !char.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_removed() {
        for (dirty, clean) in [
            ("plain\ttext\nhere", "plain\ttext\nhere"),
            ("a\u{e0041}\u{e007f}b", "ab"),
            ("a\u{202e}b\u{2066}c\u{61c}", "abc"),
            ("a\u{200b}b\u{200d}c\u{feff}d\u{2060}", "abcd"),
            ("a\u{1b}[31mred\u{7}\r\u{9b}", "a[31mred"),
            ("  Größe 日本 🙂  ", "Größe 日本 🙂"),
            ("\u{200b} ", ""),
            ("❤\u{fe0f}\u{200d}🔥 می\u{200c}شود", "❤\u{fe0f}\u{200d}🔥 می\u{200c}شود"),
            ("❤\u{fe0f}\u{fe0f}🔥\u{200d}\u{200d}", "❤\u{fe0f}🔥"),
            ("x\u{fe0f}\u{200d}y", "xy"),
        ] {
            assert_eq!(text(dirty, 99), clean, "{dirty:?}");
        }
    }

    #[test]
    fn selectors_and_joiners_count_only_where_they_change_what_is_seen() {
        for honest in [
            "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3} *\u{fe0f}\u{20e3}",
            "☎\u{fe0e} ©\u{fe0f} ℹ\u{fe0f} ㊗\u{fe0f}",
            "👩🏽\u{200d}🚀 👁\u{fe0f}\u{200d}🗨\u{fe0f} 🏴\u{200d}☠\u{fe0f}",
            "می\u{200c}شود ක්\u{200d}ෂ क्\u{200c}ष",
        ] {
            assert_eq!(text(honest, 99), honest);
            assert!(!is_hiding_text(honest), "{honest}");
        }
        for (dirty, clean) in [
            ("a \u{fe0f}b\u{a0}\u{fe0f}c\u{3000}\u{fe0e}d", "a b\u{a0}c\u{3000}d"),
            ("日\u{fe0f}本\u{fe0e} ж\u{fe0f}", "日本 ж"),
            ("☎\u{fe00}☎\u{fe0d}☎\u{fe0f}\u{fe0e}", "☎☎☎\u{fe0f}"),
            ("1\u{fe0f}2\u{fe0e}\u{20e3}#\u{fe0f}", "12\u{20e3}#"),
            ("日\u{200d}本\u{200c}語 é\u{200d}é", "日本語 éé"),
            ("🔥\u{200c}🔥\u{200d}a\u{200d}🔥\u{200d}", "🔥🔥a🔥"),
            ("ی\u{200c}\u{200d}ش\u{200c} ش", "یش ش"),
        ] {
            assert_eq!(text(dirty, 99), clean, "{dirty:?}");
            assert!(is_hiding_text(dirty), "{dirty:?}");
        }
    }

    #[test]
    fn what_is_shown_as_nothing_is_removed() {
        for char in "\u{3164}\u{2800}\u{115f}\u{1160}\u{ffa0}\u{fff9}\u{fffb}\u{1d173}\u{1d17a}\u{34f}\u{180b}\u{e01ef}".chars() {
            assert_eq!(text(&format!("a{char}b"), 99), "ab", "{char:?}");
        }
    }

    #[test]
    fn json_keeps_the_values_of_what_nobody_sees() {
        for (plain, expected) in [
            ("a\u{200b}b", r#"["a\u200bb"]"#),
            ("\u{e0041}\u{202e}", r#"["\udb40\udc41\u202e"]"#),
            ("\u{7f}\u{9b}\n", r#"["\u007f\u009b\n"]"#),
            ("Größe 🙂", r#"["Größe 🙂"]"#),
        ] {
            let value = serde_json::json!([plain]);
            let written = value.to_string();
            let escaped = json(&written);
            assert_eq!(escaped, expected);
            assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
            assert_eq!(is_hiding(&value), escaped != written, "{plain:?}");
        }
    }

    #[test]
    fn separators_of_lines_are_escaped_in_json_and_hide_nothing_in_text() {
        assert_eq!(json("[\"a\u{2028}b\u{2029}\"]"), r#"["a\u2028b\u2029"]"#);
        assert!(!is_hiding_text("a\u{2028}b"));
    }

    #[test]
    fn what_json_escapes_anyway_hides_nothing() {
        for (plain, hides) in
            [("\r\n", false), ("\u{1b}[31m", false), ("\u{7f}", true), ("\u{9b}", true)]
        {
            assert_eq!(is_hiding(&serde_json::json!({ plain: null })), hides, "{plain:?}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(text("日本語", 3), "日本語");
        assert_eq!(text("日本語!", 3), "日本語…");
        assert_eq!(text("ab\u{200b}c", 3), "abc", "only what is shown counts");
    }
}
