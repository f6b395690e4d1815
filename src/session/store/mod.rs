//! Where sessions are between turns.
//!
//! A [`Store`] knows bytes, versions, epochs and leases. It does not know what a turn is.
//!
//! ```text
//!   session   record    version 7, bytes     compared and set
//!             lease     node, epoch 3        names who may write
//!             logs      turn -> batches      appended to, read from a place
//!             files     id -> bytes          kept, read whole
//!   owner     entries   keys -> bytes        kept, found by any key
//!             claims    key -> holder        the first one wins
//! ```
//!
//! A gateway takes the lease of a session, loads the record, runs a turn and appends to its log meanwhile, and
//! saves the record with the end of the log, which releases the lease. Each write to the record and the logs
//! names its lease; the store refuses it if another node has taken the session since. Files need no lease:
//! none is ever overwritten, and a call that waits for the user may return one between two turns.

mod copy;
mod entries;
#[cfg(test)]
mod entry_tests;
#[cfg(any(test, fuzzing))]
pub(in crate::session) mod fuzz {
    pub(in crate::session) use super::redis::fuzz::check_log;
    pub(in crate::session) use super::sqlite::fuzz::{check_redo_buffer, check_redo_file};
}
mod memory;
pub(super) mod recovery;
mod redis;
mod sqlite;
#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

pub(crate) use copy::now_ms;
pub use copy::{ListedSession, SessionCopy};
pub use entries::{ClaimTerm, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries};
pub use memory::MemoryStore;
#[cfg(test)]
pub(super) use redis::tests as redis_tests;
pub use redis::{RedisAddress, RedisOptions, RedisStore, RedisTls, ServerReport};
pub use sqlite::{FileReport, OpenError, SqliteStore, SyncMode};
pub use watch::{Watch, Watched};

pub use super::log::{Appender, Batch, EpochStart, Epochs, LogNewsRef, Run};
use crate::limits::session as limits;

/// A store's answer, when it comes.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps sessions, for one gateway or several. A session without a lease expires once it has been unused for the store's
/// time to live; from that moment on, it does not exist.
///
/// Dropping a future before its end leaves open whether the store has done what was asked.
///
/// # Errors
/// Every method can return [`StoreError::Unavailable`], and those that write under a lease [`StoreError::DataLoss`].
pub trait Store: fmt::Debug + Send + Sync {
    /// Takes the lease of a session, which need not exist yet. `None` if another node holds it;
    /// an earlier lease of the same node is lost. A store of several nodes lets leases expire,
    /// because nodes die. The epoch rises whenever the session changes hands.
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>>;

    /// Takes the lease of a session as [`acquire`](Self::acquire) does, and says what a turn has to know before
    /// it begins there.
    fn enter<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Entered>> {
        Box::pin(async move {
            let Some(lease) = self.acquire(session_id, node).await? else { return Ok(None) };
            let log = self.read(session_id, None, u64::MAX).await?;
            let is_interrupted = log.is_some_and(|log| log.journal.is_some());
            let record = self.load(session_id).await?;
            Ok(Some(Entered { lease, before: None, is_interrupted, record }))
        })
    }

