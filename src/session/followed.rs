//! The logs of other nodes' turns that are followed on this one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::log::TurnLog;

/// A session and its turn.
pub(super) type Key = (String, String);

/// How much is read here of turns that run on other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteUsage {
    /// Logs that are followed.
    pub logs: usize,
    /// Their readers.
    pub readers: usize,
}

/// See the module docs.
#[derive(Debug, Default)]
pub(super) struct Followed(Mutex<HashMap<Key, Weak<TurnLog>>>);

impl Followed {
    /// The log, if somebody reads it.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<TurnLog>> {
        self.0.lock().get(key)?.upgrade()
    }

    pub(super) fn insert(&self, key: Key, log: &Arc<TurnLog>) {
        self.0.lock().insert(key, Arc::downgrade(log));
    }

    /// How many logs there are, and how many readers they have.
    pub(super) fn usage(&self) -> RemoteUsage {
        let logs: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        let readers = logs.iter().map(|log| log.readers()).sum();
        RemoteUsage { logs: logs.len(), readers }
    }

    /// Removes a log, unless another one has taken its place.
    pub(super) fn remove(&self, key: &Key, log: &Weak<TurnLog>) {
        let mut followed = self.0.lock();
        if followed.get(key).is_some_and(|current| current.ptr_eq(log)) {
            followed.remove(key);
        }
    }
}
