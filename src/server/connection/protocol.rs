//! Which protocol a client speaks: HTTP/2 begins with a preface (RFC 9113, section 3.4); anything else is
//! HTTP/1.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads into `read` until it is clear which protocol the client speaks. `None` if the client closes
/// without having sent anything.
pub(super) async fn detect(
    socket: &mut (impl AsyncRead + Unpin),
    read: &mut BytesMut,
) -> Option<Protocol> {
    loop {
        let seen = read.len().min(PREFACE.len());
        if read[..seen] != PREFACE[..seen] {
            return Some(Protocol::Http1);
        }
        if seen == PREFACE.len() {
            return Some(Protocol::Http2);
        }
        if !matches!(socket.read_buf(read).await, Ok(1..)) {
            // Part of a preface, then the end: to hyper, a request that was cut.
            return (!read.is_empty()).then_some(Protocol::Http1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The protocol, and how many bytes were read to tell.
    async fn detected(mut bytes: &[u8]) -> (Option<Protocol>, usize) {
        let mut read = BytesMut::new();
        let protocol = detect(&mut bytes, &mut read).await;
        (protocol, read.len())
    }

    #[tokio::test]
    async fn the_preface_is_recognized_however_it_is_cut() {
        for cut in 1..PREFACE.len() {
            let mut pieces = PREFACE[..cut].chain(&PREFACE[cut..]);
            let mut read = BytesMut::new();
            assert_eq!(detect(&mut pieces, &mut read).await, Some(Protocol::Http2), "{cut}");
            assert_eq!(read, PREFACE);
        }
    }

    #[tokio::test]
    async fn everything_else_is_http_1() {
        for first in ["GET / HTTP/1.1\r\n\r\n", "POST", "PRX", "PRI * HTTP/1.1\r\n", "\r\n", "\x16"]
        {
            assert_eq!(detected(first.as_bytes()).await, (Some(Protocol::Http1), first.len()));
        }
        assert_eq!(detected(b"PRI").await, (Some(Protocol::Http1), 3));
        assert_eq!(detected(b"").await, (None, 0));
    }
}
