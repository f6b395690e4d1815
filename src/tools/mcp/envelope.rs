//! Which request a message answers, found without keeping the message.

use crate::limits::mcp::TOKEN_BYTES_MAX;

/// The outermost members of a JSON object, looked at byte by byte.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    has_begun: bool,
    depth: usize,
    string: Option<Escape>,
    part: Part,
    /// The beginning of the outermost key or scalar that was read last.
    token: Vec<u8>,
    id: Option<i64>,
    kind: Kind,
}

/// The part of an outermost member that is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Key,
    Id,
    Value,
}

/// What the outermost keys say that the message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    Answer,
    /// A request or a notification.
    Request,
    /// It does not begin like JSON, as a line of a log.
    NoMessage,
}

/// Whether the next byte of a string is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Yes,
}

impl Envelope {
    /// Looks at more of the message.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push_byte(*byte);
        }
    }

    /// The id of the request that it answers, once that is known. Ids are numbers, perhaps as text.
    pub(super) fn answered(&self) -> Option<i64> {
        self.id.filter(|_| self.kind == Kind::Answer)
    }

    /// Whether it is a request or a notification.
    pub(super) fn is_request(&self) -> bool {
        self.kind == Kind::Request
    }

    /// Whether it may be an answer.
    pub(super) fn may_be_answer(&self) -> bool {
        !matches!(self.kind, Kind::Request | Kind::NoMessage)
    }

    fn push_byte(&mut self, byte: u8) {
        if !self.has_begun && !byte.is_ascii_whitespace() {
            self.has_begun = true;
            if !matches!(byte, b'{' | b'[') {
                self.kind = Kind::NoMessage;
            }
        }
        let is_outermost = self.depth == 1;
        if let Some(escape) = self.string {
            self.string = match (escape, byte) {
                (Escape::No, b'"') => return self.string = None,
                (Escape::No, b'\\') => Some(Escape::Yes),
                _ => Some(Escape::No),
            };
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.string = Some(Escape::No);
                if is_outermost {
                    self.token.clear();
                }
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if is_outermost => self.begin_value(),
            b',' => self.end_value(),
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_BYTES_MAX {
            self.token.push(byte);
        }
    }

    fn begin_value(&mut self) {
        match (&self.token[..], self.kind) {
            (b"result" | b"error", Kind::Unknown) => self.kind = Kind::Answer,
            (b"method", Kind::Unknown | Kind::Answer) => self.kind = Kind::Request,
            _ => {}
        }
        self.part = if self.token == b"id" { Part::Id } else { Part::Value };
        self.token.clear();
    }

    fn end_value(&mut self) {
        if self.depth != 1 {
            return;
        }
        if self.part == Part::Id {
            self.id = std::str::from_utf8(&self.token).ok().and_then(|id| id.parse().ok());
        }
        self.part = Part::Key;
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, answered: Option<i64>) {
        for cut in 0..=message.len() {
            let mut envelope = Envelope::default();
            envelope.push(&message.as_bytes()[..cut]);
            envelope.push(&message.as_bytes()[cut..]);
            assert_eq!(envelope.answered(), answered, "{message} cut at {cut}");
        }
    }

    #[test]
    fn the_id_is_found_wherever_it_is() {
        check(r#"{"jsonrpc":"2.0","id":12,"result":{}}"#, Some(12));
        check(r#"{"jsonrpc": "2.0", "error": {"code": [1, {}]}, "id" : -12 }"#, Some(-12));
        check(r#"{"result":"a long \"text\" \\","id":"12"}"#, Some(12));
        check(r#"{"id":12,"result":{"text":"the beginning of someth"#, Some(12));
    }

    #[test]
    fn an_id_within_the_result_is_another() {
        check(r#"{"result":{"id":7},"id":12}"#, Some(12));
        check(r#"{"result":[{"id":7}]}"#, None);
        check(r#"{"result":"\"id\":7,"}"#, None);
        check(r#"[{"id":7,"result":1}]"#, None);
    }

    #[test]
    fn requests_and_notifications_answer_nothing() {
        check(r#"{"id":7,"method":"ping","params":{}}"#, None);
        check(r#"{"method":"notifications/message","params":{"id":7,"result":1}}"#, None);
        check(r#"{"id":{"a":7},"result":1}"#, None);
        check(r#"{"id":7"#, None);
    }

    #[test]
    fn a_line_of_a_log_answers_nothing() {
        for (line, may_be_answer) in [
            ("DEBUG a long line", false),
            (r#"DEBUG {"id":7,"result":1}"#, false),
            (r#"  {"id":"#, true),
            (r#"[{"id":7"#, true),
            ("", true),
        ] {
            check(line, None);
            let mut envelope = Envelope::default();
            envelope.push(line.as_bytes());
            assert_eq!(envelope.may_be_answer(), may_be_answer, "{line}");
        }
    }
}
