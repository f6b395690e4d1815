//! All sessions: those with a running turn are here, the others in the store.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::artifacts::Artifacts;
use super::codec;
use super::followed::{Followed, RemoteUsage};
use super::lease::{EnteredSession, OwnedLease};
use super::log::{TurnLog, Writer};
use super::persister::Persister;
use super::record::{RecordError, SessionRecord};
use super::running::{Claim, Claimed, RunningSessions};
use super::store::{Lease, MemoryUsage, NodeId, Store, StoreError, StoredRecord, Version};
use super::taken_over::{HeldSession, Successor};
use super::turn_guard::TurnGuard;
use super::{
    Beginning, Begun, Durability, FoundTurn, LoggedTurn, NotBegun, RunningSession, Snapshot,
};
use crate::conversation::{AnswerError, ClientInput, Opening, Turn};
use crate::limits::session as limits;

/// All sessions of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pub(super) store: Arc<dyn Store>,
    pub(super) node: NodeId,
    pub(super) running: Arc<RunningSessions>,
    pub(super) durability: Durability,
    /// Who goes on with turns that are taken over.
    pub(super) successor: Arc<OnceLock<Successor>>,
    /// Whether this node is about to stop, and takes nothing over.
    pub(super) is_leaving: Arc<AtomicBool>,
    /// The turns of other nodes that are read here.
    pub(super) followed: Arc<Followed>,
}

