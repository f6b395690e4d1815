//! How the file is used: in the caller's own task if that is quick, or else on the thread; in the tables, or beside
//! them.

use std::future::ready;
use std::io;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::{Lease, LogNews, StoreError, StoreFuture, Version};
use super::appender::SqliteAppender;
use super::cause::{failure_of, stopped, unavailable_beside};
use super::expiry::Deleted;
use super::leases::Leases;
use super::redo::Redo;
use super::worker::{Job, Look, Ran, Task, Waiter, Worker, atomically, fold_later};
use super::{SqliteStore, now_ms};
use crate::telemetry::metrics;

/// What a write beside the database has done, and whether the older file should be folded now.
pub(super) struct Written<T> {
    pub(super) result: T,
    pub(super) is_fold_due: bool,
}

impl<T> Written<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Written<U> {
        Written { result: change(self.result), is_fold_due: self.is_fold_due }
    }
}

/// Writes the record of a session.
pub(super) fn save(
    leases: &Leases,
    redo: &Redo,
    lease: &Lease,
    expected: Option<Version>,
    record: &[u8],
) -> Result<Written<Version>, StoreError> {
    let version = leases.next_version(lease, expected)?;
    let saved = redo.save(|| leases.holds(lease), lease, (version, now_ms()), record);
    let is_fold_due = unless_late(saved)?;
    leases.note_version(lease, version);
    Ok(Written { result: version, is_fold_due })
}

/// Writes what is new of a running turn.
pub(super) fn append(
    leases: &Leases,
    redo: &Redo,
    lease: &Lease,
    turn_id: &str,
    news: &LogNews,
) -> Result<Written<()>, StoreError> {
    let is_fold_due = unless_late(redo.append(|| leases.holds(lease), lease, turn_id, news))?;
    Ok(Written { result: (), is_fold_due })
}

/// What was written, unless the lease was lost before.
fn unless_late<T>(written: io::Result<Option<T>>) -> Result<T, StoreError> {
    written.map_err(|error| unavailable_beside(&error))?.ok_or(StoreError::Superseded)
}

/// Does something on the thread, and hands its result over once that is durable.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    hand_over: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) -> Job {
    Box::new(move |connection| {
        let result = connection.and_then(|connection| atomically(connection, work));
        let failure = failure_of(&result);
        let reply =
            Box::new(move |committed: Result<(), StoreError>| hand_over(committed.and(result)));
        Ran { reply, failure }
    })
}

