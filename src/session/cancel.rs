//! Cancelling a turn, wherever it runs. Whoever asks is told once nothing can undo it: if the turn's gateway is
//! killed in that instant, the next one ends the turn.

use super::Cancel;
use super::sessions::{SessionError, Sessions};
use super::store::{EntryClaim, EntryKey, Lease, StoreError};

impl Sessions {
    /// Cancels the turn of a session, wherever it runs.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn cancel(&self, session_id: &str) -> Result<Cancel, SessionError> {
        self.settle(session_id).await?;
        if let Some(session) = self.running.get(session_id)
            && session.turn.log.cancel()
        {
            self.note_cancel(session_id, &session.turn.turn_id).await?;
            return Ok(Cancel::Cancelling);
        }
        if let Some(turn_id) = self.turn_elsewhere(session_id).await?
            && self.store.request_cancel(session_id, Some(&turn_id)).await?
        {
            return Ok(Cancel::Cancelling);
        }
        let is_known = self.store.load(session_id).await?.is_some();
        Ok(if is_known { Cancel::NothingRuns } else { Cancel::NoSession })
    }

    /// Notes in the store that a turn of this node is cancelled.
    async fn note_cancel(&self, session_id: &str, turn_id: &str) -> Result<(), StoreError> {
        if self.store.is_shared() {
            return self.store.request_cancel(session_id, Some(turn_id)).await.map(drop);
        }
        // A store of one node takes no requests, but it keeps claims.
        let claim = EntryClaim { key: key_of(turn_id), holder: 1, lapses: false };
        self.store.claim(owner_of(session_id), claim).await.map(drop)
    }

    /// Whether the turn, which is taken over under this lease, was cancelled before.
    pub(super) async fn was_cancelled(
        &self,
        lease: &Lease,
        turn_id: &str,
    ) -> Result<bool, StoreError> {
        if self.store.is_shared() {
            return Ok(self.store.renew(lease).await?.cancels(turn_id));
        }
        let key = key_of(turn_id);
        let found = self.store.entries(owner_of(&lease.session_id), vec![key]).await?;
        Ok(found.claimed.contains(&key))
    }
}

/// Whose claims those of a session's cancelled turns are.
fn owner_of(session_id: &str) -> EntryKey {
    EntryKey::of(&["cancelled in", session_id])
}

fn key_of(turn_id: &str) -> EntryKey {
    EntryKey::of(&["cancelled", turn_id])
}
