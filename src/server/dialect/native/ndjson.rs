//! Events as lines of JSON (`application/x-ndjson`), for `jq`, shells and programs that cannot
//! read event streams.
//!
//! ```text
//! {"id":"1-7","type":"text_delta","data":{"text":"Hello"}}
//! ```
//! Nothing is cut: a line is as long as its event. An empty line is a keep-alive.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::FrameId;
use crate::server::dialect::Encoder;
use crate::session::Record;

/// The encoder of JSON lines.
#[derive(Debug)]
pub(super) struct Ndjson;

/// The media type that clients ask for.
pub(super) const MEDIA_TYPE: &str = "application/x-ndjson";

impl Encoder for Ndjson {
    fn media_type(&self) -> &'static str {
        MEDIA_TYPE
    }

    fn encode(&mut self, record: &Record<'_>, out: &mut BytesMut) {
        out.extend_from_slice(b"{\"id\":\"");
        FrameId::of(record).push_to(out);
        out.extend_from_slice(b"\",");
        // The event is an object; continue after its opening brace.
        out.extend_from_slice(&record.data[1..]);
        out.put_u8(b'\n');
    }

    fn can_be_joined(&self) -> bool {
        true
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;

    #[test]
    fn a_line_is_the_event_with_its_id() {
        let mut out = BytesMut::new();
        let data = br#"{"type":"status","data":{"message":"m"}}"#;
        let record = Record { epoch: 2, sequence: 7, kind: Kind::Status, data, text: None };
        Ndjson.encode(&record, &mut out);
        let line = br#"{"id":"2-7","type":"status","data":{"message":"m"}}"#;
        assert_eq!(&out[..], [line, &b"\n"[..]].concat());
    }
}
