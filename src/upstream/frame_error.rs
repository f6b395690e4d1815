//! Frames that are not part of an answer.

use super::server_error::ServerError;
use crate::limits::upstream::{NATIVE_CALL_BYTES_MAX, NATIVE_CALLS_MAX};

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The server reports that the stream failed.
    #[error("the model server reported an error in its stream")]
    Server(ServerError),
    /// The answer has more native calls than a round may have.
    #[error("it makes more than {NATIVE_CALLS_MAX} calls in one message")]
    TooManyCalls,
    /// The answer's native calls are longer than a round's may be.
    #[error("its calls take more than {} KiB", NATIVE_CALL_BYTES_MAX / 1024)]
    CallsTooLong,
    /// The server's API never sends such a frame.
    #[error("a frame does not match the server's API")]
    Malformed,
}
