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

/// Finds the pieces of a growing text with which the words of another message begin, and what keeps these apart from
/// the words before: in Markdown, a block of code, a table or a heading begins only after a line's end.
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
    /// Whether the text has words yet.
    has_words: bool,
    /// What the text ends with, unless that is white space.
    last: Option<char>,
    /// Ends of lines in the white space that the text ends with.
    lines: usize,
    /// Whether what follows may belong to another message.
    has_ended: bool,
    /// How many tools are running.
    running: usize,
    /// Whether the message that called them may go on.
    may_go_on: bool,
}

impl MessageBreaks {
    /// Before the first piece.
    pub(super) const NEW: Self = Self {
        has_words: false,
        last: None,
        lines: 0,
        has_ended: false,
        running: 0,
        may_go_on: false,
    };

    /// Takes an event that is no piece of the text.
    pub(super) fn note(&mut self, kind: Kind, data: &Value) {
        match kind {
            Kind::ToolStarted => (self.has_ended, self.running) = (true, self.running + 1),
            Kind::ToolCompleted => {
                (self.has_ended, self.running) = (true, self.running.saturating_sub(1));
            }
            Kind::Feedback if end_before(data) => (self.has_ended, self.may_go_on) = (true, false),
            // A call that does not run is a call: it may end the message.
            Kind::Feedback => self.has_ended = true,
            _ => {}
        }
    }

    /// Takes the next piece, escaped as JSON. Returns what to add for a blank line before it, if it begins the words of
    /// another message.
    pub(super) fn gap(&mut self, piece: &[u8]) -> Option<&'static str> {
        let Self { has_words, last, lines, .. } = *self;
        let words = from_first(piece);
        self.has_words |= words.is_some();
        self.last = last_of(piece);
        self.lines = ends_of_lines(piece) + if words.is_none() { lines } else { 0 };
        // A blank piece may belong to either message.
        let words = words?;
        let has_ended = std::mem::take(&mut self.has_ended);
        let may_go_on = std::mem::replace(&mut self.may_go_on, self.running > 0);
        if !has_ended || !has_words {
            return None;
        }
        let before = &piece[..piece.len() - words.len()];
        if may_go_on {
            // Decoding the first character is for the few pieces that need it.
            let last = last.filter(|_| before.is_empty())?;
            first_of(words).filter(|first| !goes_on(last, *first))?;
        }
        match lines + ends_of_lines(before) {
            0 => Some("\n\n"),
            1 => Some("\n"),
            _ => None,
        }
    }
}

/// Whether a word or a sentence goes on from one character to the next.
fn goes_on(last: char, first: char) -> bool {
    const IN_SENTENCES: &str = ".,;:!?)]}'\"%-\u{2019}\u{201d}\u{2026}\u{3001}\u{3002}\u{ff0c}\u{ff01}\u{ff1a}\u{ff1b}\u{ff1f}";
    last.is_alphanumeric() && first.is_alphanumeric() && !first.is_uppercase()
        || IN_SENTENCES.contains(first)
}

/// The first character of words.
fn first_of(words: &[u8]) -> Option<char> {
    let mut chars = str::from_utf8(words).ok()?.chars();
    match chars.next()? {
        '\\' => chars.next(),
        first => Some(first),
    }
}

