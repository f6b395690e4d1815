//! The hold on a session while a turn runs in it, up to what the turn leaves.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::value::RawValue;
use tracing::warn;

use super::codec;
use super::journal;
use super::lease::OwnedLease;
use super::log::TurnLog;
use super::part_waker::PartWaker;
use super::persister::{Persister, patiently};
use super::running::Claim;
use super::store::{Batch, Store, StoreError};
use super::{LoggedTurn, RunningSession};
use crate::conversation;

/// A session's slot for a running turn. Dropping it frees the slot, but only
/// [`finish`](Self::finish) keeps what the turn leaves.
#[derive(Debug)]
pub(crate) struct TurnGuard {
    store: Arc<dyn Store>,
    claim: Claim,
    lease: OwnedLease,
    session: Arc<RunningSession>,
    persister: Persister,
    /// The answer in the client's own form.
    answer: Option<Arc<RawValue>>,
}

impl TurnGuard {
    /// From now on, the lease is kept for the turn.
    pub(super) fn new(
        store: Arc<dyn Store>,
        claim: Claim,
        mut lease: OwnedLease,
        session: Arc<RunningSession>,
        persister: Persister,
    ) -> Self {
        lease.keep_for(&session.turn);
        Self { store, claim, lease, session, persister, answer: None }
    }

    /// Does what writes the turn's log, and stores meanwhile what is new of it. When only the store has
    /// answered, there is nothing new to write.
    pub(crate) async fn store_while<T>(&mut self, writing: impl Future<Output = T>) -> T {
        let mut writing = pin!(writing);
        let part = PartWaker::new();
        let waker = Waker::from(Arc::clone(&part));
        poll_fn(|cx| {
            let polled = if part.take(cx.waker()) {
                writing.as_mut().poll(&mut Context::from_waker(&waker))
            } else {
                Poll::Pending
            };
            self.persister.poll(cx);
            polled
        })
        .await
    }

    /// Leaves the turn as the store has it, for another gateway.
    pub(crate) async fn leave(self) {
        drop(self.persister);
        self.lease.release().await;
    }

    /// The session's nonce, eight hexadecimal digits.
    #[must_use]
    pub(crate) fn nonce(&self) -> &str {
        self.session.nonce()
    }

    /// Leaves the session as it was before the turn, whose answer was to be kept.
    pub(crate) async fn abandon(self) {
        let RunningSession { version, turn, .. } = &*self.session;
        let record = self.session.record_after(None, None).map(|mut record| {
            record.answers.delete(&turn.turn_id);
            record
        });
        let Some(record) = record.filter(|record| !record.answers.is_empty()) else {
            return self.discard().await;
        };
        self.persister.stop().await;
        let json = codec::write(record).await;
        let end = (&*turn.turn_id, unstored(&*self.store, &turn.log));
        if let Err(error) = self.store.finish(self.lease.get(), *version, json, end).await {
            warn!("a session was not left as it was: {error}");
        }
        self.lease.release().await;
    }

    /// Forgets the session, unless another node has it by now.
    pub(crate) async fn discard(self) {
        drop(self.persister);
        if self.store.is_shared() && self.store.renew(self.lease.get()).await.is_err() {
            return self.lease.release().await;
        }
        if let Err(error) = self.store.forget(&self.lease.get().session_id).await {
            warn!("a session that is no longer needed was not forgotten: {error}");
        }
        self.lease.release().await;
    }

    /// Whether the turn's answer is kept in the client's own form.
    #[must_use]
    pub(crate) fn keeps_answer(&self) -> bool {
        self.session.record.answers.find(&self.session.turn.turn_id).is_some()
    }

    /// The head of the answer, if that is kept in the client's own form.
    #[must_use]
    pub(crate) fn answer_head(&self) -> Option<&RawValue> {
        let answers = &self.session.record.answers;
        answers.find(&self.session.turn.turn_id).map(|answer| &*answer.begun)
    }

    /// The turn's log.
    #[must_use]
    pub(crate) fn log(&self) -> &Arc<TurnLog> {
        &self.session.turn.log
    }

    /// Sets the answer in the client's own form, which is kept with the turn.
    pub(crate) fn set_answer(&mut self, answer: Option<Arc<RawValue>>) {
        self.answer = answer;
    }

    /// Adds the turn to the conversation and stores its log, which is sealed. Then frees the slot.
    /// `turn` is `None` if the driver died, which leaves nothing but the log.
    pub(crate) async fn finish(self, turn: Option<conversation::Turn>) {
        if !self.claim.store(Arc::clone(&self.session)) {
            return;
        }
        let RunningSession { version, turn: LoggedTurn { turn_id, log }, .. } = &*self.session;
        let Some(record) = self.session.record_after(turn, self.answer.clone()) else {
            return self.discard().await;
        };
        let record = codec::write(record).await;
        self.persister.stop().await;
        let rest = unstored(&*self.store, log);
        let finish = || {
            let end = (&**turn_id, rest.clone());
            self.store.finish(self.lease.get(), *version, record.clone(), end)
        };
        match patiently(&*self.store, finish).await {
            Ok(_) => {}
            Err(StoreError::Superseded) => {
                log.note_superseded();
                warn!("the turn was not stored: its session was deleted, or taken over");
            }
            Err(error) => {
                // Readers must not see an end that the store does not have.
                log.end_unstored(&journal::NOT_STORED);
                warn!("the end of the turn was not stored: {error}");
            }
        }
        // Before the slot is free: the next turn takes a lease of its own.
        self.lease.release().await;
    }
}

/// What a store needs of a turn's log, which is sealed.
fn unstored(store: &dyn Store, log: &TurnLog) -> Vec<Batch> {
    if store.wants_whole_logs() { log.all() } else { log.rest() }
}
