//! Sessions: a conversation, the turn that runs in it, and the logs of its last
//! turns, for clients that come back.
//!
//! A session has one turn at a time. What a turn leaves, its place in the
//! conversation and its log, does not depend on any client being there.

mod finished_logs;
pub(crate) mod log;
pub mod record;
mod session_bytes;
mod table;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::conversation::{self, AnswerError, Ask, Conversation, Opening, Question};
use crate::event::TurnState;
use crate::limits::session as limits;

use finished_logs::{FinishedLogs, Place, Ticket};
use session_bytes::{SessionBytes, Share};

pub use log::{Audience, Reader, Record, TurnLog, Writer};
pub use table::{Held, Sessions};

/// The epoch of a session that nobody has served before.
const FIRST_EPOCH: u64 = 1;

/// One conversation and its turns.
#[derive(Debug)]
pub struct Session {
    id: String,
    /// How often the session has begun to be served, by this gateway or another.
    epoch: u64,
    /// What nobody outside can guess, eight hexadecimal digits; for markers.
    nonce: OnceLock<String>,
    finished_logs: Arc<FinishedLogs>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    conversation: Conversation,
    running: Option<LoggedTurn>,
    /// The latest last.
    finished: VecDeque<FinishedTurn>,
    /// Idempotency keys and the turns that they began, the latest last.
    keys: VecDeque<(String, String)>,
    used_at: Instant,
    /// What all this takes in memory, logs apart.
    share: Share,
}

/// A turn that is over and can still be read.
#[derive(Debug)]
struct FinishedTurn {
    turn: LoggedTurn,
    bytes: usize,
    place: Place,
}

/// A turn that can be read.
#[derive(Debug, Clone)]
pub struct LoggedTurn {
    /// Its id in the session.
    pub turn_id: String,
    /// Its events.
    pub log: Arc<TurnLog>,
}

/// What came of asking for a turn.
#[derive(Debug)]
pub enum Begin {
    /// It begins.
    New(Box<Begun>),
    /// The idempotency key has begun this turn before.
    Repeated(LoggedTurn),
    /// The idempotency key has begun a turn that is no longer held.
    Gone,
    /// Another turn runs.
    Busy,
    /// It answers a question, and the answer is not taken.
    Refused(AnswerError),
}

/// A turn that begins.
#[derive(Debug)]
pub struct Begun {
    /// Frees the session when it is dropped.
    pub guard: TurnGuard,
    /// Writes the turn's log.
    pub writer: Writer,
    /// What opens it; an answer has been found good.
    pub opening: Opening,
    /// The turns before it.
    pub history: Conversation,
}

/// A session as of one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// Where the turn is that runs, or where the latest has ended; `None` where no
    /// turn has left anything.
    pub state: Option<TurnState>,
    /// The turn that runs.
    pub running: Option<LoggedTurn>,
    /// The turns that are over.
    pub conversation: Conversation,
}

impl Snapshot {
    /// The question that can be answered now.
    #[must_use]
    pub fn question(&self) -> Option<&Question> {
        self.conversation.open_questions().first().filter(|_| self.running.is_none())
    }
}

/// What came of looking for a turn.
#[derive(Debug)]
pub enum Found {
    /// Here it is.
    Turn(LoggedTurn),
    /// It was here; its log is no longer held.
    Gone,
    /// There is none.
    Unknown,
}

impl Session {
    fn new(id: &str, session_bytes: &Arc<SessionBytes>, finished_logs: &Arc<FinishedLogs>) -> Self {
        let mut state = State {
            conversation: Conversation::default(),
            running: None,
            finished: VecDeque::new(),
            keys: VecDeque::new(),
            used_at: Instant::now(),
            share: session_bytes.share(),
        };
        state.count();
        let (nonce, finished_logs) = (OnceLock::new(), Arc::clone(finished_logs));
        Self {
            id: id.to_owned(),
            epoch: FIRST_EPOCH,
            nonce,
            finished_logs,
            state: Mutex::new(state),
        }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn touch(&self) {
        self.state.lock().used_at = Instant::now();
    }

    /// Begins a turn, unless one runs or `key` has begun one before. An answer is
    /// looked up in the same moment, so that of two only one is taken.
    fn begin(self: &Arc<Self>, turn_id: &str, key: Option<&str>, ask: &Ask) -> Begin {
        let mut state = self.state.lock();
        state.used_at = Instant::now();
        if let Some(found) = key.and_then(|key| state.begun_by(key)) {
            return match found {
                Found::Turn(turn) => Begin::Repeated(turn),
                Found::Gone | Found::Unknown => Begin::Gone,
            };
        }
        if state.running.is_some() {
            return Begin::Busy;
        }
        let opening = match state.conversation.open(ask) {
            Ok(opening) => opening,
            Err(error) => return Begin::Refused(error),
        };
        if let Some(key) = key {
            if state.keys.len() == limits::IDEMPOTENCY_KEYS_MAX {
                state.keys.pop_front();
            }
            state.keys.push_back((key.to_owned(), turn_id.to_owned()));
            state.count();
        }
        let (log, writer) = Writer::new(self.epoch);
        state.running = Some(LoggedTurn { turn_id: turn_id.to_owned(), log });
        let guard = TurnGuard { session: Arc::clone(self), record: None };
        let history = state.conversation.clone();
        Begin::New(Box::new(Begun { guard, writer, opening, history }))
    }

    /// The turn that an idempotency key has begun; `None` where it has begun none.
    #[must_use]
    pub fn begun_by(&self, key: &str) -> Option<Found> {
        self.state.lock().begun_by(key)
    }

    /// The turn of that id, or the latest.
    #[must_use]
    pub fn turn(&self, turn_id: Option<&str>) -> Found {
        self.state.lock().turn(turn_id)
    }

    /// What the session holds now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        let (running, conversation) = (state.running.clone(), state.conversation.clone());
        Snapshot { state: state.turn_state(), running, conversation }
    }

