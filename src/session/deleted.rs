//! Answers that are deleted while a turn runs in their session. The end of that turn takes them out of the record. Until
//! then, a claim in the store says that an answer is deleted, even if the gateway is killed.

use super::answers::DeletedAnswer;
use super::record::SessionRecord;
use super::sessions::Sessions;
use super::store::{ClaimTerm, EntryClaim, EntryKey, EntryOwner, StoreError};
use super::{Deletion, RunningSession};

impl Sessions {
    /// Deletes a turn's answer while a turn of this node runs in its session. If that is its own, it is cancelled.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if another node has taken the turn over. If the store cannot be asked, the answer may
    /// come back: it has to be deleted again.
    pub(super) async fn delete_beside(
        &self,
        session: &RunningSession,
        turn_id: &str,
    ) -> Result<DeletedAnswer, StoreError> {
        if !session.delete_answer(turn_id) {
            return Ok(DeletedAnswer::None);
        }
        let session_id = &session.lease.session_id;
        let was_last = session.record_now().answers.is_empty();
        if self.store.is_durable() && !was_last {
            let claim = EntryClaim { key: key_of(turn_id), holder: 1, term: ClaimTerm::Lasting };
            self.store.acquire_claim(owner_of(session_id), claim).await?;
        }
        if self.store.is_shared() {
            // Whoever has taken the turn over by now may have looked too early, and gone on.
            self.store.renew(&session.lease).await?;
        }
        if was_last {
            return Ok(DeletedAnswer::WasLast);
        }
        session.deleted.lock().insert(turn_id.to_owned(), Deletion::Stored);
        // Not before: its end would free the session.
        if session.turn.turn_id == turn_id {
            self.cancel_turn(session_id, turn_id).await?;
        }
        Ok(DeletedAnswer::Deleted)
    }

    /// The turns of a record whose answers were deleted while a turn ran that is not over.
    pub(super) async fn deleted_in(
        &self,
        session_id: &str,
        record: &SessionRecord,
    ) -> Result<Vec<String>, StoreError> {
        let mut turns: Vec<String> = record.answers.turn_ids().map(str::to_owned).collect();
        if !turns.is_empty() {
            let keys = turns.iter().map(|turn_id| key_of(turn_id)).collect();
            let found = self.store.entries(owner_of(session_id), keys).await?;
            turns.retain(|turn_id| found.claimed.contains(&key_of(turn_id)));
        }
        Ok(turns)
    }

    /// Drops their answers from the record.
    pub(super) async fn drop_deleted(
        &self,
        session_id: &str,
        record: &mut SessionRecord,
    ) -> Result<(), StoreError> {
        for turn_id in self.deleted_in(session_id, record).await? {
            record.delete_answer(&turn_id);
        }
        Ok(())
    }
}

/// Whose claims those of a session's deleted answers are.
fn owner_of(session_id: &str) -> EntryOwner {
    EntryOwner::of(&["deleted in", session_id])
}

fn key_of(turn_id: &str) -> EntryKey {
    EntryKey::of(&["deleted", turn_id])
}
