//! What comes out of the parser.

use std::fmt;
use std::ops::Range;

use super::arguments::Arguments;
use super::repair::Repair;
use crate::limits::parser::ERROR_RAW_BYTES_MAX;

/// A piece of a model's output, in the order it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Segment<'a> {
    /// Text outside calls and reasoning, never empty. Consecutive pieces belong together; where
    /// they are cut means nothing.
    Text(&'a str),
    /// Reasoning, cut in the same way.
    Reasoning(&'a str),
    /// The start of a call: its marker, if the format has one, and enough after it to rule out talk. Exactly one
    /// [`CallCompleted`](Self::CallCompleted) or [`Error`](Self::Error) with the same index
    /// follows.
    CallStarted {
        /// The call's number in this stream, from 0.
        index: u32,
        /// Where the marker begins, in bytes from the stream's start.
        offset: u64,
    },
    /// The call's name, once, before the call completes; only with `argument_deltas`.
    CallNamed {
        /// The call's number.
        index: u32,
        /// The name that the call has if it completes.
        name: &'a str,
    },
    /// The next piece of the call's arguments, as JSON text; only with `argument_deltas`. If the
    /// call completes, the pieces together are its [`arguments`](ParsedCall::arguments), byte for byte.
    ArgumentsDelta {
        /// The call's number.
        index: u32,
        /// The text that directly follows the previous delta's.
        json: &'a str,
    },
    /// A complete call of the right shape.
    CallCompleted(ParsedCall),
    /// Something that was not a call. The parser carries on.
    Error(ParseError),
    /// Where a range of input bytes went; only with `spans`. In order, the ranges are the input,
    /// without gap or overlap.
    Span(Span),
}

/// A call that a model wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCall {
    /// Its number in the stream, from 0. Errors after a [`CallStarted`](Segment::CallStarted) are
    /// numbered too.
    pub index: u32,
    /// The tool's name, not empty. There may be no such tool.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
    /// What was repaired, each kind once; empty with `strict_balancing`.
    pub repaired: Vec<Repair>,
}

/// A range of input bytes and where it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it went.
    pub place: Place,
    /// The bytes, counted from the stream's start.
    pub range: Range<u64>,
}

/// Where an input byte can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Into [`Segment::Text`].
    Text,
    /// Into [`Segment::Reasoning`].
    Reasoning,
    /// Into a tag that opened or closed reasoning, or that is never shown.
    Tag,
    /// Into a marker and a payload with at least one call.
    Call,
    /// Into a marker and a payload without one.
    Error(ErrorCode),
}

/// Why something was not a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The kind of fault.
    pub code: ErrorCode,
    /// The same in words, for the model and for people.
    pub message: String,
    /// Where the marker begins, in bytes from the stream's start.
    pub offset: u64,
    /// The offending bytes as text, cut at 1 KiB.
    pub raw: String,
    /// The call's number, if one had started.
    pub index: Option<u32>,
    /// Whether the marker began a line. A [`MissingPayload`](ErrorCode::MissingPayload) anywhere
    /// else is only talk about calls.
    pub at_line_start: bool,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.code.name(), self.offset, self.message)
    }
}

impl std::error::Error for ParseError {}

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// No payload follows a marker. The marker is text after all, so this error may be ignored,
    /// especially if the marker is not [at the start of a line](ParseError::at_line_start).
    MissingPayload,
    /// A closing bracket of the wrong kind, another marker inside the payload, or the closer before
    /// the brackets balance.
    UnbalancedPayload,
    /// The payload is longer than `max_payload_bytes`.
    PayloadTooLarge,
    /// The payload is nested deeper than 128.
    PayloadTooDeep,
    /// The stream ended inside the payload.
    IncompletePayload,
    /// The payload is not JSON, or contains a number or string that cannot be decoded.
    InvalidJson,
    /// The payload is JSON, but not a call.
    InvalidCall,
}

impl ErrorCode {
    /// Its name, as `tether parse` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingPayload => "missing_payload",
            Self::UnbalancedPayload => "unbalanced_payload",
            Self::PayloadTooLarge => "payload_too_large",
            Self::PayloadTooDeep => "payload_too_deep",
            Self::IncompletePayload => "incomplete_payload",
            Self::InvalidJson => "invalid_json",
            Self::InvalidCall => "invalid_call",
        }
    }
}

/// Reports that what looked like the beginning of a call is none.
pub(super) fn missing_payload<'a>(
    offset: u64,
    at_line_start: bool,
    message: &str,
    bytes: &[u8],
) -> Segment<'a> {
    Segment::Error(ParseError {
        code: ErrorCode::MissingPayload,
        message: message.to_owned(),
        offset,
        raw: quote(bytes),
        index: None,
        at_line_start,
    })
}

/// Bytes as an error quotes them: text of at most [`ERROR_RAW_BYTES_MAX`] bytes.
pub(super) fn quote(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(ERROR_RAW_BYTES_MAX)];
    // A character that this cuts in half is left out, not shown as broken.
    let whole = match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() && head.len() < bytes.len() => {
            &head[..error.valid_up_to()]
        }
        _ => head,
    };
    let mut raw = String::from_utf8_lossy(whole).into_owned();
    // Replacement characters can be longer than what they replace.
    let mut end = raw.len().min(ERROR_RAW_BYTES_MAX);
    while !raw.is_char_boundary(end) {
        end -= 1;
    }
    raw.truncate(end);
    raw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        let error = ParseError {
            code: ErrorCode::InvalidCall,
            message: "`name` is empty".to_owned(),
            offset: 7,
            raw: "{\"name\":\"\"}".to_owned(),
            index: Some(0),
            at_line_start: true,
        };
        assert_eq!(error.to_string(), "invalid_call at byte 7: `name` is empty");
    }
}