/// A session in which a turn can begin.
struct NewSession {
    version: Option<Version>,
    record: SessionRecord,
    opening: Opening,
}

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored session cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Sessions {
    /// The sessions of a store, for one gateway. It gets a node id of its own.
    #[must_use]
    pub(crate) fn new(store: Arc<dyn Store>, durability: Durability) -> Self {
        let (node, running) = (NodeId::random(), Arc::default());
        let (successor, followed, is_leaving) = (Arc::default(), Arc::default(), Arc::default());
        Self { store, node, running, durability, successor, is_leaving, followed }
    }

    /// Its id among the gateways that share the store.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    /// Begins a turn in the session with this id, and begins the session if there is none. An
    /// answer begins no session, because nothing was asked in it. `is_parked` says whether the call
    /// with this question still waits for an answer.
    ///
    /// A session has one turn at a time. An answer is checked in the same step, so only one of two
    /// is accepted. Dropping the future leaves the session free.
    ///
    /// # Errors
    /// See [`NotBegun`].
    pub(crate) async fn begin(
        &self,
        beginning: Beginning<'_>,
        is_parked: impl Fn(&str) -> bool,
    ) -> Result<Box<Begun>, NotBegun> {
        let wait = if beginning.supersedes { limits::SUPERSEDE_WAIT } else { limits::RELEASE_WAIT };
        let deadline = Instant::now() + wait;
        loop {
            match self.try_begin(&beginning, deadline, &is_parked).await {
                // Another request was faster. If it deleted the session, a new one can begin now.
                Err(NotBegun::Overtaken) if Instant::now() < deadline => {
                    sleep(limits::BUSY_LOOK_INTERVAL).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_begin(
        &self,
        beginning: &Beginning<'_>,
        deadline: Instant,
        is_parked: impl Fn(&str) -> bool,
    ) -> Result<Box<Begun>, NotBegun> {
        let Beginning { session_id, turn_id, is_new, .. } = *beginning;
        let (claim, lease, stored) = loop {
            let claim = self.claim(beginning).await?;
            // The node that ran its turn may have told its client that it failed, and not have stored that yet. A lease
            // would keep it from that.
            let is_left = self.store.is_recovering() && self.is_open(session_id).await?;
            let entered = if is_left {
                None
            } else if is_new {
                OwnedLease::enter_new(&self.store, session_id, self.node).await?
            } else {
                OwnedLease::enter(&self.store, session_id, self.node).await?
            };
            let Some(EnteredSession { lease, before, is_interrupted, record }) = entered else {
                drop(claim);
                self.make_way(beginning, deadline).await?;
                continue;
            };
            if !is_interrupted {
                break (claim, lease, record);
            }
            let Some(place) = self.takeover_place() else {
                lease.release().await;
                return Err(NotBegun::Busy);
            };
            // It goes on, so the next claim finds it running, or it is over.
            Box::pin(self.take_over(HeldSession { claim, lease, before, place })).await?;
        };
        let new = match self.prepare(lease.get(), stored, beginning, is_parked).await {
            Ok(new) => new,
            Err(reason) => {
                lease.release().await;
                return Err(reason);
            }
        };
        let NewSession { version, record, opening } = new;
        // No client can come back to a session whose id it does not know.
        let is_stored = self.store.is_durable() && !beginning.is_passing;
        let (log, mut writer) = if is_stored {
            Writer::stored(record.epoch, self.durability == Durability::Lazy)
        } else {
            Writer::new(record.epoch)
        };
        let turn = LoggedTurn { turn_id: turn_id.to_owned(), log };
        let persister = if is_stored {
            Persister::new(&self.store, lease.get(), &turn, &mut writer)
        } else {
            Persister::NONE
        };
        let history = record.conversation.before(&opening);
        let session = Arc::new(RunningSession::new(lease.get(), version, record, turn));
        if !claim.run(Arc::clone(&session)) {
            return Err(NotBegun::Overtaken);
        }
        let guard = TurnGuard::new(claim, lease, session, persister);
        Ok(Box::new(Begun { guard, writer, opening, history }))
    }

    /// Whether the session has a turn that is not over, as the store has it.
    pub(super) async fn is_open(&self, session_id: &str) -> Result<bool, StoreError> {
        self.is_turn_open(session_id, None).await
    }

    /// The same of the turn with this id, or of the latest.
    pub(super) async fn is_turn_open(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
    ) -> Result<bool, StoreError> {
        let log = self.store.read(session_id, turn_id, u64::MAX).await?;
        Ok(log.is_some_and(|log| log.journal.is_some()))
    }

    /// Claims a session for a turn, once no other turn of this node has it.
    async fn claim(&self, beginning: &Beginning<'_>) -> Result<Claim, NotBegun> {
        let Beginning { session_id, key, supersedes, .. } = *beginning;
        loop {
            match self.running.claim(session_id) {
                Claimed::Free(claim) => return Ok(claim),
                Claimed::Later(over) => over.cancelled().await,
                Claimed::Running(session) => {
                    let begun = key.and_then(|key| session.record.begun_by(key));
                    match begun {
                        Some(turn_id) => return Err(self.repeated(session_id, turn_id).await?),
                        None if supersedes => cancelled(&session.turn.log).await,
                        None => return Err(NotBegun::Busy),
                    }
                }
            }
        }
    }

    /// Prepares a session that is claimed and leased for a turn. From then on the session exists, and
    /// so does the key, for everyone.
    async fn prepare(
        &self,
        lease: &Lease,
        stored: Option<StoredRecord>,
        beginning: &Beginning<'_>,
        is_parked: impl Fn(&str) -> bool,
    ) -> Result<NewSession, NotBegun> {
        let Beginning { turn_id, key, input, is_passing, .. } = *beginning;
        let Beginning { client_history, follows, head, .. } = beginning;
        let mut record = match &stored {
            Some(stored) => codec::read(stored.bytes.clone()).await?,
            None => SessionRecord::default(),
        };
        let mut has_dropped = false;
        if let Some(before) = record.beginning.take()
            && self.left_nothing(&lease.session_id, &before).await?
        {
            record.drop_key_of(&before);
            has_dropped = true;
        }
        if let Some(turn_id) = key.and_then(|key| record.begun_by(key)) {
            return Err(self.repeated(&lease.session_id, turn_id).await?);
        }
        if let (None, None, ClientInput::Answer { clarification_id, .. }) =
            (&stored, client_history, input)
        {
            let id = clarification_id.clone();
            return Err(NotBegun::Refused(AnswerError::UnknownQuestion { id, open: None }));
        }
        if let Some(client_history) = client_history {
            // Another request may have continued the session since this one read it. One that has left nothing has put
            // its client's turns there all the same.
            let last = record.conversation.last_turn_id();
            let goes_on = has_dropped || last == follows.as_deref();
            if head.is_some() && stored.is_some() && !goes_on {
                return Err(NotBegun::Busy);
            }
            record.replace_conversation(client_history.clone());
        }
        let opening = record.conversation.open(input, is_parked).map_err(NotBegun::Refused)?;
        record.epoch = lease.epoch;
        if let Some(key) = key {
            record.note_key(key, turn_id);
        }
        // Whoever takes the turn over needs the conversation.
        let is_kept = client_history.is_none() || !self.store.is_durable() || is_passing;
        let is_unchanged = key.is_none() && head.is_none() && is_kept;
        if let Some(head) = head {
            record.answers.begin(turn_id, Arc::clone(head));
        }
        let version = match stored.map(|stored| stored.version) {
            Some(version) if is_unchanged => Some(version),
            None if is_unchanged && is_passing => None,
            expected => {
                let json = codec::write(record.clone()).await;
                Some(self.store.save(lease, expected, json).await?)
            }
        };
        Ok(NewSession { version, record, opening })
    }

    /// A turn that has begun before, even if it left nothing in the conversation.
    async fn repeated(&self, session_id: &str, turn_id: &str) -> Result<NotBegun, SessionError> {
        Ok(match self.find(session_id, Some(turn_id), 0).await? {
            FoundTurn::Turn(turn) => NotBegun::Repeated(turn),
            FoundTurn::Gone | FoundTurn::NoTurn | FoundTurn::NoSession => NotBegun::Gone,
        })
    }

    /// Whether a turn whose key was stored has left no log. Its gateway was stopped in between, or is about to
    /// store more. Nothing has run yet, and nobody has seen any of it.
    async fn left_nothing(&self, session_id: &str, turn_id: &str) -> Result<bool, StoreError> {
        Ok(self.store.read(session_id, Some(turn_id), u64::MAX).await?.is_none())
    }

    /// What a request with this idempotency key would repeat; `None` if nothing.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn begun_by(
        &self,
        session_id: &str,
        key: &str,
    ) -> Result<Option<NotBegun>, SessionError> {
        let Some(record) = self.record(session_id).await? else { return Ok(None) };
        let Some(turn_id) = record.begun_by(key) else { return Ok(None) };
        let runs_here =
            self.running.get(session_id).is_some_and(|running| running.turn.turn_id == turn_id);
        let is_beginning = record.beginning.as_deref() == Some(turn_id) && !runs_here;
        if is_beginning && self.left_nothing(session_id, turn_id).await? {
            return Ok(None);
        }
        self.repeated(session_id, turn_id).await.map(Some)
    }

    /// The record of a session. If a turn runs in it, the record includes that turn's key.
    pub(super) async fn record(
        &self,
        session_id: &str,
    ) -> Result<Option<SessionRecord>, SessionError> {
        self.settle(session_id).await?;
        self.settled_record(session_id).await
    }

    /// The same of a session whose latest turn is settled.
    pub(super) async fn settled_record(
        &self,
        session_id: &str,
    ) -> Result<Option<SessionRecord>, SessionError> {
        match self.running.get(session_id) {
            Some(session) => Ok(Some(session.record_now())),
            None => self.stored_record(session_id).await,
        }
    }

    /// The record that the store has of a session.
    pub(super) async fn stored_record(
        &self,
        session_id: &str,
    ) -> Result<Option<SessionRecord>, SessionError> {
        match self.store.load(session_id).await? {
            Some(stored) => Ok(Some(codec::read(stored.bytes).await?)),
            None => Ok(None),
        }
    }

    /// The turn with this id, or the session's latest, for a reader that has seen its events up to
    /// `seen`.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn find_turn(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
        seen: u64,
    ) -> Result<FoundTurn, SessionError> {
        self.settle_if_writable(session_id).await?;
        self.find(session_id, turn_id, seen).await
    }

    /// The same in a session whose latest turn is settled.
    async fn find(
        &self,
        session_id: &str,
        turn_id: Option<&str>,
        seen: u64,
    ) -> Result<FoundTurn, SessionError> {
        let running = self.running.get(session_id);
        let asked_for = |turn: &LoggedTurn| turn_id.is_none_or(|turn_id| turn.turn_id == turn_id);
        let here = running.as_ref().map(|session| &session.turn).filter(|turn| asked_for(turn));
        // Other nodes may have shown more: the store's answer to this one is late, or the turn is no longer its.
        let knows_it =
            |turn: &&LoggedTurn| seen <= turn.log.last_sequence() || !self.store.is_shared();
        if let Some(turn) = here.filter(knows_it) {
            return Ok(FoundTurn::Turn(turn.clone()));
        }
        if let Some(stored) = self.store.read(session_id, turn_id, seen).await? {
            if stored.journal.is_none() {
                return Ok(FoundTurn::Turn(codec::restore(stored).await?));
            }
            if let Some(turn) = self.follow(session_id, &stored.turn_id, seen).await? {
                return Ok(FoundTurn::Turn(turn));
            }
            // The session was deleted in between.
        }
        let record = match running {
            Some(session) => Some(session.record_now()),
            None => self.stored_record(session_id).await?,
        };
        let Some(SessionRecord { conversation, .. }) = record else {
            return Ok(FoundTurn::NoSession);
        };
        // One that handed out calls goes on under the id of the turn that brought their results.
        let is = |turn: &Turn, id: &str| {
            turn.turn_id == id || turn.continued.iter().any(|before| before == id)
        };
        let mut turns = conversation.turns();
        let was_there = turns.any(|turn| turn_id.is_none_or(|id| is(turn, id)));
        Ok(if was_there { FoundTurn::Gone } else { FoundTurn::NoTurn })
    }

    /// The session as this node sees it now, if there is one.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn snapshot(
        &self,
        session_id: &str,
    ) -> Result<Option<Snapshot>, SessionError> {
        self.settle_if_writable(session_id).await?;
        if let Some(session) = self.running.get(session_id) {
            return Ok(Some(session.snapshot()));
        }
        let Some(record) = self.stored_record(session_id).await? else { return Ok(None) };
        let running = self.running_elsewhere(session_id).await?;
        Ok(Some(match running {
            Some(turn) => Snapshot::elsewhere(turn, record.conversation),
            None => Snapshot::idle(record.conversation),
        }))
    }

    /// Where an owner's files are kept.
    #[must_use]
    pub(crate) fn artifacts(&self, owner: &str) -> Artifacts {
        Artifacts::new(Arc::clone(&self.store), owner)
    }

    /// Forgets a session and cancels its turn, wherever that runs. False if there is no such session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn forget(&self, session_id: &str) -> Result<bool, SessionError> {
        if self.store.is_shared() {
            return self.forget_shared(session_id).await;
        }
        let (_claim, evicted) = self.running.evict(session_id);
        if let Some(session) = &evicted {
            session.turn.log.delete();
        }
        Ok(self.store.forget(session_id).await? || evicted.is_some())
    }

    /// The store comes first: if it does not answer, another node may go on with the turn, so nobody is told that it
    /// was cancelled. The owner, here or elsewhere, hears of it when the store refuses its lease.
    async fn forget_shared(&self, session_id: &str) -> Result<bool, SessionError> {
        let running = self.running.get(session_id);
        let had_record = self.store.forget(session_id).await?;
        // A turn that has begun since belongs to another session with this id.
        let Some(session) = running else { return Ok(had_record) };
        let _claim = self.running.evict_turn(session_id, &session);
        session.turn.log.delete();
        Ok(true)
    }

    /// Cancels all running turns.
    pub(crate) fn cancel_all(&self) {
        for session in self.running.all() {
            session.turn.log.cancel();
        }
    }

    /// Whether the store can be used now.
    pub(crate) async fn check_store(&self) -> Result<(), StoreError> {
        self.store.check().await
    }

    /// How many turns have ended here, but not in the store: see [`store_ends`](Self::store_ends).
    pub(crate) fn unstored_ends(&self) -> watch::Receiver<usize> {
        self.running.unstored_ends.count()
    }

    /// Takes no more turns over: this gateway is about to stop, and would only leave them again.
    pub(crate) fn take_over_no_more(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
    }

    /// Leaves the running turns to other nodes, as far as there may be any.
    pub(crate) fn leave_all(&self) {
        if self.store.is_shared() {
            for session in self.running.all() {
                session.turn.log.leave();
            }
        }
    }

    /// Forgets sessions that have not been used for a long time.
    pub(crate) fn sweep(&self) {
        self.store.sweep();
    }

    /// What is read here of turns that run on other nodes; `None` if the store has no others.
    pub(crate) fn remote_usage(&self) -> Option<RemoteUsage> {
        self.store.is_shared().then(|| self.followed.usage())
    }

    /// What sessions take in this process: those in the store, and the conversations of running
    /// turns.
    #[must_use]
    pub(crate) fn memory_usage(&self) -> MemoryUsage {
        let running = self.running.all();
        let bytes = running.iter().map(|session| session.record.conversation.bytes());
        let mut usage = self.store.memory_usage();
        usage.session_bytes += bytes.sum::<usize>();
        usage
    }
}

/// Cancels a turn, and waits for its end.
async fn cancelled(log: &Arc<TurnLog>) {
    log.cancel();
    ended(log).await;
}

/// Waits for the end of a turn.
pub(super) async fn ended(log: &Arc<TurnLog>) {
    let mut reader = log.read_after(log.last_sequence());
    while poll_fn(|cx| reader.poll_read(cx, |_| ())).await.is_some() {}
}
