//! The writes under a lease: a session's record, news of a turn's log, or the end of a turn.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use redis::Value;

use super::super::{Batch, Lease, LogEnd, LogNews, StoreError, Version};
use super::reply::{self, list, plain};
use super::scripts::Call;
use super::{RedisStore, lost_lease, random};
use crate::limits::session as limits;
use crate::telemetry::metrics;

/// One write under a lease.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write<'w> {
    /// The record, over the version `expected`.
    Record { expected: Option<Version>, record: &'w Bytes },
    /// News of this turn's log.
    News { turn_id: &'w str, news: &'w LogNews },
    /// The record over the version `expected`, and the end of the turn's log.
    End { expected: Option<Version>, record: &'w Bytes, end: &'w LogEnd<'w> },
}

impl<'w> Write<'w> {
    const fn record(self) -> Option<&'w Bytes> {
        match self {
            Self::Record { record, .. } | Self::End { record, .. } => Some(record),
            Self::News { .. } => None,
        }
    }

    const fn expected(self) -> Option<Version> {
        match self {
            Self::Record { expected, .. } | Self::End { expected, .. } => expected,
            Self::News { .. } => None,
        }
    }

    const fn turn_id(self) -> &'w str {
        match self {
            Self::Record { .. } => "",
            Self::News { turn_id, .. } => turn_id,
            Self::End { end, .. } => end.turn_id,
        }
    }

    fn batches(self) -> &'w [Batch] {
        match self {
            Self::Record { .. } => &[],
            Self::News { news, .. } => &news.batches,
            Self::End { end, .. } => &end.batches,
        }
    }

    fn journal(self) -> &'w [u8] {
        match self {
            Self::News { news, .. } => news.journal.as_deref().unwrap_or_default(),
            Self::Record { .. } | Self::End { .. } => &[],
        }
    }

    const fn ends_turn(self) -> bool {
        matches!(self, Self::End { .. })
    }
}

/// The arguments of a write, but for those of its batches.
const WRITE_ARGUMENTS: usize = 13;

/// What a write returns.
#[derive(Debug)]
pub(super) struct Written {
    /// The record's version, if one was written.
    version: Option<Version>,
    /// The turn that someone has asked to cancel, as in [`Renewed`](super::super::Renewed), if a journal was written.
    pub(super) cancel: Option<String>,
}

impl Written {
    /// The version of the record that was written.
    pub(super) fn version(&self) -> Result<Version, StoreError> {
        self.version.ok_or_else(|| reply::unreadable("no version"))
    }
}

impl RedisStore {
    /// Writes it.
    pub(super) async fn write(
        &self,
        lease: &Lease,
        write: Write<'_>,
    ) -> Result<Written, StoreError> {
        let keys = self.keys.of_session(&lease.session_id);
        // With the record, the whole session lasts longer.
        let all = keys.all();
        let written = if write.record().is_some() { &all[..] } else { &all[..3] };
        let holder = lease.node.0.simple().to_string();
        let expected = write.expected().map(|version| version.0.to_string()).unwrap_or_default();
        let arguments = WRITE_ARGUMENTS + 3 * write.batches().len();
        let call = Call::with_capacity(&self.scripts.write, written, arguments)
            .number(lease.grant)
            .number(self.ttl)
            .number(lease.epoch)
            .text(write.turn_id())
            .bytes(write.journal())
            .number(u64::from(write.ends_turn()))
            .number(limits::TURN_LOGS_MAX as u64)
            .number(limits::TURN_LOG_BYTES_MAX as u64)
            .number(self.asked.fetch_add(1, Ordering::Relaxed))
            .text(&holder)
            .text(&expected);
        let call = match write.record() {
            Some(record) => call.number(random()).bytes(record),
            None => call.text(""),
        };
        let call = write.batches().iter().fold(call, |call, Batch { first, last, bytes }| {
            call.number(*first).number(*last).bytes(bytes)
        });
        let answer = self.servers.call(&call).await?;
        self.read_written(lease, write, answer)
    }

    /// Reads what the script has done.
    fn read_written(
        &self,
        lease: &Lease,
        write: Write<'_>,
        answer: Value,
    ) -> Result<Written, StoreError> {
        let mut answer = list(answer)?.into_iter();
        let (Some(done), Some(version)) = (answer.next(), answer.next()) else {
            return Err(reply::unreadable("too few values"));
        };
        let mut cancel = None;
        match (answer.next(), answer.next()) {
            // The turn has ended.
            (Some(deadline), Some(is_left)) => {
                // It does not wait for this.
                let session_id = &lease.session_id;
                tokio::spawn(self.list_given_back(session_id, plain(deadline)?, plain(is_left)?));
            }
            // Only a write with a journal returns this.
            (Some(asked), None) => cancel = plain(asked)?,
            (None, _) => {}
        }
        match plain(done)? {
            1 => {
                self.servers.note_written();
                note_append(write);
                // Only a record has one.
                let version = write.record().map(|_| plain(version)).transpose()?;
                Ok(Written { version: version.map(Version), cancel })
            }
            loss => {
                let error = lost_lease(loss);
                if error != StoreError::DataLoss {
                    metrics::store_write_fenced();
                }
                Err(error)
            }
        }
    }
}

fn note_append(write: Write<'_>) {
    let batches = write.batches();
    let bytes = batches.iter().map(|batch| batch.bytes.len()).sum::<usize>();
    let bytes = bytes + write.journal().len();
    if bytes > 0 {
        metrics::store_append(bytes);
        let events = batches.iter().map(|batch| batch.last + 1 - batch.first).sum();
        metrics::store_append_events(events);
    }
}
