//! Turns whose gateway was stopped while they ran: the next one that comes across such a turn, and has a place
//! for it, takes it over.
//!
//! ```text
//!   journal and log ── claim, lease ──> TakenOver ──> the gateway resumes it
//!                            '── cannot go on ──────> turn_failed
//! ```

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tracing::warn;

use super::codec::{self, off_worker};
use super::cut_short;
use super::journal::{self, Journal};
use super::lease::{EnteredSession, Finish, OwnedLease};
use super::log::{StoredEvents, Writer};
use super::persister::Persister;
use super::record::SessionRecord;
use super::running::{Claim, Claimed};
use super::sessions::{SessionError, Sessions};
use super::store::{Lease, LogEnd, LogNews, StoreError, StoredLog, StoredRecord};
use super::taken_over::{HeldSession, Successor, TakenOver, Takeover, TakeoverPlace};
use super::turn_guard::TurnGuard;
use super::{Durability, LoggedTurn, RunningSession};
use crate::conversation::Interrupted;
use crate::limits::session as limits;
use crate::telemetry::metrics;

/// What is needed to resume an interrupted turn: its request as JSON, its state, and how it was taken over.
struct Resumption {
    asked: Arc<RawValue>,
    interrupted: Interrupted,
    takeover: Box<Takeover>,
}

/// What the store has of an interrupted turn.
struct InterruptedTurn {
    log: StoredLog,
    journal: Bytes,
    stored: StoredRecord,
}

impl Sessions {
    /// From now on, interrupted turns are not ended but handed over here. Each needs one of these places.
    pub(crate) fn resume_with(&self, turns: Sender<TakenOver>, places: Arc<Semaphore>) {
        let _ = self.successor.set(Successor { turns, places });
    }

    /// A place for a turn that is to be taken over. `None` if it should be left to another node, which may have a
    /// free place sooner.
    pub(super) fn takeover_place(&self) -> Option<TakeoverPlace> {
        let Some(Successor { places, .. }) = self.successor.get() else {
            return Some(TakeoverPlace::Awaited);
        };
        match Arc::clone(places).try_acquire_owned() {
            Ok(permit) => Some(TakeoverPlace::Reserved(permit)),
            Err(_) if self.store.is_shared() => None,
            Err(_) => Some(TakeoverPlace::Awaited),
        }
    }

