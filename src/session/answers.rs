//! Answers that are kept in clients' own forms, and the conversations that end with them.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::lease::OwnedLease;
use super::running::Claimed;
use super::sessions::{SessionError, Sessions};
use super::{LoggedTurn, codec};
use crate::conversation::Conversation;

/// An answer, as of one moment.
#[derive(Debug, Clone)]
pub struct Answered {
    /// What was known when its turn began.
    pub begun: Arc<RawValue>,
    /// The answer, once the turn is over. It is absent as well if its gateway died.
    pub answer: Option<Arc<RawValue>>,
    /// The turn, while it runs on this node.
    pub running: Option<LoggedTurn>,
}

/// A conversation that ends with a kept answer.
#[derive(Debug)]
pub enum Chain {
    /// Everything up to the answer, which the session ends with.
    Latest(Conversation),
    /// Everything up to the answer. The session has gone on since, or is busy.
    Branch(Conversation),
    /// The answer's turn still runs.
    Running,
}

/// The answer to a request to forget an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgetAnswer {
    /// It is forgotten.
    Forgotten,
    /// It was the only one, so nothing needs the session.
    WasLast,
    /// There is no such answer.
    None,
    /// Another turn runs in the session.
    Busy,
}

impl Sessions {
    /// The kept answer of a turn.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<Answered>, SessionError> {
        let session = self.running.get(session_id);
        let running = session.filter(|session| session.turn.turn_id == turn_id);
        let Some(record) = self.record(session_id).await? else { return Ok(None) };
        Ok(record.answers.find(turn_id).map(|kept| Answered {
            begun: Arc::clone(&kept.begun),
            answer: kept.answer.clone(),
            running: running.map(|session| session.turn.clone()),
        }))
    }

    /// The conversation that ends with the kept answer of a turn.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn chain(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<Option<Chain>, SessionError> {
        let running = self.running.get(session_id);
        let Some(record) = self.record(session_id).await? else { return Ok(None) };
        let Some(kept) = record.answers.find(turn_id) else { return Ok(None) };
        if running.as_ref().is_some_and(|session| session.turn.turn_id == turn_id) {
            return Ok(Some(Chain::Running));
        }
        let conversation = record.conversation;
        if let Some(replaced) = &kept.replaced {
            let turn = replaced.turn.clone();
            return Ok(Some(Chain::Branch(conversation.branch(replaced.before, Some(turn)))));
        }
        let last = conversation.turns().next_back();
        if running.is_none() && last.is_some_and(|last| last.turn_id == turn_id) {
            return Ok(Some(Chain::Latest(conversation)));
        }
        let at = conversation.turns().position(|turn| turn.turn_id == turn_id);
        Ok(at.map(|at| {
            let turns = conversation.dropped() + at as u64 + 1;
            Chain::Branch(conversation.branch(turns, None))
        }))
    }

    /// Forgets the answer of a turn. Its turn stays in the conversation, because later ones
    /// continue from it.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn forget_answer(
        &self,
        session_id: &str,
        turn_id: &str,
    ) -> Result<ForgetAnswer, SessionError> {
        let claim = loop {
            match self.running.claim(session_id) {
                Claimed::Free(claim) => break claim,
                Claimed::Later(over) => over.cancelled().await,
                Claimed::Running(session) => {
                    let mut answers = session.record.answers.clone();
                    return Ok(match (answers.forget(turn_id), answers.is_empty()) {
                        (false, _) => ForgetAnswer::None,
                        (true, true) => ForgetAnswer::WasLast,
                        (true, false) => ForgetAnswer::Busy,
                    });
                }
            }
        };
        let lease = OwnedLease::acquire(&self.store, session_id, self.node).await?;
        let Some(lease) = lease else { return Ok(ForgetAnswer::Busy) };
        let forgotten = self.forget_leased(&lease, turn_id).await;
        lease.release().await;
        drop(claim);
        forgotten
    }

    async fn forget_leased(
        &self,
        lease: &OwnedLease,
        turn_id: &str,
    ) -> Result<ForgetAnswer, SessionError> {
        let Some(stored) = self.store.load(&lease.get().session_id).await? else {
            return Ok(ForgetAnswer::None);
        };
        let mut record = codec::read(stored.bytes).await?;
        if !record.answers.forget(turn_id) {
            return Ok(ForgetAnswer::None);
        }
        if record.answers.is_empty() {
            return Ok(ForgetAnswer::WasLast);
        }
        let json = codec::write(record).await;
        self.store.save(lease.get(), Some(stored.version), json).await?;
        Ok(ForgetAnswer::Forgotten)
    }
}
