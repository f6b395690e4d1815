//! How many bytes of finished turns' logs all sessions hold together.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Session;

/// Counts the logs that are held, and lets go of the oldest beyond its limit.
///
/// Locks go one way: a session may be locked while an entry is made or dropped,
/// and none is while room is made.
#[derive(Debug)]
pub(super) struct FinishedLogs {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: usize,
    next: Ticket,
    /// The oldest first, since tickets count up.
    logs: BTreeMap<Ticket, CountedLog>,
}

/// The place of a log among all that were entered.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct CountedLog {
    session: Weak<Session>,
    bytes: usize,
}

/// A log that is counted, until this is dropped or room is made.
#[derive(Debug)]
pub(super) struct Place {
    finished_logs: Arc<FinishedLogs>,
    pub(super) ticket: Ticket,
}

impl FinishedLogs {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default() })
    }

    /// Counts a log that is held from now on; [`make_room`](Self::make_room) for it
    /// as soon as no session is locked.
    pub(super) fn enter(self: &Arc<Self>, session: &Arc<Session>, bytes: usize) -> Place {
        let mut state = self.state.lock();
        let ticket = state.next;
        state.next += 1;
        state.bytes += bytes;
        state.logs.insert(ticket, CountedLog { session: Arc::downgrade(session), bytes });
        Place { finished_logs: Arc::clone(self), ticket }
    }

    /// The bytes of all logs that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Lets go of the oldest logs beyond the limit. No session may be locked.
    pub(super) fn make_room(&self) {
        let mut over = Vec::new();
        let mut state = self.state.lock();
        while state.bytes > self.bytes_max {
            let Some((ticket, oldest)) = state.logs.pop_first() else { break };
            state.bytes -= oldest.bytes;
            over.push((ticket, oldest.session));
        }
        drop(state);
        for (ticket, session) in over {
            if let Some(session) = session.upgrade() {
                session.evict(ticket);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.finished_logs.state.lock();
        if let Some(log) = state.logs.remove(&self.ticket) {
            state.bytes -= log.bytes;
        }
    }
}
