//! The head of a streamed response (RFC 9112, sections 2 to 7), as hyper writes it.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut as _, Bytes, BytesMut};
use hyper::http::response::Parts;

use crate::limits::server::RESPONSE_HEAD_ROOM_BYTES;

/// Writes the head of a chunked response. `closes`: whether the connection closes after the response.
pub(in crate::server) fn write_head(head: &Parts, closes: bool) -> Bytes {
    let mut out = BytesMut::with_capacity(RESPONSE_HEAD_ROOM_BYTES);
    put_fields(head, closes, &mut out);
    out.put_slice(b"transfer-encoding: chunked\r\n");
    put_end(&mut out);
    out.freeze()
}

/// Writes a whole response after which the connection closes.
pub(in crate::server) fn write_last(head: &Parts, body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(RESPONSE_HEAD_ROOM_BYTES + body.len());
    put_fields(head, true, &mut out);
    out.put_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    put_end(&mut out);
    out.put_slice(body);
    out.freeze()
}

fn put_fields(head: &Parts, closes: bool, out: &mut BytesMut) {
    let reason = head.status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", head.status.as_str(), " ", reason, "\r\n"] {
        out.put_slice(part.as_bytes());
    }
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.put_slice(part);
        }
    }
    if closes {
        out.put_slice(b"connection: close\r\n");
    }
}

fn put_end(out: &mut BytesMut) {
    out.put_slice(b"date: ");
    DATE.with_borrow_mut(|date| out.put_slice(date.now().as_bytes()));
    out.put_slice(b"\r\n\r\n");
}

/// The date of a second, which all responses in it share.
struct Date {
    text: String,
    /// Seconds since 1970.
    second: u64,
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { text: String::new(), second: 0 }) };
}

impl Date {
    fn now(&mut self) -> &str {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.second != second || self.text.is_empty() {
            *self = Self { text: httpdate::fmt_http_date(now), second };
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use hyper::{Response, StatusCode};

    use super::*;

    fn head(closes: bool) -> String {
        let response = Response::builder().status(StatusCode::OK);
        let response = response.header("A", "b").header("Vary", "x").header("Vary", "y");
        let (parts, ()) = response.body(()).unwrap().into_parts();
        String::from_utf8(write_head(&parts, closes).to_vec()).unwrap()
    }

    #[test]
    fn a_head_has_its_fields_its_framing_and_the_date() {
        let head = head(false);
        let (fields, date) = head.split_once("date: ").unwrap();
        assert_eq!(
            fields,
            "HTTP/1.1 200 OK\r\na: b\r\nvary: x\r\nvary: y\r\ntransfer-encoding: chunked\r\n"
        );
        let date = date.strip_suffix("\r\n\r\n").unwrap();
        assert!(httpdate::parse_http_date(date).is_ok(), "{date}");
    }

    #[test]
    fn a_client_is_told_that_its_connection_closes() {
        assert!(head(true).contains("\r\nvary: y\r\nconnection: close\r\ntransfer-encoding"));
    }
}
