//! Sessions in memory, limited in number, bytes and age. They end with the process.

mod expiry;
mod files;
mod whole;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::files::Files;
use super::{
    Appended, Artifact, Batch, Epochs, Lease, ListedSession, LogEnd, LogNews, MemoryUsage, NodeId,
    SessionCopy, Store, StoreError, StoreFuture, StoredLog, StoredRecord, Version,
};
use crate::limits::session as limits;

/// Keeps sessions in memory. Those with a held lease are never dropped.
#[derive(Debug)]
pub struct MemoryStore {
    ttl: Duration,
    bounds: Bounds,
    state: Mutex<State>,
}

/// What the store may hold.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    sessions: usize,
    session_bytes: usize,
    turn_log_bytes: usize,
    artifact_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Boxed: up to half of the table is free, and the entries of that half would take as much as those that are used.
    sessions: HashMap<Arc<str>, Box<Kept>>,
    /// All logs with their sessions, the oldest first.
    logs: BTreeMap<Ticket, Arc<str>>,
    last_ticket: Ticket,
    last_grant: u64,
    last_version: u64,
    session_bytes: usize,
    turn_log_bytes: usize,
    files: Files,
}

/// Orders the logs of all sessions by age.
type Ticket = u64;

#[derive(Debug)]
struct Kept {
    /// Its key, shared.
    id: Arc<str>,
    record: Option<StoredRecord>,
    epoch: u64,
    /// Who has the lease, or had it last.
    node: NodeId,
    /// The lease, while a turn runs. A session without one may be dropped.
    grant: Option<u64>,
    used_at: Instant,
    /// Oldest first.
    logs: VecDeque<Log>,
}

#[derive(Debug)]
struct Log {
    ticket: Ticket,
    bytes: usize,
    stored: StoredLog,
}

impl MemoryStore {
    /// A store that drops sessions unused for `ttl`.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        let bounds = Bounds {
            sessions: limits::SESSIONS_MAX,
            session_bytes: limits::ALL_BYTES_MAX,
            turn_log_bytes: limits::ALL_TURN_LOG_BYTES_MAX,
            artifact_bytes: limits::ALL_ARTIFACT_BYTES_MAX,
        };
        Self { ttl, bounds, state: Mutex::default() }
    }

    fn save_now(
        &self,
        lease: &Lease,
        expected: Option<Version>,
        bytes: Bytes,
    ) -> Result<Version, StoreError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let version = Version(state.last_version + 1);
        let entry = leased(&mut state.sessions, lease)?;
        if entry.record.as_ref().map(|record| record.version) != expected {
            return Err(StoreError::Superseded);
        }
        state.session_bytes += bytes.len();
        let before = entry.record.replace(StoredRecord { version, bytes });
        state.session_bytes -= before.as_ref().map_or(0, |record| record.bytes.len());
        state.last_version = version.0;
        let dropped = state.make_room(self.bounds);
        drop(guard);
        drop((before, dropped));
        Ok(version)
    }

    fn append_now(&self, lease: &Lease, turn_id: &str, news: LogNews) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let dropped = state.append(lease, turn_id, news, self.bounds)?;
        drop((state, dropped));
        Ok(())
    }

    fn finish_now(
        &self,
        lease: &Lease,
        expected: Option<Version>,
        record: Bytes,
        LogEnd { turn_id, batches }: LogEnd<'_>,
    ) -> Result<Version, StoreError> {
        let version = self.save_now(lease, expected, record)?;
        self.append_now(lease, turn_id, batches.into())?;
        let mut state = self.state.lock();
        state.drop_journal(lease, turn_id)?;
        state.release(lease);
        Ok(version)
    }

    fn forget_now(&self, session: &str) -> bool {
        let forgotten = self.ask(session, |state| state.remove(session));
        forgotten.is_some_and(|entry| entry.record.is_some())
    }

    /// Looks for something of a session, after the session was removed if it has expired.
    fn ask<T>(&self, session: &str, find: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let expired = state.expire(session, self.ttl);
        let found = find(&mut state);
        drop(state);
        drop(expired);
        found
    }
}

/// The session of a lease that is not lost.
fn leased<'a>(
    sessions: &'a mut HashMap<Arc<str>, Box<Kept>>,
    lease: &Lease,
) -> Result<&'a mut Kept, StoreError> {
    let entry = sessions.get_mut(&lease.session_id).map(|entry| &mut **entry);
    entry.filter(|entry| entry.grant == Some(lease.grant)).ok_or(StoreError::Superseded)
}

