//! The HTTP client for a model server: connecting, reusing connections, sending one request.
//!
//! A round drives its own connection: the task that reads the answer also polls the
//! connection's future. A token therefore costs one task wake-up instead of two, and dropping
//! the answer drops the socket, which tells the model server to stop. Idle connections sit in
//! the pool and are not driven; a connection that the server has closed is noticed when it is
//! taken out.

mod answer;
mod connection;
mod encrypted;
mod framing;
mod head;
mod plain;
mod pool;
mod progress;
mod wire_error;

pub(crate) use answer::{Answer, AnswerBody, Extent, ReadText};
pub(crate) use progress::Progress;
pub(crate) use wire_error::WireError;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use self::connection::Connection;
use self::pool::Pool;
use crate::error_chain::root_cause;
use crate::limits::upstream as limits;
use crate::tls::{self, ConnectFault};
use crate::upstream::patience::{Patience, Unanswered};

/// Why a request failed before its answer began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The server could not be reached.
    #[error("cannot connect to {origin}: {reason}")]
    Connect {
        /// Scheme, host and port.
        origin: String,
        /// What kind of error it was.
        fault: ConnectFault,
        /// The innermost error, in words.
        reason: String,
    },
    /// No connection was made in time.
    #[error("cannot connect to {origin} within {} s", .after.as_secs_f32())]
    ConnectTimeout {
        /// Scheme, host and port.
        origin: String,
        /// The time allowed.
        after: Duration,
    },
    /// No answer came in time.
    #[error("no answer within {} s", .after.as_secs_f32())]
    AnswerTimeout {
        /// The time allowed.
        after: Duration,
    },
    /// Others were answered, but not this request in time.
    #[error("no answer within {} s, but answers to others", .after.as_secs_f32())]
    Busy {
        /// The time allowed.
        after: Duration,
    },
    /// The connection broke during the request.
    #[error(
        "the connection was lost {}: {source}",
        if *.heard { "in the response headers" } else { "before the model server answered" }
    )]
    Broken {
        /// What happened.
        source: WireError,
        /// Whether any byte of an answer had arrived.
        heard: bool,
    },
}

impl ClientError {
    /// Whether no connection was made.
    #[must_use]
    pub(crate) const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::ConnectTimeout { .. })
    }
}

/// A client for one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
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
    /// Creates a client for the server at `origin`; only its scheme and authority are used.
    ///
    /// # Errors
    /// If `origin` is `https` and the platform has no trusted certificates.
    pub(crate) fn new(origin: Uri, connect_timeout: Duration) -> std::io::Result<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // A name with several addresses: each has its share of the time.
        http.set_connect_timeout(Some(connect_timeout));
        let is_https = origin.scheme_str() == Some("https");
        // A connection without TLS never uses it; it only has to have the same type.
        let tls = if is_https { tls::platform()? } else { tls::none() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let shared = Shared { origin, connector, connect_timeout, pool: Pool::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Sends a request and waits with `patience` for the head of the answer.
    ///
    /// Dropping the future drops the connection. If a pooled connection breaks before the first
    /// byte of an answer, the request is sent again on a new connection: most likely the server
    /// closed the old one just as it was taken out. llama.cpp closes the connection after every
    /// streamed answer without announcing it in the headers. Other servers say 408 before they close (RFC 9110, section
    /// 15.5.9), and mean that no request came. Either comes at once: a server that breaks later has worked on the request.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub(super) async fn send(
        &self,
        request: Request<Bytes>,
        patience: &Patience,
    ) -> Result<Answer, ClientError> {
        if let Some(pooled) = self.shared.pool.take() {
            let sent = Instant::now();
            let outcome = self.exchange(pooled, &request, patience).await;
            if !met_stale_connection(&outcome, sent.elapsed()) {
                return outcome;
            }
        }
        let connection = self.shared.connect().await?;
        self.exchange(connection, &request, patience).await
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: &Request<Bytes>,
        patience: &Patience,
    ) -> Result<Answer, ClientError> {
        match patience.wait(connection.exchange(request)).await {
            Err(Unanswered { after, is_busy: true }) => Err(ClientError::Busy { after }),
            Err(Unanswered { after, is_busy: false }) => Err(ClientError::AnswerTimeout { after }),
            Ok(Ok(head)) => Ok(Answer::new(head, connection, self.clone())),
            Ok(Err(source)) => Err(ClientError::Broken { source, heard: connection.has_heard() }),
        }
    }
}

impl Shared {
    async fn connect(&self) -> Result<Connection, ClientError> {
        let origin = || self.origin.to_string().trim_end_matches('/').to_owned();
        let refused = |fault, reason| ClientError::Connect { origin: origin(), fault, reason };
        let mut connector = self.connector.clone();
        let connect = async {
            poll_fn(|cx| connector.poll_ready(cx)).await?;
            connector.call(self.origin.clone()).await
        };
        let socket = timeout(self.connect_timeout, connect)
            .await
            .map_err(|_| ClientError::ConnectTimeout {
                origin: origin(),
                after: self.connect_timeout,
            })?
            .map_err(|error| refused(ConnectFault::of(&*error), root_cause(&*error)))?;
        let connection = Connection::new(socket).await;
        connection.map_err(|error| refused(ConnectFault::Other, error.to_string()))
    }
}

/// Whether the connection was stale: the server had closed it, or was closing it, when the request was sent.
fn met_stale_connection(outcome: &Result<Answer, ClientError>, after: Duration) -> bool {
    let was_closed = match outcome {
        Err(ClientError::Broken { heard, .. }) => !heard,
        Ok(answer) => answer.head.status == StatusCode::REQUEST_TIMEOUT,
        Err(_) => false,
    };
    was_closed && after <= limits::STALE_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_breaks_later_has_worked_on_the_request() {
        let broken = |heard| Err(ClientError::Broken { source: WireError::Closed, heard });
        let most = limits::STALE_WITHIN;
        assert!(met_stale_connection(&broken(false), most));
        assert!(!met_stale_connection(&broken(false), most + Duration::from_millis(1)));
        assert!(!met_stale_connection(&broken(true), Duration::ZERO));
        let late = Err(ClientError::AnswerTimeout { after: most });
        assert!(!met_stale_connection(&late, Duration::ZERO));
    }
}
