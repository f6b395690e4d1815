//! Why a request got no answer, or the body of its answer could not be read.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::error_chain::{causes, root_cause};
use crate::tls::tls_error;
use crate::tools::ToolFault;

/// Why a request got no answer, or the body of its answer could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The URL cannot be requested.
    #[error("cannot request this URL: {0}")]
    Url(&'static str),
    /// The host has no address that may be reached.
    #[error(
        "{host} may not be reached, because its address is private and no `allow_private` covers it"
    )]
    Private {
        /// The host.
        host: String,
    },
    /// The URL is `http`, and the address public.
    #[error("{host} may be reached only over https, because its address is public")]
    Insecure {
        /// The host.
        host: String,
    },
    /// No connection was made.
    #[error("cannot connect to {host}: {source}")]
    Connect {
        /// The host.
        host: String,
        /// The reason: a name without an address, a refused connection, or TLS.
        source: io::Error,
    },
    /// No connection was made in time.
    #[error("cannot connect to {host} within {} s", .after.as_secs_f32())]
    ConnectTimeout {
        /// The host.
        host: String,
        /// The time allowed.
        after: Duration,
    },
    /// The connection broke before the answer's end. The server may have received the request.
    #[error("the connection to {host} was lost: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// The innermost reason.
        reason: String,
    },
    /// The answer is not HTTP. The server has received the request.
    #[error("{host} answered with something that is not HTTP: {reason}")]
    Malformed {
        /// The host.
        host: String,
        /// The innermost reason.
        reason: String,
    },
    /// The body is longer than the caller allows.
    #[error("{host} answered with more than {bytes_max} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The most that the caller takes.
        bytes_max: usize,
    },
    /// More redirects than the client follows.
    #[error("{host} redirects too many times")]
    Redirects {
        /// The host.
        host: String,
    },
}

impl OutboundError {
    /// Whether the server cannot have received the request.
    #[must_use]
    pub const fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Url(_)
                | Self::Private { .. }
                | Self::Insecure { .. }
                | Self::Connect { .. }
                | Self::ConnectTimeout { .. }
        )
    }
}

impl From<OutboundError> for ToolFault {
    fn from(error: OutboundError) -> Self {
        match error {
            OutboundError::Connect { host, source } => {
                Self::from_io(host, &source).before_sending()
            }
            OutboundError::ConnectTimeout { host, .. } => Self::timed_out(host).before_sending(),
            OutboundError::Broken { host, .. } => {
                Self::from_io(host, &io::ErrorKind::ConnectionReset.into())
            }
            answered @ (OutboundError::Malformed { .. } | OutboundError::TooLarge { .. }) => {
                Self::permanent(answered.to_string()).after_sending()
            }
            permanent => Self::permanent(permanent.to_string()),
        }
    }
}

/// The error of hyper-util's client, with our own and the system's taken out of it.
pub(super) fn of_client(error: &hyper_util::client::legacy::Error, host: &str) -> OutboundError {
    if !error.is_connect() {
        return of_exchange(error, host);
    }
    let host = host.to_owned();
    for cause in causes(error) {
        if let Some(reason) = cause.downcast_ref::<NotConnected>() {
            return match *reason {
                NotConnected::Private => OutboundError::Private { host },
                NotConnected::Insecure => OutboundError::Insecure { host },
                NotConnected::TimedOut { after } => OutboundError::ConnectTimeout { host, after },
            };
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            let kind = innermost(error).kind();
            // An error of TLS stays one, because the remedy depends on it.
            let source = match tls_error(error) {
                Some(of_tls) => io::Error::new(kind, of_tls.clone()),
                None => io::Error::new(kind, root_cause(error)),
            };
            return OutboundError::Connect { host, source };
        }
    }
    OutboundError::Connect { host, source: io::Error::other(root_cause(error)) }
}

/// An error of a connection on which a request was sent.
pub(super) fn of_exchange(error: &(dyn Error + 'static), host: &str) -> OutboundError {
    let (host, reason) = (host.to_owned(), root_cause(error));
    let is_malformed = causes(error).any(|cause| {
        let is_parse = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        is_parse || matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
    });
    if is_malformed {
        OutboundError::Malformed { host, reason }
    } else {
        OutboundError::Broken { host, reason }
    }
}

/// Why our connector did not connect. It travels inside the client's error.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum NotConnected {
    #[error("the address is private")]
    Private,
    #[error("the address is public, and the URL is not https")]
    Insecure,
    #[error("no connection in time")]
    TimedOut { after: Duration },
}

/// The system's error inside errors that only wrap it.
fn innermost(error: &io::Error) -> &io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
    inner.map_or(error, innermost)
}
