//! The connection for all commands: made when it is needed, and made again when it has failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError,
    RedisResult, ServerErrorKind, Value,
};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};
use tracing::{error, info};

use super::super::StoreError;
use super::cause::unavailable;
use super::reply::plain;
use super::scripts::Call;
use crate::limits::session as limits;
use crate::telemetry::metrics;

/// A way to a server, shared by all that ask it.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    /// The address without a password, for logs.
    shown: String,
    connect_timeout: Duration,
    /// How long a request may take, once there is a connection.
    wait: Duration,
    state: AsyncMutex<State>,
    /// When a failure was last logged.
    logged_at: Mutex<Option<Instant>>,
    /// Whether nothing has succeeded since.
    is_failing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// Which connection it is.
    number: u64,
    /// When and why the last attempt to connect failed.
    failed: Option<(Instant, StoreError)>,
}

impl Link {
    pub(super) fn new(
        client: Client,
        shown: String,
        connect_timeout: Duration,
        wait: Duration,
    ) -> Self {
        let (state, logged_at) = (AsyncMutex::default(), Mutex::default());
        let is_failing = AtomicBool::new(false);
        Self { client, shown, connect_timeout, wait, state, logged_at, is_failing }
    }

    /// Runs a script.
    pub(super) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, StoreError> {
        self.ask(Request::Call(call)).await
    }

    pub(super) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.ask(Request::Command(command)).await
    }

    /// The same for something that the server may refuse.
    pub(super) async fn quietly<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.answer(&Request::Command(command)).await.and_then(plain)
    }

    pub(super) async fn pipeline<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<T, StoreError> {
        self.ask(Request::Pipeline(commands)).await
    }

    async fn ask<T: FromRedisValue>(&self, request: Request<'_>) -> Result<T, StoreError> {
        let begun_at = Instant::now();
        let answer = self.answer(&request).await;
        let answer = answer.and_then(plain);
        match &answer {
            Ok(_) => {
                metrics::store_request(begun_at.elapsed());
                self.note_success();
            }
            Err(error) => self.note_failure(error),
        }
        answer
    }

    /// Asks the server, and once more if the connection turns out to be gone: requests can be repeated.
    async fn answer(&self, request: &Request<'_>) -> Result<Value, StoreError> {
        let mut is_repeated = false;
        loop {
            let (number, mut connection) = self.connection().await?;
            match timeout(self.wait, request.send(&mut connection)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => {
                    let is_gone = error.is_connection_dropped();
                    let is_replica = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
                    if is_gone || is_replica || error.is_unrecoverable_error() {
                        self.discard(number).await;
                    }
                    if !is_gone || is_repeated {
                        return Err(unavailable(&error));
                    }
                    is_repeated = true;
                }
                Err(_) => {
                    self.discard(number).await;
                    return Err(self.no_answer());
                }
            }
        }
    }

    fn no_answer(&self) -> StoreError {
        StoreError::Unavailable(format!("no answer within {:?}", self.wait))
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
        let connection = self.client.get_multiplexed_async_connection_with_config(&config);
        connection.await.map_err(|error| unavailable(&error))
    }

    /// Drops a connection, unless there is a newer one.
    async fn discard(&self, number: u64) {
        let mut state = self.state.lock().await;
        if state.number == number {
            state.connection = None;
        }
    }

    fn note_success(&self) {
        if self.is_failing.swap(false, Ordering::Relaxed) {
            info!(store = self.shown, "the session store can be used again");
        }
    }

    /// Logs why the store cannot be used, but not for each of the turns that suffer from it.
    fn note_failure(&self, failure: &StoreError) {
        metrics::store_request_failed();
        let now = Instant::now();
        let mut logged_at = self.logged_at.lock();
        if logged_at.is_some_and(|at| now - at < limits::STORE_LOG_INTERVAL) {
            return;
        }
        *logged_at = Some(now);
        drop(logged_at);
        self.is_failing.store(true, Ordering::Relaxed);
        let cause = match failure {
            StoreError::Unavailable(cause) => cause.clone(),
            other => other.to_string(),
        };
        error!(store = self.shown, cause, "the session store cannot be used");
    }
}

/// What a server is asked.
enum Request<'r> {
    Call(&'r Call<'r>),
    Command(&'r Cmd),
    Pipeline(&'r Pipeline),
}

impl Request<'_> {
    async fn send(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Self::Call(call) => match call.command(true).query_async(connection).await {
                Err(error) if is_unknown_script(&error) => {
                    call.command(false).query_async(connection).await
                }
                answer => answer,
            },
            Self::Command(command) => command.query_async(connection).await,
            Self::Pipeline(commands) => commands.query_async(connection).await,
        }
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
