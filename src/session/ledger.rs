//! How many bytes of finished turns' logs all sessions hold together.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Session;

/// Counts the logs that are held, and lets go of the oldest beyond its limit.
#[derive(Debug)]
pub(super) struct Ledger {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// The oldest first. A session may have let go of some by itself; they are
    /// counted until they are the oldest.
    logs: VecDeque<HeldLog>,
}

#[derive(Debug)]
struct HeldLog {
    session: Weak<Session>,
    turn_id: String,
    bytes: usize,
}

impl Ledger {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    /// Notes a log that is held from now on. No session may be locked.
    pub(super) fn enter(&self, session: &Arc<Session>, turn_id: String, bytes: usize) {
        let mut held = self.held.lock();
        held.bytes += bytes;
        held.logs.push_back(HeldLog { session: Arc::downgrade(session), turn_id, bytes });
        let mut over = Vec::new();
        while held.bytes > self.bytes_max {
            let Some(oldest) = held.logs.pop_front() else { break };
            held.bytes -= oldest.bytes;
            over.push(oldest);
        }
        drop(held);
        for HeldLog { session, turn_id, .. } in over {
            if let Some(session) = session.upgrade() {
                session.let_go(&turn_id);
            }
        }
    }
}
