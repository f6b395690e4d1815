//! Cleans what strangers wrote about their tools before models read it.
//!
//! Characters that people cannot see can carry instructions that only a model reads, or turn
//! text around. They have no place in a description.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Text without invisible characters: tags (U+E0000 to U+E007F), marks that change the direction
/// of writing, zero-width characters, variation selectors, and controls other than line breaks and
/// tabs. Longer text is cut at `chars_max` characters, with an ellipsis.
pub(crate) fn text(text: &str, chars_max: usize) -> String {
    let mut shown = seen(text).filter_map(|(char, is_visible)| is_visible.then_some(char));
    let mut cleaned: String = shown.by_ref().take(chars_max).collect();
    if shown.next().is_some() {
        cleaned.push('…');
    }
    let trimmed = cleaned.trim();
    if trimmed.len() == cleaned.len() { cleaned } else { trimmed.to_owned() }
}

/// JSON with escapes in place of such characters. Its strings keep their values, which calls have
/// to repeat, and the model sees that something is there.
pub(crate) fn json(json: &str) -> Cow<'_, str> {
    if seen(json).all(|(_, is_visible)| is_visible) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for (char, is_visible) in seen(json) {
        if is_visible {
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
    seen(text).any(|(char, is_visible)| !is_visible && char >= ' ')
}

/// The characters of a text, and whether each can be seen.
///
/// Variation selectors and joiners are part of emoji and of several scripts. One of each may
/// follow a visible character beyond ASCII; a second one, or one in a plain word, is not needed.
fn seen(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut takes_selector, mut takes_joiner) = (false, false);
    text.chars().map(move |char| {
        let is_visible = match char {
            '\u{fe00}'..='\u{fe0f}' => takes_selector,
            '\u{200c}' | '\u{200d}' => takes_joiner,
            char => is_visible(char),
        };
        let is_selector = matches!(char, '\u{fe00}'..='\u{fe0f}');
        let is_joiner = matches!(char, '\u{200c}' | '\u{200d}');
        takes_joiner = is_visible && !is_joiner && !char.is_ascii();
        takes_selector = takes_joiner && !is_selector;
        (char, is_visible)
    })
}

fn is_visible(char: char) -> bool {
    match char {
        '\n' | '\t' => true,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e01ef}' => false,
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
            ("❤\u{fe0f}\u{fe0f}🔥\u{200d}\u{200d}", "❤\u{fe0f}🔥\u{200d}"),
            ("x\u{fe0f}\u{200d}y", "xy"),
        ] {
            assert_eq!(text(dirty, 99), clean, "{dirty:?}");
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
