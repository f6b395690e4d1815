//! Events as frames of Tether's own event stream (WHATWG HTML, section 9.2).
//!
//! ```text
//! id: 1-7
//! event: text_delta
//! data: {"type":"text_delta","data":{"text":"Hello"}}
//!
//! ```
//! Lines end in LF. `data` is one line: JSON has no raw line ends, and the three
//! code points that some clients take for one are escaped.

mod frame_id;
pub(in crate::server) mod request;
#[cfg(test)]
mod tests;
pub(in crate::server) mod transcript;
mod type_mismatch;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Value, json};

use super::Encoder;
use crate::limits::stream as limits;
use crate::session::Record;
use crate::session::log::encode::{fitting, serialize};

pub(in crate::server) use frame_id::FrameId;

/// See the module.
#[derive(Debug)]
pub(in crate::server) struct Native;

/// Its media type.
pub(in crate::server) const MEDIA_TYPE: &str = "text/event-stream";

impl Encoder for Native {
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

    /// A comment that keeps proxies from giving up. One line end only: a blank line
    /// after it makes clients that know an id fire an empty event.
    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n")
    }
}

/// A refusal's body.
pub(in crate::server) fn error(code: &str, message: &str, param: Option<&str>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    if let Some(param) = param {
        error["param"] = param.into();
    }
    json!({ "error": error })
}

const FRAME_END: &[u8] = b"\n\n";

fn push_head(out: &mut BytesMut, record: &Record<'_>) {
    use std::io::Write as _;

    // A growing buffer takes all.
    if record.sequence == 1 {
        let _ = writeln!(out.writer(), "retry: {}", limits::RETRY_MS);
    }
    out.extend_from_slice(b"id: ");
    FrameId::of(record).push_to(out);
    out.extend_from_slice(b"\nevent: ");
    out.extend_from_slice(record.kind.name().as_bytes());
    out.extend_from_slice(b"\ndata: ");
}

/// An event that is too long for a frame, with its longest fields cut: a text to
/// what fits, anything else to `null`. `<field>_truncated` says how long it was.
fn push_shortened(out: &mut BytesMut, data: &[u8]) {
    /// Of a field, in bytes of JSON; three of them and the rest fit into a frame.
    const FIELD_BYTES_MAX: usize = limits::FRAME_BYTES_MAX / 4;

    let mut value: Value = serde_json::from_slice(data).unwrap_or_default();
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
                field => *field = Value::Null,
            }
        }
        data.extend(truncated);
    }
    serialize(out.writer(), &value);
}