    /// The turn that runs.
    #[must_use]
    pub fn running(&self) -> Option<LoggedTurn> {
        self.state.lock().running.clone()
    }

    /// Lets go of a finished turn's log.
    fn evict(&self, ticket: Ticket) {
        self.state.lock().finished.retain(|turn| turn.place.ticket != ticket);
    }

    /// Whether no turn runs in it. One that is idle may be forgotten.
    fn is_idle(&self) -> bool {
        self.state.lock().running.is_none()
    }

    /// Cancels the turn that runs; false where none does.
    pub fn cancel(&self) -> bool {
        self.running().is_some_and(|turn| turn.log.cancel())
    }
}

impl State {
    fn begun_by(&self, key: &str) -> Option<Found> {
        let (_, turn_id) = self.keys.iter().find(|(known, _)| known == key)?;
        Some(self.turn(Some(turn_id)))
    }

    fn turn_state(&self) -> Option<TurnState> {
        let finished = || self.finished.back().map(|finished| &finished.turn);
        match self.running.as_ref().or_else(finished) {
            Some(turn) => Some(turn.log.turn_state()),
            None => self.conversation.turns().next_back().map(|turn| turn.ending.state()),
        }
    }

    fn turn(&self, turn_id: Option<&str>) -> Found {
        let finished = self.finished.iter().map(|finished| &finished.turn);
        let mut held = self.running.iter().chain(finished.rev());
        let found = match turn_id {
            None => held.next(),
            Some(id) => held.find(|turn| turn.turn_id == id),
        };
        if let Some(turn) = found {
            return Found::Turn(turn.clone());
        }
        let is_known = |id| self.conversation.turns().any(|turn| turn.turn_id == id);
        if turn_id.is_some_and(is_known) { Found::Gone } else { Found::Unknown }
    }

    /// Keeps a finished turn's log, and lets go of the oldest beyond the limits.
    fn keep(&mut self, finished: FinishedTurn) {
        self.finished.push_back(finished);
        let mut bytes: usize = self.finished.iter().map(|finished| finished.bytes).sum();
        while self.finished.len() > limits::TURN_LOGS_MAX
            || (bytes > limits::TURN_LOG_BYTES_MAX && self.finished.len() > 1)
        {
            let Some(oldest) = self.finished.pop_front() else { break };
            bytes -= oldest.bytes;
        }
    }

    /// Says what the session takes now.
    fn count(&mut self) {
        let keys = self.keys.iter().map(|(key, turn_id)| key.len() + turn_id.len());
        let keys = keys.sum::<usize>() + self.keys.capacity() * size_of::<(String, String)>();
        self.share.set(size_of::<Session>() + keys + self.conversation.bytes());
    }
}

/// Holds a session's one place for a running turn.
#[derive(Debug)]
pub struct TurnGuard {
    session: Arc<Session>,
    record: Option<Box<conversation::Turn>>,
}

impl TurnGuard {
    /// The session's nonce, eight hexadecimal digits.
    #[must_use]
    pub fn nonce(&self) -> &str {
        self.session.nonce.get_or_init(|| format!("{:08x}", Uuid::new_v4().as_fields().0))
    }

    /// The turn is over: it goes into the conversation, and the place is free.
    pub fn finish(mut self, record: conversation::Turn) {
        self.record = Some(Box::new(record));
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        let mut turn_state = TurnState::Failed;
        if let Some(record) = self.record.take() {
            turn_state = record.ending.state();
            state.conversation.push(*record);
            state.count();
        }
        state.used_at = Instant::now();
        let Some(turn) = state.running.take() else { return };
        turn.log.set_turn_state(turn_state);
        let bytes = turn.log.memory();
        let place = self.session.finished_logs.enter(&self.session, bytes);
        state.keep(FinishedTurn { turn, bytes, place });
        drop(state);
        self.session.finished_logs.make_room();
    }
}

#[cfg(test)]
mod tests;
