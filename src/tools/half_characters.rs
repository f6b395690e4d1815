//! Half characters in JSON: JavaScript writes them for a text that was cut within an emoji
//! (`"\ud83d"`). They are no Unicode, so JSON with them cannot be parsed.

use serde::de::DeserializeOwned;

/// Reads JSON, with half characters replaced if it has any.
///
/// # Errors
/// If it is not JSON of this kind.
pub(super) fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// The JSON with half characters replaced, if it has any.
pub(super) fn mended(json: &str) -> Option<String> {
    let (mut mended, mut done, mut at) = (String::new(), 0, 0);
    while let Some(found) = memchr::memchr(b'\\', json.get(at..)?.as_bytes()) {
        at += found;
        at += match (surrogate(json, at), surrogate(json, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                mended.push_str(&json[done..at]);
                mended.push_str("\\ufffd");
                done = at + 6;
                6
            }
            (None, _) => 2,
        };
    }
    mended.push_str(&json[done..]);
    (done > 0).then_some(mended)
}

/// The surrogate that is escaped at this place.
fn surrogate(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix("\\u")?;
    let code = u16::from_str_radix(digits, 16).ok()?;
    (0xd800..=0xdfff).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_characters_are_replaced() {
        for (text, expected) in [
            (r"cut \ud83d", Some(r"cut \ufffd")),
            (r"\ude00\ud83d\ude00\ud83d!", Some(r"\ufffd\ud83d\ude00\ufffd!")),
            (r"\ud83d\u0041", Some(r"\ufffd\u0041")),
            (r"\ud83d\n\ud8", Some(r"\ufffd\n\ud8")),
            (r"whole \ud83d\ude00 and \\ud83d", None),
            (r"ends in \", None),
            ("", None),
        ] {
            assert_eq!(mended(text).as_deref(), expected, "{text}");
        }
    }
}
