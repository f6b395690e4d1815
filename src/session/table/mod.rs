//! All sessions, in memory, up to their number and their bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::ledger::Ledger;
use super::tally::Tally;
use super::{Begin, Session};
use crate::conversation::{AnswerError, Ask};
use crate::limits::session as limits;

/// All sessions, in memory.
#[derive(Debug)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
    ttl: Duration,
    bytes_max: usize,
    tally: Arc<Tally>,
    ledger: Arc<Ledger>,
}

impl Sessions {
    /// Sessions that are forgotten when nobody has used them for `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self::bounded(ttl, limits::ALL_BYTES_MAX, limits::ALL_TURN_LOG_BYTES_MAX)
    }

    /// The same with bounds of its own on the bytes of sessions and of logs.
    pub(super) fn bounded(ttl: Duration, bytes_max: usize, log_bytes_max: usize) -> Self {
        let (tally, ledger) = (Arc::default(), Ledger::new(log_bytes_max));
        Self { by_id: Mutex::default(), ttl, bytes_max, tally, ledger }
    }

    /// The session, begun where there is none yet. What is over the bounds is
    /// forgotten now, before a turn adds to it.
    pub fn open(&self, id: &str) -> Arc<Session> {
        let mut by_id = self.by_id.lock();
        let found = by_id.get(id).cloned();
        let is_new = found.is_none();
        let session =
            found.unwrap_or_else(|| Arc::new(Session::new(id, &self.tally, &self.ledger)));
        session.touch();
        let is_full = is_new && by_id.len() >= limits::SESSIONS_MAX;
        let forgotten = if is_full || self.tally.bytes() > self.bytes_max {
            self.make_room(&mut by_id)
        } else {
            Vec::new()
        };
        if is_new {
            by_id.insert(id.to_owned(), Arc::clone(&session));
        }
        drop(by_id);
        // A conversation of megabytes takes its time, and others wait for the lock.
        drop(forgotten);
        session
    }

    /// Begins a turn in the session of that id, which begins with it where there is
    /// none yet. An answer begins no session: nothing was asked there.
    pub fn begin(&self, id: &str, turn_id: &str, key: Option<&str>, ask: &Ask) -> Begin {
        loop {
            let session = match ask {
                Ask::Prompt(_) => self.open(id),
                Ask::Answer { clarification_id, .. } => {
                    let Some(session) = self.find(id) else {
                        let id = clarification_id.clone();
                        return Begin::Refused(AnswerError::UnknownQuestion { id, open: None });
                    };
                    session
                }
            };
            // Where it was forgotten in between, nobody could find a turn in it any more.
            if let Some(begun) = session.begin(turn_id, key, ask) {
                return begun;
            }
        }
    }

    /// The session, if there is one.
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.by_id.lock().get(id).cloned()?;
        session.touch();
        Some(session)
    }

    /// Forgets a session and cancels what runs in it; false where there is none.
    pub fn forget(&self, id: &str) -> bool {
        let Some(session) = self.by_id.lock().remove(id) else { return false };
        session.forget();
        true
    }

    /// Forgets the sessions that nobody has used for long.
    pub fn sweep(&self) {
        let mut by_id = self.by_id.lock();
        let is_old = |session: &Arc<Session>| {
            is_idle(session) && session.state.lock().used_at.elapsed() >= self.ttl
        };
        let forgotten: Vec<_> = by_id.extract_if(|_, session| is_old(session)).collect();
        drop(by_id);
        drop(forgotten);
    }

    /// Cancels everything that runs.
    pub fn cancel_all(&self) {
        for session in self.by_id.lock().values() {
            session.cancel();
        }
    }

    /// Forgets idle sessions, those used longest ago first, until a sixteenth of
    /// both bounds is free: many at once, since to find them is to look at all.
    fn make_room(&self, by_id: &mut HashMap<String, Arc<Session>>) -> Vec<Arc<Session>> {
        let most = |max: usize| max - max / 16;
        let (count_goal, bytes_goal) = (most(limits::SESSIONS_MAX), most(self.bytes_max));
        let mut idle: Vec<(Instant, Arc<Session>)> = by_id
            .values()
            .filter(|session| is_idle(session))
            .map(|session| (session.state.lock().used_at, Arc::clone(session)))
            .collect();
        idle.sort_unstable_by_key(|(used_at, _)| *used_at);
        let mut bytes = self.tally.bytes();
        let mut forgotten = Vec::new();
        for (_, session) in idle {
            if by_id.len() <= count_goal && bytes <= bytes_goal {
                break;
            }
            bytes = bytes.saturating_sub(session.state.lock().share.bytes());
            by_id.remove(&session.id);
            forgotten.push(session);
        }
        forgotten
    }
}

/// Whether nobody but the table holds the session: a turn that runs in it does, and
/// so does a request that is about to begin one. Ask with the table locked.
fn is_idle(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) == 1
}

#[cfg(test)]
mod tests;
