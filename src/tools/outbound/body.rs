//! The body of an answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::error::{self, OutboundError};

/// The body of an answer, as it arrives. It has no limit of its own.
///
/// **Dropping it before its end closes the connection**, or resets the stream over HTTP/2.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    host: Arc<str>,
}

impl Body {
    pub(super) const fn new(incoming: Incoming, host: Arc<str>) -> Self {
        Self { incoming, host }
    }

    /// The next piece, as it came from the connection; `None` at the end. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// [`OutboundError::Broken`] or [`OutboundError::Malformed`].
    pub async fn chunk(&mut self) -> Option<Result<Bytes, OutboundError>> {
        loop {
            match self.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Some(Ok(data)),
                    // Trailers, or an empty piece.
                    _ => {}
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// [`OutboundError::TooLarge`] as soon as it is known to be longer than `bytes_max`;
    /// otherwise as [`chunk`](Self::chunk).
    pub async fn collect(mut self, bytes_max: usize) -> Result<Bytes, OutboundError> {
        let announced = usize::try_from(self.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > bytes_max {
            return Err(self.too_large(bytes_max));
        }
        let mut bytes = Vec::with_capacity(announced);
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if chunk.len() > bytes_max - bytes.len() {
                return Err(self.too_large(bytes_max));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    }

    fn too_large(&self, bytes_max: usize) -> OutboundError {
        OutboundError::TooLarge { host: self.host.to_string(), bytes_max }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = OutboundError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OutboundError>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.incoming).poll_frame(cx);
        frame.map_err(|error| error::of_exchange(&error, &this.host))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
