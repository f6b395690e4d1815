//! Connections of single sessions, for servers that keep something for whoever is connected.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};
use tokio::time::{Instant, sleep};

use crate::limits::mcp as limits;
use crate::tools::ToolFault;
use crate::tools::mcp::auth::Authorized;
use crate::tools::mcp::connection::{Connection, Era, connect};
use crate::tools::mcp::list;
use crate::tools::mcp::options::McpOptions;

/// Connections of single sessions.
#[derive(Debug)]
pub(in crate::tools::mcp) struct OwnConnections {
    options: Arc<McpOptions>,
    auth: Option<Arc<Authorized>>,
    /// The server's era, once it is known.
    era: Mutex<Option<Era>>,
    open: Mutex<HashMap<Arc<str>, Own>>,
    changed: Arc<Notify>,
}

/// The connection of one session.
#[derive(Debug)]
struct Own {
    /// Empty while it is being made, so that calls that begin together make one.
    connection: Arc<OnceCell<Arc<Connection>>>,
    used: Instant,
}

impl Own {
    fn new() -> Self {
        Self { connection: Arc::default(), used: Instant::now() }
    }

    /// Whether it has ended, or could not be made.
    fn is_over(&self) -> bool {
        match self.connection.get() {
            Some(connection) => connection.is_over(),
            None => Arc::strong_count(&self.connection) == 1,
        }
    }

    /// Whether a call holds it, or waits for it.
    fn is_in_use(&self) -> bool {
        let connection = self.connection.get();
        connection.is_none_or(|connection| Arc::strong_count(connection) > 1)
    }
}

impl OwnConnections {
    pub(in crate::tools::mcp) fn new(
        options: Arc<McpOptions>,
        auth: Option<Arc<Authorized>>,
    ) -> Self {
        let (era, open, changed) = (Mutex::default(), Mutex::default(), Arc::default());
        Self { options, auth, era, open, changed }
    }

    /// The next connections need not find out the era.
    pub(in crate::tools::mcp) fn note_era(&self, era: Era) {
        *self.era.lock() = Some(era);
    }

    /// Waits until one of them says that the server's tools have changed.
    pub(in crate::tools::mcp) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The session's connection; its first call makes it.
    ///
    /// # Errors
    /// Why there is none.
    pub(in crate::tools::mcp) async fn connection(
        &self,
        session: &Arc<str>,
    ) -> Result<Arc<Connection>, ToolFault> {
        let own = self.find(session)?;
        own.get_or_try_init(|| self.connect()).await.cloned()
    }

    /// Closes the session's connection. Calls that use it may end.
    pub(in crate::tools::mcp) fn forget(&self, session: &str) {
        self.open.lock().remove(session);
    }

    /// Closes all of them.
    pub(in crate::tools::mcp) fn close(&self) {
        self.open.lock().clear();
    }

    /// Closes those that have been idle for too long, for as long as it is polled.
    pub(in crate::tools::mcp) async fn close_idle(&self) -> Infallible {
        loop {
            sleep(limits::OWN_CONNECTION_CHECK).await;
            self.open.lock().retain(|_, own| {
                own.is_in_use() || own.used.elapsed() <= limits::OWN_CONNECTION_AGE
            });
        }
    }

    fn find(&self, session: &Arc<str>) -> Result<Arc<OnceCell<Arc<Connection>>>, ToolFault> {
        let mut open = self.open.lock();
        open.retain(|_, own| !own.is_over());
        if !open.contains_key(session) && open.len() >= limits::OWN_CONNECTIONS_MAX {
            let idle = open.iter().filter(|(_, own)| !own.is_in_use());
            let longest = idle.min_by_key(|(_, own)| own.used).map(|(session, _)| session.clone());
            let longest = longest.ok_or_else(|| unsent("too many sessions use the server now"))?;
            open.remove(&longest);
        }
        let own = open.entry(Arc::clone(session)).or_insert_with(Own::new);
        own.used = Instant::now();
        Ok(Arc::clone(&own.connection))
    }

    /// Connects, and checks that the tools are what they must be.
    async fn connect(&self) -> Result<Arc<Connection>, ToolFault> {
        let era = *self.era.lock();
        let within = self.options.connect_timeout;
        let connected = connect(&self.options, self.auth.as_ref(), era, within).await;
        let connection = connected.map_err(|error| unsent(error.message))?;
        let mut changes = connection.traffic.changes();
        let listed = list::checked(&connection, self.options.pin.as_deref()).await;
        listed.map_err(|error| error.fault())?;
        let owner = Arc::clone(&self.changed);
        // Ends with the connection.
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                owner.notify_one();
            }
        });
        Ok(Arc::new(connection))
    }
}

/// The fault of a call that was not sent.
fn unsent(reason: impl Into<String>) -> ToolFault {
    ToolFault::transient(reason).before_sending()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::tools::Source;
    use crate::tools::mcp::options::Reach;
    use crate::tools::source::{EntryRules, SourceKind};

    fn connections() -> OwnConnections {
        let rules = EntryRules::new(Source::entry(SourceKind::Mcp, "files"));
        let reach = Reach::Missing("there is no such program".to_owned());
        OwnConnections::new(Arc::new(McpOptions::new(rules, reach)), None)
    }

    #[test]
    fn a_connection_in_use_makes_no_room_for_another_session() {
        let own = connections();
        let find = |session: usize| own.find(&session.to_string().into());
        let held: Vec<_> =
            (0..limits::OWN_CONNECTIONS_MAX).map(|session| find(session).unwrap()).collect();
        let fault = find(limits::OWN_CONNECTIONS_MAX).unwrap_err();
        assert!(fault.message.contains("too many sessions"), "{fault:?}");
        assert!(find(0).is_ok(), "it has one");
        drop(held);
        assert!(find(limits::OWN_CONNECTIONS_MAX).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_use_is_not_idle() {
        let own = connections();
        let _held = own.find(&"a".into()).unwrap();
        let long = limits::OWN_CONNECTION_AGE + 2 * limits::OWN_CONNECTION_CHECK;
        assert!(timeout(long, own.close_idle()).await.is_err());
        assert!(own.open.lock().contains_key("a"));
    }
}
