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
pub(super) struct Ledger {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    next: Ticket,
    /// The oldest first, since tickets count up.
    logs: BTreeMap<Ticket, HeldLog>,
}

/// The place of a log among all that were entered.
pub(super) type Ticket = u64;

#[derive(Debug)]
struct HeldLog {
    session: Weak<Session>,
    bytes: usize,
}

/// A log that is counted, until this is dropped or the ledger makes room.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Arc<Ledger>,
    pub(super) ticket: Ticket,
}

impl Ledger {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::default() })
    }

    /// Counts a log that is held from now on; [`make_room`](Self::make_room) for it
    /// as soon as no session is locked.
    pub(super) fn enter(self: &Arc<Self>, session: &Arc<Session>, bytes: usize) -> Entry {
        let mut held = self.held.lock();
        let ticket = held.next;
        held.next += 1;
        held.bytes += bytes;
        held.logs.insert(ticket, HeldLog { session: Arc::downgrade(session), bytes });
        Entry { ledger: Arc::clone(self), ticket }
    }

    /// The bytes of all logs that are held.
    pub(super) fn bytes(&self) -> usize {
        self.held.lock().bytes
    }

    /// Lets go of the oldest logs beyond the limit. No session may be locked.
    pub(super) fn make_room(&self) {
        let mut over = Vec::new();
        let mut held = self.held.lock();
        while held.bytes > self.bytes_max {
            let Some((ticket, oldest)) = held.logs.pop_first() else { break };
            held.bytes -= oldest.bytes;
            over.push((ticket, oldest.session));
        }
        drop(held);
        for (ticket, session) in over {
            if let Some(session) = session.upgrade() {
                session.let_go(ticket);
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut held = self.ledger.held.lock();
        if let Some(log) = held.logs.remove(&self.ticket) {
            held.bytes -= log.bytes;
        }
    }
}
