//! What goes wrong on a connection.

use std::error::Error as _;
use std::io;

use super::framing::FramingError;
use super::head::HeadError;

/// Why a request or an answer broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The server closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The head of the answer cannot be read.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The framing of the answer's body cannot be read.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// An encrypted connection failed.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
}

impl WireError {
    /// Whether the other end has sent what HTTP does not allow, as opposed to closing the connection.
    pub(crate) fn is_malformed(&self) -> bool {
        match self {
            Self::Closed | Self::Io(_) => false,
            Self::Head(_) | Self::Framing(_) => true,
            // hyper's errors on framing are of these kinds.
            Self::Hyper(error) => {
                let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
                let kind = cause.map(io::Error::kind);
                matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
            }
        }
    }
}
