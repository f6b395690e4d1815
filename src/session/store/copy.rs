//! Sessions as they leave a store, for those who list them, keep them elsewhere or move them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::{Artifact, StoredLog};

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// Its id in the store.
    pub id: String,
    /// When it was last used, in milliseconds since the Unix epoch.
    pub used_at_ms: u64,
    /// Bytes of its record, its logs and its files.
    pub bytes: u64,
    /// Its record.
    pub record: Bytes,
}

/// All of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCopy {
    /// Its id in the store.
    pub id: String,
    /// How often it has changed hands. Whoever restores it continues after that, so that no event id
    /// is given out twice.
    pub epoch: u64,
    /// When it was last used, in milliseconds since the Unix epoch.
    pub used_at_ms: u64,
    /// Its record.
    pub record: Bytes,
    /// The logs of its turns, the oldest first.
    pub logs: Vec<StoredLog>,
    /// Its files, the oldest first.
    pub artifacts: Vec<Artifact>,
}

/// Milliseconds since the Unix epoch: files outlive processes, and the clocks that count from their
/// start.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago that was.
pub(super) fn since(at_ms: u64) -> Duration {
    Duration::from_millis(now_ms().saturating_sub(at_ms))
}
