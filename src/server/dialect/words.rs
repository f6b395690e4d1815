//! Where the words of a message begin and end. A turn has a message for each round.
//!
//! Dialects that put each message's words into a message or a part of its own leave out the white space at their
//! start: a call stands on a line of its own, and that would be an empty paragraph for each call. Dialects in which all
//! the words of a turn are one text keep the messages apart with a blank line: servers that send calls beside the text
//! leave no white space. Dialects with parts begin a new one there.

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

/// Finds where a growing text needs a blank line: where a message begins, and after a call. In Markdown, a block of
/// code, a table or a heading begins only at the start of a line.
///
/// Both are events in the log. The start and the end of a tool do not count: a tool may end while the model is still
/// writing, even in the middle of a word.
#[derive(Debug)]
pub(super) struct MessageBreaks {
    /// Whether the text has words yet.
    has_words: bool,
    /// Ends of lines in the white space that the text ends with.
    lines: usize,
    /// Whether the next words begin a message or follow a call.
    is_due: bool,
}

impl MessageBreaks {
    /// Before the first piece.
    pub(super) const NEW: Self = Self { has_words: false, lines: 0, is_due: false };

    /// Notes that the model makes a call between the words before and those that follow.
    pub(super) const fn note_call(&mut self) {
        self.is_due = true;
    }

    /// Takes the next piece, escaped as JSON; `begins` says whether it begins a message. Returns what completes the
    /// blank line before its words, if they begin a message or follow a call.
    pub(super) fn gap(&mut self, piece: &[u8], begins: bool) -> Option<&'static str> {
        let Self { has_words, lines, .. } = *self;
        let words = from_first(piece);
        self.is_due |= begins;
        self.has_words |= words.is_some();
        self.lines = ends_of_lines(piece) + if words.is_none() { lines } else { 0 };
        let words = words?;
        if !std::mem::take(&mut self.is_due) || !has_words {
            return None;
        }
        match lines + ends_of_lines(&piece[..piece.len() - words.len()]) {
            0 => Some("\n\n"),
            1 => Some("\n"),
            _ => Some(""),
        }
    }
}

/// Ends of lines in the white space that a piece ends with.
fn ends_of_lines(piece: &[u8]) -> usize {
    let (mut rest, mut lines) = (piece, 0);
    while let Some((before, is_line)) = without_last_blank(rest) {
        lines += usize::from(is_line);
        rest = before;
    }
    lines
}

/// A piece without its last character, if that is white space, and whether it ended a line.
fn without_last_blank(piece: &[u8]) -> Option<(&[u8], bool)> {
    match piece {
        [before @ .., b' '] => Some((before, false)),
        [before @ .., b'\\', letter @ (b'n' | b'r' | b't')]
            // Backslashes in pairs are characters of their own, and so is the letter then.
            if before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0 =>
        {
            Some((before, *letter == b'n'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLANK_LINE: Option<&str> = Some("\n\n");

    #[test]
    fn a_blank_line_keeps_the_words_of_two_messages_apart() {
        for (first, second, gap) in [
            ("Let me look.", "It is noon.", BLANK_LINE),
            ("Let me look.", "\\nIt is noon.", Some("\n")),
            ("Let me look.", " \\n \\nIt is noon.", Some("")),
            ("Let me look.", " It is noon.", BLANK_LINE),
            ("Let me look.\\n", "It is noon.", Some("\n")),
            ("Let me look.\\r\\n\\t", "\\nIt is noon.", Some("")),
            ("Let me look: ", "```python", BLANK_LINE),
            ("\\t", "It is noon.", None),
            ("It is in C:\\\\n", "It is noon.", BLANK_LINE),
            ("", "It is noon.", None),
            ("Let me look", "it is noon.", BLANK_LINE),
            ("你好。", "现在是中午。", BLANK_LINE),
        ] {
            for is_after_call in [false, true] {
                let mut breaks = MessageBreaks::NEW;
                assert_eq!(
                    breaks.gap(first.as_bytes(), true),
                    None,
                    "{first}: nothing comes before"
                );
                if is_after_call {
                    breaks.note_call();
                }
                assert_eq!(
                    breaks.gap(second.as_bytes(), !is_after_call),
                    gap,
                    "{first:?}, {second:?}"
                );
                assert_eq!(breaks.gap(b"More.", false), None, "{second}: the same message goes on");
            }
        }
    }

    #[test]
    fn white_space_at_the_start_of_a_message_is_part_of_the_gap() {
        for (blanks, gap) in
            [(&[" "][..], BLANK_LINE), (&["\\n"], Some("\n")), (&["\\n", "\\n"], Some(""))]
        {
            let mut breaks = MessageBreaks::NEW;
            breaks.gap(b"Let me look.", false);
            for (at, blank) in blanks.iter().enumerate() {
                assert_eq!(breaks.gap(blank.as_bytes(), at == 0), None);
            }
            assert_eq!(breaks.gap(b"It is noon.", false), gap, "{blanks:?}");
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
