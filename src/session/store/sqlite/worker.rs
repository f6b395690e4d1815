//! The thread of a store: it does what callers want, many of them in one transaction.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::error;

use super::{StoreError, schema, unavailable};
use crate::limits::session as limits;
use crate::telemetry::metrics;

/// What one caller wants, done within a transaction.
pub(super) type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) -> Ran + Send>;

/// What is left of a job.
pub(super) struct Ran {
    /// Tells the caller the result, once it is known whether the transaction is durable.
    pub(super) reply: Reply,
    /// Why the file could not be used. A caller that was refused is no failure.
    pub(super) failure: Option<StoreError>,
}

type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The only user of the file. It ends with the store.
pub(super) struct Worker {
    connection: Connection,
    path: PathBuf,
    /// When a failure was last logged.
    logged_at: Option<Instant>,
    /// When the file was last measured.
    measured_at: Option<Instant>,
}

impl Worker {
    pub(super) fn new(connection: Connection, path: &Path) -> Self {
        Self { connection, path: path.to_owned(), logged_at: None, measured_at: None }
    }

    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            self.commit(first, &mut queue);
        }
    }

    /// Does this job and all others that are ready in one transaction.
    fn commit(&mut self, first: Job, queue: &mut mpsc::Receiver<Job>) {
        let begun_at = Instant::now();
        let mut state = self.execute("BEGIN IMMEDIATE");
        let (mut replies, mut failed) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(job) = next {
            let Ran { reply, failure } = job(state.clone().map(|()| &self.connection));
            replies.push(reply);
            // A full disk, for one, takes back the whole transaction. What came after it would be
            // durable on its own, although its caller is told that it failed.
            if state.is_ok() && self.connection.is_autocommit() {
                let unknown = || StoreError::Unavailable("it took the writes back".to_owned());
                state = Err(failure.clone().unwrap_or_else(unknown));
            }
            failed = failed.or(failure);
            let is_full = replies.len() >= limits::STORE_JOBS_MAX;
            next = if is_full { None } else { queue.try_recv().ok() };
        }
        let committed = state.and_then(|()| {
            self.execute("COMMIT").inspect_err(|_| {
                // If this fails as well, so does the next `BEGIN`, and its callers hear of it.
                let _ = self.execute("ROLLBACK");
            })
        });
        match &committed {
            Ok(()) => metrics::store_commit(replies.len(), begun_at.elapsed()),
            Err(_) => metrics::store_commit_failed(),
        }
        if let Some(failure) = committed.as_ref().err().or(failed.as_ref()) {
            self.log(failure);
        }
        self.measure();
        for reply in replies {
            reply(committed.clone());
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(unavailable)
    }

    /// Logs why the file cannot be used, but not for each of the turns that suffer from it.
    fn log(&mut self, failure: &StoreError) {
        let now = Instant::now();
        if self.logged_at.is_some_and(|at| now - at < limits::STORE_LOG_INTERVAL) {
            return;
        }
        self.logged_at = Some(now);
        let cause = match failure {
            StoreError::Unavailable(cause) => cause.clone(),
            other => other.to_string(),
        };
        error!(path = %self.path.display(), cause, "the file of sessions cannot be used");
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
