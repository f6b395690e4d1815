//! Models that run inside this process.

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use tokio_stream::Stream;

use super::ChatRequest;

/// A model inside this process that answers like a Chat Completions server.
pub trait LocalModel: fmt::Debug + Send + Sync {
    /// Answers a round. Dropping the answer ends it.
    fn answer(&self, request: &ChatRequest) -> LocalAnswer;
}

/// The bytes of a Chat Completions stream, cut anywhere.
pub type LocalAnswer = Pin<Box<dyn Stream<Item = Bytes> + Send>>;
