//! The body of a request, read within bounds.

use std::pin::{Pin, pin};
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use tokio::time::timeout;

use super::refusal::Refusal;
use crate::http;
use crate::limits::server::{DISCARD_TIMEOUT, DISCARDED_BYTES_MAX, UNWANTED_BYTES_MAX};

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

/// Reads a body of at most `bytes_max` bytes within this time.
pub(super) async fn read(
    headers: &HeaderMap,
    body: impl RequestBody,
    bytes_max: usize,
    within: Duration,
) -> Result<Bytes, Refusal> {
    let mut body = pin!(body);
    if body.size_hint().lower() > bytes_max as u64 {
        // A client that waits for `100 Continue` has sent nothing, and must not be asked to.
        if !headers.contains_key(EXPECT) {
            discard(body, DISCARDED_BYTES_MAX).await;
        }
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
pub(super) async fn discard_short(body: impl RequestBody) {
    discard(pin!(body), UNWANTED_BYTES_MAX).await;
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
