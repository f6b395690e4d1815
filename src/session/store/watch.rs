//! A wait for what others do to a session.

use std::any::Any;
use std::fmt;
use std::future::pending;

use tokio::sync::watch;

/// What of a session is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Watched {
    /// Its logs: one has grown or ended, or the session was forgotten or has changed hands.
    Log,
    /// Its lease: someone asks its holder for something, or the session was forgotten.
    Owner,
}

/// Wakes when something may have happened in a session. Dropping it ends the watch.
pub struct Watch(Option<Open>);

struct Open {
    changes: watch::Receiver<()>,
    /// Ends the watch when it is dropped.
    _guard: Box<dyn Any + Send + Sync>,
}

impl Watch {
    /// A watch that never wakes.
    #[must_use]
    pub const fn never() -> Self {
        Self(None)
    }

    /// A watch that wakes with each value that is sent from now on, and drops the guard with itself.
    pub(in crate::session) fn new(
        mut changes: watch::Receiver<()>,
        guard: impl Any + Send + Sync,
    ) -> Self {
        changes.mark_unchanged();
        Self(Some(Open { changes, _guard: Box::new(guard) }))
    }

    /// Waits until something may have happened since the last call, or since the watch began. It may
    /// wake for nothing. Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        if let Self(Some(Open { changes, .. })) = self
            && changes.changed().await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}
