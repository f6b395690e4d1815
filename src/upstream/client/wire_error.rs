//! What goes wrong on a connection.

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
