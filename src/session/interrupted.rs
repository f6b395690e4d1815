//! Turns whose gateway was stopped while they ran: the next one that comes across such a turn ends it.

use tracing::info;

use super::codec::{self, off_worker};
use super::journal::{self, Journal};
use super::lease::OwnedLease;
use super::record::SessionRecord;
use super::running::Claimed;
use super::sessions::{SessionError, Sessions};
use super::store::{Lease, StoreError};
use crate::telemetry::metrics;

impl Sessions {
    /// Ends the session's latest turn if it was interrupted: no gateway has the session's lease.
    pub(super) async fn settle(&self, session_id: &str) -> Result<(), SessionError> {
        let _claim = loop {
            if !self.store.is_durable() || self.running.get(session_id).is_some() {
                return Ok(());
            }
            let log = self.store.read(session_id, None, u64::MAX).await?;
            if log.is_none_or(|log| log.journal.is_none()) {
                return Ok(());
            }
            match self.running.claim(session_id) {
                Claimed::Free(claim) => break claim,
                // Somebody else is at it.
                Claimed::Later(over) => over.cancelled().await,
                Claimed::Running(_) => return Ok(()),
            }
        };
        let Some(lease) = OwnedLease::acquire(&self.store, session_id, self.node).await? else {
            return Ok(());
        };
        let ended = self.end_interrupted(lease.get()).await;
        lease.release().await;
        ended
    }

    /// The same under a claim and a lease of the session: its log gets a last event, and the conversation what
    /// the turn had said and done.
    pub(super) async fn end_interrupted(&self, lease: &Lease) -> Result<(), SessionError> {
        if !self.store.is_durable() {
            return Ok(());
        }
        let session_id = &*lease.session_id;
        let log = self.store.read(session_id, None, u64::MAX).await?;
        let Some((log, json)) = log.and_then(|log| log.journal.clone().map(|json| (log, json)))
        else {
            return Ok(());
        };
        let Some(stored) = self.store.load(session_id).await? else { return Ok(()) };
        let mut record: SessionRecord = codec::read(stored.bytes).await?;
        let length = json.len();
        let journal = off_worker(length, move || Journal::read(&json)).await?;
        let events = self.store.read(session_id, Some(&log.turn_id), journal.after).await?;
        let events = events.map(|log| log.batches).unwrap_or_default();
        let turn = off_worker(length, move || journal.interrupted(&events)).await;
        info!(session = session_id, turn = log.turn_id, "a turn that was interrupted is ended");
        record.answers.end(&log.turn_id, None);
        if turn.continues {
            record.answers.keep_replaced(&record.conversation);
        }
        record.conversation.push(turn);
        let record = codec::write(record).await;
        let end = (&*log.turn_id, vec![journal::end_after(log.last)]);
        match self.store.finish(lease, Some(stored.version), record, end).await {
            Ok(_) => {
                metrics::turn_interrupted();
                Ok(())
            }
            // Somebody else was faster.
            Err(StoreError::Superseded) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
