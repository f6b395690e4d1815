//! The settings of a parser.

use std::fmt;

use super::types::Tools;
use crate::call_format::CallFormat;
use crate::limits::parser::{MARKER_BYTES_MAX, PAYLOAD_BYTES_MAX};

/// How a model's output is read.
///
/// ```
/// use tether::parser::{Parser, Segment, Settings};
///
/// let lenient = Settings { strict_balancing: false, ..Settings::default() };
/// let mut mended = Vec::new();
/// let mut parser = Parser::new(lenient)?;
/// parser.push_str("<<function_call>> {'name': 'now',}", |segment| {
///     if let Segment::CallCompleted(call) = segment {
///         mended.extend(call.repaired.iter().map(|repair| repair.name()));
///     }
/// });
/// assert_eq!(mended, ["single_quotes", "trailing_comma"]);
/// # Ok::<(), tether::parser::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, named in the configuration"
)]
pub struct Settings {
    /// How calls are written: `marker_json` with `<<function_call>>` by default. An opener
    /// has 1 to 64 bytes.
    ///
    /// If an opener and a reasoning tag begin at the same byte, the one that ends first counts;
    /// otherwise, the one that begins first.
    pub format: CallFormat,
    /// The tools that the model was offered. Formats with a label or without an opener use their names
    /// to tell calls from talk. Their schemas give the types of arguments that are written as text; an
    /// argument without a schema stays text.
    pub tools: Tools,
    /// Whether to look for calls (the default). If not, a marker is text: a model without tools may
    /// write about calls.
    pub calls: bool,
    /// `true`, the default, refuses a payload that is not JSON. `false` repairs it if it is obvious
    /// what the model meant ([`Repair`](super::Repair)).
    pub strict_balancing: bool,
    /// Longest payload, in bytes, at least 1; 64 KiB by default. It bounds the
    /// parser's memory.
    pub max_payload_bytes: usize,
    /// Whether calls inside reasoning count. `false` by default; no effect in formats whose calls
    /// [end reasoning](crate::call_format::Row::ends_reasoning).
    pub tools_in_reasoning: bool,
    /// Whether `<think>` and `</think>` are tags (the default) or plain text. Directly after a backtick
    /// or a quotation mark, `<think>` is plain text anyway.
    pub reasoning: bool,
    /// Whether the stream begins inside reasoning, for chat templates that write `<think>`
    /// themselves. No effect if `reasoning` is off.
    pub starts_in_reasoning: bool,
    /// Whether to report a call's name and arguments as they arrive
    /// ([`Segment::CallNamed`](super::Segment::CallNamed),
    /// [`Segment::ArgumentsDelta`](super::Segment::ArgumentsDelta)).
    pub argument_deltas: bool,
    /// Whether to account for every byte with a [`Segment::Span`](super::Segment::Span): for tests,
    /// and to find out why something was not a call.
    pub spans: bool,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        match self.format.opener().len() {
            1..=MARKER_BYTES_MAX => {}
            _ if !self.format.row().is_taught => {}
            length => return Err(SettingsError::MarkerLength(length)),
        }
        if self.max_payload_bytes == 0 {
            return Err(SettingsError::NoPayload);
        }
        Ok(())
    }

    /// Whether the setting or the format lets calls inside reasoning count, if calls count at all.
    pub(super) fn allows_calls_in_reasoning(&self) -> bool {
        self.tools_in_reasoning || self.format.row().ends_reasoning
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            format: CallFormat::default(),
            tools: Tools::default(),
            calls: true,
            strict_balancing: true,
            max_payload_bytes: PAYLOAD_BYTES_MAX,
            tools_in_reasoning: false,
            reasoning: true,
            starts_in_reasoning: false,
            argument_deltas: false,
            spans: false,
        }
    }
}

/// Why settings are rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// The marker has this many bytes, which is none or more than 64.
    MarkerLength(usize),
    /// `max_payload_bytes` is 0: no call could ever complete.
    NoPayload,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MarkerLength(length) => {
                write!(f, "marker has {length} bytes, expected 1 to {MARKER_BYTES_MAX}")
            }
            Self::NoPayload => f.write_str("max_payload_bytes is 0, expected at least 1"),
        }
    }
}

impl std::error::Error for SettingsError {}
