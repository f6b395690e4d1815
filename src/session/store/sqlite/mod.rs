//! Sessions in a file, for one gateway: `SQLite`. What a caller was told is done outlives the process,
//! however that ends.
//!
//! ```text
//!   callers ──> queue of jobs ──> one thread: BEGIN, all jobs that are ready, COMMIT
//!      ^                                                                      |
//!      '------------------------- the results, once they are durable ---------'
//! ```
//!
//! While one transaction is written, jobs gather for the next, so that under load many share a commit. In
//! WAL mode with `synchronous=NORMAL`, a commit survives a killed process; only a power cut can cost the
//! last of them, and never the file. `SyncMode::Full` waits for the disk at each commit.
//!
//! The file belongs to one process, which holds an exclusive lock on it. So the leases of an earlier one
//! have ended with it.
//!
//! Sources: `SQLite`, "Write-Ahead Logging", and its pragmas `synchronous` and `locking_mode`.

mod probe;
mod schema;
mod statements;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;
mod whole;
mod worker;

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::copy::now_ms;
use super::{
    Artifact, Batch, Lease, ListedSession, LogNews, NodeId, SessionCopy, Store, StoreError,
    StoreFuture, StoredLog, StoredRecord, Version,
};
use crate::limits::session as limits;

pub use probe::FileReport;
pub use schema::OpenError;
use worker::{Job, Ran, Worker};

/// How far a commit goes before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// To the operating system: it survives a killed process.
    #[default]
    Normal,
    /// To the disk: it survives a power cut.
    Full,
}

/// Keeps sessions in a file. Dropping it waits until the file is complete and free for others: for
/// what has been asked for, and for `SQLite` to move it there from its log.
#[derive(Debug)]
pub struct SqliteStore {
    ttl: Duration,
    /// Dropped before the thread is awaited, because that ends it.
    jobs: mpsc::Sender<Job>,
    _thread: Thread,
}

/// A thread that is awaited when this is dropped.
#[derive(Debug)]
struct Thread(Option<JoinHandle<()>>);

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // If it has panicked, its panic was logged.
            let _ = thread.join();
        }
    }
}

impl SqliteStore {
    /// Opens the file, and creates it if there is none. Sessions unused for `ttl` are dropped.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, sync: SyncMode, ttl: Duration) -> Result<Self, OpenError> {
        let worker = Worker::new(schema::open(path, sync)?, path);
        let (jobs, queue) = mpsc::channel(limits::STORE_JOBS_MAX);
        let spawned = thread::Builder::new()
            .name("session-store".to_owned())
            .spawn(move || worker.run(queue));
        let thread = Thread(Some(spawned.map_err(OpenError::Thread)?));
        Ok(Self { ttl, jobs, _thread: thread })
    }

    /// Opens the file as [`open`](Self::open) does, which creates it, tries it, and closes it again.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn examine(path: &Path, sync: SyncMode) -> Result<FileReport, OpenError> {
        probe::examine(path, sync)
    }

    /// Does something in a transaction, and returns its result once that is durable.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.and_then(|connection| atomically(connection, work));
            let failure = failure_of(&result);
            let reply = Box::new(move |committed: Result<(), StoreError>| {
                // The caller may have dropped its future.
                let _ = sender.send(committed.and(result));
            });
            Ran { reply, failure }
        });
        Box::pin(async move {
            let stopped = || StoreError::Unavailable("it has stopped".to_owned());
            self.jobs.send(job).await.map_err(|_| stopped())?;
            receiver.await.map_err(|_| stopped())?
        })
    }
}

/// Does all of a job or nothing, among others of the same transaction.
fn atomically<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("SAVEPOINT job").map_err(unavailable)?;
    let result = work(connection);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    connection.execute_batch(end).map_err(unavailable)?;
    result
}

