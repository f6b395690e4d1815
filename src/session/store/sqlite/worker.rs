//! The thread that uses the file: it does in transactions what callers want.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::error;

use super::cause::{failure_of, unavailable, unavailable_beside};
use super::ended::EndedTurns;
use super::redo::{Extent, Redo};
use super::{StoreError, SyncMode, fold, schema, statements};
use crate::limits::session as limits;
use crate::telemetry::metrics;
use crate::telemetry::seldom::Seldom;

/// What one caller wants, done within a transaction.
pub(super) type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) -> Ran + Send>;

/// What one caller wants to read, whether or not the file can be written.
pub(super) type Look = Box<dyn FnOnce(&Worker) + Send>;

/// What the thread does.
pub(super) enum Task {
    Job(Job),
    Look(Look),
    /// Moves what running turns have written into the tables: all of it if somebody waits for that, or else only what
    /// is in the older file.
    Fold(Option<Waiter>),
    /// Moves ended turns into the tables.
    PutEnded(Option<Waiter>),
    /// Moves what was committed from the write-ahead log into the database.
    ShortenLog,
}

/// Who waits for a task.
pub(super) type Waiter = oneshot::Sender<Result<(), StoreError>>;

/// What is left of a job.
pub(super) struct Ran {
    /// Tells the caller the result, once it is known whether the transaction is durable.
    pub(super) reply: Reply,
    /// Why the file could not be used. A caller that was refused is no failure.
    pub(super) failure: Option<StoreError>,
}

type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Has the thread move what is in the older file into the tables.
pub(super) fn fold_later(jobs: &mpsc::Sender<Task>) {
    // If the queue is full, a later append asks again.
    let _ = jobs.try_send(Task::Fold(None));
}

/// Does the tasks in the queue until nobody can send any more, and then completes the database.
pub(super) fn serve(worker: &Mutex<Worker>, mut queue: mpsc::Receiver<Task>) {
    let mut next = queue.blocking_recv();
    while let Some(task) = next {
        let left = match task {
            Task::Job(job) => worker.lock().commit(job, &mut queue),
            Task::Look(look) => {
                look(&worker.lock());
                None
            }
            Task::Fold(asked) => {
                let extent = if asked.is_some() { Extent::BothFiles } else { Extent::OlderFile };
                let folded = worker.lock().fold(extent);
                answer(asked, folded);
                None
            }
            Task::PutEnded(asked) => {
                let put = worker.lock().put_ended();
                answer(asked, put);
                None
            }
            Task::ShortenLog => None,
        };
        worker.lock().shorten_log();
        next = left.or_else(|| queue.blocking_recv());
    }
    worker.lock().close();
}

fn answer(asked: Option<Waiter>, done: Result<(), StoreError>) {
    if let Some(asked) = asked {
        // The caller may have dropped its future.
        let _ = asked.send(done);
    }
}

/// The file. Whoever has the worker is its only user.
#[derive(Debug)]
pub(super) struct Worker {
    connection: Connection,
    redo: Arc<Redo>,
    ended: Arc<EndedTurns>,
    sync: SyncMode,
    path: PathBuf,
    failures: Arc<FailureLog>,
    /// Commits since the write-ahead log was last moved into the database.
    commits: usize,
    /// When the file was last measured.
    measured_at: Option<Instant>,
}

/// Logs that the file cannot be used.
#[derive(Debug)]
pub(super) struct FailureLog {
    path: PathBuf,
    failures: Mutex<Seldom>,
}

impl FailureLog {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), failures: Mutex::default() }
    }

    /// Counts a commit that has failed, and logs that.
    pub(super) fn note_commit(&self, failure: &StoreError) {
        metrics::store_commit_failed();
        self.note(failure);
    }

    /// Logs a failure, but not for each of the turns that suffer from it.
    pub(super) fn note(&self, failure: &StoreError) {
        if !self.failures.lock().is_due(limits::STORE_LOG_INTERVAL) {
            return;
        }
        let cause = match failure {
            StoreError::Unavailable(cause) => cause.clone(),
            other => other.to_string(),
        };
        error!(path = %self.path.display(), cause, "the file of sessions cannot be used");
    }
}

impl Worker {
    pub(super) fn new(
        connection: Connection,
        sync: SyncMode,
        redo: Arc<Redo>,
        ended: Arc<EndedTurns>,
        failures: Arc<FailureLog>,
    ) -> Self {
        let path = failures.path.clone();
        Self { connection, redo, ended, sync, path, failures, commits: 0, measured_at: None }
    }

