//! Faults: why a tool could not do its work, and whether that will pass.
//!
//! An answer that the model did not want ("no such order") is not a fault but a
//! [`ToolResult`](super::ToolResult): the tool has done its work. A fault means that the tool
//! could not reach what it needs, such as a server that is down.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use jiff::Timestamp;

use crate::http;

/// Why a call of a tool gave no result.
///
/// A transient fault is retried without the model's knowledge, if the tool's policy allows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFault {
    /// What went wrong, for the model: lower case, no full stop.
    pub message: String,
    /// Whether the same attempt may succeed a little later.
    pub transient: bool,
    /// How far the call got, as far as is known.
    pub delivery: Delivery,
    /// Whether the tool has already waited for this to pass, so that another attempt would only
    /// wait again.
    pub has_waited: bool,
    /// How long the other side asks us to wait.
    pub retry_after: Option<Duration>,
}

/// How far a call got that gave no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The other side cannot have received it, so that it had no effect and even a call that changes
    /// something may be repeated.
    Unsent,
    /// The other side may have received it. If the fault will not pass, it has refused it.
    Unknown,
    /// The other side has received it, and may have carried it out, even if the fault will not pass.
    Received,
}

impl ToolFault {
    /// A fault that will not pass by itself.
    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            transient: false,
            delivery: Delivery::Unknown,
            has_waited: false,
            retry_after: None,
        }
    }

    /// A fault that may have passed by the next attempt.
    #[must_use]
    pub fn transient(message: impl Into<String>) -> Self {
        Self { transient: true, ..Self::permanent(message) }
    }

    /// The same fault, for a call that the other side has certainly not received.
    #[must_use]
    pub fn before_sending(self) -> Self {
        Self { delivery: Delivery::Unsent, ..self }
    }

    /// The same fault, for a call that the other side has received, and may have carried out.
    #[must_use]
    pub fn after_sending(self) -> Self {
        Self { delivery: Delivery::Received, ..self }
    }

    /// The same fault, for which the tool has waited to pass for as long as is reasonable.
    #[must_use]
    pub fn after_waiting(self) -> Self {
        Self { has_waited: true, ..self }
    }

    /// A transient fault: `whom` did not answer within the tool's own time limit.
    #[must_use]
    pub fn timed_out(whom: impl fmt::Display) -> Self {
        Self::transient(format!("{whom} did not answer in time"))
    }

    /// A fault in reaching `whom` or reading its answer. It is transient if the connection was
    /// refused, broken off or too slow.
    #[must_use]
    pub fn from_io(whom: impl fmt::Display, error: &Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused => {
                Self::transient(format!("{whom} refused the connection")).before_sending()
            }
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => {
                Self::transient(format!("{whom} broke the connection off"))
            }
            ErrorKind::TimedOut => Self::timed_out(whom),
            _ => Self::permanent(format!("{whom} cannot be reached: {error}")),
        }
    }

    /// A fault because `whom` answered with this HTTP status, which is not a success. It is
    /// transient if [its status is](http::is_transient). A transient fault also takes its wait
    /// from the `Retry-After` field, if [`http::retry_after`] can read it at `now`.
    #[must_use]
    pub fn from_status(
        whom: impl fmt::Display,
        status: u16,
        retry_after_field: Option<&str>,
        now: Timestamp,
    ) -> Self {
        let transient = http::is_transient(status);
        let retry_after = retry_after_field.filter(|_| transient);
        Self {
            message: format!("{whom} answered with HTTP status {status}"),
            transient,
            // Servers fail in the middle of their work, too.
            delivery: if status >= 500 { Delivery::Received } else { Delivery::Unknown },
            has_waited: false,
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
    fn broken_connections_are_transient_and_others_are_not() {
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
