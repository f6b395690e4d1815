//! Turns that have ended on this node, as their clients know, but not in the store.
//!
//! Until the store takes such an end, the turn looks like one whose node has died. Nobody may go on with it: its client
//! was told to try again.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::store::StoredLog;

/// See the module docs.
#[derive(Debug, Default)]
pub(super) struct UnstoredEnds {
    /// By session.
    turns: Mutex<HashMap<String, EndedTurn>>,
    /// How many there are.
    count: watch::Sender<usize>,
}

#[derive(Debug)]
struct EndedTurn {
    turn_id: String,
    /// The epoch in which this node had it.
    epoch: u64,
}

impl UnstoredEnds {
    pub(super) fn add(&self, session_id: &str, turn_id: &str, epoch: u64) {
        let mut turns = self.turns.lock();
        turns.insert(session_id.to_owned(), EndedTurn { turn_id: turn_id.to_owned(), epoch });
        self.count.send_replace(turns.len());
    }

    pub(super) fn remove(&self, session_id: &str) {
        let mut turns = self.turns.lock();
        turns.remove(session_id);
        self.count.send_replace(turns.len());
    }

    /// Whether this is the log of such a turn, and no other node has written in it since.
    pub(super) fn has(&self, session_id: &str, log: &StoredLog) -> bool {
        self.turns.lock().get(session_id).is_some_and(|EndedTurn { turn_id, epoch }| {
            *turn_id == log.turn_id && log.epochs.last() <= *epoch
        })
    }

    /// Their sessions.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.turns.lock().keys().cloned().collect()
    }

    /// How many there are.
    pub(super) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }
}
