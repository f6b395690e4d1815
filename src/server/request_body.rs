//! The body of a request, read within bounds.

use std::pin::{Pin, pin};

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use memchr::memmem;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::App;
use super::refusal::Refusal;
use crate::http;
use crate::limits::server::{DISCARD_TIMEOUT, DISCARDED_BYTES_MAX, UNWANTED_BYTES_MAX};
use crate::limits::session::INLINE_RECORD_BYTES_MAX;

/// The body of a request, from any server implementation.
pub(super) trait RequestBody:
    Body<Data = Bytes, Error: Into<Error>> + Send + 'static
{
}

impl<B: Body<Data = Bytes, Error: Into<Error>> + Send + 'static> RequestBody for B {}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Rejects a body in a transfer coding other than `chunked`, or chunked more than once (RFC 9112,
/// section 6.1). hyper decodes a `chunked` that comes last, once, and leaves the rest to us.
pub(super) fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let fields = || {
        let fields = headers.get_all(TRANSFER_ENCODING).iter().map(HeaderValue::to_str);
        fields.map(|field| field.unwrap_or("?"))
    };
    if let Some(coding) = http::unknown_coding(fields(), "chunked") {
        return Err(Refusal::TransferEncoding(coding.to_owned()));
    }
    if http::elements(fields()).count() > 1 {
        return Err(Refusal::TransferEncoding("chunked, chunked".to_owned()));
    }
    Ok(())
}

/// Rejects a body that is compressed, instead of calling it bad JSON (RFC 9110, section 15.5.16).
pub(super) fn check_content_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let fields = headers.get_all(CONTENT_ENCODING).iter().map(HeaderValue::to_str);
    let unknown = http::unknown_coding(fields.map(|field| field.unwrap_or("?")), "identity");
    unknown.map_or(Ok(()), |coding| Err(Refusal::ContentEncoding(coding.to_owned())))
}

/// A place to make values of JSON of this length; short JSON needs none.
pub(super) async fn place(length: usize, app: &App) -> Option<SemaphorePermit<'_>> {
    if length <= INLINE_RECORD_BYTES_MAX {
        return None;
    }
    app.readings.acquire().await.ok()
}

/// How long reading this body takes, as the length of a plain body that takes as long. Preparing the patterns of schemas
/// is slow. The word is searched for without its first letter, and with `\u00`, because JSON may escape any letter.
pub(super) fn effort(body: &[u8]) -> usize {
    let has = |text: &str| memmem::find(body, text.as_bytes()).is_some();
    // A longer one is read off the worker anyway.
    let may_take_longer = body.len() <= INLINE_RECORD_BYTES_MAX;
    let has_patterns = may_take_longer && (has("attern") || has("\\u00"));
    if has_patterns { body.len() + INLINE_RECORD_BYTES_MAX } else { body.len() }
}

/// Reads the body of a request, within the bounds of the server.
pub(super) async fn read(
    request: &Parts,
    body: impl RequestBody,
    app: &App,
) -> Result<Bytes, Refusal> {
    let (bytes_max, within) = (app.max_body_bytes, app.timeouts.body);
    let mut body = pin!(body);
    if body.size_hint().lower() > bytes_max as u64 {
        discard_unread(request, body, DISCARDED_BYTES_MAX).await;
        return Err(Refusal::BodyTooLarge { bytes_max });
    }
    let collected = timeout(within, Limited::new(body.as_mut(), bytes_max).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard(body, DISCARDED_BYTES_MAX).await;
            Err(Refusal::BodyTooLarge { bytes_max })
        }
        Ok(Err(error)) => Err(Refusal::BodyBroken(error.to_string())),
        Err(_) => Err(Refusal::BodyTimeout(within)),
    }
}

/// Discards a short body on a connection that is about to close: see [`discard`].
pub(super) async fn discard_short(request: &Parts, body: impl RequestBody) {
    discard_unread(request, pin!(body), UNWANTED_BYTES_MAX).await;
}

/// Discards a body of which nothing has been read.
async fn discard_unread(request: &Parts, body: Pin<&mut impl RequestBody>, bytes_max: usize) {
    // A client that waits for `100 Continue` has sent nothing, and must not be asked to.
    if !request.headers.contains_key(EXPECT) {
        discard(body, bytes_max).await;
    }
}

/// Reads on, within bounds, before a body is refused. A client that is still sending it when its
/// connection closes sees a broken connection instead of the refusal, and SDKs then try again.
async fn discard(mut body: Pin<&mut impl RequestBody>, bytes_max: usize) {
    if body.size_hint().lower() > bytes_max as u64 {
        return;
    }
    let mut left = bytes_max;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        }
    };
    let _ = timeout(DISCARD_TIMEOUT, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_prepared_off_the_worker() {
        assert!(effort(br#"{"prompt": "Hello?"}"#) <= INLINE_RECORD_BYTES_MAX);
        for body in [r#"{"pattern": "a"}"#, r#"{"\u0070attern": "a"}"#, r#"{"p\u0061ttern": "a"}"#]
        {
            assert!(effort(body.as_bytes()) > INLINE_RECORD_BYTES_MAX, "{body}");
        }
    }
}
