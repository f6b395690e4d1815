//! All sessions, in memory, up to their number and their bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::finished_logs::FinishedLogs;
use super::session_bytes::SessionBytes;
use super::{Begin, Session};
use crate::conversation::{AnswerError, Ask};
use crate::limits::session as limits;

/// What all sessions hold.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// How many there are.
    pub sessions: usize,
    /// What they take in memory, logs apart.
    pub session_bytes: usize,
    /// What the logs of their finished turns take.
    pub turn_log_bytes: usize,
}

/// All sessions, in memory.
#[derive(Debug)]
pub struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
    ttl: Duration,
    bytes_max: usize,
    session_bytes: Arc<SessionBytes>,
    finished_logs: Arc<FinishedLogs>,
}

impl Sessions {
    /// Sessions that are forgotten when nobody has used them for `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self::bounded(ttl, limits::ALL_BYTES_MAX, limits::ALL_TURN_LOG_BYTES_MAX)
    }

    /// The same with bounds of its own on the bytes of sessions and of logs.
    pub(super) fn bounded(ttl: Duration, bytes_max: usize, log_bytes_max: usize) -> Self {
        let (session_bytes, finished_logs) = (Arc::default(), FinishedLogs::new(log_bytes_max));
        Self { by_id: Mutex::default(), ttl, bytes_max, session_bytes, finished_logs }
    }

    /// Begins a turn in the session of that id, which begins with it where there is
    /// none yet. An answer begins no session: nothing was asked there.
    ///
    /// What is over the bounds is forgotten in the same step, and never the session in which
    /// the turn begins: it runs.
    pub fn begin(&self, id: &str, turn_id: &str, key: Option<&str>, ask: &Ask) -> Begin {
        let mut by_id = self.by_id.lock();
        let session = match (by_id.get(id), ask) {
            (Some(session), _) => Arc::clone(session),
            (None, Ask::Prompt(_)) => self.add(&mut by_id, id),
            (None, Ask::Answer { clarification_id, .. }) => {
                let id = clarification_id.clone();
                return Begin::Refused(AnswerError::UnknownQuestion { id, open: None });
            }
        };
        let begun = session.begin(turn_id, key, ask);
        let forgotten = self.make_room(&mut by_id);
        drop(by_id);
        // A conversation of megabytes takes its time, and others wait for the lock.
        drop(forgotten);
        begun
    }

    fn add(&self, by_id: &mut HashMap<String, Arc<Session>>, id: &str) -> Arc<Session> {
        let session = Arc::new(Session::new(id, &self.session_bytes, &self.finished_logs));
        by_id.insert(id.to_owned(), Arc::clone(&session));
        session
    }

    /// The session, if there is one.
    pub fn find(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.by_id.lock().get(id).cloned()?;
        session.touch();
        Some(session)
    }

    /// What all of them hold now.
    pub fn held(&self) -> Held {
        let sessions = self.by_id.lock().len();
        let (session_bytes, turn_log_bytes) =
            (self.session_bytes.bytes(), self.finished_logs.bytes());
        Held { sessions, session_bytes, turn_log_bytes }
    }

    /// Forgets a session and cancels what runs in it; false where there is none.
    pub fn forget(&self, id: &str) -> bool {
        let Some(session) = self.by_id.lock().remove(id) else { return false };
        session.cancel();
        true
    }

    /// Forgets the sessions that nobody has used for long.
    pub fn sweep(&self) {
        let mut by_id = self.by_id.lock();
        let is_old = |session: &Arc<Session>| {
            session.is_idle() && session.state.lock().used_at.elapsed() >= self.ttl
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

    /// Where one of the bounds is passed, forgets idle sessions, those used longest ago first,
    /// until a sixteenth of both is free: many at once, since to find them is to look at all.
    fn make_room(&self, by_id: &mut HashMap<String, Arc<Session>>) -> Vec<Arc<Session>> {
        if by_id.len() <= limits::SESSIONS_MAX && self.session_bytes.bytes() <= self.bytes_max {
            return Vec::new();
        }
        let most = |max: usize| max - max / 16;
        let (count_goal, bytes_goal) = (most(limits::SESSIONS_MAX), most(self.bytes_max));
        let mut idle: Vec<(Instant, Arc<Session>)> = by_id
            .values()
            .filter(|session| session.is_idle())
            .map(|session| (session.state.lock().used_at, Arc::clone(session)))
            .collect();
        idle.sort_unstable_by_key(|(used_at, _)| *used_at);
        let mut bytes = self.session_bytes.bytes();
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

#[cfg(test)]
mod tests;