    /// Takes over the turns that were interrupted, as far as the store knows of any. Returns whether it let that be done.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub(crate) async fn settle_all(&self) -> Result<bool, StoreError> {
        if self.store.is_recovering() {
            return self.store.check().await.map(|()| false);
        }
        let (mut seen, mut were_settled) = (HashSet::new(), true);
        loop {
            let found = self.store.interrupted(limits::INTERRUPTED_MAX).await?;
            // If there may be more, look again, unless all that were found stay as they are.
            let may_be_more = found.len() == limits::INTERRUPTED_MAX;
            let before = seen.len();
            for session_id in found {
                if seen.contains(&session_id) {
                    continue;
                }
                match self.settle(&session_id).await {
                    Ok(()) => {}
                    // The store logs that itself, once a minute.
                    Err(SessionError::Store(StoreError::Unavailable(_))) => were_settled = false,
                    Err(error) => {
                        warn!(session = session_id, %error, "an interrupted turn was not taken over");
                    }
                }
                seen.insert(session_id);
            }
            if !may_be_more || seen.len() == before {
                return Ok(were_settled);
            }
        }
    }

    /// How long to wait before that is done again. In a store of one node, turns are interrupted before it starts.
    pub(crate) fn settle_interval(&self) -> Option<Duration> {
        let time = self.store.lease_time()?;
        Some(if self.is_store_recovering() { limits::STORE_BACK_WAIT } else { time / 2 })
    }

    /// Whether the store has just come back, or has yet to.
    pub(crate) fn is_store_recovering(&self) -> bool {
        self.store.is_recovering()
    }

    /// Takes the session's latest turn over if it was interrupted: no gateway has the session's lease.
    pub(crate) async fn settle(&self, session_id: &str) -> Result<(), SessionError> {
        if self.store.is_recovering() {
            return Ok(());
        }
        let claim = loop {
            let is_leaving = self.is_leaving.load(Ordering::SeqCst);
            if !self.store.is_durable() || is_leaving || self.running.get(session_id).is_some() {
                return Ok(());
            }
            if !self.is_open(session_id).await? {
                return Ok(());
            }
            match self.running.claim(session_id) {
                Claimed::Free(claim) => break claim,
                // Another request is taking it over.
                Claimed::Later(over) => over.cancelled().await,
                Claimed::Running(_) => return Ok(()),
            }
        };
        let Some(place) = self.takeover_place() else { return Ok(()) };
        self.take_over_claimed(claim, session_id, place).await
    }

    /// Like [`settle`](Self::settle), for callers that only read: a full disk can still be read. If the store cannot be
    /// reached at all, the read that follows fails.
    pub(super) async fn settle_if_writable(&self, session_id: &str) -> Result<(), SessionError> {
        match self.settle(session_id).await {
            Err(SessionError::Store(StoreError::Unavailable(_))) => Ok(()),
            settled => settled,
        }
    }

    /// Takes the interrupted turn of a claimed session over, unless another node has the session's lease.
    async fn take_over_claimed(
        &self,
        claim: Claim,
        session_id: &str,
        place: TakeoverPlace,
    ) -> Result<(), SessionError> {
        let entered = OwnedLease::enter(&self.store, session_id, self.node).await?;
        let Some(EnteredSession { lease, before, .. }) = entered else { return Ok(()) };
        // Boxed: it is rare, and long.
        Box::pin(self.take_over(HeldSession { claim, lease, before, place })).await
    }

    /// Asks the store to take the ends of turns that it did not take before.
    pub(crate) async fn store_ends(&self) {
        // One write, before many are made.
        if self.store.check().await.is_err() {
            return;
        }
        let sessions = stream::iter(self.running.unstored_ends.sessions());
        let stored = sessions.for_each_concurrent(limits::ENDS_STORED_AT_ONCE, async |session| {
            match self.store_end(&session).await {
                Ok(true) => {}
                Ok(false) | Err(SessionError::Store(StoreError::Unavailable(_))) => return,
                Err(error) => warn!(session, %error, "the end of a turn was not stored"),
            }
            self.running.unstored_ends.remove(&session);
        });
        stored.await;
    }

    /// Asks the store to take the end of the session's turn. Returns whether there is nothing left to do.
    async fn store_end(&self, session_id: &str) -> Result<bool, SessionError> {
        let log = self.store.read(session_id, None, u64::MAX).await?;
        let log = log.filter(|log| log.journal.is_some());
        if log.is_none_or(|log| !self.running.unstored_ends.has(session_id, &log)) {
            return Ok(true);
        }
        let claim = match self.running.claim(session_id) {
            Claimed::Free(claim) => claim,
            Claimed::Later(_) => return Ok(false),
            Claimed::Running(_) => return Ok(true),
        };
        self.take_over_claimed(claim, session_id, TakeoverPlace::Awaited).await?;
        // The next look tells.
        Ok(false)
    }

    /// Takes the session's interrupted turn over, or ends it, under a claim and a lease of the session.
    pub(super) async fn take_over(&self, held: HeldSession) -> Result<(), SessionError> {
        let lease = held.lease.get();
        let Some(found) = self.find_interrupted(&lease.session_id).await? else {
            held.lease.release().await;
            return Ok(());
        };
        let (length, json) = (found.journal.len(), found.journal.clone());
        let mut journal = off_worker(length, move || Journal::read(&json)).await?;
        // The turn ran on this very node, and ended because the store did not answer. Its client knows.
        let is_own = self.running.unstored_ends.has(&lease.session_id, &found.log)
            || found.log.last > 0 && found.log.epochs.at(found.log.last) == lease.epoch;
        let goes_on = self.goes_on(&journal, is_own);
        // A node that has left it did not die of it. That is stored once the turn goes on: until then, this takeover
        // counts like any other.
        let was_left = held.before.is_some_and(|before| before.lapsed.is_none());
        let takeovers = journal.takeovers + u32::from(!was_left);
        let takeover = Takeover::new(lease, held.before, &found.log, takeovers);
        let takeover = Box::new(takeover);
        if goes_on.is_ok() {
            journal.takeovers += 1;
            journal = self.count_takeover(lease, &found, journal).await?;
        }
        let batches = found.log.batches.clone();
        let length = length + batches.iter().map(|batch| batch.bytes.len()).sum::<usize>();
        let interrupted = off_worker(length, move || journal.interrupted(&batches)).await;
        let (asked, successor) = match goes_on {
            Ok(goes_on) => goes_on,
            Err(why) => {
                takeover.log_ended(&interrupted, why);
                return self.end_interrupted(held.lease, found, interrupted, is_own).await;
            }
        };
        let resumption = Resumption { asked, interrupted, takeover };
        let Some(taken_over) = self.resume(held, found, resumption).await? else { return Ok(()) };
        if let Err(unsent) = successor.turns.send(taken_over).await {
            // The gateway is about to stop.
            unsent.0.leave().await;
        }
        Ok(())
    }

    /// What a turn goes on with: its request, and who runs it. Or else why it ends.
    fn goes_on(
        &self,
        journal: &Journal,
        is_own: bool,
    ) -> Result<(Arc<RawValue>, &Successor), &'static str> {
        match (&journal.asked, self.successor.get()) {
            _ if is_own => Err("this gateway has ended it already, but could not store its end"),
            _ if journal.takeovers >= limits::TAKEOVERS_MAX => {
                Err("it was taken over too often in one round")
            }
            (None, _) => Err("an earlier release has begun it"),
            (_, None) => Err("this process does not go on with turns"),
            (Some(asked), Some(successor)) => Ok((Arc::clone(asked), successor)),
        }
    }

    /// Stores how often the turn has now been taken over, before anything is done with it that could end this
    /// process.
    async fn count_takeover(
        &self,
        lease: &Lease,
        found: &InterruptedTurn,
        journal: Journal,
    ) -> Result<Journal, StoreError> {
        let write = move || (Bytes::from(journal.write()), journal);
        let (json, journal) = off_worker(found.journal.len(), write).await;
        let news = LogNews { batches: Vec::new(), journal: Some(json) };
        self.store.append(lease, &found.log.turn_id, news).await?;
        Ok(journal)
    }

    async fn find_interrupted(
        &self,
        session_id: &str,
    ) -> Result<Option<InterruptedTurn>, SessionError> {
        let log = self.store.read(session_id, None, 0).await?;
        let Some((log, journal)) = log.and_then(|log| log.journal.clone().map(|json| (log, json)))
        else {
            return Ok(None);
        };
        let stored = self.store.load(session_id).await?;
        Ok(stored.map(|stored| InterruptedTurn { log, journal, stored }))
    }

    /// Makes the session one with a running turn. `None` if it was forgotten meanwhile.
    async fn resume(
        &self,
        HeldSession { claim, lease, place, .. }: HeldSession,
        InterruptedTurn { log, stored, journal }: InterruptedTurn,
        Resumption { asked, interrupted, takeover }: Resumption,
    ) -> Result<Option<TakenOver>, SessionError> {
        let mut record: SessionRecord = codec::read(stored.bytes).await?;
        let (session_id, epoch) = (lease.get().session_id.clone(), lease.get().epoch);
        let deleted = self.deleted_in(&session_id, &record).await?;
        record.epoch = epoch;
        let StoredLog { turn_id, epochs, last, batches, .. } = log;
        let is_lazy = self.durability == Durability::Lazy;
        let mut writer = Writer::resumed(
            StoredEvents { epochs: &epochs, batches, last },
            epoch,
            is_lazy,
            takeover.takeovers,
        )
        .ok_or(super::record::RecordError::DamagedLog)?;
        let turn = LoggedTurn { turn_id, log: Arc::clone(writer.log()) };
        if self.was_cancelled(lease.get(), &turn.turn_id).await? {
            turn.log.cancel();
        }
        let persister = Persister::new(&self.store, lease.get(), &turn, &mut writer);
        let conversation = record.conversation.clone();
        let version = Some(stored.version);
        let session = RunningSession::new(lease.get(), version, record, turn);
        let session = Arc::new(session.without(deleted));
        if !claim.run(Arc::clone(&session)) {
            return Ok(None);
        }
        let guard = TurnGuard::new(claim, lease, session, persister);
        Ok(Some(TakenOver {
            session_id,
            guard,
            writer,
            conversation,
            asked,
            interrupted,
            permit: place.into_permit(),
            journal,
            takeover,
        }))
    }

    /// Ends an interrupted turn: its log gets a last event, and the conversation what it had said and done.
    async fn end_interrupted(
        &self,
        lease: OwnedLease,
        InterruptedTurn { log, stored, .. }: InterruptedTurn,
        interrupted: Interrupted,
        is_own: bool,
    ) -> Result<(), SessionError> {
        let mut record: SessionRecord = codec::read(stored.bytes).await?;
        self.drop_deleted(&lease.get().session_id, &mut record).await?;
        let end = if is_own {
            cut_short::not_stored(&interrupted)
        } else {
            cut_short::interrupted(&interrupted)
        };
        let end = vec![journal::event_after(log.last, &end)];
        let turn = interrupted.into_ended();
        record.beginning = None;
        record.answers.end(&log.turn_id, None);
        if turn.continues {
            record.answers.keep_replaced(&record.conversation);
        }
        record.conversation.push(turn);
        let record = codec::write(record).await;
        let expected = Some(stored.version);
        let (end, patience) = (LogEnd::new(&log.turn_id, end), self.store.wait());
        let finish = Finish { expected, record, end, patience };
        match lease.finish(finish, None).await {
            Ok(()) => {
                metrics::turn_interrupted("ended");
                // Its own end was counted.
                if !is_own {
                    metrics::turn_outcome(cut_short::INTERRUPTED_OUTCOME);
                }
                Ok(())
            }
            // Another gateway was faster, or the session was deleted.
            Err(StoreError::Superseded | StoreError::NoSession) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
