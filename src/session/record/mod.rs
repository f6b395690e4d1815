//! A session as it is written down: all that it takes to go on with it elsewhere.
//!
//! ```text
//! {"version": 1, "session": {"epoch": 3, "nonce": "7f3a90c2", "keys": [...], "conversation": {...}}}
//! ```
//! A newer gateway reads what an older one wrote: `tests/data/session` keeps a record of each
//! version. An older one refuses a newer one's, since it would lose what it does not know.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::limits::session::RECORD_DEPTH_MAX as DEPTH_MAX;

/// The version that is written. It rises when what was written before is read in another way.
pub const VERSION: u32 = 1;

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SessionRecord {
    /// How often the session has begun to be served, by this gateway or another. Ids of
    /// events begin with it, so that no two of those who serve a turn give out the same.
    pub epoch: u64,
    /// What nobody outside can guess, eight hexadecimal digits; for markers. Absent until it is
    /// needed.
    pub nonce: Option<String>,
    /// Idempotency keys and the turns that they began, the latest last.
    pub keys: Vec<(String, String)>,
    /// The turns that are over.
    pub conversation: Conversation,
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
    /// It is not what any gateway writes.
    #[error("the session's record cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
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
    /// The record as text.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "its keys are strings, and nothing else can fail"
    )]
    pub fn write(&self) -> String {
        serde_json::to_string(&Envelope { version: VERSION, session: self })
            .expect("keys are strings")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// See [`RecordError`].
    pub fn read(text: &str) -> Result<Self, RecordError> {
        let Head { version } = serde_json::from_str(text)?;
        if version > VERSION {
            return Err(RecordError::Newer { found: version });
        }
        // Results are nested as deep as `serde_json` reads by itself, and the record is around them.
        if is_deeper(text, DEPTH_MAX) {
            let message = format_args!("it is nested deeper than {DEPTH_MAX}");
            return Err(serde_json::Error::custom(message).into());
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.disable_recursion_limit();
        let Envelope { session, .. } = Envelope::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(session)
    }
}

/// Whether brackets in a JSON text are nested deeper than this.
fn is_deeper(json: &str, depth_max: usize) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