/// Why the file could not be used, unless the caller was refused.
fn failure_of<T>(result: &Result<T, StoreError>) -> Option<StoreError> {
    let is_failure = |error: &&StoreError| matches!(error, StoreError::Unavailable(_));
    result.as_ref().err().filter(is_failure).cloned()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes")]
fn unavailable(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(cause(&error))
}

/// What is wrong, in words that say where to look. The code tells apart what `SQLite` words alike.
fn cause(error: &rusqlite::Error) -> String {
    let Some(failure) = error.sqlite_error() else { return error.to_string() };
    let what = match failure.code {
        ErrorCode::DiskFull => "the disk is full",
        ErrorCode::SystemIoFailure => "the disk cannot be read or written, or is full",
        ErrorCode::ReadOnly => "the file cannot be written",
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => "the file is damaged",
        _ => return error.to_string(),
    };
    format!("{what} ({error}, SQLite code {})", failure.extended_code)
}

/// Milliseconds since 1970.
fn now() -> i64 {
    i64::try_from(now_ms()).unwrap_or(i64::MAX)
}

impl Store for SqliteStore {
    fn acquire<'a>(&'a self, session_id: &'a str, node: NodeId) -> StoreFuture<'a, Option<Lease>> {
        let session_id = session_id.to_owned();
        self.run(move |connection| statements::acquire(connection, session_id, node))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        let lease = lease.clone();
        self.run(move |connection| statements::release(connection, &lease))
    }

    fn load<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<StoredRecord>> {
        let session_id = session_id.to_owned();
        self.run(move |connection| statements::load(connection, &session_id))
    }

    fn save<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
    ) -> StoreFuture<'a, Version> {
        let lease = lease.clone();
        self.run(move |connection| statements::save(connection, &lease, expected, &record))
    }

    fn append<'a>(
        &'a self,
        lease: &'a Lease,
        turn_id: &'a str,
        news: LogNews,
    ) -> StoreFuture<'a, ()> {
        let (lease, turn_id) = (lease.clone(), turn_id.to_owned());
        self.run(move |connection| statements::append(connection, &lease, &turn_id, &news))
    }

    fn finish<'a>(
        &'a self,
        lease: &'a Lease,
        expected: Option<Version>,
        record: Bytes,
        (turn_id, batches): (&'a str, Vec<Batch>),
    ) -> StoreFuture<'a, Version> {
        let (lease, turn_id) = (lease.clone(), turn_id.to_owned());
        self.run(move |connection| {
            let version = statements::save(connection, &lease, expected, &record)?;
            statements::append(connection, &lease, &turn_id, &batches.into())?;
            statements::end_log(connection, &lease, &turn_id)?;
            Ok(version)
        })
    }

    fn read<'a>(
        &'a self,
        session_id: &'a str,
        turn_id: Option<&'a str>,
        seen: u64,
    ) -> StoreFuture<'a, Option<StoredLog>> {
        let (session_id, turn_id) = (session_id.to_owned(), turn_id.map(str::to_owned));
        self.run(move |connection| {
            statements::read(connection, &session_id, turn_id.as_deref(), seen)
        })
    }

    fn keep_artifact<'a>(&'a self, session_id: &'a str, artifact: Artifact) -> StoreFuture<'a, ()> {
        let session_id = session_id.to_owned();
        self.run(move |connection| statements::keep_artifact(connection, &session_id, &artifact))
    }

    fn artifact<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Artifact>> {
        let id = id.to_owned();
        self.run(move |connection| statements::artifact(connection, &id))
    }

    fn forget<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, bool> {
        let session_id = session_id.to_owned();
        self.run(move |connection| statements::forget(connection, &session_id))
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a str>,
        count: usize,
    ) -> StoreFuture<'a, Vec<ListedSession>> {
        let after = after.unwrap_or_default().to_owned();
        self.run(move |connection| whole::list(connection, &after, count))
    }

    fn copy<'a>(&'a self, session_id: &'a str) -> StoreFuture<'a, Option<SessionCopy>> {
        let session_id = session_id.to_owned();
        self.run(move |connection| whole::copy(connection, session_id))
    }

    fn restore(&self, copy: SessionCopy, replace: bool) -> StoreFuture<'_, bool> {
        self.run(move |connection| whole::restore(connection, &copy, replace))
    }

    fn interrupted(&self, count: usize) -> StoreFuture<'_, Vec<String>> {
        self.run(move |connection| statements::interrupted(connection, count))
    }

    fn sweep(&self) {
        let oldest = now().saturating_sub(i64::try_from(self.ttl.as_millis()).unwrap_or(i64::MAX));
        let job: Job = Box::new(move |connection| {
            let swept =
                connection.and_then(|it| atomically(it, |it| statements::sweep(it, oldest)));
            Ran { reply: Box::new(|_| {}), failure: failure_of(&swept) }
        });
        // If so much waits that there is no room, the next sweep comes soon enough.
        let _ = self.jobs.try_send(job);
    }
}
