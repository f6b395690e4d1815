//! Events as frames of Tether's own event stream (WHATWG HTML, section 9.2).
//!
//! ```text
//! id: 1-7
//! event: text_delta
//! data: {"type":"text_delta","data":{"text":"Hello"}}
//!
//! ```
//! Lines end in LF. `data` is a single line: JSON has no raw line breaks, and the three code
//! points that some clients treat as line breaks are escaped.

#[cfg(test)]
mod tests;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::Value;

use super::FrameId;
use crate::limits::stream as limits;
use crate::server::dialect::{Encoder, json};
use crate::session::Record;
use crate::session::log::encode::{fitting, serialize};
use crate::tools::shortened;

/// The encoder of Tether's own event stream.
#[derive(Debug)]
pub(super) struct EventStream;

/// The media type that clients ask for.
pub(super) const MEDIA_TYPE: &str = "text/event-stream";

impl Encoder for EventStream {
    fn media_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        let start = out.len();
        push_head(out, record);
        let head = out.len() - start;
        if head + record.data.len() + FRAME_END.len() > limits::FRAME_BYTES_MAX {
            push_shortened(out, record.data);
        } else {
            out.extend_from_slice(record.data);
        }
        out.extend_from_slice(FRAME_END);
    }

    fn can_be_joined(&self) -> bool {
        true
    }

    /// A comment that keeps proxies from timing out. It has only one line ending: a blank line
    /// after it would make some clients fire an empty event.
    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n")
    }
}

const FRAME_END: &[u8] = b"\n\n";

/// The most bytes of JSON around the text of a record: the head, the names and the quotes.
const AROUND_TEXT_BYTES_MAX: usize = 1024;

const _: () = assert!(
    limits::RECORD_TEXT_BYTES_MAX + AROUND_TEXT_BYTES_MAX <= limits::FRAME_BYTES_MAX,
    "no piece of text is cut"
);

fn push_head(out: &mut BytesMut, record: &Record<'_>) {
    use std::io::Write as _;

    // Writing to a growing buffer cannot fail.
    if record.sequence == 1 {
        let _ = writeln!(out.writer(), "retry: {}", limits::RETRY_MS);
    }
    out.extend_from_slice(b"id: ");
    FrameId::of(record).push_to(out);
    out.extend_from_slice(b"\nevent: ");
    out.extend_from_slice(record.kind.name().as_bytes());
    out.extend_from_slice(b"\ndata: ");
}

/// Writes an event that is too long for a frame with its longest fields cut: text and results to
/// the length that fits, anything else to `null`. `<field>_truncated` gives the original length.
fn push_shortened(out: &mut BytesMut, data: &[u8]) {
    /// The most bytes of JSON per field; three such fields and the rest fit into a frame.
    const FIELD_BYTES_MAX: usize = limits::FRAME_BYTES_MAX / 4;

    let mut value = json::event(data);
    if let Some(Value::Object(data)) = value.get_mut("data") {
        let mut truncated = Vec::new();
        for (name, field) in data.iter_mut() {
            let bytes = field.to_string().len();
            if bytes <= FIELD_BYTES_MAX {
                continue;
            }
            truncated.push((format!("{name}_truncated"), Value::from(bytes)));
            match field {
                Value::String(text) => text.truncate(fitting(text, FIELD_BYTES_MAX)),
                field if name == "tool_result" => {
                    *field = shortened(field.take(), FIELD_BYTES_MAX).unwrap_or_default();
                }
                field => *field = Value::Null,
            }
        }
        data.extend(truncated);
    }
    serialize(out.writer(), &value);
}
