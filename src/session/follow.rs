//! Turns that run on other nodes, for readers here.
//!
//! ```text
//!   another node ── appends ──> store ── wakes ──> follower ── reads what is new ──> TurnLog ──> readers
//! ```
//! Each followed log has a task of its own, and all of them share what the store uses to wake them. A follower
//! ends with the last reader. If the other node dies, the follower takes the turn over, as any node may, and
//! goes on reading.

use std::sync::{Arc, Weak};

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};
use tracing::{debug, warn};

use super::codec::off_worker;
use super::cut_short::DATA_LOSS;
use super::followed::Key;
use super::log::{Seen, TurnLog};
use super::record::RecordError;
use super::sessions::{SessionError, Sessions, ended};
use super::store::{StoredLog, Watch, Watched};
use super::{Beginning, LoggedTurn, NotBegun};
use crate::limits::session as limits;

impl Sessions {
    /// The id of the session's turn, if it runs on another node.
    pub(super) async fn turn_elsewhere(
        &self,
        session_id: &str,
    ) -> Result<Option<String>, SessionError> {
        if !self.store.is_shared() {
            return Ok(None);
        }
        let log = self.store.read(session_id, None, u64::MAX).await?;
        Ok(log.filter(|log| log.journal.is_some()).map(|log| log.turn_id))
    }

    /// The session's turn, if it runs on another node.
    pub(super) async fn running_elsewhere(
        &self,
        session_id: &str,
    ) -> Result<Option<LoggedTurn>, SessionError> {
        let Some(turn_id) = self.turn_elsewhere(session_id).await? else { return Ok(None) };
        let turn = self.follow(session_id, &turn_id, 0).await?;
        Ok(turn.filter(|turn| !turn.log.has_ended()))
    }

    /// Waits until a turn may begin in a session that another node holds, if that makes way.
    pub(super) async fn make_way(
        &self,
        beginning: &Beginning<'_>,
        deadline: Instant,
    ) -> Result<(), NotBegun> {
        let Beginning { session_id, key, supersedes, .. } = *beginning;
        if !self.store.is_shared() {
            return Err(NotBegun::Busy);
        }
        if let Some(key) = key
            && let Some(reason) = self.begun_by(session_id, key).await?
        {
            return Err(reason);
        }
        let is_over = Instant::now() > deadline;
        let runs = self.turn_elsewhere(session_id).await?.is_some();
        // The turn may be the one that the key has begun, and may have had no log when the key was asked for.
        if runs
            && let Some(key) = key
            && let Some(reason) = self.begun_by(session_id, key).await?
        {
            return Err(reason);
        }
        if is_over || (runs && !supersedes) {
            return Err(NotBegun::Busy);
        }
        if supersedes && let Some(turn) = self.running_elsewhere(session_id).await? {
            self.store.request_cancel(session_id, Some(&turn.turn_id)).await?;
            let _ = timeout_at(deadline, ended(&turn.log)).await;
        }
        // The lease is released a moment after the end.
        sleep(limits::BUSY_LOOK_INTERVAL).await;
        Ok(())
    }

    /// The log of a turn that runs on another node, at least up to event `seen`.
    pub(super) async fn follow(
        &self,
        session_id: &str,
        turn_id: &str,
        seen: u64,
    ) -> Result<Option<LoggedTurn>, SessionError> {
        let key = (session_id.to_owned(), turn_id.to_owned());
        // One that has not yet heard of what other nodes have shown makes room for a new one.
        if let Some(log) = self.followed.get(&key).filter(|log| seen <= log.last_sequence()) {
            return Ok(Some(LoggedTurn { turn_id: key.1, log }));
        }
        // Whatever comes after this is noticed.
        let watch = self.store.watch(session_id, Watched::Log).await?;
        let Some(stored) = self.store.read(session_id, Some(turn_id), 0).await? else {
            return Ok(None);
        };
        let length = stored.batches.iter().map(|batch| batch.bytes.len()).sum();
        let log = off_worker(length, move || {
            let StoredLog { epochs, batches, last, journal, .. } = stored;
            let log = TurnLog::followed(epochs, batches, last)?;
            if journal.is_none() {
                log.end(None);
            }
            Some(log)
        });
        let log = log.await.ok_or(RecordError::DamagedLog)?;
        let turn = LoggedTurn { turn_id: key.1.clone(), log };
        if !turn.log.has_ended() {
            self.followed.insert(key.clone(), &turn.log);
            let follower = Follower { sessions: self.clone(), key, log: Arc::downgrade(&turn.log) };
            tokio::spawn(follower.run(watch));
        }
        Ok(Some(turn))
    }
}

