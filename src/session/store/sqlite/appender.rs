//! Appends the tokens of one running turn beside the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::super::{Appender, NewEvents};
use super::cause::unavailable_beside;
use super::redo::{NumberedTurn, Redo};
use super::worker::{FailureLog, Task, fold_later};

/// Has at hand what would be looked up for each token. Among hundreds of turns, memory that only one of them uses has
/// left the cache by its next token, and to fetch it takes longer than to encode a record: so what each token needs is
/// in one line of the cache, at the beginning.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct SqliteAppender {
    is_stopped: AtomicBool,
    redo: Arc<Redo>,
    turn: NumberedTurn,
    failures: Arc<FailureLog>,
    /// The thread ends when nobody can send it anything: a turn must not keep it alive.
    jobs: mpsc::WeakSender<Task>,
}

impl SqliteAppender {
    pub(super) fn new(
        redo: Arc<Redo>,
        turn: NumberedTurn,
        failures: Arc<FailureLog>,
        jobs: mpsc::WeakSender<Task>,
    ) -> Self {
        Self { is_stopped: AtomicBool::new(false), redo, turn, failures, jobs }
    }

    /// Appends nothing from now on: the lease is lost, or was given back.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }
}

impl Appender for SqliteAppender {
    fn append(&self, news: &NewEvents<'_>) -> bool {
        if self.is_stopped.load(Ordering::Acquire) {
            return false;
        }
        match self.redo.append_numbered(&self.turn, news) {
            Ok(is_fold_due) => {
                if is_fold_due && let Some(jobs) = self.jobs.upgrade() {
                    fold_later(&jobs);
                }
                true
            }
            Err(error) => {
                self.failures.note_commit(&unavailable_beside(&error));
                false
            }
        }
    }
}