/// The last character of a piece, unless that is white space.
fn last_of(piece: &[u8]) -> Option<char> {
    match piece {
        _ if without_last_blank(piece).is_some() => None,
        [.., last] if last.is_ascii() => Some(char::from(*last)),
        _ => str::from_utf8(piece).ok()?.chars().next_back(),
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
            ("Let me look.", " \\n \\nIt is noon.", None),
            ("Let me look.", " It is noon.", BLANK_LINE),
            ("Let me look.\\n", "It is noon.", Some("\n")),
            ("Let me look.\\r\\n\\t", "\\nIt is noon.", None),
            ("Let me look: ", "```python", BLANK_LINE),
            ("\\t", "It is noon.", None),
            ("It is in C:\\\\n", "It is noon.", BLANK_LINE),
            ("", "It is noon.", None),
            ("Let me look", "It is noon.", BLANK_LINE),
            ("你好。", "现在是中午。", BLANK_LINE),
            ("Let me count", "42 are left.", BLANK_LINE),
            ("دعني أتحقق", "الساعة الآن", BLANK_LINE),
        ] {
            let mut breaks = MessageBreaks::NEW;
            assert_eq!(breaks.gap(first.as_bytes()), None, "{first}: nothing comes before");
            breaks.note(Kind::ToolCompleted, &Value::Null);
            assert_eq!(breaks.gap(second.as_bytes()), gap, "{first:?}, {second:?}");
            assert_eq!(breaks.gap(b"More."), None, "{second}: the same message goes on");
        }
    }

    #[test]
    fn white_space_on_its_own_belongs_to_either_message() {
        for (blanks, gap) in
            [(&[" "][..], BLANK_LINE), (&["\\n"], Some("\n")), (&["\\n", "\\n"], None)]
        {
            let mut breaks = MessageBreaks::NEW;
            breaks.gap(b"Let me look.");
            breaks.note(Kind::ToolCompleted, &Value::Null);
            for blank in blanks {
                assert_eq!(breaks.gap(blank.as_bytes()), None);
            }
            assert_eq!(breaks.gap(b"It is noon."), gap, "{blanks:?}");
        }
    }

    #[test]
    fn what_the_model_writes_while_a_tool_runs_may_go_on_after_it() {
        for (first, second, gap) in [
            ("One moment.", "It is 2.", BLANK_LINE),
            ("One moment", "It is 2.", BLANK_LINE),
            ("One mo", "ment.", None),
            ("One moment", ", please.", None),
            ("One moment", " please.", None),
            ("One moment ", "please.", None),
            ("It is 1", "2 o'clock.", None),
            ("I say \\\"so", "\\\" then.", None),
            ("稍", "等。", None),
            ("稍等", "。", None),
        ] {
            let mut breaks = MessageBreaks::NEW;
            breaks.note(Kind::ToolStarted, &Value::Null);
            assert_eq!(breaks.gap(first.as_bytes()), None, "{first}: nothing comes before");
            breaks.note(Kind::ToolCompleted, &Value::Null);
            assert_eq!(breaks.gap(second.as_bytes()), gap, "{first:?}, {second:?}");
        }
    }

    #[test]
    fn what_belongs_to_a_message_does_not_end_it() {
        for kind in [Kind::ReasoningDelta, Kind::ToolMarkerDetected, Kind::Status] {
            let mut breaks = MessageBreaks::NEW;
            breaks.gap(b"Hi");
            breaks.note(kind, &Value::Null);
            assert_eq!(breaks.gap(b"there"), None, "{kind:?}");
        }
    }

    /// A call may wait for the result of another one before it is refused.
    #[test]
    fn a_call_that_is_refused_may_end_a_message() {
        let refused = serde_json::json!({"reason": "tool_not_found"});
        for (first, second, gap) in
            [("Let me look.", "It is noon.", BLANK_LINE), ("One mo", "ment.", None)]
        {
            let mut breaks = MessageBreaks::NEW;
            breaks.note(Kind::ToolStarted, &Value::Null);
            breaks.gap(first.as_bytes());
            breaks.note(Kind::ToolCompleted, &Value::Null);
            breaks.note(Kind::Feedback, &refused);
            assert_eq!(breaks.gap(second.as_bytes()), gap, "{first:?}, {second:?}");
        }
        let mut breaks = MessageBreaks::NEW;
        breaks.gap(b"Let me look.");
        breaks.note(Kind::Feedback, &refused);
        assert_eq!(breaks.gap(b"It is noon."), BLANK_LINE);
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
