//! Sessions: a conversation, the turn that runs in it, and the logs of its last turns, for
//! clients that come back.
//!
//! A session has one turn at a time. A turn's place in the conversation and its log do not depend
//! on any client. Between turns, a session is a record in a [`store`]; while a turn runs, it is
//! here as well.

mod answer_serializer;
mod answers;
mod artifacts;
mod cancel;
mod codec;
mod cut_short;
mod deleted;
pub(crate) mod exported;
mod follow;
mod followed;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod interrupted;
mod journal;
mod lease;
pub(crate) mod log;
mod part_waker;
mod persister;
pub(crate) mod record;
mod running;
mod sessions;
pub mod store;
mod taken_over;
mod turn_guard;
mod unstored_ends;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::conversation::{
    self, AnswerError, ClientInput, Conversation, Ending, Opening, Question,
};
use crate::event::TurnState;
use crate::limits::session::ID_BYTES_MAX;

use record::{RecordError, SessionRecord};
use store::{Lease, StoreError, Version};

pub use answer_serializer::{AnswerSerializer, AnswerSerializers, FinishedAnswer};
pub use answers::{Chain, DeletedAnswer, StoredAnswer};
pub(crate) use artifacts::{ARTIFACTS, Artifacts};
pub(crate) use codec::off_worker;
pub use followed::RemoteUsage;
pub(crate) use log::storing::Barrier;
pub use log::{Audience, Reader, Record, TurnLog, Writer};
pub(crate) use persister::patiently;
pub use sessions::SessionError;
pub(crate) use sessions::Sessions;
pub(crate) use taken_over::TakenOver;
pub(crate) use turn_guard::TurnGuard;

/// Whether clients may name a session like this: with 1 to [`ID_BYTES_MAX`] of `A-Z a-z 0-9 . _ : -`.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// The id under which an owner's session `name` is stored. Owners cannot reach each other's
/// sessions, whatever names they use. An empty `owner` is anyone.
#[must_use]
pub(crate) fn id_of(owner: &str, name: &str) -> String {
    // No name contains the character between them.
    if owner.is_empty() { name.to_owned() } else { format!("{name}@{owner}") }
}

/// The name and the owner of the session with this id; the owner is empty if there is none.
#[must_use]
pub(crate) fn name_and_owner(id: &str) -> (&str, &str) {
    id.split_once('@').unwrap_or((id, ""))
}

/// When readers see the events of a running turn, if what the store keeps outlives the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once they are stored: nothing that a client has seen is ever lost.
    #[default]
    BeforeSend,
    /// At once. If the process is killed, clients may have seen a little more than what was stored.
    Lazy,
}

/// A turn to begin in a session.
#[derive(Debug)]
pub(crate) struct Beginning<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) turn_id: &'a str,
    /// The idempotency key.
    pub(crate) key: Option<&'a str>,
    pub(crate) input: &'a ClientInput,
    /// A conversation that takes the place of the session's own.
    pub(crate) client_history: Option<Conversation>,
    /// The id of the turn that the session must end with, if `head` is given; `None` if it must have no turn.
    pub(crate) follows: Option<String>,
    /// Whether its id was made up for this turn, so that nobody has used it before.
    pub(crate) is_new: bool,
    /// Whether nobody else knows the session. It is then not stored before the turn has ended.
    pub(crate) is_passing: bool,
    /// Whether a turn that still runs is cancelled to make room.
    pub(crate) supersedes: bool,
    /// The head of the turn's answer, if the answer is stored in the client's own form.
    pub(crate) head: Option<Arc<RawValue>>,
}

/// A session with a running turn.
#[derive(Debug)]
struct RunningSession {
    lease: Lease,
    /// The version of the record that the turn began with, if it is stored.
    version: Option<Version>,
    /// The session as it was before the turn, plus this turn's idempotency key.
    record: SessionRecord,
    /// See [`SessionRecord::nonce`].
    nonce: OnceLock<Box<str>>,
    turn: LoggedTurn,
    /// Turns whose answers were deleted while this one runs.
    deleted: Mutex<BTreeMap<String, Deletion>>,
}

/// An answer that is deleted while a turn runs in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    /// If the process is killed now, the answer comes back.
    Here,
    /// It does not come back.
    Stored,
}

/// A turn that can be read.
#[derive(Debug, Clone)]
pub struct LoggedTurn {
    /// Its id in the session.
    pub turn_id: String,
    /// Its events.
    pub log: Arc<TurnLog>,
}

/// Why a turn does not begin.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// The idempotency key has begun this turn before.
    Repeated(LoggedTurn),
    /// The idempotency key has begun a turn whose log is no longer kept.
    Gone,
    /// Another turn has the session.
    Busy,
    /// Another request was faster, perhaps one that deleted the session.
    Overtaken,
    /// It answers a question, and the answer is refused.
    Refused(AnswerError),
    /// The session cannot be used.
    Failed(SessionError),
}

