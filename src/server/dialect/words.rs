//! Where the words of a message begin and end, for dialects that put them into messages or parts of
//! their own. A call stands on a line of its own, so there is white space around it. Shown as it is,
//! that would be an empty paragraph for each call.

use serde_json::Value;

/// The text from its first word on, both escaped as JSON. `None` if the text is blank: then nothing
/// begins with it.
pub(super) fn from_first(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    while let [b' ', after @ ..] | [b'\\', b'n' | b'r' | b't', after @ ..] = rest {
        rest = after;
    }
    (!rest.is_empty()).then_some(rest)
}

/// Whether the model's message has ended when it gets this feedback, so that further words are those
/// of another. Feedback on a call may come while the model writes on.
pub(super) fn end_before(feedback: &Value) -> bool {
    let of_calls = ["tool_not_found", "invalid_arguments", "tool_failed"];
    feedback["reason"].as_str().is_some_and(|reason| !of_calls.contains(&reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_before_the_first_word_is_left_out() {
        for blank in ["", " ", "\\n", "\\r\\n", " \\t\\n "] {
            assert_eq!(from_first(blank.as_bytes()), None, "{blank}");
            for words in ["a", "a b\\n", "\\\"", "\\\\n", "\\u00e9"] {
                let text = format!("{blank}{words}");
                assert_eq!(from_first(text.as_bytes()), Some(words.as_bytes()), "{text}");
            }
        }
    }
}