impl SqliteStore {
    /// Does something in a transaction, and returns its result once that is durable. Runs in this task if it
    /// `is_short` and the file is free, or else on the thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        is_short: bool,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        if is_short
            && !self.sync.waits_for_disk()
            && let Some(mut worker) = self.worker.try_lock()
        {
            let done = worker.at_once(work);
            self.shorten_log_later(&worker);
            return Box::pin(ready(done));
        }
        Box::pin(self.queue(work))
    }

    /// The same for something that needs all of this session, or of any. One that has expired is not there.
    pub(super) async fn run_folded<T: Send + 'static>(
        &self,
        session_id: Option<&str>,
        is_short: bool,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.fold_live(session_id).await?;
        let (result, deleted) = self.run(is_short, self.expiring(session_id, work)).await?;
        self.expiry.settle(&deleted);
        Ok(result)
    }

    /// The same work, after this session, or any, was deleted if it has expired.
    fn expiring<T, W: FnOnce(&Connection) -> Result<T, StoreError>>(
        &self,
        session_id: Option<&str>,
        work: W,
    ) -> impl FnOnce(&Connection) -> Result<(T, Vec<Deleted>), StoreError> + use<T, W> {
        let (expiry, session_id) = (Arc::clone(&self.expiry), session_id.map(str::to_owned));
        move |connection| {
            let deleted = expiry.delete(connection, session_id.as_deref())?;
            Ok((work(connection)?, deleted))
        }
    }

    /// Reads something that the tables may lack, of this session or of any, which counts as using it. If the tables
    /// cannot be completed, because the disk is full, it is read as if they had been.
    pub(super) async fn read_folded<T: Send + 'static>(
        &self,
        session_id: Option<&str>,
        is_short: bool,
        read: impl Fn(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        let folded = self.run_folded(session_id, is_short, read.clone()).await;
        let Err(StoreError::Unavailable(_)) = folded else { return folded };
        let (sender, receiver) = oneshot::channel();
        let (expiry, session_id) = (Arc::clone(&self.expiry), session_id.map(str::to_owned));
        let read = move |connection: &Connection| {
            expiry.hide(connection, session_id.as_deref())?;
            read(connection)
        };
        let look: Look = Box::new(move |worker| {
            // The caller may have dropped its future.
            let _ = sender.send(worker.read_unwritten(read));
        });
        self.jobs.send(Task::Look(look)).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?.or(folded)
    }

    /// Reads something of a session without a transaction, if it has not expired: in this task if the file is free, or
    /// else on the thread.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        session_id: &str,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.fold_live(Some(session_id)).await?;
        let (result, deleted) = self.look_now(self.expiring(Some(session_id), read)).await?;
        self.expiry.settle(&deleted);
        Ok(result)
    }

    fn look_now<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        // Noting that the session is used may have to reach the disk.
        if !self.sync.waits_for_disk()
            && let Some(worker) = self.worker.try_lock()
        {
            return Box::pin(ready(worker.look(read)));
        }
        Box::pin(self.queue(read))
    }

    /// Completes the tables, if they lack something of this session, or of any.
    async fn fold_live(&self, session_id: Option<&str>) -> Result<(), StoreError> {
        if self.ended.has(session_id) {
            self.put_ended().await?;
        }
        if self.redo.has(session_id) { self.fold().await } else { Ok(()) }
    }

    /// Moves ended turns into the tables: in this task if they are few and the file is free, or else on the thread.
    async fn put_ended(&self) -> Result<(), StoreError> {
        if self.ended.are_few()
            && let Some(mut worker) = self.worker.try_lock()
        {
            let put = worker.put_ended();
            self.shorten_log_later(&worker);
            return put;
        }
        self.ask(Task::PutEnded).await
    }

    /// Has the thread shorten the write-ahead log, if that is due.
    fn shorten_log_later(&self, worker: &Worker) {
        if worker.is_log_due() {
            // If so much waits that there is no room, the next commit comes soon enough.
            let _ = self.jobs.try_send(Task::ShortenLog);
        }
    }

    /// Does something on the thread.
    async fn queue<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let job = job(work, move |result| {
            // The caller may have dropped its future.
            let _ = sender.send(result);
        });
        self.jobs.send(Task::Job(job)).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }

    /// Writes something beside the database: in this task if it `is_short` and need not reach the disk, or else on
    /// the thread, which waits for the disk once for all that it has written.
    pub(super) fn write<T: Send + 'static>(
        &self,
        is_short: bool,
        write: impl FnOnce(&Leases, &Redo) -> Result<Written<T>, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        if is_short && !self.sync.waits_for_disk() {
            let begun_at = Instant::now();
            let written = self.write_here(write);
            if written.is_ok() {
                metrics::store_commit(1, begun_at.elapsed());
            }
            return Box::pin(ready(written));
        }
        let (leases, redo) = (Arc::clone(&self.leases), Arc::clone(&self.redo));
        Box::pin(async move {
            let written = self.queue(move |_: &Connection| write(&leases, &redo)).await?;
            if written.is_fold_due {
                fold_later(&self.jobs);
            }
            Ok(written.result)
        })
    }

    /// What appends to the log of this turn at once.
    pub(super) fn appender_of(&self, lease: &Lease, turn_id: &str) -> Arc<SqliteAppender> {
        let (redo, failures) = (Arc::clone(&self.redo), Arc::clone(&self.failures));
        let (turn, jobs) = (redo.alias(lease, turn_id), self.jobs.downgrade());
        let appender = Arc::new(SqliteAppender::new(redo, turn, failures, jobs));
        self.leases.attach(lease, &appender);
        appender
    }

    /// Writes a mark beside the database, in this task.
    pub(super) fn mark<T>(
        &self,
        write: impl FnOnce(&Redo) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.write_here(|_, redo| {
            let result = write(redo).map_err(|error| unavailable_beside(&error))?;
            Ok(Written { result, is_fold_due: false })
        })
    }

    /// Writes something beside the database, in this task.
    pub(super) fn write_here<T>(
        &self,
        write: impl FnOnce(&Leases, &Redo) -> Result<Written<T>, StoreError>,
    ) -> Result<T, StoreError> {
        let written = write(&self.leases, &self.redo);
        if let Some(failure) = failure_of(&written) {
            self.failures.note_commit(&failure);
        }
        let Written { result, is_fold_due } = written?;
        if is_fold_due {
            fold_later(&self.jobs);
        }
        Ok(result)
    }

    /// Moves what running turns have written into the tables.
    pub(super) async fn fold(&self) -> Result<(), StoreError> {
        self.ask(Task::Fold).await
    }

    /// Asks the thread for something, and waits for it.
    async fn ask(&self, task: impl FnOnce(Option<Waiter>) -> Task) -> Result<(), StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.jobs.send(task(Some(sender))).await.map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}
