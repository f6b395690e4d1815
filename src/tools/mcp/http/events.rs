//! The events of a response (Server-Sent Events, WHATWG HTML), with results wrapped.

use std::error::Error;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use sse_stream::Sse;
use tokio::time::sleep;

use crate::limits::mcp::{MESSAGE_BYTES_MAX, STREAM_PAUSE_MIN_MS};
use crate::tools::mcp::message;
use crate::tools::outbound::{Body, OutboundError};

/// What a stream of events fails with.
type SseError = rmcp::transport::streamable_http_client::SseError;

/// The events of a body that answers this request, if it is known. With `is_raw`, we read the
/// results in them ourselves. An event that is too long fails the request.
pub(super) fn events(
    body: Body,
    request: Option<RequestId>,
    is_raw: bool,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let is_of_session = request.is_none();
    let pieces = stream::unfold(Some((body, Size::default())), move |state| async move {
        let (mut body, mut size) = state?;
        let piece = match body.chunk().await? {
            Ok(piece) => piece,
            Err(error) => return Some((Err(error), None)),
        };
        if size.grows_too_large(&piece) {
            let error = OutboundError::TooLarge {
                host: "the server".to_owned(),
                bytes_max: MESSAGE_BYTES_MAX,
            };
            // The stream of a session is opened again at once, and would break at once again.
            if is_of_session {
                sleep(Duration::from_millis(STREAM_PAUSE_MIN_MS)).await;
            }
            return Some((Err(error), None));
        }
        Some((Ok(piece), Some((body, size))))
    });
    let events = sse_stream::SseStream::from_bytes_stream(pieces);
    let events = events.map(move |event| match event {
        Ok(mut event) => {
            // A server may want it again at once, and again.
            event.retry = event.retry.map(|pause| pause.max(STREAM_PAUSE_MIN_MS));
            if let (true, Some(data)) = (is_raw, &event.data)
                && let std::borrow::Cow::Owned(wrapped) = message::wrap(data)
            {
                event.data = Some(wrapped);
            }
            Ok(event)
        }
        Err(SseError::Body(error)) if request.is_some() && is_too_long(&*error) => {
            let answer = ServerJsonRpcMessage::error(message::too_long(), request.clone());
            let data = serde_json::to_string(&answer).ok();
            Ok(Sse { data, ..Sse::default() })
        }
        Err(error) => Err(error),
    });
    events.boxed()
}

fn is_too_long(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(OutboundError::TooLarge { .. }))
}

/// The size of the event that is being read: the bytes since the last empty line.
#[derive(Debug, Default)]
struct Size {
    bytes: usize,
    /// How many line ends were just read.
    ends: usize,
}

impl Size {
    fn grows_too_large(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            match byte {
                b'\n' => self.ends += 1,
                b'\r' => {}
                _ => self.ends = 0,
            }
            self.bytes += 1;
            if self.ends > 1 {
                self.bytes = 0;
            }
            if self.bytes > MESSAGE_BYTES_MAX {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_size_is_limited_and_many_events_are_not() {
        let line = vec![b'x'; 1000];
        let mut size = Size::default();
        for _ in 0..=MESSAGE_BYTES_MAX / 1000 {
            assert!(!size.grows_too_large(&line));
            assert!(!size.grows_too_large(b"\r\n\r\n"));
        }
        let mut size = Size::default();
        assert!(!size.grows_too_large(&vec![b'x'; MESSAGE_BYTES_MAX - 1]));
        assert!(!size.grows_too_large(b"\n"));
        assert!(size.grows_too_large(b"x"));
    }
}
