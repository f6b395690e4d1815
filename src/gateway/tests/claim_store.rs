//! A store of several nodes that keeps claims, loses them, and hangs as a test likes.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::session::TTL;
use crate::session::store::{
    Appended, Artifact, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries, Lease,
    ListedSession, LogEnd, LogNews, MemoryStore, NodeId, SessionCopy, Store, StoreFuture,
    StoredLog, StoredRecord, Version,
};

/// See the module docs. It keeps sessions in memory, and no entries.
#[derive(Debug)]
pub(in crate::gateway) struct ClaimStore {
    sessions: MemoryStore,
    /// Who has what.
    holders: Mutex<HashMap<EntryKey, u64>>,
    hangs: AtomicBool,
}

impl Default for ClaimStore {
    fn default() -> Self {
        let (holders, hangs) = (Mutex::default(), AtomicBool::new(false));
        Self { sessions: MemoryStore::new(TTL), holders, hangs }
    }
}

impl ClaimStore {
    pub(in crate::gateway) const LEASE: Duration = Duration::from_secs(30);

    /// From now on, it answers nothing about entries and claims.
    pub(in crate::gateway) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// Who has this claim.
    pub(in crate::gateway) fn holder(&self, key: &EntryKey) -> Option<u64> {
        self.holders.lock().get(key).copied()
    }

    /// Gives a claim to somebody else, as if it had lapsed before.
    pub(in crate::gateway) fn give(&self, key: EntryKey, holder: u64) {
        self.holders.lock().insert(key, holder);
    }

    fn answer<'a, T: Send + 'a>(&'a self, answer: impl FnOnce() -> T) -> StoreFuture<'a, T> {
        if self.hangs.load(Ordering::SeqCst) {
            return Box::pin(pending());
        }
        Box::pin(ready(Ok(answer())))
    }
}

impl Store for ClaimStore {
    fn lease_time(&self) -> Option<Duration> {
        Some(Self::LEASE)
    }

    fn entry_time(&self) -> Option<Duration> {
        Some(TTL)
    }

    fn keep_entry(
        &self,
        _owner: EntryOwner,
        _entry: Entry,
        _confirms: Option<EntryClaim>,
    ) -> StoreFuture<'_, bool> {
        self.answer(|| true)
    }

    fn entries(&self, _owner: EntryOwner, keys: Vec<EntryKey>) -> StoreFuture<'_, FoundEntries> {
        self.answer(|| {
            let holders = self.holders.lock();
            let claimed = keys.into_iter().filter(|key| holders.contains_key(key)).collect();
            FoundEntries { entries: Vec::new(), claimed }
        })
    }

    fn acquire_claim(&self, _owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, bool> {
        self.answer(|| {
            *self.holders.lock().entry(claim.key).or_insert(claim.holder) == claim.holder
        })
    }

    fn release_claim(&self, _owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, ()> {
        self.answer(|| {
            let mut holders = self.holders.lock();
            if holders.get(&claim.key) == Some(&claim.holder) {
                holders.remove(&claim.key);
            }
        })
    }

    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        self.sessions.acquire(session_id, node)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.sessions.release(lease)
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        self.sessions.load(session_id)
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        self.sessions.save(lease, expected, record)
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        self.sessions.append(lease, turn_id, news)
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        self.sessions.finish(lease, expected, record, end)
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        self.sessions.read(session_id, turn_id, seen)
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        self.sessions.keep_artifact(session_id, artifact)
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        self.sessions.artifact(id)
    }

    fn was_forgotten<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        self.sessions.was_forgotten(session_id)
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        self.sessions.forget(session_id)
    }

    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.sessions.discard(lease)
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        self.sessions.list(after, count)
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        self.sessions.copy(session_id)
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        self.sessions.restore(copy, replace)
    }
}
