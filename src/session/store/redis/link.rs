//! A connection for commands to one server: made when it is needed, and made again when it has failed.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind, Value, cmd};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

use super::super::StoreError;
use super::address::{RedisAddress, Wants};
use super::cause::failed;
use super::node::Node;
use super::reply::plain;
use super::request::Request;
use crate::limits::session as limits;

/// A way to a server, shared by all that ask it.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<RedisAddress>,
    /// Which server of a cluster.
    node: Option<Node>,
    connect_timeout: Duration,
    /// How long a request may take, once there is a connection.
    wait: Duration,
    state: AsyncMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// Which connection it is.
    number: u64,
    /// When and why the last attempt to connect failed.
    failed: Option<(Instant, StoreError)>,
}

/// Why a server has not done what was asked.
#[derive(Debug)]
pub(super) enum Failure {
    /// It cannot be reached.
    Unreachable(StoreError),
    /// It does not answer in time.
    Silent(StoreError),
    /// It refuses, or the connection is gone.
    Error(RedisError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unreachable(error) | Failure::Silent(error) => error,
            Failure::Error(error) => failed(&error),
        }
    }
}

impl Link {
    pub(super) fn new(
        address: Arc<RedisAddress>,
        node: Option<Node>,
        connect_timeout: Duration,
        wait: Duration,
    ) -> Self {
        Self { address, node, connect_timeout, wait, state: AsyncMutex::default() }
    }

    /// Asks the server, and once more if the connection turns out to be gone: requests can be repeated.
    pub(super) async fn answer(&self, request: Request<'_>, asks: bool) -> Result<Value, Failure> {
        let mut is_repeated = false;
        loop {
            let connection = self.connection().await.map_err(Failure::Unreachable);
            let (number, mut connection) = connection?;
            // Pinned here, because moving it into `timeout` would copy it.
            let sent = pin!(request.send(&mut connection, asks));
            match timeout(self.wait, sent).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => {
                    // The client reports a connection that closes in the middle of a reply as a reply it cannot parse.
                    let is_cut = error.kind() == ErrorKind::Parse;
                    let is_gone = is_cut || error.is_connection_dropped();
                    let is_replica = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
                    if is_gone || is_replica || error.is_unrecoverable_error() {
                        self.discard(number).await;
                    }
                    if !is_gone || is_repeated {
                        return Err(Failure::Error(error));
                    }
                    is_repeated = true;
                }
                Err(_) => {
                    self.discard(number).await;
                    let cause = format!("no answer within {:?}", self.wait);
                    return Err(Failure::Silent(StoreError::Unavailable(cause)));
                }
            }
        }
    }

    /// The connection, and which one it is. If there is none, this makes one, while others wait for it.
    async fn connection(&self) -> Result<(u64, MultiplexedConnection), StoreError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok((state.number, connection.clone()));
        }
        if let Some((at, error)) = &state.failed
            && at.elapsed() < limits::STORE_RETRY_INTERVAL
        {
            return Err(error.clone());
        }
        match self.connect().await {
            Ok(connection) => {
                state.number += 1;
                state.connection = Some(connection.clone());
                state.failed = None;
                Ok((state.number, connection))
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        let (node, limit) = (self.node.as_ref(), self.connect_timeout);
        let client = self.address.client(node, Wants::Answers, limit).await?;
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection =
            connection.await.map_err(|error| self.address.unreachable(&error, limit))?;
        if self.address.may_be_replica() {
            let hello = cmd("HELLO");
            let told = timeout(limit, hello.query_async::<HashMap<String, Value>>(&mut connection));
            let silent = |_| StoreError::Unavailable(format!("no answer within {limit:?}"));
            let told = told.await.map_err(silent)?.map_err(|error| failed(&error))?;
            let role = told.get("role").cloned().and_then(|role| plain::<String>(role).ok());
            if role.is_some_and(|role| role == "replica" || role == "slave") {
                let cause = "its Sentinels have not agreed on a primary yet";
                return Err(StoreError::Unavailable(cause.to_owned()));
            }
        }
        Ok(connection)
    }

    /// Drops a connection, unless there is a newer one.
    async fn discard(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.number == number {
            state.connection = None;
        }
    }
}
