//! Stored answers in clients' own forms, and the conversations that end with them.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::lease::OwnedLease;
use super::record::{Replaced, SessionRecord};
use super::running::Claimed;
use super::sessions::{SessionError, Sessions};
use super::store::StoreError;
use super::{LoggedTurn, codec};
use crate::conversation::Conversation;
use crate::limits::session as limits;

/// An answer, as of one moment.
#[derive(Debug, Clone)]
pub struct StoredAnswer {
    /// What was known when its turn began.
    pub head: Arc<RawValue>,
    /// The answer, once the turn is over. Also absent if its gateway died.
    pub answer: Option<Arc<RawValue>>,
    /// The turn, while it runs.
    pub running: Option<LoggedTurn>,
}

/// The conversation up to a stored answer.
#[derive(Debug)]
pub enum Chain {
    /// The answer's turn still runs.
    Running,
    /// Everything up to the answer.
    Ended {
        /// The conversation that ends with it.
        conversation: Conversation,
        /// What was known when its turn began.
        head: Arc<RawValue>,
        /// Whether the session ends with it, and no turn runs there. Otherwise the chain branches.
        is_latest: bool,
    },
}

/// The answer to a request to delete an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletedAnswer {
    /// It is deleted.
    Deleted,
    /// It was the only one, so nothing needs the session.
    WasLast,
    /// There is no such answer.
    None,
    /// Another node runs a turn in the session.
    Busy,
}

impl Sessions {
    /// A turn's stored answer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<StoredAnswer>, SessionError> {
        let running = self.running_turn(session_id).await?;
        let running = running.filter(|turn| turn.turn_id == turn_id);
        let Some(record) = self.record_of_answers(session_id).await? else { return Ok(None) };
        Ok(record.answers.find(turn_id).map(|found| StoredAnswer {
            head: Arc::clone(&found.begun),
            answer: found.answer.clone(),
            running,
        }))
    }

    /// The session's record, without what is deleted while a turn runs there, here or on another node.
    async fn record_of_answers(
        &self,
        session_id: &str,
    ) -> Result<Option<SessionRecord>, SessionError> {
        let is_here = self.running.get(session_id).is_some();
        // Asked before the record is read: the end of the turn may write it in between.
        let is_open = self.store.is_durable() && !is_here && self.is_open(session_id).await?;
        let Some(mut record) = self.settled_record(session_id).await? else { return Ok(None) };
        if is_open {
            self.drop_deleted(session_id, &mut record).await?;
        }
        Ok(Some(record))
    }

    /// The session's turn that runs, here or on another node.
    async fn running_turn(&self, session_id: &str) -> Result<Option<LoggedTurn>, SessionError> {
        self.settle_if_writable(session_id).await?;
        match self.running.get(session_id) {
            Some(session) => Ok(Some(session.turn.clone())),
            None => self.running_elsewhere(session_id).await,
        }
    }

    /// The conversation that ends with a turn's stored answer.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn chain(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<Chain>, SessionError> {
        // Its client may have seen the end already.
        if let Some(over) = self.running.storing(session_id) {
            over.cancelled().await;
        }
        let running = self.running_turn(session_id).await?;
        let Some(record) = self.record_of_answers(session_id).await? else { return Ok(None) };
        let Some(found) = record.answers.find(turn_id) else { return Ok(None) };
        if running.as_ref().is_some_and(|turn| turn.turn_id == turn_id) {
            return Ok(Some(Chain::Running));
        }
        let (head, replaced) = (Arc::clone(&found.begun), found.replaced.clone());
        let conversation = record.conversation;
        let is_last = conversation.turns().next_back().is_some_and(|last| last.turn_id == turn_id);
        let is_latest = running.is_none() && replaced.is_none() && is_last;
        let up_to_it = match replaced {
            Some(Replaced { before, turn }) => Some(conversation.branch(before, Some(turn))),
            None if is_latest => Some(conversation),
            None => {
                let at = conversation.turns().position(|turn| turn.turn_id == turn_id);
                let turns = at.map(|at| conversation.dropped() + at as u64 + 1);
                turns.map(|turns| conversation.branch(turns, None))
            }
        };
        Ok(up_to_it.map(|conversation| Chain::Ended { conversation, head, is_latest }))
    }

    /// Deletes a turn's answer, even while a turn runs in its session. If its own turn is still
    /// running, that is cancelled. The answer is busy if another turn runs on another node, and that does not
    /// end soon.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn delete_answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<DeletedAnswer, SessionError> {
        let deadline = Instant::now() + limits::SUPERSEDE_WAIT;
        // By the end of a turn that ran here, perhaps.
        let mut may_be_deleted = false;
        let deleted = loop {
            let claim = match self.running.claim(session_id) {
                Claimed::Free(claim) => claim,
                Claimed::Later(over) => {
                    over.cancelled().await;
                    continue;
                }
                Claimed::Running(session) => match self.delete_beside(&session, turn_id).await {
                    // Its turn has just ended, or has been taken over.
                    Err(StoreError::Superseded | StoreError::NoSession)
                        if Instant::now() < deadline =>
                    {
                        may_be_deleted = true;
                        sleep(limits::BUSY_LOOK_INTERVAL).await;
                        continue;
                    }
                    deleted => break deleted?,
                },
            };
            if let Some(lease) = OwnedLease::acquire(&self.store, session_id, self.node).await? {
                let deleted = self.delete_leased(&lease, turn_id).await;
                lease.release().await;
                break deleted?;
            }
            drop(claim);
            if !self.store.is_shared() || Instant::now() > deadline {
                break DeletedAnswer::Busy;
            }
            self.free_elsewhere(session_id, turn_id).await?;
        };
        let is_gone = deleted == DeletedAnswer::None && may_be_deleted;
        Ok(if is_gone { DeletedAnswer::Deleted } else { deleted })
    }

    /// Waits a moment for a session that another node holds. If this turn runs there, it is cancelled first.
    async fn free_elsewhere(&self, session_id: &str, turn_id: &str) -> Result<(), SessionError> {
        if self.turn_elsewhere(session_id).await?.as_deref() == Some(turn_id) {
            self.store.request_cancel(session_id, Some(turn_id)).await?;
        }
        sleep(limits::BUSY_LOOK_INTERVAL).await;
        Ok(())
    }

    async fn delete_leased(
        &self,
        lease: &OwnedLease,
        turn_id: &str,
    ) -> Result<DeletedAnswer, SessionError> {
        let session_id = &*lease.get().session_id;
        let Some(stored) = self.store.load(session_id).await? else {
            return Ok(DeletedAnswer::None);
        };
        let mut record = codec::read(stored.bytes).await?;
        if !record.delete_answer(turn_id) {
            return Ok(DeletedAnswer::None);
        }
        if record.answers.is_empty() {
            return Ok(DeletedAnswer::WasLast);
        }
        if self.store.is_durable() && self.is_turn_open(session_id, Some(turn_id)).await? {
            // It was interrupted. Whoever takes it over ends it.
            self.note_cancel(session_id, turn_id).await?;
        }
        let json = codec::write(record).await;
        self.store.save(lease.get(), Some(stored.version), json).await?;
        Ok(DeletedAnswer::Deleted)
    }
}
