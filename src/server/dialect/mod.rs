//! Client dialects: how the events of a turn are written for a client. All pure.
//!
//! A dialect turns log records into frames and defines its keep-alive. It borrows records from
//! the log and copies them once, into the client's buffer.

pub(super) mod native;
pub(super) mod ndjson;
mod object;

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::session::Record;

/// Writes the stream of one client.
pub(super) trait Encoder: fmt::Debug + Send {
    /// The media type of the stream.
    fn media_type(&self) -> &'static str;

    /// Appends a record to the client's buffer.
    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut);

    /// The bytes that are sent after a while of silence.
    fn keep_alive(&self) -> Bytes;
}
