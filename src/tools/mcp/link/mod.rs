//! What calls go through: the connection that all sessions share, or one for each.

mod own;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::limits::mcp::RECONNECT_WAIT;
use crate::tools::ToolFault;
use crate::tools::mcp::connection::Connection;

pub(super) use own::OwnConnections;

/// What calls go through.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// The connection that all sessions share.
    pub(super) shared: watch::Receiver<Current>,
    /// Those of single sessions, if they do not share one.
    pub(super) own: Option<Arc<OwnConnections>>,
    /// Notified when a call waits for the connection.
    pub(super) wanted: Arc<Notify>,
}

/// The shared connection at one moment.
#[derive(Debug, Clone)]
pub(super) enum Current {
    /// It is being made, after this error if there was one.
    Connecting(Option<Arc<str>>),
    Open(Arc<Connection>),
    /// There is none, and will be none for a while. Calls fail with this.
    Failed(ToolFault),
}

impl Link {
    /// The connection for a session's calls. Its tools have been listed and checked. Waits while
    /// the server is reconnected.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn connection(
        &self,
        session: &Arc<str>,
    ) -> Result<Arc<Connection>, ToolFault> {
        match &self.own {
            Some(own) => own.connection(session).await,
            None => self.shared().await,
        }
    }

    /// Closes the session's own connection, if it has one.
    pub(super) fn forget(&self, session: &str) {
        if let Some(own) = &self.own {
            own.forget(session);
        }
    }

    async fn shared(&self) -> Result<Arc<Connection>, ToolFault> {
        let mut shared = self.shared.clone();
        if let Current::Connecting(_) = &*shared.borrow() {
            self.wanted.notify_one();
        }
        let settled = shared.wait_for(|it| match it {
            Current::Connecting(_) => false,
            Current::Open(connection) => !connection.is_over(),
            Current::Failed(_) => true,
        });
        let fault = match timeout(RECONNECT_WAIT, settled).await {
            Ok(Ok(it)) => match &*it {
                Current::Open(connection) => return Ok(Arc::clone(connection)),
                // This will not pass as soon as another attempt would be made.
                Current::Failed(fault) => fault.clone().after_waiting(),
                Current::Connecting(_) => unreachable!("it is not what was waited for"),
            },
            Ok(Err(_)) => ToolFault::permanent("the server is no longer used"),
            Err(_) => match &*self.shared.borrow() {
                Current::Connecting(Some(error)) => {
                    ToolFault::transient(format!("the server is being reconnected: {error}"))
                }
                _ => ToolFault::transient("the server is being reconnected"),
            }
            .after_waiting(),
        };
        Err(fault.before_sending())
    }
}
