//! Appends the tokens of one running turn beside the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use super::super::{Appender, LogNewsRef};
use super::cause::unavailable_beside;
use super::redo::{Redo, TurnAlias};
use super::worker::{FailureLog, Task, fold_later};

/// Keeps together what each token needs. With hundreds of turns, a turn's memory leaves the cache between two of its
/// tokens, and to fetch a line takes longer than to encode a record. So the first line has all of it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct SqliteAppender {
    is_stopped: AtomicBool,
    redo: Arc<Redo>,
    turn: TurnAlias,
    failures: Arc<FailureLog>,
    /// Weak, so that no turn keeps the thread alive, which ends when nobody can send it anything.
    jobs: mpsc::WeakSender<Task>,
}

impl SqliteAppender {
    pub(super) fn new(
        redo: Arc<Redo>,
        turn: TurnAlias,
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
    fn append(&self, news: &LogNewsRef<'_>) -> bool {
        let is_held = || !self.is_stopped.load(Ordering::Acquire);
        match self.redo.append_aliased(is_held, &self.turn, news) {
            Ok(None) => false,
            Ok(Some(is_fold_due)) => {
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
