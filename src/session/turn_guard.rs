//! The hold on a session while a turn runs in it, up to what the turn leaves.
//!
//! | a turn ends with | and leaves |
//! | --- | --- |
//! | [`finish`](TurnGuard::finish) | itself in the conversation, and its log |
//! | [`discard`](TurnGuard::discard) | nothing: the session is forgotten |
//! | [`discard_once_read`](TurnGuard::discard_once_read) | its log, for the readers of other nodes, and then nothing |
//! | [`abandon`](TurnGuard::abandon) | the session as it was before, though its answer was to be kept |
//! | [`leave`](TurnGuard::leave) | all as the store has it, for another gateway to go on with |

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::codec;
use super::cut_short::{DATA_LOSS, NOT_STORED};
use super::lease::{Finish, OwnedLease};
use super::log::{Seen, TurnLog};
use super::part_waker::PartWaker;
use super::persister::Persister;
use super::record::SessionRecord;
use super::running::Claim;
use super::store::{Batch, LogEnd, LogNews, NodeId, Store, StoreError};
use super::{LoggedTurn, RunningSession};
use crate::conversation;
use crate::limits::session as limits;

/// A session's slot for a running turn. See the module docs for how it ends; dropping it frees the slot, and
/// keeps nothing that is not stored yet.
#[derive(Debug)]
pub(crate) struct TurnGuard {
    claim: Claim,
    lease: OwnedLease,
    session: Arc<RunningSession>,
    persister: Persister,
    /// The answer in the client's own form.
    answer: Option<Arc<RawValue>>,
    slot: Slot,
}

/// What the turn has of its session's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The turn runs in it.
    Running,
    /// The turn is over, and the slot is kept until its end is stored.
    Over,
    /// When the turn was over, somebody else had the slot: the session was deleted.
    Taken,
}

impl TurnGuard {
    /// From now on, the lease is kept for the turn.
    pub(super) fn new(
        claim: Claim,
        mut lease: OwnedLease,
        session: Arc<RunningSession>,
        persister: Persister,
    ) -> Self {
        lease.keep_for(&session.turn);
        Self { claim, lease, session, persister, answer: None, slot: Slot::Running }
    }

    /// Runs the future that writes the turn's log, and meanwhile stores what is new of it. If only the store has woken
    /// the task, the future is not polled: it has nothing to write.
    ///
    /// The future stays where it is pinned: as an argument, it would be kept twice.
    pub(crate) async fn store_while<T>(&mut self, writing: Pin<&mut impl Future<Output = T>>) -> T {
        if self.persister.is_none() {
            return writing.await;
        }
        // Boxed, so that turns that are not stored keep no room for it.
        Box::pin(self.store_beside(writing)).await
    }

    async fn store_beside<T>(&mut self, mut writing: Pin<&mut impl Future<Output = T>>) -> T {
        let part = PartWaker::new();
        let waker = Waker::from(Arc::clone(&part));
        // Until a store with an appender is first asked something that it cannot answer at once, only the future wakes
        // the task, so it gets the task's own waker. A timer in it may keep that one for as long as it lasts, so from
        // then on the future is polled whoever wakes the task.
        let mut has_own_waker = false;
        poll_fn(|cx| {
            let may_store_wake = self.persister.may_wake();
            let is_due = !may_store_wake || part.take(cx.waker()) || has_own_waker;
            has_own_waker |= !may_store_wake;
            let waker = if may_store_wake { &waker } else { cx.waker() };
            let mut writing_cx = Context::from_waker(waker);
            // `T` is large: a pending poll must not move it.
            if is_due && let Poll::Ready(done) = writing.as_mut().poll(&mut writing_cx) {
                self.persister.poll(cx);
                return Poll::Ready(done);
            }
            self.persister.poll(cx);
            Poll::Pending
        })
        .await
    }

    /// Leaves the turn as the store has it, for another gateway.
    pub(crate) async fn leave(self) {
        drop(self.persister);
        self.lease.release().await;
    }