/// A turn that has just begun.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Frees the session when it is dropped.
    pub(crate) guard: TurnGuard,
    /// Writes the turn's log.
    pub(crate) writer: Writer,
    /// What opens the turn. An answer has been checked.
    pub(crate) opening: Opening,
    /// The turns before it.
    pub(crate) history: Conversation,
}

/// A session as of one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// The state of the running turn or, if none runs, the one in which the latest turn ended;
    /// `None` if there is neither.
    pub state: Option<TurnState>,
    /// The turn that runs.
    pub running: Option<LoggedTurn>,
    /// The turns that are over.
    pub conversation: Conversation,
}

/// The answer to a request for an earlier turn.
#[derive(Debug)]
pub enum FoundTurn {
    /// Here it is.
    Turn(LoggedTurn),
    /// It is over, and its log is no longer kept.
    Gone,
    /// The session has no such turn.
    NoTurn,
    /// There is no such session.
    NoSession,
}

/// The answer to a request to cancel a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The turn ends as soon as it can.
    Cancelling,
    /// No turn of the session runs.
    NothingRuns,
    /// There is no such session.
    NoSession,
}

impl From<SessionError> for NotBegun {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(StoreError::Superseded | StoreError::NoSession) => Self::Overtaken,
            error => Self::Failed(error),
        }
    }
}

impl From<StoreError> for NotBegun {
    fn from(error: StoreError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<RecordError> for NotBegun {
    fn from(error: RecordError) -> Self {
        SessionError::from(error).into()
    }
}

impl RunningSession {
    fn new(
        lease: &Lease,
        version: Option<Version>,
        record: SessionRecord,
        turn: LoggedTurn,
    ) -> Self {
        let nonce = record.nonce.clone().map(OnceLock::from).unwrap_or_default();
        Self { lease: lease.clone(), version, record, nonce, turn, deleted: Mutex::default() }
    }

    /// The same, without the answers of these turns, as the store has noted.
    fn without(self, turns: Vec<String>) -> Self {
        self.deleted.lock().extend(turns.into_iter().map(|turn_id| (turn_id, Deletion::Stored)));
        self
    }

    fn nonce(&self) -> &str {
        self.nonce.get_or_init(|| format!("{:08x}", Uuid::new_v4().as_fields().0).into())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            state: Some(self.turn.log.turn_state()),
            running: Some(self.turn.clone()),
            conversation: self.record.conversation.clone(),
        }
    }

    /// Deletes a turn's answer here. False if there is no such answer.
    fn delete_answer(&self, turn_id: &str) -> bool {
        let mut deleted = self.deleted.lock();
        let is_stored = self.record.answers.find(turn_id).is_some();
        if !is_stored || deleted.get(turn_id) == Some(&Deletion::Stored) {
            return false;
        }
        deleted.insert(turn_id.to_owned(), Deletion::Here);
        true
    }

    /// The session as it is now.
    fn record_now(&self) -> SessionRecord {
        let mut record = self.record.clone();
        for turn_id in self.deleted.lock().keys() {
            record.delete_answer(turn_id);
        }
        record
    }

    /// The session after its turn. `None` if all the answers that it existed for were deleted.
    fn record_after(
        &self,
        turn: Option<conversation::Turn>,
        answer: Option<Arc<RawValue>>,
    ) -> Option<SessionRecord> {
        let mut record = SessionRecord { nonce: self.nonce.get().cloned(), ..self.record_now() };
        if record.answers.is_empty() && !self.record.answers.is_empty() {
            return None;
        }
        record.beginning = None;
        record.answers.end(&self.turn.turn_id, answer);
        if turn.as_ref().is_some_and(|turn| turn.continues) {
            record.answers.keep_replaced(&record.conversation);
        }
        if let Some(turn) = turn {
            record.conversation.push(turn);
        }
        Some(record)
    }
}

impl Snapshot {
    /// A session that was read from its record.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub(crate) fn of_record(record: &[u8]) -> Result<Self, RecordError> {
        Ok(Self::idle(SessionRecord::read(record)?.conversation))
    }

    /// A session whose turn runs on another node.
    fn elsewhere(turn: LoggedTurn, conversation: Conversation) -> Self {
        Self { state: Some(turn.log.turn_state()), running: Some(turn), conversation }
    }

    fn idle(conversation: Conversation) -> Self {
        let last = conversation.turns().next_back();
        let state = last.and_then(|turn| turn.ending).map(Ending::state);
        Self { state, running: None, conversation }
    }

    /// The question that can be answered now.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        self.conversation.open_questions().first().filter(|_| self.running.is_none())
    }
}

#[cfg(test)]
pub(crate) mod tests;
