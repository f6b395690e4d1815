//! Client dialects: what the events of a turn look like to a client. All of it is pure.
//!
//! A dialect turns a log's records into frames, and says what a sign of life is. It borrows the
//! records as they are in the log, and copies them once, into what its client is sent.

pub(super) mod native;
pub(super) mod ndjson;
mod object;

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::session::Record;

/// How one client's stream is written.
pub(super) trait Encoder: fmt::Debug + Send {
    /// The media type of the stream.
    fn media_type(&self) -> &'static str;

    /// Appends what a record is to the client.
    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut);

    /// What goes out when nothing is to be said for a while.
    fn keep_alive(&self) -> Bytes;
}
