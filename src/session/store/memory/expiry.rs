//! Expiry of sessions: each is gone once it has been unused for the store's `ttl`.

use std::sync::Arc;
use std::time::Duration;

use super::{Kept, State};

impl State {
    /// Removes a session if it has expired.
    pub(super) fn expire(&mut self, session: &str, ttl: Duration) -> Option<Kept> {
        if self.sessions.get(session)?.has_expired(ttl) { self.remove(session) } else { None }
    }

    /// Removes all sessions that have expired.
    pub(super) fn expire_all(&mut self, ttl: Duration) -> Vec<Kept> {
        let old = self.sessions.iter().filter(|(_, entry)| entry.has_expired(ttl));
        let old: Vec<_> = old.map(|(session, _)| Arc::clone(session)).collect();
        old.iter().filter_map(|session| self.remove(session)).collect()
    }
}

impl Kept {
    /// Whether no turn runs in the session and it has been unused for `ttl`.
    pub(super) fn has_expired(&self, ttl: Duration) -> bool {
        self.grant.is_none() && self.used_at.elapsed() >= ttl
    }
}
