//! Sessions in a file, for one gateway: `SQLite`, and beside it a [file of running turns](redo). What a caller
//! was told is done outlives the process, however it ends.
//!
//! ```text
//!   save       a record, as a turn begins ─┐
//!   append     a running turn's news ──────┼──> one write to the end of a file
//!   finish     a turn's end, if short ─────┘
//!
//!   the rest   the database is free? ──> BEGIN, the job, COMMIT, here and now
//!              or else a queue of jobs ──> a thread: BEGIN, all jobs that are ready, COMMIT
//! ```
//!
//! A small transaction takes less time than waking a thread twice. Under load, many share a commit. In WAL
//! mode with `synchronous=NORMAL`, a commit survives a killed process without waiting for the disk, and so
//! does a write; only a power cut can cost the last of them, and never the file. `SyncMode::Full` waits for
//! the disk at each, and so leaves all to the thread.
//!
//! The file belongs to one process, which holds an exclusive lock on it. So leases are in its memory, and end with
//! it.
//!
//! Sources: `SQLite`, "Write-Ahead Logging", and its pragmas `synchronous` and `locking_mode`.

mod access;
mod appender;
#[cfg(test)]
mod appender_tests;
mod awaited_thread;
mod beside;
#[cfg(test)]
mod beside_tests;
mod cause;
mod ended;
#[cfg(test)]
mod ended_tests;
mod entries;
mod expiry;
#[cfg(test)]
mod expiry_tests;
mod finish;
mod fold;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
#[cfg(test)]
mod history_tests;
mod in_place;
mod leases;
mod offer;
mod open_error;
mod probe;
mod redo;
mod redo_buffer;
#[cfg(test)]
mod redo_buffer_tests;
mod redo_record;
mod redo_segment;
#[cfg(test)]
mod redo_tests;
mod schema;
mod statements;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;
mod whole;
mod worker;

use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::copy::now_ms;
use super::{
    Appended, Appender, Artifact, Entered, Entry, EntryClaim, EntryKey, EntryOwner, FoundEntries,
    Lease, ListedSession, LogEnd, LogNews, NodeId, SessionCopy, Store, StoreError, StoreFuture,
    StoredLog, StoredRecord, Version,
};
use crate::limits::session as limits;
use awaited_thread::AwaitedThread;
use ended::EndedTurns;
use expiry::Expiry;
use leases::{Leases, Released};
use offer::Offer;
pub use open_error::OpenError;
pub use probe::FileReport;
use redo::Redo;
use statements::KnownSession;
use worker::{FailureLog, Task, Worker, serve};

/// How far a commit goes before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// To the operating system: it survives a killed process.
    #[default]
    Normal,
    /// To the disk: it survives a power cut.
    Full,
}

impl SyncMode {
    /// Whether a write counts only once the disk has it, for which only the thread waits.
    const fn waits_for_disk(self) -> bool {
        matches!(self, Self::Full)
    }
}

/// Keeps sessions in a file. Dropping it waits until the file is complete and free for others: for
/// what has been asked for, and for `SQLite` to move it there from its log.
#[derive(Debug)]
pub struct SqliteStore {
    ttl: Duration,
    sync: SyncMode,
    expiry: Arc<Expiry>,
    leases: Arc<Leases>,
    redo: Arc<Redo>,
    ended: Arc<EndedTurns>,
    failures: Arc<FailureLog>,
    /// Whoever uses the file holds this.
    worker: Arc<Mutex<Worker>>,
    /// Dropped before the thread is awaited, because that ends it.
    jobs: mpsc::Sender<Task>,
    _thread: AwaitedThread,
}

/// The thread removes empty files as it ends, so nothing may be appended after that.
impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.leases.stop_appenders();
    }
}

impl SqliteStore {
    /// Opens the file, and creates it if there is none. Sessions unused for `ttl` are dropped.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, sync: SyncMode, ttl: Duration) -> Result<Self, OpenError> {
        let connection = schema::open(path, sync)?;
        let redo = Arc::new(Redo::open(path, sync)?);
        let failures = Arc::new(FailureLog::new(path));
        let ended = Arc::new(EndedTurns::default());
        let (its_redo, its_ended) = (Arc::clone(&redo), Arc::clone(&ended));
        let its_failures = Arc::clone(&failures);
        let mut worker = Worker::new(connection, sync, its_redo, its_ended, its_failures);
        let unfolded = |error: StoreError| OpenError::Unfolded(path.into(), error.to_string());
        let leases = Arc::new(Leases::new(worker.begin_use().map_err(unfolded)?));
        let worker = Arc::new(Mutex::new(worker));
        let (jobs, queue) = mpsc::channel(limits::STORE_JOBS_MAX);
        let thread = thread::Builder::new().name("session-store".to_owned());
        let spawned = {
            let worker = Arc::clone(&worker);
            thread.spawn(move || serve(&worker, queue))
        };
        let thread = AwaitedThread::new(spawned.map_err(OpenError::Thread)?);
        let expiry = Expiry::new(ttl, Arc::clone(&leases), Arc::clone(&redo), Arc::clone(&ended));
        let expiry = Arc::new(expiry);
        Ok(Self { ttl, sync, expiry, leases, redo, ended, failures, worker, jobs, _thread: thread })
    }

    /// Checks that there is a file at this path, or that there could be one. Opens and creates nothing.
    ///
    /// # Errors
    /// If something else is there, or instead of its folder.
    pub fn check_path(path: &Path) -> Result<(), OpenError> {
        OpenError::check_is_file(path)
    }

    /// Opens the file as [`open`](Self::open) does, which creates it, tries it, and closes it again.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn examine(path: &Path, sync: SyncMode) -> Result<FileReport, OpenError> {
        probe::examine(path, sync)
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    i64::try_from(now_ms()).unwrap_or(i64::MAX)
}

