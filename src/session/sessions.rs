//! All sessions: those with a running turn are here, the others in the store.

use std::sync::Arc;

use bytes::Bytes;
use tracing::{debug, warn};

use super::log::{TurnLog, Writer};
use super::record::{RecordError, SessionRecord};
use super::running::{Claim, Claimed, Running};
use super::store::{Held, Lease, NodeId, Store, StoreError, StoredRecord};
use super::{Begin, Begun, Cancel, Found, LoggedTurn, Session, Snapshot};
use crate::conversation::{self, AnswerError, Ask, Opening};

/// All sessions of a gateway.
#[derive(Debug)]
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    node: NodeId,
    pub(super) running: Arc<Running>,
}

/// A session that was opened, or the reason why no turn begins in it.
enum Opened {
    New(Box<NewSession>),
    Not(Begin),
}

/// A session in which a turn can begin.
struct NewSession {
    session: Arc<Session>,
    writer: Writer,
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
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, node: NodeId::random(), running: Arc::default() }
    }

    /// Begins a turn in the session with this id, and begins the session if there is none. An
    /// answer begins no session, because nothing was asked in it.
    ///
    /// A session has one turn at a time. An answer is checked in the same step, so only one of two
    /// is accepted. Dropping the future leaves the session free.
    ///
    /// # Errors
    /// See [`SessionError`]; nothing has begun then.
    pub(crate) async fn begin(
        &self,
        id: &str,
        turn_id: &str,
        key: Option<&str>,
        ask: &Ask,
    ) -> Result<Begin, SessionError> {
        let claim = loop {
            match self.running.claim(id) {
                Claimed::Free(claim) => break claim,
                Claimed::Opening(opened) => opened.cancelled().await,
                Claimed::Running(session) => {
                    let begun = key.and_then(|key| session.record.begun_by(key));
                    let Some(turn_id) = begun else { return Ok(Begin::Busy) };
                    return self.repeated(id, turn_id).await.map(Begin::of_repeated);
                }
            }
        };
        let Some(lease) = self.store.acquire(id, self.node).await? else { return Ok(Begin::Busy) };
        let begin = match self.open(&lease, turn_id, key, ask).await {
            Ok(Opened::New(new)) => {
                let NewSession { session, writer, opening } = *new;
                let history = session.record.conversation.clone();
                if claim.run(Arc::clone(&session)) {
                    let guard = TurnGuard { store: Arc::clone(&self.store), claim, session };
                    return Ok(Begin::New(Box::new(Begun { guard, writer, opening, history })));
                }
                Ok(Begin::Busy)
            }
            Ok(Opened::Not(begin)) => Ok(begin),
            // Another request was faster.
            Err(SessionError::Store(StoreError::Superseded)) => Ok(Begin::Busy),
            Err(error) => Err(error),
        };
        // Before the claim is dropped: the next one takes the same lease.
        self.store.release(&lease).await?;
        begin
    }

    /// Opens a session that is claimed and leased, for a turn.
    async fn open(
        &self,
        lease: &Lease,
        turn_id: &str,
        key: Option<&str>,
        ask: &Ask,
    ) -> Result<Opened, SessionError> {
        let stored = self.store.load(&lease.session).await?;
        let mut record = match &stored {
            Some(stored) => read(stored)?,
            None => SessionRecord::default(),
        };
        if let Some(begun) = key.and_then(|key| record.begun_by(key)) {
            let found = self.repeated(&lease.session, begun).await?;
            return Ok(Opened::Not(Begin::of_repeated(found)));
        }
        if let (None, Ask::Answer { clarification_id, .. }) = (&stored, ask) {
            let id = clarification_id.clone();
            let error = AnswerError::UnknownQuestion { id, open: None };
            return Ok(Opened::Not(Begin::Refused(error)));
        }
        let opening = match record.conversation.open(ask) {
            Ok(opening) => opening,
            Err(error) => return Ok(Opened::Not(Begin::Refused(error))),
        };
        record.epoch = lease.epoch;
        let version = match &stored {
            Some(stored) => stored.version,
            // From now on, the session exists for everyone.
            None => self.store.save(lease, None, write(&record)).await?,
        };
        if let Some(key) = key {
            record.note_key(key, turn_id);
        }
        let (log, writer) = Writer::new(record.epoch);
        let turn = LoggedTurn { turn_id: turn_id.to_owned(), log };
        let session = Arc::new(Session::new(lease.clone(), version, record, turn));
        Ok(Opened::New(Box::new(NewSession { session, writer, opening })))
    }

    /// A turn that has begun before, even if it left nothing in the conversation.
    async fn repeated(&self, id: &str, turn_id: &str) -> Result<Found, SessionError> {
        Ok(match self.turn(id, Some(turn_id), 0).await? {
            Found::NoTurn | Found::NoSession => Found::Gone,
            found => found,
        })
    }

    /// The turn that was begun with an idempotency key.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn begun_by(&self, id: &str, key: &str) -> Result<Found, SessionError> {
        let Some(record) = self.record(id).await? else { return Ok(Found::NoSession) };
        match record.begun_by(key) {
            Some(turn_id) => self.repeated(id, turn_id).await,
            None => Ok(Found::NoTurn),
        }
    }

    /// The record of a session. If a turn runs in it, the record includes that turn's key.
    async fn record(&self, id: &str) -> Result<Option<SessionRecord>, SessionError> {
        if let Some(session) = self.running.get(id) {
            return Ok(Some(session.record.clone()));
        }
        let stored = self.store.load(id).await?;
        Ok(stored.as_ref().map(read).transpose()?)
    }

    /// The turn with this id, or the session's latest, for a reader that has seen its events up to
    /// `seen`.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn turn(
        &self,
        id: &str,
        turn_id: Option<&str>,
        seen: u64,
    ) -> Result<Found, SessionError> {
        if let Some(session) = self.running.get(id)
            && turn_id.is_none_or(|turn_id| session.turn.turn_id == turn_id)
        {
            return Ok(Found::Turn(session.turn.clone()));
        }
        if let Some(stored) = self.store.read(id, turn_id, seen).await? {
            let log = TurnLog::restore(stored.epoch, stored.batches, stored.last);
            let log = log.ok_or(RecordError::DamagedLog)?;
            return Ok(Found::Turn(LoggedTurn { turn_id: stored.turn_id, log }));
        }
        let Some(SessionRecord { conversation, .. }) = self.record(id).await? else {
            return Ok(Found::NoSession);
        };
        let is_known = |id| conversation.turns().any(|turn| turn.turn_id == id);
        Ok(if turn_id.is_some_and(is_known) { Found::Gone } else { Found::NoTurn })
    }

    /// The session as of now, if there is one.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Snapshot>, SessionError> {
        if let Some(session) = self.running.get(id) {
            return Ok(Some(session.snapshot()));
        }
        let record = self.record(id).await?;
        Ok(record.map(|record| Snapshot::idle(record.conversation)))
    }

    /// Cancels the turn that runs in a session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn cancel(&self, id: &str) -> Result<Cancel, SessionError> {
        if self.running.get(id).is_some_and(|session| session.turn.log.cancel()) {
            return Ok(Cancel::Cancelling);
        }
        let is_known = self.store.load(id).await?.is_some();
        Ok(if is_known { Cancel::NothingRuns } else { Cancel::NoSession })
    }

    /// Forgets a session and cancels the turn that runs in it; false if there is no such session.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) async fn forget(&self, id: &str) -> Result<bool, SessionError> {
        let was_stored = self.store.forget(id).await?;
        let evicted = self.running.evict(id);
        if let Some(session) = &evicted {
            session.turn.log.cancel();
        }
        Ok(was_stored || evicted.is_some())
    }

    /// Cancels all running turns.
    pub(crate) fn cancel_all(&self) {
        for session in self.running.all() {
            session.turn.log.cancel();
        }
    }

    /// Forgets sessions that have not been used for a long time.
    pub(crate) fn sweep(&self) {
        self.store.sweep();
    }

    /// What the store holds in this process.
    #[must_use]
    pub(crate) fn held(&self) -> Held {
        self.store.held()
    }
}

