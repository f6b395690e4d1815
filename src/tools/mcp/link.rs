//! What calls go through: the connection that all sessions share, or one for each.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::auth::Authorized;
use super::connection::{Connection, connect};
use super::options::McpOptions;
use crate::limits::mcp as limits;

/// What calls go through.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// The connection that all sessions share, or why there is none.
    pub(super) shared: watch::Receiver<Current>,
    pub(super) own: Option<Arc<OwnConnections>>,
}

/// The shared connection at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    pub(super) connection: Option<Arc<Connection>>,
    /// Why there is none; `None` while one is being made.
    pub(super) error: Option<Arc<str>>,
}

/// Connections of single sessions.
#[derive(Debug)]
pub(super) struct OwnConnections {
    options: Arc<McpOptions>,
    auth: Option<Arc<Authorized>>,
    open: Mutex<HashMap<Arc<str>, Own>>,
}

#[derive(Debug)]
struct Own {
    connection: Arc<Connection>,
    used: Instant,
}

impl Link {
    /// The connection for a session's calls; waits while the server is reconnected.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn connection(&self, session: &Arc<str>) -> Result<Arc<Connection>, String> {
        if let Some(own) = &self.own {
            return own.connection(session).await;
        }
        let mut shared = self.shared.clone();
        let ready = shared.wait_for(|it| {
            it.error.is_some() || it.connection.as_ref().is_some_and(|open| !open.is_over())
        });
        match ready.await {
            Ok(it) => match (&it.connection, &it.error) {
                (Some(connection), None) => Ok(Arc::clone(connection)),
                (_, error) => Err(error.as_deref().unwrap_or("it is not connected").to_owned()),
            },
            Err(_) => Err("the server is no longer used".to_owned()),
        }
    }
}

impl OwnConnections {
    pub(super) fn new(options: Arc<McpOptions>, auth: Option<Arc<Authorized>>) -> Self {
        Self { options, auth, open: Mutex::default() }
    }

    async fn connection(&self, session: &Arc<str>) -> Result<Arc<Connection>, String> {
        if let Some(open) = self.find(session) {
            return Ok(open);
        }
        let connected = connect(&self.options, self.auth.as_ref(), None).await;
        let connection = Arc::new(connected.map_err(|error| error.message)?);
        let own = Own { connection: Arc::clone(&connection), used: Instant::now() };
        self.open.lock().insert(Arc::clone(session), own);
        Ok(connection)
    }

    /// The session's connection. Those that have ended, or have been idle too long, are closed.
    fn find(&self, session: &str) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        open.retain(|_, own| {
            let is_idle = own.used.elapsed() > limits::OWN_CONNECTION_AGE
                && Arc::strong_count(&own.connection) == 1;
            !is_idle && !own.connection.is_over()
        });
        let own = open.get_mut(session)?;
        own.used = Instant::now();
        Some(Arc::clone(&own.connection))
    }
}
