//! Whole sessions: listed, copied out and written back.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Bounds, Kept, State};
use crate::limits::session::LIST_RECORD_BYTES_MAX;
use crate::session::store::copy::{now_ms, since};
use crate::session::store::{
    Epochs, ListedSession, LogNews, NodeId, SessionCopy, StoredLog, StoredRecord, Version,
};
use crate::telemetry::millis;

impl State {
    /// The ids have no order here, so each page looks at all of them.
    pub(super) fn list(
        &self,
        after: Option<&str>,
        count: usize,
        ttl: Duration,
    ) -> Vec<ListedSession> {
        let is_later = |entry: &&Kept| after.is_none_or(|after| *entry.id > *after);
        let all = self.sessions.values().map(|entry| &**entry);
        let live = all.filter(|entry| !entry.has_expired(ttl));
        let mut later: Vec<&Kept> = live.filter(is_later).collect();
        later.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let (mut listed, mut record_bytes) = (Vec::new(), 0);
        for entry in later {
            if listed.len() >= count || record_bytes > LIST_RECORD_BYTES_MAX {
                break;
            }
            let Some(record) = &entry.record else { continue };
            record_bytes += record.bytes.len();
            listed.push(self.listed(entry, record));
        }
        listed
    }

    fn listed(&self, entry: &Kept, record: &StoredRecord) -> ListedSession {
        let batches = entry.logs.iter().flat_map(|log| &log.stored.batches);
        let logs: usize = batches.map(|batch| batch.bytes.len()).sum();
        let files: usize = self.files.of_session(&entry.id).map(|file| file.bytes.len()).sum();
        ListedSession {
            id: entry.id.to_string(),
            used_at_ms: entry.used_at_ms(),
            bytes: (record.bytes.len() + logs + files) as u64,
            record: record.bytes.clone(),
        }
    }

    pub(super) fn copy(&self, session_id: &str) -> Option<SessionCopy> {
        let entry = self.sessions.get(session_id)?;
        let record = entry.record.as_ref()?.bytes.clone();
        Some(SessionCopy {
            id: session_id.to_owned(),
            epoch: entry.epoch,
            used_at_ms: entry.used_at_ms(),
            record,
            logs: entry.logs.iter().map(|log| log.stored.clone()).collect(),
            artifacts: self.files.of_session(session_id).cloned().collect(),
        })
    }

    pub(super) fn restore(&mut self, copy: SessionCopy, replace: bool, bounds: Bounds) -> bool {
        let SessionCopy { id, epoch, used_at_ms, record, logs, artifacts } = copy;
        let known = self.sessions.get(&*id);
        if known.is_some_and(|entry| entry.grant.is_some() || !replace) {
            return false;
        }
        let epoch = known.map_or(0, |entry| entry.epoch).max(epoch);
        self.remove(&id);
        // No node had it last, so the next one begins another epoch.
        let Some(lease) = self.acquire(&id, NodeId::random()) else { return false };
        for StoredLog { turn_id, epochs, batches, journal, .. } in logs {
            // The lease was taken under the same lock.
            let _ = self.append(&lease, &turn_id, LogNews { batches, journal }, bounds);
            self.set_epochs(&id, &turn_id, epochs);
        }
        self.last_version += 1;
        self.session_bytes += record.len();
        if let Some(entry) = self.sessions.get_mut(&*id) {
            entry.record =
                Some(StoredRecord { version: Version(self.last_version), bytes: record });
            entry.epoch = epoch;
            entry.grant = None;
            let used_at = Instant::now().checked_sub(since(used_at_ms));
            entry.used_at = used_at.unwrap_or(entry.used_at);
            let id = entry.id.clone();
            for artifact in artifacts {
                self.files.keep(&id, artifact, bounds.artifact_bytes);
            }
        }
        self.make_room(bounds);
        true
    }
}

impl State {
    /// Sets the epochs of a log.
    fn set_epochs(&mut self, session_id: &str, turn_id: &str, epochs: Epochs) {
        let logs = self.sessions.get_mut(session_id).map(|entry| &mut entry.logs);
        let log = logs.and_then(|logs| logs.iter_mut().find(|log| log.stored.turn_id == turn_id));
        if let Some(log) = log {
            log.stored.epochs = epochs;
        }
    }
}

impl Kept {
    fn used_at_ms(&self) -> u64 {
        now_ms().saturating_sub(millis(self.used_at.elapsed()))
    }
}

impl StoredLog {
    /// The log without the batches that end at or before event `seen`.
    pub(super) fn after_seen(&self, seen: u64) -> Self {
        let skipped = self.batches.partition_point(|batch| batch.last <= seen);
        let batches = self.batches[skipped..].to_vec();
        let Self { turn_id, epochs, last, journal, .. } = self;
        let (turn_id, epochs) = (turn_id.clone(), epochs.clone());
        let journal = journal.clone().map(|json| if seen == 0 { json } else { Bytes::new() });
        Self { turn_id, epochs, last: *last, batches, journal }
    }
}
