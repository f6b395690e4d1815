//! A session in its stored form: everything that another gateway needs to continue it.
//!
//! ```text
//! {"version": 2, "session": {"epoch": 3, "nonce": "7f3a90c2", "keys": [...], "conversation": {...}}}
//! ```
//! A newer gateway reads what an older one wrote; `tests/data/session` keeps a record of each
//! version. An older one refuses a newer record, because it would lose what it does not know.

mod answers;
pub(crate) mod turn;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::limits::session as limits;
use crate::text::read_deep;

pub(crate) use answers::{AnswerRecords, Replaced};

/// The version that is written. Raise it if older records must be read in another way.
pub(crate) const VERSION: u32 = 4;

/// Bytes of names and ids around the texts of a short record.
const NAMES_BYTES: usize = 512;

/// A session between two turns.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    /// The epoch in which it was written: how often the session had changed hands, from 1. Ids of
    /// events begin with it, so that no two gateways give out the same.
    pub(crate) epoch: u64,
    /// Eight hexadecimal digits that text from outside cannot guess, for markers. Absent until
    /// needed.
    pub(crate) nonce: Option<Box<str>>,
    /// Idempotency keys and the turns that they began, the latest last.
    pub(crate) keys: Vec<(String, String)>,
    /// The turn whose key was written at its beginning, until its end is. If it has no log, it has done nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beginning: Option<String>,
    /// The turns that are over.
    pub(crate) conversation: Conversation,
    /// Answers in clients' own forms.
    #[serde(default)]
    pub(crate) answers: AnswerRecords,
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A newer gateway wrote it.
    #[error(
        "the session was written by a newer version of Tether (record version {found}; this one \
         reads up to {VERSION}); run that version, or delete the session"
    )]
    Newer {
        /// Its version.
        found: u32,
    },
    /// No gateway writes such a record.
    #[error("the session's record cannot be read: {0}; delete the session")]
    Damaged(#[from] serde_json::Error),
    /// No gateway writes such a log.
    #[error("the turn's log cannot be read; delete the session")]
    DamagedLog,
}

/// What every version has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    session: T,
}

impl SessionRecord {
    /// The turn that was begun with an idempotency key.
    pub(super) fn begun_by(&self, key: &str) -> Option<&str> {
        let (_, turn_id) = self.keys.iter().find(|(known, _)| known == key)?;
        Some(turn_id)
    }

    /// Remembers the turn that a key began, in place of the oldest if there are too many.
    pub(super) fn note_key(&mut self, key: &str, turn_id: &str) {
        if self.keys.len() == limits::IDEMPOTENCY_KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push((key.to_owned(), turn_id.to_owned()));
        self.beginning = Some(turn_id.to_owned());
    }

    /// Forgets the key of a turn that has done nothing: it begins another one.
    pub(super) fn drop_key_of(&mut self, turn_id: &str) {
        self.keys.retain(|(_, begun)| begun != turn_id);
    }

    /// Puts what a client has made of the conversation in its place. If the latest turn is another one there, because
    /// results of its calls came with the next message, its answer can still be continued as it was.
    pub(super) fn replace_conversation(&mut self, conversation: Conversation) {
        let last = self.conversation.turns().next_back();
        if last.is_some_and(|last| conversation.turns().all(|turn| turn != last)) {
            self.answers.keep_replaced(&self.conversation);
        }
        self.conversation = conversation;
    }

    /// Deletes the answer of a turn; false if there is none. Its turn stays in the conversation,
    /// because later ones continue from it, but its key begins a new one.
    pub(super) fn delete_answer(&mut self, turn_id: &str) -> bool {
        self.drop_key_of(turn_id);
        self.answers.delete(turn_id)
    }

    /// The record as text.
    #[must_use]
    pub(crate) fn write(&self) -> String {
        // Growing from little would copy it several times.
        let texts = self.conversation.bytes() + self.answers.bytes();
        let mut json = Vec::with_capacity(texts + NAMES_BYTES);
        serde_json::to_writer(&mut json, &Envelope { version: VERSION, session: self })
            .expect("keys are strings");
        String::from_utf8(json).expect("JSON is UTF-8")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub(crate) fn read(json: &[u8]) -> Result<Self, RecordError> {
        let Envelope { session, .. } = read_as(json)?;
        Ok(session)
    }
}

/// Reads a record of this version or an older one.
fn read_as<T: DeserializeOwned>(json: &[u8]) -> Result<T, RecordError> {
    let Head { version } = serde_json::from_slice(json)?;
    if version > VERSION {
        return Err(RecordError::Newer { found: version });
    }
    // `serde_json`'s own limit would reject the deepest results, because the record adds levels
    // around them.
    Ok(read_deep(json, limits::RECORD_DEPTH_MAX)?)
}

#[cfg(test)]
mod tests;
