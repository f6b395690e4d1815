//! Bytes of a `text/event-stream` in, frames out.