fn read(stored: &StoredRecord) -> Result<SessionRecord, RecordError> {
    SessionRecord::read(&String::from_utf8_lossy(&stored.bytes))
}

/// The record, in memory of exactly its size, because it may be kept for long.
fn write(record: &SessionRecord) -> Bytes {
    record.write().into_boxed_str().into_boxed_bytes().into()
}

/// A session's only place for a running turn. Dropping it frees the place, but only
/// [`finish`](Self::finish) keeps what the turn leaves.
#[derive(Debug)]
pub(crate) struct TurnGuard {
    store: Arc<dyn Store>,
    claim: Claim,
    session: Arc<Session>,
}

impl TurnGuard {
    /// The session's nonce, eight hexadecimal digits.
    #[must_use]
    pub(crate) fn nonce(&self) -> &str {
        self.session.nonce()
    }

    /// Stores the turn's log, which is sealed, and adds the turn to the conversation. `None` if its
    /// driver died and left nothing else. Then frees the place.
    pub(crate) async fn finish(self, turn: Option<conversation::Turn>) {
        if !self.claim.is_current() {
            return;
        }
        match self.store(turn).await {
            Ok(()) => {}
            Err(StoreError::Superseded) => {
                debug!("the session was forgotten before its turn ended");
            }
            Err(error) => warn!("the turn is lost for the session: {error}"),
        }
    }

    async fn store(&self, turn: Option<conversation::Turn>) -> Result<(), StoreError> {
        let Session { lease, version, turn: LoggedTurn { turn_id, log }, .. } = &*self.session;
        let record = self.session.record_with(turn);
        // First, because only this fails if the session was forgotten and begun anew here.
        self.store.save(lease, Some(*version), write(&record)).await?;
        self.store.append(lease, turn_id, log.batches()).await?;
        self.store.release(lease).await
    }
}
