//! How a turn ends: see [`ended`](super::ended).

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::super::{Lease, LogEnd, StoreError, Version};
use super::access::Written;
use super::cause::unavailable_beside;
use super::ended::{Backlog, EndedTurn, bytes_of};
use super::redo::Redo;
use super::worker::Task;
use super::{SqliteStore, now_ms, statements};
use crate::limits::session as limits;
use crate::telemetry::metrics;

impl SqliteStore {
    /// Ends a turn: beside the database if its end is short and complete, or else in it.
    pub(super) async fn finish_now(
        &self,
        lease: &Lease,
        expected: Option<Version>,
        record: Bytes,
        LogEnd { turn_id, batches }: LogEnd<'_>,
    ) -> Result<Version, StoreError> {
        let is_whole = batches.first().is_some_and(|batch| batch.first == 1);
        let bytes = bytes_of(&record, &batches);
        let is_short = bytes <= limits::INLINE_RECORD_BYTES_MAX;
        if is_whole && is_short && !self.sync.waits_for_disk() && self.ended.has_room(bytes) {
            return self.end_beside(lease, expected, record, LogEnd::new(turn_id, batches));
        }
        self.mark(Redo::check_in_place)?;
        let (leases, ended, turn) = (Arc::clone(&self.leases), lease.clone(), turn_id.to_owned());
        let finish = move |connection: &Connection| {
            let version = leases.next_version(&ended, expected)?;
            statements::save(connection, &ended, version, &record)?;
            statements::end_log(connection, &ended, &turn, batches)?;
            Ok(version)
        };
        let version = if is_whole {
            self.run(is_short, finish).await?
        } else {
            self.run_folded(Some(&lease.session_id), is_short, finish).await?
        };
        self.leases.note_version(lease, version);
        self.redo.settle([(&*lease.session_id, turn_id)].into_iter());
        self.leases.release(lease);
        Ok(version)
    }

    /// Ends a turn beside the database, in this task.
    fn end_beside(
        &self,
        lease: &Lease,
        expected: Option<Version>,
        record: Bytes,
        LogEnd { turn_id, batches }: LogEnd<'_>,
    ) -> Result<Version, StoreError> {
        let begun_at = Instant::now();
        let (version, backlog) = self.write_here(|leases, redo| {
            let (written, backlog) = self.ended.end(|| {
                let version = leases.next_version(lease, expected)?;
                let (lease, turn_id, at) = (lease.clone(), turn_id.to_owned(), now_ms());
                let turn = EndedTurn { lease, turn_id, version, at, record, batches };
                let is_fold_due = redo.end(&turn).map_err(|error| unavailable_beside(&error))?;
                Ok((Written { result: version, is_fold_due }, turn))
            })?;
            Ok(written.map(|version| (version, backlog)))
        })?;
        metrics::store_commit(1, begun_at.elapsed());
        self.leases.release(lease);
        self.put_ended_later(backlog);
        Ok(version)
    }

    /// Makes sure that the tables get the ended turns before long. The first of them sets the timer.
    fn put_ended_later(&self, backlog: Backlog) {
        match backlog {
            // If the queue is full, the next end asks again.
            Backlog::Enough => drop(self.jobs.try_send(Task::PutEnded(None))),
            Backlog::Few => {}
            Backlog::First => {
                let Ok(runtime) = Handle::try_current() else { return };
                // The thread ends when nobody can send it anything: the timer must not keep it alive.
                let jobs = self.jobs.downgrade();
                runtime.spawn(async move {
                    sleep(limits::ENDED_TURNS_WAIT).await;
                    if let Some(jobs) = jobs.upgrade() {
                        // The thread may have panicked.
                        let _ = jobs.send(Task::PutEnded(None)).await;
                    }
                });
            }
        }
    }
}
