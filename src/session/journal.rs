//! The journal of a running turn: what another gateway needs to go on with it.
//!
//! ```text
//!   {"version": 2, "after": 41, "asked": {...}, "tally": {...}, "turn": {"steps": [ whole steps ]}}
//!                         |
//!   log   1 ... 41 | 42 text  43 tool_started  44 tool_completed  45 text ]   killed
//!                    '-------------- the step that was under way -----------'
//! ```
//!
//! A turn's steps are in its journal once they are whole. What came after them is in the log, so that nothing
//! that a reader has seen is missing in the conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::log::encode;
use super::log::storing::Draft;
use super::record::RecordError;
use super::store::Batch;
use crate::conversation::{self, Interrupted, Tally};
use crate::event::Event;
use crate::limits::session as limits;
use crate::text::is_deeper;

/// The version that is written. Raise it if older journals must be read in another way. One of version 1 does
/// not say what was asked, so its turn can only be ended.
const VERSION: u32 = 2;

/// A turn as far as it has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The last event that belongs to the turn's steps.
    pub(super) after: u64,
    /// The turn's request, as the gateway wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<Arc<RawValue>>,
    /// How many gateways have gone on from here, one after another.
    #[serde(default)]
    pub(super) takeovers: u32,
    #[serde(default)]
    tally: Tally,
    /// See [`conversation::Turn::continues`], which stored turns do not have.
    continues: bool,
    turn: Arc<conversation::Turn>,
}

impl Journal {
    pub(super) fn new(Draft { after, asked, takeovers, tally, turn }: Draft) -> Self {
        let continues = turn.continues;
        Self { version: VERSION, after, asked, takeovers, tally, continues, turn }
    }

    /// The journal as text.
    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).expect("keys are strings")
    }

    /// Reads a journal.
    pub(super) fn read(json: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let Head { version: found } = serde_json::from_slice(json)?;
        if found > VERSION {
            return Err(RecordError::Newer { found });
        }
        if is_deeper(json, limits::RECORD_DEPTH_MAX) {
            return Err(RecordError::DamagedLog);
        }
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        deserializer.disable_recursion_limit();
        Ok(Self::deserialize(&mut deserializer)?)
    }

    /// The turn as it was when its gateway was stopped; `events` are its log.
    pub(super) fn interrupted(self, events: &[Batch]) -> Interrupted {
        let turn = Arc::unwrap_or_clone(self.turn);
        let turn = conversation::Turn { continues: self.continues, ..turn };
        let lines = events.iter().flat_map(|batch| {
            let lines = batch.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            (batch.first..).zip(lines)
        });
        Interrupted::new(turn, self.tally, self.after, lines)
    }
}

/// An event after event `last` of a log.
pub(super) fn event_after(last: u64, event: &Event<'_>) -> Batch {
    Batch { first: last + 1, last: last + 1, bytes: encode::line(event).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Ending, Outcome, Part};
    use crate::event::FailureCode;

    fn events(first: u64, lines: &[&str]) -> Batch {
        let bytes: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        Batch { first, last: first + lines.len() as u64 - 1, bytes: bytes.into() }
    }

    fn draft(after: u64, turn: conversation::Turn) -> Draft {
        let asked = RawValue::from_string("{\"model\":\"m\"}".to_owned()).unwrap();
        let tally = Tally { call_ids: 3, rounds: 2, ..Tally::default() };
        Draft { after, asked: Some(asked.into()), takeovers: 1, tally, turn: Arc::new(turn) }
    }

    /// The turn of a journal that ends with event 2, whose log is this.
    fn interrupted(batches: &[Batch]) -> Interrupted {
        let (prompt, continues) = ("?".to_owned(), true);
        let turn = conversation::Turn { prompt, continues, ..conversation::Turn::default() };
        let json = Journal::new(draft(2, turn)).write();
        let journal = Journal::read(json.as_bytes()).unwrap();
        assert_eq!(journal.asked.as_ref().map(|asked| asked.get()), Some("{\"model\":\"m\"}"));
        assert_eq!(journal.takeovers, 1);
        journal.interrupted(batches)
    }

    #[test]
    fn what_came_after_the_last_whole_step_is_another_step() {
        let interrupted = interrupted(&[
            events(
                1,
                &[
                    r#"{"type":"turn_started","data":{"session_id":"s","turn_id":"t"}}"#,
                    r#"{"type":"text_delta","data":{"text":"Before. "}}"#,
                    r#"{"type":"text_delta","data":{"text":"Let me "}}"#,
                ],
            ),
            events(
                4,
                &[
                    r#"{"type":"text_delta","data":{"text":"look."}}"#,
                    r#"{"type":"tool_started","data":{"call_id":"a","tool_name":"f","tool_args":{"x":1}}}"#,
                    r#"{"type":"tool_started","data":{"call_id":"b","tool_name":"g","tool_args":{}}}"#,
                    r#"{"type":"tool_completed","data":{"call_id":"a","tool_name":"f","tool_result":{"success":true,"next_action":"continue"}}}"#,
                    r#"{"type":"one that comes later","data":{}}"#,
                ],
            ),
        ]);
        assert!(interrupted.is_begun && interrupted.heard.is_none());
        assert_eq!(interrupted.said, "Before. Let me look.");
        assert_eq!(interrupted.tally.rounds, 2);
        let turn = interrupted.into_ended();
        let [step] = &turn.steps[..] else { panic!("{turn:?}") };
        assert_eq!(step.parts[0], Part::Text("Let me look.".to_owned()));
        let calls: Vec<_> =
            step.calls().map(|call| (&*call.name, call.arguments.as_str())).collect();
        assert_eq!(calls, [("f", "{\"x\":1}"), ("g", "{}")]);
        let outcomes: Vec<_> = step.calls().map(|call| &call.outcome).collect();
        assert!(matches!(outcomes[0], Outcome::Ended(result) if result.success));
        assert_eq!(outcomes[1], &Outcome::Cancelled, "nobody knows what it has done");
        assert_eq!((turn.call_ids, turn.continues, &*turn.prompt), (5, true, "?"));
        assert_eq!(turn.ending, Some(Ending::Failed(FailureCode::Internal)));
    }

    #[test]
    fn a_turn_that_had_just_begun_has_no_step() {
        let interrupted = interrupted(&[]);
        assert!(!interrupted.is_begun && interrupted.into_ended().steps.is_empty());
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let json = Journal::new(draft(0, conversation::Turn::default())).write();
        let newer = json.replacen("\"version\":2", "\"version\":3", 1);
        let refused = Journal::read(newer.as_bytes()).unwrap_err();
        assert!(matches!(refused, RecordError::Newer { found: 3 }), "{refused}");
        assert!(Journal::read(b"[").is_err());
    }

    #[test]
    fn an_older_journal_does_not_say_what_was_asked() {
        let older =
            br#"{"version":1,"after":2,"call_ids":3,"continues":false,"turn":{"turn_id":"t",
            "started_at_ms":0,"prompt":"?","answer":null,"dropped":null,"steps":[],"questions":[],
            "deferred":[],"call_ids":0,"ending":null}}"#;
        let journal = Journal::read(older).unwrap();
        assert!(journal.asked.is_none());
        assert_eq!(journal.interrupted(&[]).into_ended().prompt, "?");
    }
}
