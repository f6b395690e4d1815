//! Text for people and small models: describes values, shortens long text, and finds whole
//! words.

use std::io;

use memchr::memchr2;
use serde::Serialize;
use serde::de::{Deserialize, Error as _};
use serde_json::Value;

use crate::limits::tools::QUOTED_BYTES_MAX;

/// A value's type with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value with its type, shortened if it is long: `a string: "Tokio"`.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => format!("a string: {}", quote(text)),
        other => format!("{}: {}", kind(other), cut(&other.to_string(), QUOTED_BYTES_MAX)),
    }
}

/// Text in quotation marks, escaped as JSON, shortened if it is long.
pub(crate) fn quote(text: &str) -> String {
    Value::from(cut(text, QUOTED_BYTES_MAX)).to_string()
}

/// Where text was cut.
pub(crate) const ELLIPSIS: char = '…';

/// At most `bytes_max` bytes of `text`, followed by an ellipsis if it was cut.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}{ELLIPSIS}", &text[..end])
}

/// At most the last `bytes_max` bytes of `text`, after an ellipsis if it was cut.
pub(crate) fn cut_start(text: &str, bytes_max: usize) -> String {
    let Some(surplus) = text.len().checked_sub(bytes_max).filter(|surplus| *surplus > 0) else {
        return text.to_owned();
    };
    let start = (surplus..=text.len()).find(|&start| text.is_char_boundary(start));
    format!("{ELLIPSIS}{}", &text[start.unwrap_or(text.len())..])
}

/// Whether brackets in a JSON text are nested deeper than this, whether or not it is valid.
pub(crate) fn is_deeper(json: &[u8], depth_max: usize) -> bool {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
        at += 1;
    }
    false
}

/// Reads JSON that is nested up to this deep, which may be deeper than `serde_json` takes by itself.
pub(crate) fn read_deep<'j, T: Deserialize<'j>>(
    json: &'j [u8],
    depth_max: usize,
) -> serde_json::Result<T> {
    if is_deeper(json, depth_max) {
        return Err(serde_json::Error::custom(format_args!(
            "it is nested deeper than {depth_max}"
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    deserializer.disable_recursion_limit();
    let read = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// The position of the quotation mark that ends a string, or the end of the text.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
    json.len()
}

/// The positions at which `needle` occurs in `text` as a whole word. `joins` recognises the
/// characters of a word.
pub(crate) fn find_whole<'t>(
    text: &'t str,
    needle: &'t str,
    joins: fn(char) -> bool,
) -> impl Iterator<Item = usize> + 't {
    let starts = text.match_indices(needle).map(|(start, _)| start);
    starts.filter(move |start| {
        let (before, after) = (&text[..*start], &text[start + needle.len()..]);
        !needle.is_empty() && !before.ends_with(joins) && !after.starts_with(joins)
    })
}

/// The element of `known` that was probably meant.
pub(crate) fn closest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let (distance, letters) =
        (|known: &str| strsim::damerau_levenshtein(written, known), written.chars().count());
    // A third of the letters wrong is a typo; more is another word.
    let is_typo = |wrong: usize, known: &str| wrong * 3 <= known.len().max(written.len());
    known
        .into_iter()
        // Long names of strangers are not compared letter by letter.
        .filter(|known| is_typo(known.chars().count().abs_diff(letters), known))
        .filter(|known| is_typo(distance(known), known))
        .min_by_key(|known| distance(known))
}

/// Whether a character may be part of a tool name or an id.
pub(crate) fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '-')
}

/// The length of `value` as JSON, in bytes.
pub(crate) fn json_len(value: &impl Serialize) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    // A value that cannot be written as JSON cannot be sent either.
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_described_with_their_type() {
        for (value, words) in [
            (json!(null), "null"),
            (json!(true), "a boolean: true"),
            (json!(5), "an integer: 5"),
            (json!(0.5), "a number: 0.5"),
            (json!("a\"b"), r#"a string: "a\"b""#),
            (json!([1, 2]), "an array: [1,2]"),
            (json!({"a": 1}), r#"an object: {"a":1}"#),
        ] {
            assert_eq!(describe(&value), words);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 6), "äöü");
        assert_eq!(cut("äöü", 5), "äö…");
        assert_eq!(cut("äöü", 1), "…");
    }

    #[track_caller]
    fn check(text: &str, needle: &str, places: &[usize]) {
        assert_eq!(find_whole(text, needle, is_of_name).collect::<Vec<_>>(), places);
    }

    #[test]
    fn a_part_of_another_word_is_not_found() {
        check("find find_it, find", "find", &[0, 14]);
        check("pre-find (find)", "find", &[10]);
        check("öfind findö find", "find", &[14]);
    }

    #[test]
    fn nothing_is_found_nowhere() {
        check("find", "", &[]);
        check("", "", &[]);
        check("", "find", &[]);
    }
}