/// Why a store has no log of a turn any more.
enum Gone {
    /// The session was deleted.
    Deleted,
    /// Logs of later turns have replaced it.
    Dropped,
    /// The store has lost it.
    Lost,
}

/// Follows a log for as long as somebody reads it here.
struct Follower {
    sessions: Sessions,
    key: Key,
    log: Weak<TurnLog>,
}

impl Follower {
    async fn run(self, mut watch: Watch) {
        let lease_time = self.sessions.store.lease_time().unwrap_or(limits::FOLLOW_INTERVAL);
        let mut tick = interval(lease_time / 4);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while let Some(log) = self.log.upgrade() {
            if !self.read_on(&log).await {
                return;
            }
            drop(log);
            tokio::select! {
                biased;
                _ = tick.tick() => self.look_after().await,
                () = watch.changed() => {}
            }
        }
    }

    /// Reads what is new; false at the end.
    async fn read_on(&self, log: &Arc<TurnLog>) -> bool {
        let (session_id, turn_id) = (&*self.key.0, &*self.key.1);
        let read = self.sessions.store.read(session_id, Some(turn_id), log.last_sequence());
        let Ok(read) = timeout(self.sessions.store.wait(), read).await else { return true };
        match read {
            Ok(Some(StoredLog { epochs, batches, last, journal, .. })) => {
                if journal.is_none() {
                    self.until_free_here().await;
                }
                if !log.extend(epochs, batches, last) {
                    warn!(session = session_id, turn = turn_id, "the store has lost events");
                    log.end(Some(&Seen::of(log).failed(DATA_LOSS)));
                    return false;
                }
                if journal.is_some() {
                    return true;
                }
                log.end(None);
                false
            }
            Ok(None) => {
                match self.why_gone().await {
                    Ok(Gone::Deleted) => log.end(Some(&Seen::of(log).cancelled())),
                    Ok(Gone::Dropped) => log.end(None),
                    Ok(Gone::Lost) => {
                        warn!(session = session_id, turn = turn_id, "the store has lost a turn");
                        log.end(Some(&Seen::of(log).failed(DATA_LOSS)));
                    }
                    // If the store cannot tell, the next attempt may.
                    Err(_) => return true,
                }
                false
            }
            // The next attempt may do better.
            Err(error) => {
                debug!(session = session_id, turn = turn_id, %error, "a log was not read");
                true
            }
        }
    }

    /// Waits until the session is free, if its turn has gone on here and is over: whoever sees the end may begin the next
    /// one.
    async fn until_free_here(&self) {
        let (session_id, turn_id) = &self.key;
        let here = self.sessions.running.get(session_id);
        if let Some(session) = here.filter(|session| session.turn.turn_id == *turn_id) {
            ended(&session.turn.log).await;
        }
    }

    /// Why the store has no log of the turn. A session that has its turn was not deleted since, even if an earlier one with
    /// its id was. The store is asked: a turn that runs here may not have heard of the deletion yet.
    async fn why_gone(&self) -> Result<Gone, SessionError> {
        let (session_id, turn_id) = &self.key;
        let record = self.sessions.stored_record(session_id).await?;
        if record.is_some_and(|record| record.conversation.turns().any(|it| it.turn_id == *turn_id))
        {
            return Ok(Gone::Dropped);
        }
        let is_deleted = self.sessions.store.was_forgotten(session_id).await?;
        Ok(if is_deleted { Gone::Deleted } else { Gone::Lost })
    }

    /// Takes the turn over if its node is dead, and tells its node that somebody reads it.
    async fn look_after(&self) {
        let session_id = &*self.key.0;
        if let Err(error) = self.sessions.settle(session_id).await {
            debug!(session = session_id, %error, "a turn was not taken over");
        }
        if let Err(error) = self.sessions.store.note_reader(session_id).await {
            debug!(session = session_id, %error, "a turn's reader was not noted");
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.sessions.followed.remove(&self.key, &self.log);
    }
}
