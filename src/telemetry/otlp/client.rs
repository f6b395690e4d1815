//! Requests to the collector.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use prost::Message;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::proto::{ExportResponse, PartialSuccess};
use crate::error_chain::with_causes;
use crate::http;
use crate::limits::telemetry::{
    COLLECTOR_ANSWER_BYTES_MAX, COLLECTOR_ATTEMPTS_MAX, COLLECTOR_BACKOFF, COLLECTOR_TIMEOUT,
    COLLECTOR_WAIT_MAX,
};
use crate::tls;

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// A header cannot be sent.
    #[error("telemetry.otlp.headers: {0:?} cannot be sent as a header")]
    Header(String),
    /// There are no trusted certificates.
    #[error("telemetry.otlp: cannot read the system's CA certificates: {0}")]
    Certificates(#[from] std::io::Error),
    /// This process has started an exporter before.
    #[error("telemetry.otlp: this process already exports")]
    Twice,
}

/// Why the collector did not accept a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error("{}", with_causes(.0))]
    Connection(#[from] legacy::Error),
    #[error("no answer within {} s", COLLECTOR_TIMEOUT.as_secs())]
    TimedOut,
    #[error("it answered {0}")]
    Refused(StatusCode, Option<Duration>),
}

/// An HTTP client for one collector.
#[derive(Debug)]
pub(super) struct Client {
    connections: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: String,
    /// The endpoint as logs may show it.
    origin: String,
    headers: HeaderMap,
}

impl Client {
    pub(super) fn new(endpoint: &Uri, headers: &[(String, String)]) -> Result<Self, OtlpError> {
        let tls =
            if endpoint.scheme_str() == Some("https") { tls::platform()? } else { tls::none() };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        let connections = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        for (name, value) in headers {
            let wrong = || OtlpError::Header(name.clone());
            let header = HeaderName::try_from(name).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(header, value);
        }
        let origin = origin_of(endpoint);
        let endpoint = endpoint.to_string().trim_end_matches('/').to_owned();
        Ok(Self { connections, endpoint, origin, headers: map })
    }

    /// Scheme, host and port of the collector.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Sends a message to this path, below the endpoint. Tries again after a failure that may be temporary, up to
    /// [`COLLECTOR_ATTEMPTS_MAX`] times in all; after `stop` is cancelled, only once more. Returns what the collector
    /// complains about in a message that it has accepted.
    ///
    /// # Errors
    /// The failure of the last attempt.
    pub(super) async fn post(
        &self,
        path: &str,
        message: &impl Message,
        stop: &CancellationToken,
    ) -> Result<PartialSuccess, PostError> {
        let body = Bytes::from(message.encode_to_vec());
        let mut attempt = 1;
        loop {
            let error = match self.post_once(path, body.clone()).await {
                Ok(accepted) => return Ok(accepted),
                Err(error) => error,
            };
            let Some(wait) = retry_wait(&error).filter(|_| attempt < COLLECTOR_ATTEMPTS_MAX) else {
                return Err(error);
            };
            tokio::select! {
                () = sleep(wait.max(COLLECTOR_BACKOFF * attempt)) => attempt += 1,
                () = stop.cancelled() => attempt = COLLECTOR_ATTEMPTS_MAX,
            }
        }
    }

    async fn post_once(&self, path: &str, body: Bytes) -> Result<PartialSuccess, PostError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = format!("{}{path}", self.endpoint)
            .parse()
            .expect("a URI with a path at its end is one");
        request.headers_mut().clone_from(&self.headers);
        let exchange = async {
            let answer = self.connections.request(request).await?;
            let status = answer.status();
            let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let wait = wait.and_then(|field| http::retry_after(field, Timestamp::now()));
            // A connection can be used again only after its answer has been read.
            let body = Limited::new(answer.into_body(), COLLECTOR_ANSWER_BYTES_MAX).collect().await;
            if !status.is_success() {
                return Err(PostError::Refused(status, wait));
            }
            // The status says that it was accepted, even if the rest of the answer is lost or in another format.
            let answer = body.ok().and_then(|body| ExportResponse::decode(body.aggregate()).ok());
            Ok(answer.and_then(|answer| answer.partial_success).unwrap_or_default())
        };
        timeout(COLLECTOR_TIMEOUT, exchange).await.unwrap_or(Err(PostError::TimedOut))
    }
}

/// Scheme, host and port, without a name and a password.
fn origin_of(endpoint: &Uri) -> String {
    let (scheme, host) = (endpoint.scheme_str().unwrap_or_default(), endpoint.host());
    let port = endpoint.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{}{port}", host.unwrap_or_default())
}

/// How long to wait before another attempt; `None` if there should be none.
fn retry_wait(error: &PostError) -> Option<Duration> {
    match error {
        PostError::Connection(_) | PostError::TimedOut => Some(Duration::ZERO),
        // The statuses that the OTLP specification says are retryable.
        PostError::Refused(status, wait) => http::is_transient(status.as_u16())
            .then(|| wait.unwrap_or_default().min(COLLECTOR_WAIT_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_collector_that_cannot_be_reached_is_named_with_the_reason() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let endpoint = format!("http://name:secret@{address}/path").parse().unwrap();
        let client = Client::new(&endpoint, &[]).unwrap();
        assert_eq!(client.origin(), format!("http://{address}"));
        let body = Bytes::new();
        let error = client.post_once("/v1/traces", body).await.unwrap_err().to_string();
        assert!(error.contains("Connection refused"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn only_what_may_succeed_later_is_sent_again_and_not_much_later() {
        let second = Duration::from_secs(1);
        for (error, expected) in [
            (PostError::TimedOut, Some(Duration::ZERO)),
            (PostError::Refused(StatusCode::SERVICE_UNAVAILABLE, None), Some(Duration::ZERO)),
            (PostError::Refused(StatusCode::TOO_MANY_REQUESTS, Some(second)), Some(second)),
            (
                PostError::Refused(
                    StatusCode::TOO_MANY_REQUESTS,
                    Some(COLLECTOR_WAIT_MAX + second),
                ),
                Some(COLLECTOR_WAIT_MAX),
            ),
            (PostError::Refused(StatusCode::BAD_REQUEST, None), None),
            (PostError::Refused(StatusCode::BAD_REQUEST, Some(second)), None),
            (PostError::Refused(StatusCode::INTERNAL_SERVER_ERROR, None), None),
        ] {
            assert_eq!(retry_wait(&error), expected, "{error}");
        }
    }
}