impl State {
    fn acquire(&mut self, session_id: &str, node: NodeId) -> Option<Lease> {
        if !self.sessions.contains_key(session_id) {
            let id: Arc<str> = session_id.into();
            let entry = Box::new(Kept {
                id: Arc::clone(&id),
                record: None,
                epoch: 1,
                node,
                grant: None,
                used_at: Instant::now(),
                logs: VecDeque::new(),
            });
            self.session_bytes += entry_bytes(&id);
            self.sessions.insert(id, entry);
        }
        let entry = self.sessions.get_mut(session_id)?;
        if entry.node != node {
            if entry.grant.is_some() {
                return None;
            }
            entry.node = node;
            entry.epoch += 1;
        }
        self.last_grant += 1;
        entry.grant = Some(self.last_grant);
        entry.used_at = Instant::now();
        let (session_id, epoch) = (Arc::clone(&entry.id), entry.epoch);
        Some(Lease { session_id, node, epoch, grant: self.last_grant })
    }

    /// Gives a lease back, and removes a session that was never saved.
    fn release(&mut self, lease: &Lease) {
        let Ok(entry) = leased(&mut self.sessions, lease) else { return };
        entry.grant = None;
        entry.used_at = Instant::now();
        if entry.record.is_none() {
            self.remove(&lease.session_id);
        }
    }

    /// Appends to a log, and returns the logs that had to make room.
    fn append(
        &mut self,
        lease: &Lease,
        turn_id: &str,
        LogNews { batches, journal }: LogNews,
        bounds: Bounds,
    ) -> Result<Vec<Log>, StoreError> {
        let entry = leased(&mut self.sessions, lease)?;
        let session = &entry.id;
        let mut bytes = batch_bytes(&batches);
        let last = batches.last().map_or(0, |batch| batch.last);
        if let Some(log) = entry.logs.iter_mut().find(|log| log.stored.turn_id == turn_id) {
            log.bytes += bytes;
            let first = batches.first().map_or(log.stored.last + 1, |batch| batch.first);
            log.stored.epochs = log.stored.epochs.then(first, lease.epoch);
            log.stored.last = log.stored.last.max(last);
            log.stored.batches.extend(batches);
            log.stored.journal = journal.or_else(|| log.stored.journal.take());
        } else {
            bytes += log_bytes(turn_id);
            self.last_ticket += 1;
            let (turn_id, epochs) = (turn_id.to_owned(), Epochs::begun_in(lease.epoch));
            let stored = StoredLog { turn_id, epochs, last, batches, journal };
            entry.logs.reserve_exact(1);
            entry.logs.push_back(Log { ticket: self.last_ticket, bytes, stored });
            self.logs.insert(self.last_ticket, Arc::clone(session));
        }
        self.turn_log_bytes += bytes;
        let mut dropped = self.trim_logs_of(&lease.session_id);
        while self.turn_log_bytes > bounds.turn_log_bytes {
            let Some((_, session)) = self.logs.first_key_value() else { break };
            let session = Arc::clone(session);
            dropped.extend(self.drop_oldest_log(&session));
        }
        Ok(dropped)
    }

    /// Drops the journal of a turn that is over.
    fn drop_journal(&mut self, lease: &Lease, turn_id: &str) -> Result<(), StoreError> {
        let entry = leased(&mut self.sessions, lease)?;
        let log = entry.logs.iter_mut().find(|log| log.stored.turn_id == turn_id);
        if let Some(log) = log {
            log.stored.journal = None;
        }
        Ok(())
    }

    /// Drops the oldest logs of a session beyond what one session may keep.
    fn trim_logs_of(&mut self, session: &str) -> Vec<Log> {
        let mut dropped = Vec::new();
        while let Some(entry) = self.sessions.get(session) {
            let bytes: usize = entry.logs.iter().map(|log| log.bytes).sum();
            let is_over = entry.logs.len() > limits::TURN_LOGS_MAX
                || (bytes > limits::TURN_LOG_BYTES_MAX && entry.logs.len() > 1);
            if !is_over {
                break;
            }
            dropped.extend(self.drop_oldest_log(session));
        }
        dropped
    }

    fn drop_oldest_log(&mut self, session: &str) -> Option<Log> {
        let log = self.sessions.get_mut(session)?.logs.pop_front()?;
        self.logs.remove(&log.ticket);
        self.turn_log_bytes -= log.bytes;
        Some(log)
    }

    fn remove(&mut self, session: &str) -> Option<Kept> {
        let entry = *self.sessions.remove(session)?;
        let record = entry.record.as_ref().map_or(0, |record| record.bytes.len());
        self.session_bytes -= entry_bytes(&entry.id) + record;
        for log in &entry.logs {
            self.logs.remove(&log.ticket);
            self.turn_log_bytes -= log.bytes;
        }
        self.files.forget(session);
        Some(entry)
    }

