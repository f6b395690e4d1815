//! A tool that could not do its work: why, and whether that will pass.
//!
//! An answer that the model did not want ("no such order") is no fault but a
//! [`ToolResult`](super::ToolResult): the tool has done its work. A fault is about
//! the way to what the tool asks, such as a server that is not there.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use jiff::Timestamp;

use crate::http;

/// Why a call of a tool brought no result.
///
/// A transient one is met with another attempt below the model, where the tool's
/// policy allows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFault {
    /// What went wrong, for the model: lower case, without a full stop.
    pub message: String,
    /// Whether the same attempt may succeed a little later.
    pub transient: bool,
    /// How long the other side asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl ToolFault {
    /// A fault that will not pass by itself.
    #[must_use]
    pub fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: false, retry_after: None }
    }

    /// A fault that may have passed at the next attempt.
    #[must_use]
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), transient: true, retry_after: None }
    }

    /// `whom` did not answer in time, by the tool's own measure.
    #[must_use]
    pub fn timed_out(whom: impl fmt::Display) -> Self {
        Self::transient(format!("{whom} did not answer in time"))
    }

    /// Reaching `whom`, or reading its answer, failed with `error`. A connection
    /// that was refused, broken off or too slow is transient.
    #[must_use]
    pub fn from_io(whom: impl fmt::Display, error: &Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => {
                Self::transient(format!("{whom} refused the connection"))
            }
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => {
                Self::transient(format!("{whom} broke the connection off"))
            }
            ErrorKind::TimedOut => Self::timed_out(whom),
            _ => Self::lasting(format!("{whom} cannot be reached: {error}")),
        }
    }

    /// `whom` answered with this HTTP status, which is no success. It is transient where
    /// it [may pass](http::may_pass); then the `Retry-After` field is heeded where it can
    /// be read, as [`http::retry_after`] does at `now`.
    #[must_use]
    pub fn from_status(
        whom: impl fmt::Display,
        status: u16,
        retry_after_field: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let transient = http::may_pass(status);
        let retry_after = retry_after_field.filter(|_| transient);
        Self {
            message: format!("{whom} answered with HTTP status {status}"),
            transient,
            retry_after: retry_after.and_then(|field| http::retry_after(field, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "1994-11-06T08:49:37Z".parse().unwrap()
    }

    #[test]
    fn connections_that_broke_are_transient_and_others_are_not() {
        for (kind, transient) in [
            (ErrorKind::ConnectionRefused, true),
            (ErrorKind::ConnectionReset, true),
            (ErrorKind::ConnectionAborted, true),
            (ErrorKind::BrokenPipe, true),
            (ErrorKind::UnexpectedEof, true),
            (ErrorKind::TimedOut, true),
            (ErrorKind::PermissionDenied, false),
            (ErrorKind::InvalidData, false),
        ] {
            let fault = ToolFault::from_io("the shop", &Error::from(kind));
            assert_eq!(fault.transient, transient, "{kind:?}");
            assert!(fault.to_string().starts_with("the shop "), "{fault}");
        }
    }

    #[test]
    fn retry_after_belongs_to_a_transient_status() {
        let fault = |status| ToolFault::from_status("it", status, Some("7"), now());
        assert_eq!(
            (fault(503).transient, fault(503).retry_after),
            (true, Some(Duration::from_secs(7)))
        );
        assert_eq!((fault(404).transient, fault(404).retry_after), (false, None));
    }
}
