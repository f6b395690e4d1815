//! The events of a response (Server-Sent Events, WHATWG HTML), with results wrapped.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use sse_stream::Sse;

use crate::limits::mcp::{MESSAGE_BYTES_MAX, STREAM_PAUSE_MIN_MS};
use crate::tools::mcp::envelope::Envelope;
use crate::tools::mcp::message;
use crate::tools::outbound::Body;
use crate::tools::throttle::{self, Throttle};

/// What a stream of events fails with.
type SseError = rmcp::transport::streamable_http_client::SseError;

/// The events of a body that answers this request, if it is known. With `is_raw`, we read the
/// results in them ourselves. Its connection's `throttle` limits how fast all its streams are read.
///
/// rmcp skips what it cannot read, and opens a stream that fails again from the event before. So an
/// answer that cannot be read fails its request here, and one that is too long ends early.
pub(super) fn events(
    body: Body,
    request: Option<RequestId>,
    is_raw: bool,
    throttle: Arc<Mutex<Throttle>>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let chunks = stream::unfold(body, |mut body| async { Some((body.chunk().await?, body)) });
    events_in(chunks.boxed(), request, is_raw, throttle)
}

fn events_in<E: Error + Send + Sync + 'static>(
    chunks: BoxStream<'static, Result<Bytes, E>>,
    request: Option<RequestId>,
    is_raw: bool,
    throttle: Arc<Mutex<Throttle>>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let has_cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&has_cut);
    let pieces = stream::unfold(Some((chunks, Size::default())), move |state| {
        let (has_cut, throttle) = (Arc::clone(&has_cut), Arc::clone(&throttle));
        async move {
            let (mut chunks, mut size) = state?;
            let piece = match chunks.next().await? {
                Ok(piece) => piece,
                Err(error) => return Some((Err(error), None)),
            };
            throttle::pass(&throttle, piece.len()).await;
            let shortened = size.shorten(&piece);
            if std::mem::take(&mut size.has_cut) {
                has_cut.store(true, Ordering::Relaxed);
            }
            Some((Ok(shortened.unwrap_or(piece)), Some((chunks, size))))
        }
    });
    let events = sse_stream::SseStream::from_bytes_stream(pieces);
    let events = events.map(move |event| {
        let mut event = event?;
        // A server may want it again at once, and again.
        event.retry = event.retry.map(|pause| pause.max(STREAM_PAUSE_MIN_MS));
        if let Some(data) = event.data.take() {
            let is_cut = is_cut.swap(false, Ordering::Relaxed);
            event.data = readable(data, request.as_ref(), is_raw, is_cut);
        }
        Ok(event)
    });
    events.boxed()
}

/// The data of an event as rmcp can read it; `None` if no request waits for it.
fn readable(
    data: String,
    request: Option<&RequestId>,
    is_raw: bool,
    is_cut: bool,
) -> Option<String> {
    if !is_raw && !is_cut {
        return Some(data);
    }
    let answer = match message::readable(&data, is_raw) {
        // On the stream of a request, an error without an id is that of the request.
        Ok((ServerJsonRpcMessage::Error(error), _)) if error.id.is_none() && request.is_some() => {
            ServerJsonRpcMessage::error(error.error, request.cloned())
        }
        Ok((_, text)) => return Some(text.into_owned()),
        Err(_) => {
            let mut envelope = Envelope::default();
            envelope.push(data.as_bytes());
            let answered = envelope.answered().map(RequestId::Number);
            // Whatever was cut off, this stream's request gets no other answer.
            if is_cut && !envelope.is_request() {
                let id = request.cloned().or(answered)?;
                ServerJsonRpcMessage::error(message::too_long(), Some(id))
            } else {
                ServerJsonRpcMessage::error(message::unreadable(), Some(answered?))
            }
        }
    };
    serde_json::to_string(&answer).ok()
}

/// The size of the event that is being read: the bytes since the last empty line.
#[derive(Debug, Default)]
struct Size {
    bytes: usize,
    /// How many line ends were just read.
    ends: usize,
    /// Whether the event has grown too long. Its rest is dropped.
    is_too_long: bool,
    /// Whether an event was cut since this was last asked.
    has_cut: bool,
}

impl Size {
    /// The piece without what is too much of an event, which ends there; `None` if it can stay as
    /// it is.
    fn shorten(&mut self, piece: &[u8]) -> Option<Bytes> {
        let (mut kept, mut begin) = (Vec::new(), 0);
        let mut is_whole = !self.is_too_long;
        for (at, byte) in piece.iter().enumerate() {
            let was_too_long = self.is_too_long;
            self.push(*byte);
            match (was_too_long, self.is_too_long) {
                (false, true) => {
                    kept.extend_from_slice(&piece[begin..at]);
                    kept.extend_from_slice(b"\n\n");
                    (is_whole, self.has_cut) = (false, true);
                }
                (true, false) => begin = at + 1,
                _ => {}
            }
        }
        if is_whole {
            return None;
        }
        if !self.is_too_long {
            kept.extend_from_slice(&piece[begin..]);
        }
        Some(kept.into())
    }

