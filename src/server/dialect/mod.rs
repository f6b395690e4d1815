//! Client dialects: the APIs that clients speak. All pure.
//!
//! A dialect reads requests, turns log records into frames, defines its keep-alive and words its
//! errors. It borrows records from the log and copies them once, into the client's buffer.

pub(super) mod native;
mod object;

use std::fmt;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::refusal::Refusal;
use crate::gateway::NewTurn;
use crate::session::Record;

/// An API that clients speak.
pub(super) trait Dialect: fmt::Debug + Sync {
    /// Reads the body of a request that begins a turn.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(&self, body: &[u8], idempotency_key: Option<String>) -> Result<NewTurn, Refusal>;

    /// The encoder for a client that accepts these media types.
    fn encoder(&self, accept: &str) -> Box<dyn Encoder>;

    /// The body of the answer to a refused request.
    fn error(&self, refusal: &Refusal) -> Value;
}

/// Writes the stream of one client.
pub(super) trait Encoder: fmt::Debug + Send {
    /// The media type of the stream.
    fn media_type(&self) -> &'static str;

    /// Appends a record to the client's buffer.
    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut);

    /// The bytes that are sent after a while of silence.
    fn keep_alive(&self) -> Bytes;
}