    /// Completes the tables, and drops what was never saved. Returns the latest version of a record. On a full disk,
    /// the tables stay incomplete: sessions can be read, but no turn begins.
    pub(super) fn begin_use(&mut self) -> Result<u64, StoreError> {
        // Until then, nobody knows what the files have.
        self.redo.note_unfolded().map_err(|error| unavailable_beside(&error))?;
        let mut begun = self.fold(Extent::BothFiles);
        if begun.is_ok() {
            begun = schema::drop_unsaved(&self.connection)
                .map_err(unavailable)
                .and_then(|()| statements::use_interrupted(&self.connection));
        }
        let Err(failure) = begun else { return statements::last_version(&self.connection) };
        let version = self.read_unwritten(statements::last_version).map_err(|_| failure)?;
        self.redo.note_unfolded().map_err(|error| unavailable_beside(&error))?;
        Ok(version)
    }

    /// Reads something as if the tables had what is beside them, and writes nothing.
    pub(super) fn read_unwritten<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin()?;
        // The changes stay in memory, and are rolled back.
        let result = self
            .execute("PRAGMA cache_spill=OFF")
            .and_then(|()| self.put_all())
            .and_then(|()| read(&self.connection));
        self.roll_back();
        self.execute("PRAGMA cache_spill=ON")?;
        result
    }

    /// Puts what is beside the tables into them, within a transaction.
    fn put_all(&self) -> Result<(), StoreError> {
        for turn in self.ended.all() {
            statements::put_ended(&self.connection, &turn)?;
        }
        for file in self.redo.unfolded().map_err(|error| unavailable_beside(&error))? {
            fold::fold(&self.connection, &file)?;
        }
        Ok(())
    }

    /// Does this job and all others that are ready in one transaction. Returns what is next, if it is no job.
    fn commit(&mut self, first: Job, queue: &mut mpsc::Receiver<Task>) -> Option<Task> {
        let begun_at = Instant::now();
        let mut state = self.begin();
        let (mut replies, mut failed, mut left) = (Vec::new(), None, None);
        let mut next = Some(first);
        while let Some(job) = next {
            let Ran { reply, failure } = job(state.clone().map(|()| &self.connection));
            replies.push(reply);
            // A full disk, for one, rolls back the whole transaction. Jobs after that would commit one by one,
            // although their callers are told that they failed.
            if state.is_ok() && self.connection.is_autocommit() {
                let unknown =
                    || StoreError::Unavailable("the file rolled the writes back".to_owned());
                state = Err(failure.clone().unwrap_or_else(unknown));
            }
            failed = failed.or(failure);
            let is_full = replies.len() >= limits::STORE_JOBS_MAX;
            next = match if is_full { None } else { queue.try_recv().ok() } {
                Some(Task::Job(job)) => Some(job),
                other => {
                    left = other;
                    None
                }
            };
        }
        let committed = state.and_then(|()| self.end()).and_then(|()| self.sync_redo());
        self.note(replies.len(), begun_at, committed.as_ref().err().or(failed.as_ref()));
        for reply in replies {
            reply(committed.clone());
        }
        left
    }

    /// Does one thing in a transaction of its own.
    pub(super) fn at_once<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begun_at = Instant::now();
        let result = self.transact(work);
        self.note(1, begun_at, failure_of(&result).as_ref());
        result
    }

    /// Reads something that needs no transaction.
    pub(super) fn look<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.roll_back();
        let result = read(&self.connection);
        if let Some(failure) = failure_of(&result) {
            self.failures.note(&failure);
        }
        result
    }

    fn transact<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.begin()?;
        let done = work(&self.connection).inspect_err(|_| self.roll_back())?;
        self.end()?;
        Ok(done)
    }

    /// How many transactions were committed since the write-ahead log was last shortened.
    #[cfg(test)]
    pub(super) const fn commits(&self) -> usize {
        self.commits
    }

    /// Moves ended turns into the tables. Whoever has the worker next finds them there.
    pub(super) fn put_ended(&mut self) -> Result<(), StoreError> {
        let turns = self.ended.all();
        if turns.is_empty() {
            return Ok(());
        }
        let begun_at = Instant::now();
        let put = self.transact(|connection| {
            turns.iter().try_for_each(|turn| statements::put_ended(connection, turn))
        });
        self.note(turns.len(), begun_at, put.as_ref().err());
        put?;
        self.redo.settle(turns.iter().map(|turn| turn.ids()));
        // A session is here until nothing of it is live in the other files.
        self.ended.remove(&turns);
        Ok(())
    }

    /// Moves what running turns have written into the tables, after the turns that have ended.
    pub(super) fn fold(&mut self, extent: Extent) -> Result<(), StoreError> {
        self.put_ended()?;
        self.shorten_log();
        // The older file, and then the current one.
        let folded = (0..2).try_for_each(|_| self.fold_one(extent));
        folded.inspect_err(|failure| self.failures.note(failure))
    }

    fn fold_one(&self, extent: Extent) -> Result<(), StoreError> {
        let begun = self.redo.begin_fold(extent).map_err(|error| unavailable_beside(&error))?;
        let Some(folding) = begun else { return Ok(()) };
        self.transact(|connection| fold::fold(connection, &folding))?;
        // What is about to be emptied may be minutes old: a power cut must not take that.
        self.execute("PRAGMA wal_checkpoint(PASSIVE)")?;
        self.redo.end_fold(&folding).map_err(|error| unavailable_beside(&error))
    }

    /// Whether the write-ahead log is long enough to be moved into the database, or has what a file beside it can be
    /// emptied of then. That waits for the disk, so only the thread does it.
    pub(super) fn is_log_due(&self) -> bool {
        self.commits >= limits::COMMITS_PER_CHECKPOINT || self.redo.has_unneeded()
    }

    fn shorten_log(&mut self) {
        if !self.is_log_due() {
            return;
        }
        self.commits = 0;
        match self.execute("PRAGMA wal_checkpoint(PASSIVE)") {
            Ok(()) => self.redo.empty_unneeded(),
            // The log keeps growing until the next attempt.
            Err(failure) => self.failures.note(&failure),
        }
    }

    /// Leaves nothing beside the database, if that is possible.
    fn close(&mut self) {
        if self.fold(Extent::BothFiles).is_ok() {
            self.redo.remove();
        }
    }

    fn begin(&self) -> Result<(), StoreError> {
        self.roll_back();
        self.execute("BEGIN IMMEDIATE")
    }

    fn end(&self) -> Result<(), StoreError> {
        // If rolling back fails as well, so does the next `BEGIN`, and its callers hear of it.
        self.execute("COMMIT").inspect_err(|_| self.roll_back())
    }

    /// Rolls back a transaction that has failed, or in which something has panicked.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(unavailable)?;
        let mut rows = statement.query([]).map_err(unavailable)?;
        while rows.next().map_err(unavailable)?.is_some() {}
        Ok(())
    }

    /// Commits go to the disk by themselves if they have to, but not what is written beside the database.
    fn sync_redo(&self) -> Result<(), StoreError> {
        match self.sync {
            SyncMode::Normal => Ok(()),
            SyncMode::Full => self.redo.sync().map_err(|error| unavailable_beside(&error)),
        }
    }

    /// Counts a commit, or a failure.
    fn note(&mut self, jobs: usize, begun_at: Instant, failure: Option<&StoreError>) {
        match failure {
            None => {
                self.commits += 1;
                metrics::store_commit(jobs, begun_at.elapsed());
            }
            Some(failure) => self.failures.note_commit(failure),
        }
        self.measure();
    }

    /// Sets the gauges of the file.
    fn measure(&mut self) {
        if let Ok(sessions) = schema::count(&self.connection) {
            metrics::store_sessions(sessions);
        }
        let now = Instant::now();
        let is_due = self.measured_at.is_none_or(|at| now - at >= limits::STORE_MEASURE_INTERVAL);
        if is_due {
            self.measured_at = Some(now);
            metrics::store_file_bytes(schema::bytes(&self.path));
        }
    }
}

/// Does all of a job or nothing, among others of the same transaction.
pub(super) fn atomically<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("SAVEPOINT job").map_err(unavailable)?;
    let result = work(connection);
    let end = if result.is_ok() { "RELEASE job" } else { "ROLLBACK TO job; RELEASE job" };
    let ended = connection.execute_batch(end).map_err(unavailable);
    // A full disk has undone the whole transaction by then, and its own error says why.
    let done = result?;
    ended.map(|()| done)
}