    fn push(&mut self, byte: u8) {
        match byte {
            b'\n' => self.ends += 1,
            b'\r' => {}
            _ => self.ends = 0,
        }
        self.bytes += 1;
        if self.ends > 1 {
            (self.bytes, self.is_too_long) = (0, false);
        }
        // A character stays whole; no longer one is text.
        let is_within = byte & 0xc0 == 0x80 && self.bytes <= MESSAGE_BYTES_MAX + 3;
        self.is_too_long |= self.bytes > MESSAGE_BYTES_MAX && !is_within;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::limits::tools::{READ_AT_ONCE, READ_PAUSE, READ_PER_PAUSE};

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_slowly_also_if_each_stream_of_it_is_short() {
        const AT_ONCE: usize = READ_AT_ONCE / READ_PER_PAUSE;
        let event = format!("data: {}\n\n", "x".repeat(READ_PER_PAUSE - "data: \n\n".len()));
        let (throttle, begun) = (Arc::default(), Instant::now());
        for pauses in [0, AT_ONCE] {
            let chunks = vec![Ok::<_, Infallible>(Bytes::from(event.clone())); AT_ONCE];
            let chunks = stream::iter(chunks).boxed();
            let events = events_in(chunks, None, false, Arc::clone(&throttle));
            assert_eq!(events.count().await, AT_ONCE);
            assert_eq!(begun.elapsed(), READ_PAUSE * u32::try_from(pauses).unwrap());
        }
    }

    #[test]
    fn an_events_size_is_limited_and_many_events_are_not() {
        let line = vec![b'x'; 1000];
        let mut size = Size::default();
        for _ in 0..=MESSAGE_BYTES_MAX / 1000 {
            assert_eq!(size.shorten(&line), None);
            assert_eq!(size.shorten(b"\r\n\r\n"), None);
        }
        let mut size = Size::default();
        assert_eq!(size.shorten(&vec![b'x'; MESSAGE_BYTES_MAX - 1]), None);
        assert_eq!(size.shorten(b"\n"), None);
        assert_eq!(size.shorten(b"x").as_deref(), Some(&b"\n\n"[..]));
    }

    #[test]
    fn an_event_that_is_too_long_ends_early_and_the_next_is_whole() {
        let long =
            ["x".repeat(MESSAGE_BYTES_MAX - 1), "ä yz\n\ndata: next\n\n".to_owned()].concat();
        let expected =
            ["x".repeat(MESSAGE_BYTES_MAX - 1), "ä\n\ndata: next\n\n".to_owned()].concat();
        for size_of_pieces in [1 << 16, MESSAGE_BYTES_MAX, long.len()] {
            let mut size = Size::default();
            let mut read = Vec::new();
            for piece in long.as_bytes().chunks(size_of_pieces) {
                read.extend_from_slice(size.shorten(piece).as_deref().unwrap_or(piece));
            }
            assert!(read == expected.as_bytes(), "pieces of {size_of_pieces}");
        }
    }

    /// What an event of a call's stream says: its id, and what is wrong.
    #[track_caller]
    fn check(data: &str, request: Option<i64>, is_cut: bool, expected: Option<(i64, &str)>) {
        let request = request.map(RequestId::Number);
        let read = readable(data.to_owned(), request.as_ref(), true, is_cut);
        let read: Option<serde_json::Value> = read.map(|read| serde_json::from_str(&read).unwrap());
        let found = read.as_ref().map(|read| (&read["id"], &read["error"]["message"]));
        let expected = expected.map(|(id, told)| (json!(id), json!(told)));
        assert_eq!(found, expected.as_ref().map(|(id, told)| (id, told)), "{data}");
    }

    #[test]
    fn an_answer_that_cannot_be_read_fails_its_request() {
        let unreadable = "the server's answer cannot be read";
        check(r#"{"id":7,"error":"it broke"}"#, Some(7), false, Some((7, unreadable)));
        check(r#"{"id":7,"error":"it broke"}"#, None, false, Some((7, unreadable)));
        check("hello", Some(7), false, None);
        check(r#"{"method":5}"#, Some(7), false, None);
        let no_id = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
        check(no_id, Some(7), false, Some((7, "no")));
    }

    #[test]
    fn an_answer_that_ends_early_fails_its_request_if_it_is_known() {
        let long = "the server answered with more than 4 MiB";
        check(r#"{"jsonrpc":"2.0","id":7,"result":{"te"#, None, true, Some((7, long)));
        check(r#"{"result":{"te"#, Some(7), true, Some((7, long)));
        check(r#"{"result":{"te"#, None, true, None);
        // A notification on the stream of a call is not the end of the call.
        check(r#"{"method":"notifications/message","params":{"te"#, Some(7), true, None);
    }

    #[test]
    fn half_characters_are_replaced_in_events() {
        let data = r#"{"jsonrpc":"2.0","id":7,"result":{"text":"cut \ud83d"}}"#;
        let read = readable(data.to_owned(), None, true, false).unwrap();
        assert!(read.contains(r"cut \ufffd"), "{read}");
    }
}
