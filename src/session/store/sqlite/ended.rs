//! Turns that have ended, but are not in the tables yet.
//!
//! The end of a single turn would change ten pages of the database, most of which the next end changes again. So it
//! is one write to the [file of running turns](super::redo), and the tables get many ends in one transaction: once
//! there are enough of them, once the oldest has waited long enough, and before anybody reads one of their sessions.
//!
//! ```text
//!   finish ── one write ──> file of running turns
//!      '────> ended turns ── enough, or old, or read ──> BEGIN, all of them, COMMIT ──> tables
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::super::{Batch, Lease, StoreError, Version};
use crate::limits::session as limits;

/// What a turn has left.
#[derive(Debug)]
pub(super) struct EndedTurn {
    /// The lease under which it ran.
    pub(super) lease: Lease,
    pub(super) turn_id: String,
    /// The version of the session's record.
    pub(super) version: Version,
    /// When it ended, in milliseconds since 1970.
    pub(super) at: u64,
    /// The session's record.
    pub(super) record: Bytes,
    /// The whole log.
    pub(super) batches: Vec<Batch>,
}

impl EndedTurn {
    /// The ids of its session and of the turn.
    pub(super) fn ids(&self) -> (&str, &str) {
        (&self.lease.session_id, &self.turn_id)
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.record, &self.batches)
    }
}

/// The bytes of a turn's end.
pub(super) fn bytes_of(record: &[u8], batches: &[Batch]) -> usize {
    record.len() + batches.iter().map(|batch| batch.bytes.len()).sum::<usize>()
}

/// See the module docs. No session has two of them: the tables get the first before the next turn begins.
#[derive(Debug, Default)]
pub(super) struct EndedTurns(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    by_session: HashMap<Arc<str>, Arc<EndedTurn>>,
    bytes: usize,
}

/// How many ended turns wait, once one more has joined them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    /// This one alone.
    First,
    Few,
    /// So many that the tables should get them.
    Enough,
}

impl EndedTurns {
    /// Ends a turn by calling `end`, and keeps what the turn has left. Its session cannot be deleted meanwhile.
    pub(super) fn end<T>(
        &self,
        end: impl FnOnce() -> Result<(T, EndedTurn), StoreError>,
    ) -> Result<(T, Backlog), StoreError> {
        let mut waiting = self.0.lock();
        let (ended, turn) = end()?;
        let is_first = waiting.by_session.is_empty();
        waiting.bytes += turn.bytes();
        let before = waiting.by_session.insert(Arc::clone(&turn.lease.session_id), Arc::new(turn));
        waiting.bytes -= before.map_or(0, |before| before.bytes());
        let backlog = match waiting.by_session.len() {
            _ if is_first => Backlog::First,
            limits::ENDED_TURNS_PER_COMMIT.. => Backlog::Enough,
            _ => Backlog::Few,
        };
        Ok((ended, backlog))
    }

    /// Whether there is room for one more of so many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.0.lock();
        waiting.by_session.len() < limits::ENDED_TURNS_MAX
            && waiting.bytes + bytes <= limits::ENDED_TURNS_BYTES_MAX
    }

    /// Whether the tables lack the end of a turn of this session, or of any.
    pub(super) fn has(&self, session_id: Option<&str>) -> bool {
        let by_session = &self.0.lock().by_session;
        session_id.map_or(!by_session.is_empty(), |session_id| by_session.contains_key(session_id))
    }

    /// Whether there are so few that the tables get them in less time than it takes to wake the thread.
    pub(super) fn are_few(&self) -> bool {
        self.0.lock().by_session.len() <= limits::ENDED_TURNS_HERE
    }

    pub(super) fn all(&self) -> Vec<Arc<EndedTurn>> {
        self.0.lock().by_session.values().map(Arc::clone).collect()
    }

    /// Drops these, because the tables have them now.
    pub(super) fn remove(&self, turns: &[Arc<EndedTurn>]) {
        let mut waiting = self.0.lock();
        for turn in turns {
            let session_id = &turn.lease.session_id;
            if waiting.by_session.get(session_id).is_some_and(|it| Arc::ptr_eq(it, turn)) {
                waiting.forget(session_id);
            }
        }
    }

    /// Deletes a session by calling `delete`. None of its turns can end meanwhile.
    pub(super) fn forget<T>(
        &self,
        session_id: &str,
        delete: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut waiting = self.0.lock();
        let deleted = delete()?;
        waiting.forget(session_id);
        Ok(deleted)
    }
}

impl Waiting {
    fn forget(&mut self, session_id: &str) {
        self.bytes -= self.by_session.remove(session_id).map_or(0, |turn| turn.bytes());
    }
}
