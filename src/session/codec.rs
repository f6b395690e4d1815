//! Reads and writes what is stored without holding up a worker: a conversation of 8 MiB takes a
//! tenth of a second, in which no other stream of that worker would move.

use std::panic;

use bytes::Bytes;
use tokio::task::spawn_blocking;

use super::LoggedTurn;
use super::log::TurnLog;
use super::record::{RecordError, SessionRecord};
use super::store::StoredLog;
use crate::limits::session::INLINE_RECORD_BYTES_MAX;

pub(super) async fn read(json: Bytes) -> Result<SessionRecord, RecordError> {
    let length = json.len();
    off_worker(length, move || SessionRecord::read(&json)).await
}

/// The record, in memory of exactly its size, because it may be kept for long.
pub(super) async fn write(record: SessionRecord) -> Bytes {
    let length = record.conversation.bytes() + record.answers.bytes();
    off_worker(length, move || record.write().into_boxed_str().into_boxed_bytes().into()).await
}

/// The turn, ready to be read.
pub(super) async fn restore(stored: StoredLog) -> Result<LoggedTurn, RecordError> {
    let StoredLog { turn_id, epochs, last, batches, .. } = stored;
    let length = batches.iter().map(|batch| batch.bytes.len()).sum();
    let log = off_worker(length, move || TurnLog::restore(epochs, batches, last)).await;
    Ok(LoggedTurn { turn_id, log: log.ok_or(RecordError::DamagedLog)? })
}

/// Does work that is linear in `length`, on a thread of its own if that is long.
pub(crate) async fn off_worker<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if length <= INLINE_RECORD_BYTES_MAX {
        return work();
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => panic::resume_unwind(panicked.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Turn;

    /// Around the length from which on another thread does it.
    #[tokio::test]
    async fn a_record_of_any_length_is_read_back_as_it_was_written() {
        for length in [0, INLINE_RECORD_BYTES_MAX, 4 * INLINE_RECORD_BYTES_MAX] {
            let mut record = SessionRecord::default();
            record.conversation.push(Turn { prompt: "x".repeat(length), ..Turn::default() });
            let json = write(record.clone()).await;
            let read = read(json).await.unwrap();
            assert!(read.conversation.turns().eq(record.conversation.turns()), "{length}");
        }
    }

    #[tokio::test]
    async fn a_long_record_that_cannot_be_read_is_an_error() {
        let json = Bytes::from(vec![b'['; 2 * INLINE_RECORD_BYTES_MAX]);
        assert!(read(json).await.is_err());
    }
}
