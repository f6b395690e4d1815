//! Frames that are not part of an answer.

use super::server_error::ServerError;

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The server reports that the stream failed.
    #[error("the model server reported an error in its stream")]
    Server(ServerError),
    /// The server's API never sends such a frame.
    #[error("a frame does not match the server's API")]
    Malformed,
}