    /// Replaces the journal in the store. If that fails, the store keeps the one that it has.
    pub(super) async fn restore_journal(&self, journal: Bytes) {
        let news = LogNews { batches: Vec::new(), journal: Some(journal) };
        let turn_id = &self.session.turn.turn_id;
        if let Err(error) = self.lease.store().append(self.lease.get(), turn_id, news).await {
            debug!(turn = turn_id, %error, "a turn is left with a takeover too many");
        }
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
            record.delete_answer(&turn.turn_id);
            record
        });
        let Some(record) = record.filter(|record| !record.answers.is_empty()) else {
            return self.discard().await;
        };
        // Its log is not sealed, and nothing of it is on its way to the store.
        drop(self.persister);
        let record = codec::write(record).await;
        let end = LogEnd::new(&turn.turn_id, unstored(&**self.lease.store(), &turn.log));
        let (expected, patience) = (*version, self.lease.store().wait());
        let finish = Finish { expected, record, end, patience };
        if let Err(error) = self.lease.finish(finish, None).await {
            warn!(%error, "a session was not left as it was");
        }
    }

    /// Forgets the session, unless another node has it by now.
    pub(crate) async fn discard(self) {
        drop(self.persister);
        match self.lease.discard().await {
            Ok(()) | Err(StoreError::Superseded | StoreError::NoSession) => {}
            Err(error) => warn!(%error, "a session that is no longer needed was not forgotten"),
        }
    }

    /// Forgets the session of a turn that was stored while it ran. Readers on other nodes have yet to see
    /// its end, so a shared store keeps the session for the time of a lease, unless another turn begins in
    /// it.
    pub(crate) async fn discard_once_read(mut self) {
        let Some(time) = self.lease.store().lease_time() else { return self.discard().await };
        let store = Arc::clone(self.lease.store());
        let session_id = self.lease.get().session_id.clone();
        let turn_id = self.session.turn.turn_id.clone();
        if !self.note_over() {
            return;
        }
        // Nothing of it but the log: whoever asks again begins another turn.
        let epoch = self.session.record.epoch;
        self.end(SessionRecord { epoch, ..SessionRecord::default() }).await;
        // If this process ends before, the store forgets the session in its own time.
        tokio::spawn(async move {
            sleep(time).await;
            if let Err(error) = forget_after(&store, &session_id, &turn_id).await {
                debug!(session = &*session_id, %error, "a session is not forgotten yet");
            }
        });
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

    /// The session's epoch.
    #[must_use]
    pub(crate) const fn epoch(&self) -> u64 {
        self.lease.get().epoch
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

    /// Notes that the turn is over: whoever needs its session now waits for what it leaves. False if
    /// somebody else has the slot.
    pub(crate) fn note_over(&mut self) -> bool {
        if self.slot == Slot::Running {
            let is_ours = self.claim.store(Arc::clone(&self.session));
            self.slot = if is_ours { Slot::Over } else { Slot::Taken };
        }
        self.slot == Slot::Over
    }

    /// Adds the turn to the conversation and stores its log, which is sealed. Then frees the slot.
    /// `turn` is `None` if the driver died, which leaves nothing but the log.
    pub(crate) async fn finish(mut self, turn: Option<conversation::Turn>) {
        if !self.note_over() {
            return;
        }
        match self.session.record_after(turn, self.answer.clone()) {
            Some(record) => self.end(record).await,
            None => self.discard().await,
        }
    }

    /// Stores what is left of the session, and the log. Then frees the slot.
    async fn end(self, record: SessionRecord) {
        let RunningSession { version, turn: LoggedTurn { turn_id, log }, .. } = &*self.session;
        let epoch = self.lease.get().epoch;
        let record = codec::write(record).await;
        self.persister.stop().await;
        let store = Arc::clone(self.lease.store());
        let end = LogEnd::new(turn_id, unstored(&*store, log));
        // A store that has failed during the turn is asked only once more: the lease is still held.
        let patience =
            if log.has_store_failed() { limits::STORE_RETRY_INTERVAL } else { store.wait() };
        let finish = Finish { expected: *version, record, end, patience };
        // The lease is released before the slot is free: the next turn takes a lease of its own.
        match self.lease.finish(finish, Some(log)).await {
            Ok(()) => log.note_kept(),
            Err(StoreError::NoSession) => {
                log.delete();
                debug!("the turn was not stored: its session was deleted");
            }
            Err(StoreError::Superseded) if !log.has_data_loss() => {
                log.note_superseded();
                warn!("the turn was not stored: its session was deleted, or taken over");
            }
            Err(error) => {
                // Readers must not see an end that the store does not have.
                let has_data_loss = log.has_data_loss() || error == StoreError::DataLoss;
                let why = if has_data_loss { DATA_LOSS } else { NOT_STORED };
                log.end_unstored(&Seen::of(log).failed(why));
                if store.is_durable() {
                    self.claim.note_end_unstored(turn_id, epoch);
                }
                warn!(%error, "the store did not take the end of a turn");
            }
        }
    }
}

/// What a store needs of a turn's log, which is sealed.
fn unstored(store: &dyn Store, log: &TurnLog) -> Vec<Batch> {
    if store.wants_whole_logs() { log.all() } else { log.rest() }
}

/// Forgets a session, if this is its latest turn.
async fn forget_after(
    store: &Arc<dyn Store>,
    session_id: &str,
    turn_id: &str,
) -> Result<(), StoreError> {
    let log = store.read(session_id, None, u64::MAX).await?;
    if log.is_none_or(|log| log.turn_id != turn_id) {
        return Ok(());
    }
    // No turn begins meanwhile. As another node, because this one would take its own lease away.
    let nobody = NodeId::random();
    let Some(lease) = OwnedLease::acquire(store, session_id, nobody).await? else { return Ok(()) };
    let log = store.read(session_id, None, u64::MAX).await?;
    if log.is_some_and(|log| log.turn_id == turn_id) {
        return lease.discard().await;
    }
    lease.release().await;
    Ok(())
}
