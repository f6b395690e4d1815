//! Where sessions are between turns.
//!
//! A [`Store`] knows bytes, versions, epochs and leases. It does not know what a turn is.
//!
//! ```text
//!   session   record    version 7, bytes     compared and set
//!             lease     node, epoch 3        names who may write
//!             logs      turn -> batches      appended to, read from a place
//! ```
//!
//! A gateway takes the lease of a session, loads the record, runs a turn, saves the record,
//! appends the turn's log and releases the lease. Each write names its lease; the store refuses
//! it if another node has taken the session since.

mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use uuid::Uuid;

pub use memory::MemoryStore;

pub use super::log::Batch;

/// What a store answers, once it has.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps sessions, for one gateway or several.
///
/// Dropping a future before its end leaves open whether the store has done what was asked.
pub trait Store: fmt::Debug + Send + Sync {
    /// Takes the lease of a session, which need not exist yet, or renews it. `None` if another
    /// node holds it. The epoch rises whenever the lease changes hands.
    fn acquire<'a>(&'a self, session: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>>;

    /// Gives a lease back. One that is lost already stays lost.
    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()>;

    /// The record of a session, if it has one. Loading it counts as using the session.
    fn load<'a>(&'a self, session: &'a str) -> StoreFuture<'a, Option<StoredRecord>>;

    /// Writes a session's record over the version `expected`, or the first if `None`.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost or the version is another one.
    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version>;

    /// Appends to the log of a turn, which begins with this if it has none. The batches
    /// continue the log without a gap.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost.
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        batches: Vec<Batch>,
    ) -> StoreFuture<'a, ()>;

    /// The log of a turn, or of the session's latest, from the batch with the event after
    /// `after`; `None` if it is not kept. Reading it counts as using the session.
    fn read<'a>(
        &'a self,
        session: &'a str,
        turn_id: Option<&'a str>,
        after: u64,
    ) -> StoreFuture<'a, Option<StoredLog>>;

    /// Forgets a session with its lease and its logs; false if it has no record.
    fn forget<'a>(&'a self, session: &'a str) -> StoreFuture<'a, bool>;

    /// Drops what has expired, in a store that does not do so unasked.
    fn sweep(&self);

    /// What the store holds in this process.
    fn held(&self) -> Held;
}

/// One gateway among those that share a store. A process that restarts is another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(Uuid);

impl NodeId {
    /// An id that no other node has.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

/// The right to write a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session's id.
    pub session: String,
    /// Who holds it.
    pub node: NodeId,
    /// How often the session has changed hands, from 1.
    pub epoch: u64,
}

/// A version of a record. No two writes of a store give the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(pub u64);

/// A record as it was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// What the next [`save`](Store::save) has to expect.
    pub version: Version,
    /// The record: see [`SessionRecord`](super::record::SessionRecord).
    pub bytes: Bytes,
}

/// The log of a turn, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLog {
    /// The turn.
    pub turn_id: String,
    /// The epoch it was written in.
    pub epoch: u64,
    /// The sequence of its last event.
    pub last: u64,
    /// Its events, in order.
    pub batches: Vec<Batch>,
}

/// What a store holds in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How many sessions.
    pub sessions: usize,
    /// Bytes of their records and of what belongs to them, without logs.
    pub session_bytes: usize,
    /// Bytes of the logs of their finished turns.
    pub turn_log_bytes: usize,
}

/// Why a store does not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or cannot write.
    #[error("the session store is unavailable: {0}; try again later")]
    Unavailable(String),
    /// Another node has taken the session, or it was forgotten or written since.
    #[error("the session was forgotten, or another gateway has taken it")]
    Superseded,
}
