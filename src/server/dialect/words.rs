//! Where the words of a message begin and end. A turn has a message for each round.
//!
//! Dialects that put each message's words into a message or a part of its own leave out the white space at their
//! start: a call stands on a line of its own, and that would be an empty paragraph for each call. Dialects in which all
//! the words of a turn are one text keep the messages apart with a blank line: servers that send calls beside the text
//! leave no white space. Dialects with parts begin a new one there.

use serde_json::Value;

use crate::event::Kind;

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

/// What the words of one message and those of the next are kept apart with.
pub(super) const BLANK_LINE: &str = "\n\n";

/// Finds the pieces of a growing text with which the words of another message begin, right after those of the one
/// before.
///
/// Nothing in a log says where a message ends. A tool may end while the model is still writing the message that called
/// it, even in the middle of a word:
///
/// ```text
///   tool_started  "One mo"  tool_completed  "ment."        the same message
///   tool_started  "One moment."  tool_completed  "It is 2."    two messages
/// ```
/// So if the model wrote while a tool was running, a piece that goes on with a word or a sentence does not count.
#[derive(Debug)]
pub(super) struct MessageBreaks {
    /// What the text ends with, unless that is white space.
    last: Option<char>,
    /// Whether what follows may belong to another message.
    has_ended: bool,
    /// How many tools are running.
    running: usize,
    /// Whether the message that called them may go on.
    may_go_on: bool,
}

impl MessageBreaks {
    /// Before the first piece.
    pub(super) const NEW: Self =
        Self { last: None, has_ended: false, running: 0, may_go_on: false };

    /// Takes an event that is no piece of the text.
    pub(super) fn note(&mut self, kind: Kind, data: &Value) {
        match kind {
            Kind::ToolStarted => (self.has_ended, self.running) = (true, self.running + 1),
            Kind::ToolCompleted => {
                (self.has_ended, self.running) = (true, self.running.saturating_sub(1));
            }
            Kind::Feedback if end_before(data) => (self.has_ended, self.may_go_on) = (true, false),
            _ => {}
        }
    }

    /// Takes the next piece, escaped as JSON. Returns whether it begins another message, without white space before it.
    pub(super) fn begins(&mut self, piece: &[u8]) -> bool {
        let has_ended = std::mem::take(&mut self.has_ended);
        let last = std::mem::replace(&mut self.last, last_of(piece));
        let may_go_on = std::mem::replace(&mut self.may_go_on, self.running > 0);
        // Decoding the first character is for the few pieces that need it.
        has_ended
            && last.is_some_and(|last| {
                first_of(piece).is_some_and(|first| !(may_go_on && goes_on(last, first)))
            })
    }
}

/// Whether a word or a sentence goes on from one character to the next.
fn goes_on(last: char, first: char) -> bool {
    const IN_SENTENCES: &str = ".,;:!?)]}'\"%-\u{2019}\u{201d}\u{2026}\u{3001}\u{3002}\u{ff0c}\u{ff01}\u{ff1a}\u{ff1b}\u{ff1f}";
    last.is_alphanumeric() && first.is_alphanumeric() && !first.is_uppercase()
        || IN_SENTENCES.contains(first)
}

/// The first character of a piece, unless that is white space.
fn first_of(piece: &[u8]) -> Option<char> {
    let piece = from_first(piece).filter(|from_first| from_first.len() == piece.len())?;
    let mut chars = str::from_utf8(piece).ok()?.chars();
    match chars.next()? {
        '\\' => chars.next(),
        first => Some(first),
    }
}

/// The last character of a piece, unless that is white space.
fn last_of(piece: &[u8]) -> Option<char> {
    match piece {
        [] | [.., b' '] => None,
        [before @ .., b'n' | b'r' | b't']
            // Backslashes in pairs are characters of their own, and so is the letter then.
            if before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1 =>
        {
            None
        }
        [.., last] if last.is_ascii() => Some(char::from(*last)),
        _ => str::from_utf8(piece).ok()?.chars().next_back(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glued_words_of_two_messages_are_kept_apart() {
        for (first, second, apart) in [
            ("Let me look.", "It is noon.", true),
            ("Let me look.", "\\nIt is noon.", false),
            ("Let me look.", " It is noon.", false),
            ("Let me look.\\n", "It is noon.", false),
            ("Let me look. ", "It is noon.", false),
            ("\\t", "It is noon.", false),
            ("It is in C:\\\\n", "It is noon.", true),
            ("", "It is noon.", false),
            ("Let me look", "It is noon.", true),
            ("你好。", "现在是中午。", true),
            ("Let me count", "42 are left.", true),
            ("دعني أتحقق", "الساعة الآن", true),
        ] {
            let mut breaks = MessageBreaks::NEW;
            assert!(!breaks.begins(first.as_bytes()), "{first}: nothing comes before");
            breaks.note(Kind::ToolCompleted, &Value::Null);
            assert_eq!(breaks.begins(second.as_bytes()), apart, "{first:?}, {second:?}");
            assert!(!breaks.begins(b"More."), "{second}: the same message goes on");
        }
    }

    #[test]
    fn what_the_model_writes_while_a_tool_runs_may_go_on_after_it() {
        for (first, second, apart) in [
            ("One moment.", "It is 2.", true),
            ("One moment", "It is 2.", true),
            ("One mo", "ment.", false),
            ("One moment", ", please.", false),
            ("It is 1", "2 o'clock.", false),
            ("I say \\\"so", "\\\" then.", false),
            ("稍", "等。", false),
            ("稍等", "。", false),
        ] {
            let mut breaks = MessageBreaks::NEW;
            breaks.note(Kind::ToolStarted, &Value::Null);
            assert!(!breaks.begins(first.as_bytes()), "{first}: nothing comes before");
            breaks.note(Kind::ToolCompleted, &Value::Null);
            assert_eq!(breaks.begins(second.as_bytes()), apart, "{first:?}, {second:?}");
        }
    }

    #[test]
    fn what_belongs_to_a_message_does_not_end_it() {
        let not_found = serde_json::json!({"reason": "tool_not_found"});
        for (kind, data) in [
            (Kind::ReasoningDelta, Value::Null),
            (Kind::ToolMarkerDetected, Value::Null),
            (Kind::Status, Value::Null),
            (Kind::Feedback, not_found),
        ] {
            let mut breaks = MessageBreaks::NEW;
            breaks.begins(b"Hi");
            breaks.note(kind, &data);
            assert!(!breaks.begins(b"there"), "{kind:?}");
        }
    }

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