    /// Beyond a bound, drops idle sessions, least recently used first, until a sixteenth of each
    /// bound is free. It drops many at once, because finding them means looking at all of them.
    fn make_room(&mut self, bounds: Bounds) -> Vec<Kept> {
        if self.sessions.len() <= bounds.sessions && self.session_bytes <= bounds.session_bytes {
            return Vec::new();
        }
        let goal = |max: usize| max - max / 16;
        let mut idle: Vec<(Instant, Arc<str>)> = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.grant.is_none())
            .map(|(session, entry)| (entry.used_at, Arc::clone(session)))
            .collect();
        idle.sort_unstable();
        let mut dropped = Vec::new();
        for (_, session) in idle {
            if self.sessions.len() <= goal(bounds.sessions)
                && self.session_bytes <= goal(bounds.session_bytes)
            {
                break;
            }
            dropped.extend(self.remove(&session));
        }
        dropped
    }
}

/// The memory that a session uses, in bytes, without its record and its logs. The hash table is
/// between 7/16 and 7/8 full.
const fn entry_bytes(session: &str) -> usize {
    session.len() + size_of::<Kept>() + size_of::<(Arc<str>, Box<Kept>)>() * 3 / 2
}

/// The memory that a log uses, in bytes, without its batches: the log itself, and its entry in the
/// list of all logs.
const fn log_bytes(turn_id: &str) -> usize {
    turn_id.len() + size_of::<Log>() + size_of::<(Ticket, Arc<str>)>() * 3 / 2
}

fn batch_bytes(batches: &[Batch]) -> usize {
    batches.iter().map(|batch| size_of::<Batch>() + batch.bytes.len()).sum()
}

impl Store for MemoryStore {
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        let acquire =
            |state: &mut State| (state.acquire(session_id, node), state.make_room(self.bounds));
        let (lease, dropped) = self.ask(session_id, acquire);
        drop(dropped);
        Box::pin(ready(Ok(lease)))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.state.lock().release(lease);
        Box::pin(ready(Ok(())))
    }

    /// Keeps no notes: no other node follows its turns.
    fn was_forgotten<'a>(&'a self, _session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(false)))
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let load = |state: &mut State| {
            let entry = state.sessions.get_mut(session_id)?;
            entry.used_at = Instant::now();
            entry.record.clone()
        };
        Box::pin(ready(Ok(self.ask(session_id, load))))
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        Box::pin(ready(self.save_now(lease, expected, record)))
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        let appended = self.append_now(lease, turn_id, news);
        Box::pin(ready(appended.map(|()| Appended::default())))
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        Box::pin(ready(self.finish_now(lease, expected, record, end)))
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        let read = |state: &mut State| {
            let entry = state.sessions.get_mut(session_id)?;
            entry.used_at = Instant::now();
            let mut logs = entry.logs.iter().rev();
            let log = logs.find(|log| turn_id.is_none_or(|id| log.stored.turn_id == id))?;
            Some(log.stored.after_seen(seen))
        };
        Box::pin(ready(Ok(self.ask(session_id, read))))
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        let keep = |state: &mut State| {
            let entry = state.sessions.get(session_id).ok_or(StoreError::NoSession)?;
            Ok(state.files.keep(&entry.id, artifact, self.bounds.artifact_bytes))
        };
        Box::pin(ready(self.ask(session_id, keep).map(drop)))
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        let state = self.state.lock();
        let session = state.files.session_of(id).and_then(|id| state.sessions.get(id));
        let is_kept = session.is_some_and(|session| !session.has_expired(self.ttl));
        let artifact = if is_kept { state.files.get(id).cloned() } else { None };
        drop(state);
        Box::pin(ready(Ok(artifact)))
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(self.forget_now(session_id))))
    }

    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        let mut state = self.state.lock();
        let discarded = match leased(&mut state.sessions, lease) {
            Ok(_) => Ok(state.remove(&lease.session_id)),
            Err(superseded) => Err(superseded),
        };
        drop(state);
        Box::pin(ready(discarded.map(drop)))
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        Box::pin(ready(Ok(self.state.lock().list(after, count, self.ttl))))
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        Box::pin(ready(Ok(self.ask(session_id, |state| state.copy(session_id)))))
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        let id = copy.id.clone();
        let restored = self.ask(&id, |state| state.restore(copy, replace, self.bounds));
        Box::pin(ready(Ok(restored)))
    }

    fn sweep(&self) {
        let dropped = self.state.lock().expire_all(self.ttl);
        drop(dropped);
    }

    fn memory_usage(&self) -> MemoryUsage {
        let state = self.state.lock();
        MemoryUsage {
            sessions: state.sessions.len(),
            session_bytes: state.session_bytes,
            turn_log_bytes: state.turn_log_bytes,
            artifact_bytes: state.files.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