impl SqliteStore {
    async fn enter_now(
        &self,
        session_id: &str,
        node: NodeId,
    ) -> Result<Option<Entered>, StoreError> {
        let (leases, id) = (Arc::clone(&self.leases), session_id.to_owned());
        let enter = move |connection: &Connection| {
            let holder = leases.holder(&id);
            if holder.is_some_and(|(holder, _)| holder != node) {
                return Ok(None);
            }
            let known = statements::known(connection, &id)?;
            let KnownSession { record, is_interrupted, .. } = &known;
            let version = record.as_ref().map(|record| record.version);
            let epoch = holder.map_or_else(|| known.epoch_for(node), |(_, epoch)| epoch);
            let lease = leases.grant(&id, node, epoch, version);
            let is_interrupted = *is_interrupted;
            let entered = Entered { lease, before: None, is_interrupted, record: known.record };
            Ok(Some(Offer::new(entered, leases)))
        };
        let Some(offer) = self.look(session_id, enter).await? else { return Ok(None) };
        // A turn that cannot be written is better refused than begun. One that begins a session writes at once.
        if offer.has_record() {
            self.mark(Redo::probe)?;
        }
        Ok(offer.take())
    }

    async fn release_now(&self, lease: &Lease) -> Result<(), StoreError> {
        let session_id = &lease.session_id;
        if !self.leases.holds(lease) {
            return Ok(());
        }
        let noted = self.note_left(session_id).await;
        let released = self.leases.release(lease);
        noted?;
        if released == Released::Unsaved {
            let id = session_id.clone();
            let drop = move |connection: &Connection| statements::drop_unsaved(connection, &id);
            self.run(true, drop).await?;
        }
        Ok(())
    }

    /// Notes that the session is in use by a turn that leaves it now, and has not ended as turns do. Whoever sweeps or
    /// asks for the session looks into the tables.
    async fn note_left(&self, session_id: &str) -> Result<(), StoreError> {
        if self.redo.has(Some(session_id)) {
            self.fold().await?;
        }
        let id = session_id.to_owned();
        self.run(true, move |connection| statements::use_session(connection, &id)).await
    }

    async fn forget_now(&self, session_id: &str) -> Result<bool, StoreError> {
        let may_have_expired = self.expiry.may_expire(session_id);
        let latest = self.leases.forget(session_id);
        let mark = || self.mark(|redo| redo.forget(session_id, latest));
        let was_beside = self.ended.forget(session_id, mark)?;
        let (expiry, id) = (Arc::clone(&self.expiry), session_id.to_owned());
        let forget = move |connection: &Connection| {
            let had_expired = may_have_expired && expiry.is_old(connection, &id)?;
            Ok(statements::forget(connection, &id, latest)? && !had_expired)
        };
        match self.run(true, forget).await {
            Ok(was_inside) => {
                self.redo.settle_deleted(session_id, latest);
                Ok(was_inside || was_beside)
            }
            // It is deleted all the same: the mark counts, and the tables follow once they can be written.
            Err(StoreError::Unavailable(_)) if !self.sync.waits_for_disk() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Store for SqliteStore {
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        Box::pin(async move { Ok(self.enter_now(session_id, node).await?.map(|it| it.lease)) })
    }

    fn enter<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Entered>> {
        Box::pin(self.enter_now(session_id, node))
    }

    fn enter_new<'a>(
        &'a self,
        session_id: &'a str,
        node: NodeId,
    ) -> StoreFuture<'a, Option<Entered>> {
        let epoch = KnownSession::default().epoch_for(node);
        let lease = self.leases.grant(session_id, node, epoch, None);
        Box::pin(ready(Ok(Some(Entered::newly(lease)))))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(self.release_now(lease))
    }