    /// Does the same for a session whose id was just made up, so that it need not be looked for.
    fn enter_new<'a>(
        &'a self,
        session_id: &'a str,
        node: NodeId,
    ) -> StoreFuture<'a, Option<Entered>> {
        Box::pin(async move {
            let lease = self.acquire(session_id, node).await?;
            Ok(lease.map(Entered::newly))
        })
    }

    /// How long a lease lasts unless it is [renewed](Self::renew); `None` if it never expires.
    fn lease_time(&self) -> Option<Duration> {
        None
    }

    /// Whether several nodes may use it at the same time.
    fn is_shared(&self) -> bool {
        self.lease_time().is_some()
    }

    /// Extends a lease by [its time](Self::lease_time), from now by the store's clock. Tells its holder
    /// what others ask of it.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost, or [`StoreError::NoSession`] if that is because the session
    /// was forgotten. All writes under a lost lease are refused in the same way. A store that is not shared may always
    /// answer `Superseded`: the process that forgets the session runs its turn, too.
    fn renew<'a>(&'a self, _lease: &'a Lease) -> StoreFuture<'a, Renewed> {
        Box::pin(ready(Ok(Renewed::default())))
    }

    /// Releases a lease. Does nothing if it is already lost.
    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()>;

    /// Asks whoever holds the session's lease to cancel the turn with this id, or the one that runs. If the turn is
    /// interrupted, this asks whoever takes it over. The holder learns of it when it renews the lease. False if
    /// nobody holds it and no turn is interrupted.
    fn request_cancel<'a>(
        &'a self,
        _session_id: &'a str,
        _turn_id: Option<&'a str>,
    ) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(false)))
    }

    /// Notes that a session's turn is read on this node, although its owner may not know. That lasts for the time of
    /// a lease.
    fn note_reader<'a>(&'a self, _session_id: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Whether a session was [forgotten](Self::forget) a moment ago, as a store that is shared notes for those
    /// who followed its turn on other nodes. If it was not and yet has no log, the store may have lost it.
    fn was_forgotten<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool>;

    /// Watches a session. Whatever happens once this is resolved wakes the watch, so a read after that
    /// misses nothing. In a store of one process, where nobody else changes a session, it never wakes.
    fn watch<'a>(&'a self, _session_id: &'a str, _whom: Watched) -> StoreFuture<'a, Watch> {
        Box::pin(ready(Ok(Watch::never())))
    }

    /// Up to `count` sessions whose latest turn has a journal, but whose lease nobody holds: their gateways
    /// died.
    fn interrupted(&self, _count: usize) -> StoreFuture<'_, Vec<String>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    /// Whether it has just come back, or has yet to take a write after a failure. Other nodes may have told clients that
    /// a turn failed, and not have stored that yet: leave their turns alone.
    fn is_recovering(&self) -> bool {
        false
    }

    /// Whether the store can be used now. A store that sessions are shared in is also examined, so that
    /// one that cannot be used is found at start.
    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Whether what is in the store can be read now, even if nothing can be written.
    fn check_reading(&self) -> StoreFuture<'_, ()> {
        self.check()
    }

    /// Waits while the store is loading its data, as after a restart of its machine, but not for ever.
    fn wait_until_loaded(&self) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// How long a running turn waits for a store that does not answer.
    fn wait(&self) -> Duration {
        limits::STORE_WAIT
    }

    /// The record of a session, if it has one. Loading it counts as using the session.
    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>>;

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

    /// Appends to the log of a running turn, and starts the log if there is none.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost.
    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended>;

    /// Appends to this turn's log without waiting. It stops when the lease is lost or given back, or when there is
    /// another one. `None` if appends have to wait. It saves each token a future and a lookup, each of which costs as
    /// much as the write.
    fn appender(&self, _lease: &Lease, _turn_id: &str) -> Option<Arc<dyn Appender>> {
        None
    }

    /// Ends a turn: writes the session's record as [`save`](Self::save) does, appends the end of the turn's log,
    /// drops its journal, and releases the lease. All of it happens, or nothing.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the lease is lost or the version is another one.
    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version>;

    /// Whether [`finish`](Self::finish) costs less if it gets whole logs.
    fn wants_whole_logs(&self) -> bool {
        false
    }

    /// Whether what it keeps outlives this process.
    fn is_durable(&self) -> bool {
        true
    }

    /// The log of a turn, or of the session's latest, without the batches that end at or before
    /// event `seen`; `None` if it is not kept. Reading it counts as using the session.
    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>>;

    /// Keeps a file that a tool of the session has returned, whoever holds the lease. If the
    /// session's files together become too large, the oldest are dropped.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] if there is no such session.
    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()>;

    /// The file with this id, if it is still kept.
    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>>;

    /// Forgets a session with its lease, its logs and its files; false if it has no record.
    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool>;

    /// Forgets a session as [`forget`](Self::forget) does, if the lease is not lost.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if it is.
    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()>;

    /// Sessions that have a record, in the order of their ids: up to `count` of those after the id
    /// `after`. A page whose records are long ends early; only an empty one is the end. Listing a
    /// session does not count as using it. Sessions that come or go between two pages may be missing
    /// or be listed.
    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>>;

    /// All of a session, if it has a record. Copying it does not count as using it.
    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>>;

    /// Writes a copied session, all of it or nothing. False, and nothing is written, if a node holds
    /// the session's lease, or if the session exists and `replace` is not set.
    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool>;

    /// How long an entry is kept; `None` if the store keeps none, because they would end with the process.
    /// A claim lasts twice as long.
    fn entry_time(&self) -> Option<Duration> {
        None
    }

    /// Keeps an entry for an owner, and confirms a claim, which from then on [lasts](ClaimTerm::Lasting): both
    /// or neither. If the owner's entries become too many, the oldest are dropped. False, and nothing is done, if
    /// a later epoch has written the entry.
    fn keep_entry(
        &self,
        _owner: EntryOwner,
        _entry: Entry,
        _confirms: Option<EntryClaim>,
    ) -> StoreFuture<'_, bool> {
        Box::pin(ready(Ok(true)))
    }

    /// An owner's entries and claims under these keys. If they are many or long, those of the first keys
    /// count, and the newest of each key.
    fn entries(&self, _owner: EntryOwner, _keys: Vec<EntryKey>) -> StoreFuture<'_, FoundEntries> {
        Box::pin(ready(Ok(FoundEntries::default())))
    }

    /// Acquires a claim for an owner, or renews it. False if somebody else has it.
    fn acquire_claim(&self, _owner: EntryOwner, _claim: EntryClaim) -> StoreFuture<'_, bool> {
        Box::pin(ready(Ok(true)))
    }

    /// Releases a claim. Does nothing if somebody else has it.
    fn release_claim(&self, _owner: EntryOwner, _claim: EntryClaim) -> StoreFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Drops all entries of an owner, and says how many. Claims stay: they are hashes alone, and without them, a
    /// gateway that has an entry in memory could do again what was claimed.
    fn forget_entries(&self, _owner: EntryOwner) -> StoreFuture<'_, usize> {
        Box::pin(ready(Ok(0)))
    }

    /// Drops expired sessions, in a store that does not do so by itself.
    fn sweep(&self) {}

    /// What the store takes in this process: nothing, if it keeps sessions elsewhere.
    fn memory_usage(&self) -> MemoryUsage {
        MemoryUsage::default()
    }
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

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// The right to write a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session_id: Arc<str>,
    /// Who holds it.
    pub node: NodeId,
    /// How often the session has changed hands, from 1.
    pub epoch: u64,
    /// Which lease of the session it is. No two of a store are alike.
    pub grant: u64,
}

