//! Cancelling a turn, wherever it runs. Whoever asks is told once nothing can undo it: if the turn's gateway is
//! killed in that instant, the next one ends the turn.

use tokio::time::sleep;

use super::sessions::{SessionError, Sessions, ended};
use super::store::{ClaimTerm, EntryClaim, EntryKey, EntryOwner, Lease, StoreError};
use super::{Cancel, LoggedTurn};
use crate::limits::session as limits;

impl Sessions {
    /// Cancels the turn of a session, wherever it runs.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn cancel(&self, session_id: &str) -> Result<Cancel, SessionError> {
        self.settle(session_id).await?;
        let turn_id = match self.running.get(session_id) {
            Some(session) if !session.turn.log.has_ended() => Some(session.turn.turn_id.clone()),
            _ => self.turn_elsewhere(session_id).await?,
        };
        if let Some(turn_id) = turn_id
            && self.cancel_turn(session_id, &turn_id).await?
        {
            return Ok(Cancel::Cancelling);
        }
        let is_known = self.store.load(session_id).await?.is_some();
        Ok(if is_known { Cancel::NothingRuns } else { Cancel::NoSession })
    }

    /// Cancels a turn, wherever it runs, and waits for its end.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn cancel_to_end(
        &self,
        session_id: &str,
        turn: &LoggedTurn,
    ) -> Result<(), SessionError> {
        while !turn.log.has_ended() && !self.cancel_turn(session_id, &turn.turn_id).await? {
            // No gateway holds the session: the turn has just ended, or its gateway was stopped.
            self.settle(session_id).await?;
            sleep(limits::BUSY_LOOK_INTERVAL).await;
        }
        ended(&turn.log).await;
        Ok(())
    }

    /// Cancels the turn with this id. False if no gateway runs it.
    pub(super) async fn cancel_turn(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<bool, StoreError> {
        if let Some(session) = self.running.get(session_id)
            && session.turn.turn_id == turn_id
            && session.turn.log.cancel()
        {
            self.note_cancel(session_id, turn_id).await?;
            return Ok(true);
        }
        self.store.request_cancel(session_id, Some(turn_id)).await
    }

    /// Notes in the store that a turn is cancelled, which runs on this node or on none.
    pub(super) async fn note_cancel(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<(), StoreError> {
        if self.store.is_shared() {
            return self.store.request_cancel(session_id, Some(turn_id)).await.map(drop);
        }
        // A store of one node takes no requests, but it keeps claims.
        let claim = EntryClaim { key: key_of(turn_id), holder: 1, term: ClaimTerm::Lasting };
        self.store.acquire_claim(owner_of(session_id), claim).await.map(drop)
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
fn owner_of(session_id: &str) -> EntryOwner {
    EntryOwner::of(&["cancelled in", session_id])
}

fn key_of(turn_id: &str) -> EntryKey {
    EntryKey::of(&["cancelled", turn_id])
}