    /// Keeps no notes: no other node follows its turns.
    fn was_forgotten<'a>(&'a self, _session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(false)))
    }

    fn check(&self) -> StoreFuture<'_, ()> {
        if let Err(failure) = self.mark(Redo::probe) {
            return Box::pin(ready(Err(failure)));
        }
        self.run(true, statements::read_something)
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let id = session_id.to_owned();
        let load = move |connection: &Connection| statements::load(connection, &id);
        Box::pin(self.read_folded(Some(session_id), true, load))
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        let is_short = record.len() <= limits::INLINE_RECORD_BYTES_MAX;
        let lease = lease.clone();
        self.write(is_short, move |leases, redo| {
            access::save(leases, redo, &lease, expected, &record)
        })
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, Appended> {
        let (lease, turn_id) = (lease.clone(), turn_id.to_owned());
        self.write(true, move |leases, redo| {
            let written = access::append(leases, redo, &lease, &turn_id, &news)?;
            Ok(written.map(|()| Appended::default()))
        })
    }

    fn appender(&self, lease: &Lease, turn_id: &str) -> Option<Arc<dyn Appender>> {
        if self.sync.waits_for_disk() {
            return None;
        }
        Some(self.appender_of(lease, turn_id))
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        end: LogEnd<'a>,
    ) -> StoreFuture<'a, Version> {
        Box::pin(self.finish_now(lease, expected, record, end))
    }

    fn wants_whole_logs(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        let (id, turn_id) = (session_id.to_owned(), turn_id.map(str::to_owned));
        let read = move |connection: &Connection| {
            statements::read(connection, &id, turn_id.as_deref(), seen)
        };
        Box::pin(self.read_folded(Some(session_id), true, read))
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        let (leases, id) = (Arc::clone(&self.leases), session_id.to_owned());
        let keep = move |connection: &Connection| {
            let holder = leases.note_file(&id);
            statements::keep_artifact(connection, &id, holder, &artifact)
        };
        // One that is held need not be in the tables yet.
        if self.leases.is_held(session_id) {
            return self.run(false, keep);
        }
        Box::pin(self.run_folded(Some(session_id), false, keep))
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        let (expiry, id) = (Arc::clone(&self.expiry), id.to_owned());
        self.run(false, move |connection| {
            let session = statements::session_of_artifact(connection, &id)?;
            match session {
                Some(session) if !expiry.has_expired(connection, &session)? => {
                    statements::artifact(connection, &id)
                }
                _ => Ok(None),
            }
        })
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(self.forget_now(session_id))
    }

    fn discard<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            if self.leases.release(lease) == Released::Superseded {
                return Err(StoreError::Superseded);
            }
            self.forget_now(&lease.session_id).await.map(drop)
        })
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        let after = after.unwrap_or_default().to_owned();
        let list = move |connection: &Connection| whole::list(connection, &after, count);
        Box::pin(self.read_folded(None, false, list))
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        let id = session_id.to_owned();
        let copy = move |connection: &Connection| whole::copy(connection, &id);
        Box::pin(self.read_folded(Some(session_id), false, copy))
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        let leases = Arc::clone(&self.leases);
        Box::pin(async move {
            let id = copy.id.clone();
            let restore = move |connection: &Connection| {
                if leases.is_held(&copy.id) {
                    return Ok(false);
                }
                whole::restore(connection, &copy, leases.free_version(), replace)
            };
            self.run_folded(Some(&id), false, restore).await
        })
    }

    fn interrupted(&self, count: usize) -> StoreFuture<'_, Vec<String>> {
        let leases = Arc::clone(&self.leases);
        let find = move |connection: &Connection| {
            let mut found = statements::unfinished(connection)?;
            found.retain(|session_id| !leases.is_held(session_id));
            found.truncate(count);
            Ok(found)
        };
        Box::pin(self.run_folded(None, false, find))
    }

    fn entry_time(&self) -> Option<Duration> {
        Some(self.ttl)
    }

    fn keep_entry(
        &self,
        owner: EntryOwner,
        entry: Entry,
        confirms: Option<EntryClaim>,
    ) -> StoreFuture<'_, bool> {
        let is_short = entry.bytes.len() <= limits::INLINE_RECORD_BYTES_MAX;
        self.run(is_short, move |connection| entries::keep(connection, owner, &entry, confirms))
    }

    fn entries(&self, owner: EntryOwner, keys: Vec<EntryKey>) -> StoreFuture<'_, FoundEntries> {
        self.run(true, move |connection| entries::find(connection, owner, &keys))
    }

    fn acquire_claim(&self, owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, bool> {
        self.run(true, move |connection| entries::acquire_claim(connection, owner, claim))
    }

    fn release_claim(&self, owner: EntryOwner, claim: EntryClaim) -> StoreFuture<'_, ()> {
        self.run(true, move |connection| entries::release_claim(connection, owner, claim))
    }

    fn forget_entries(&self, owner: EntryOwner) -> StoreFuture<'_, usize> {
        self.run(false, move |connection| entries::forget(connection, owner))
    }

    fn sweep(&self) {
        // What has ended counts as used.
        let _ = self.jobs.try_send(Task::PutEnded(None));
        let expiry = Arc::clone(&self.expiry);
        let sweep = move |connection: &Connection| {
            entries::sweep(connection, now(), expiry.ttl())?;
            expiry.delete(connection, None)
        };
        let expiry = Arc::clone(&self.expiry);
        let job = access::job(sweep, move |swept| {
            // If this fails, it is tried again with the next sweep.
            let _ = swept.map(|deleted| expiry.settle(&deleted));
        });
        // If so much waits that there is no room, the next sweep comes soon enough.
        let _ = self.jobs.try_send(Task::Job(job));
    }
}