/// Who has had the lease of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The node.
    pub node: NodeId,
    /// How long ago the lease lapsed, by the store's clock; `None` if it was given back.
    pub lapsed: Option<Duration>,
}

/// A session whose lease was taken for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// The lease.
    pub lease: Lease,
    /// Who held the lease before, if that was another node and the store knows.
    pub before: Option<Holder>,
    /// Whether the session's latest turn has a journal: its gateway died.
    pub is_interrupted: bool,
    /// The session's record, if it has one.
    pub record: Option<StoredRecord>,
}

impl Entered {
    /// A session without a record or an interrupted turn.
    pub(super) const fn newly(lease: Lease) -> Self {
        Self { lease, before: None, is_interrupted: false, record: None }
    }
}

/// What the holder of a lease learns when it renews it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The turn that someone has asked to cancel. If empty, it is the one that runs.
    pub cancel: Option<String>,
    /// Whether the turn is read on another node.
    pub is_read: bool,
}

impl Renewed {
    /// Whether someone has asked to cancel this turn, which runs.
    pub(crate) fn cancels(&self, turn_id: &str) -> bool {
        cancels(self.cancel.as_deref(), turn_id)
    }
}

/// What the holder of a lease learns when it has appended to a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Appended {
    /// Whether someone on another node has asked to cancel the turn. Only known if the news had a journal, which
    /// tools wait for.
    pub is_cancelled: bool,
}

/// Whether a recorded request to cancel applies to this turn, which is running. An empty id means whichever turn runs.
fn cancels(asked: Option<&str>, turn_id: &str) -> bool {
    asked.is_some_and(|asked| asked.is_empty() || asked == turn_id)
}

/// A file that a tool has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Whose it is. Nobody else may read it; if empty, it is anyone's.
    pub owner: String,
    /// 128 random bits as 32 hexadecimal digits, so that nobody can guess it.
    pub id: String,
    /// A name for people.
    pub name: Option<String>,
    /// Its media type, as the tool gave it.
    pub mime_type: String,
    /// What it contains.
    pub bytes: Bytes,
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

/// What is new of a running turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogNews {
    /// Its events, which continue the log without a gap.
    pub batches: Vec<Batch>,
    /// What another gateway needs to end the turn, in place of the journal before.
    pub journal: Option<Bytes>,
}

impl From<Vec<Batch>> for LogNews {
    fn from(batches: Vec<Batch>) -> Self {
        Self { batches, journal: None }
    }
}

/// The end of a turn's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd<'a> {
    /// The turn.
    pub turn_id: &'a str,
    /// The events that have not been appended yet. If they begin with event 1, they are the whole log.
    pub batches: Vec<Batch>,
}

impl<'a> LogEnd<'a> {
    /// The log of this turn ends with these batches.
    #[must_use]
    pub const fn new(turn_id: &'a str, batches: Vec<Batch>) -> Self {
        Self { turn_id, batches }
    }
}

/// The log of a turn, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLog {
    /// The turn.
    pub turn_id: String,
    /// The epochs it was written in.
    pub epochs: Epochs,
    /// The sequence of its last event.
    pub last: u64,
    /// Its events, in order.
    pub batches: Vec<Batch>,
    /// The turn's journal, unless the turn is over. It is empty if only a part of the log was read.
    pub journal: Option<Bytes>,
}

/// What sessions take in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// How many sessions.
    pub sessions: usize,
    /// Bytes of their records and of what belongs to them, without logs.
    pub session_bytes: usize,
    /// Bytes of the logs of their finished turns.
    pub turn_log_bytes: usize,
    /// Bytes of the files that their tools returned, and of the images in their responses.
    pub artifact_bytes: usize,
}

/// Why a store does not do as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or cannot write.
    #[error("the session store is unavailable: {0}; try again later")]
    Unavailable(String),
    /// Another node has taken the session, or it was forgotten or written since.
    #[error("the session was deleted, or another gateway has taken it over")]
    Superseded,
    /// What is stored there is not what a gateway writes: something else has overwritten it, or it is damaged.
    #[error("the stored session cannot be read: {0}")]
    Damaged(String),
    /// The store has lost a lease or events that it had confirmed, as in a failover to a replica that lagged behind.
    #[error("the session store has lost what it had confirmed, as in a failover; try again later")]
    DataLoss,
    /// There is no such session, or it was forgotten.
    #[error("there is no such session; it may have been deleted")]
    NoSession,
}
