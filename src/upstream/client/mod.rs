//! The HTTP client of a model server: connections, their reuse, one request on
//! one of them.
//!
//! A round drives its connection itself: the connection's future is polled where
//! the answer is read, so that a token costs one task wake-up, not two, and
//! dropping the answer drops the socket, which is how a model server learns that
//! nobody listens any more. Idle connections lie in the pool and are not driven;
//! one that the server has closed meanwhile shows it when it is taken out.

mod answer;
mod connection;
mod heard;
mod pool;
mod waker;

pub use answer::Answer;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::timeout;
use tower_service::Service as _;

use self::connection::Connection;
use self::pool::Pool;

/// Why a request came to nothing before its answer began.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address could not be reached.
    #[error("cannot connect to {origin}: {reason}")]
    Connect {
        /// Scheme, host and port.
        origin: String,
        /// What the system said.
        reason: String,
    },
    /// No connection within the time for it.
    #[error("no connection to {origin} within {} s", .after.as_secs_f32())]
    ConnectTimeout {
        /// Scheme, host and port.
        origin: String,
        /// The time that it had.
        after: Duration,
    },
    /// No answer within the time for it.
    #[error("no answer within {} s", .after.as_secs_f32())]
    AnswerTimeout {
        /// The time that it had.
        after: Duration,
    },
    /// The connection broke while the request was under way.
    #[error("the connection broke {}: {source}", if *.heard { "in the head of the answer" } else { "before an answer came" })]
    Broken {
        /// What hyper met.
        source: hyper::Error,
        /// Whether a byte of an answer had come.
        heard: bool,
    },
}

impl ClientError {
    /// Whether nobody was there.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::ConnectTimeout { .. })
    }
}

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Scheme and authority, for the connector.
    origin: Uri,
    connector: HttpsConnector<HttpConnector>,
    connect_timeout: Duration,
    pool: Pool,
}

impl Client {
    /// A client for the server at `origin`, of which scheme and authority count.
    ///
    /// # Errors
    /// When `origin` is `https` and the platform has no certificates to trust.
    pub fn new(origin: Uri, connect_timeout: Duration) -> std::io::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let builder = HttpsConnectorBuilder::new();
        let builder = if origin.scheme_str() == Some("https") {
            builder.with_provider_and_native_roots(rustls::crypto::ring::default_provider())?
        } else {
            // Nothing will be asked of it; it only has to have the same type.
            builder.with_tls_config(no_tls())
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let shared = Shared { origin, connector, connect_timeout, pool: Pool::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Sends a request and waits for the head of its answer, at most this long.
    ///
    /// Dropping the future drops the connection. Where a connection from the pool
    /// breaks before one byte of an answer came, the request goes out again on a
    /// new one: the server mostly closed it just when it was taken out. llama.cpp
    /// does so behind each streamed answer, without a word in its head. At worst a
    /// prompt is read twice.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Answer, ClientError> {
        if let Some(pooled) = self.shared.pool.take() {
            match self.exchange(pooled, request.clone(), within).await {
                Err(ClientError::Broken { heard: false, .. }) => {}
                outcome => return outcome,
            }
        }
        let connection = self.shared.connect().await?;
        self.exchange(connection, request, within).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Answer, ClientError> {
        match timeout(within, connection.exchange(request)).await {
            Err(_) => Err(ClientError::AnswerTimeout { after: within }),
            Ok(Ok(response)) => Ok(Answer::new(response, connection, self.clone())),
            Ok(Err(source)) => Err(ClientError::Broken { source, heard: connection.has_heard() }),
        }
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &Uri {
        &self.shared.origin
    }
}

/// A TLS configuration that trusts nobody.
fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

impl Shared {
    async fn connect(&self) -> Result<Connection, ClientError> {
        let origin = || self.origin.to_string().trim_end_matches('/').to_owned();
        let refused = |reason: String| ClientError::Connect { origin: origin(), reason };
        let mut connector = self.connector.clone();
        let connect = async {
            poll_fn(|cx| connector.poll_ready(cx)).await.map_err(|e| root_cause(&*e))?;
            connector.call(self.origin.clone()).await.map_err(|e| root_cause(&*e))
        };
        let socket = timeout(self.connect_timeout, connect)
            .await
            .map_err(|_| ClientError::ConnectTimeout {
                origin: origin(),
                after: self.connect_timeout,
            })?
            .map_err(refused)?;
        Connection::new(socket).await.map_err(|e| refused(e.to_string()))
    }
}

/// What lies at the bottom of an error: "connection refused", not "client error".
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
