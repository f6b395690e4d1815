//! A turn in its stored form, outside of a session.
//!
//! ```text
//! {"version": 4, "turn": {...}}
//! ```
//! Its version is that of a session's record: turns look the same in both.

use serde::{Deserialize, Serialize};

use super::{RecordError, VERSION, read_as};
use crate::conversation::Turn;

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    turn: T,
}

/// The turn as text.
#[must_use]
pub(crate) fn write(turn: &Turn) -> String {
    serde_json::to_string(&Envelope { version: VERSION, turn }).expect("keys are strings")
}

/// Reads a turn.
///
/// # Errors
/// See [`RecordError`].
pub(crate) fn read(json: &[u8]) -> Result<Turn, RecordError> {
    let Envelope { turn, .. } = read_as(json)?;
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::record::SessionRecord;

    /// The turns of the session's record of the same version.
    fn turns(version: u32) -> Vec<Turn> {
        let path = format!("tests/data/session/record-{version}.json");
        let record = SessionRecord::read(&std::fs::read(path).unwrap()).unwrap();
        record.conversation.turns().map(|turn| Turn::clone(turn)).collect()
    }

    #[test]
    fn a_turn_is_read_as_it_was_written() {
        for turn in turns(VERSION) {
            assert_eq!(read(write(&turn).as_bytes()).unwrap(), turn);
        }
    }

    /// Each version that was ever written stays readable.
    #[test]
    fn turns_of_all_versions_are_read() {
        for version in 4..=VERSION {
            let text = std::fs::read_to_string(format!("tests/data/session/turn-{version}.json"));
            let text = text.unwrap();
            let turn = read(text.as_bytes()).unwrap();
            assert!(turns(version).contains(&turn), "{version}");
            if version == VERSION {
                assert_eq!(write(&turn), text.trim_end(), "written as it was");
            }
        }
    }

    #[test]
    fn a_newer_turn_is_refused() {
        let newer = write(&Turn::default()).replacen("\"version\":4", "\"version\":5", 1);
        assert!(matches!(read(newer.as_bytes()), Err(RecordError::Newer { found: 5 })));
        assert!(matches!(read(b"{}"), Err(RecordError::Damaged(_))));
    }
}
