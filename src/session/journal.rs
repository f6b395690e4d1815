//! The journal of a running turn: what another gateway needs to end it.
//!
//! ```text
//!   {"version": 1, "after": 41, "turn": {"prompt": ..., "steps": [ whole steps ]}}
//!                         |
//!   log   1 ... 41 | 42 text  43 tool_started  44 tool_completed  45 text ]   killed
//!                    '-------------- the step that was under way -----------'
//! ```
//!
//! A turn's steps are in its journal once they are whole. What came after them is in the log, so that nothing
//! that a reader has seen is missing in the conversation.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::log::encode;
use super::log::storing::Draft;
use super::record::RecordError;
use super::store::Batch;
use crate::conversation::{self, Call, Ending, Outcome, Part, Step};
use crate::event::{Event, FailureCode};
use crate::limits::session as limits;
use crate::parser::Arguments;
use crate::text::is_deeper;
use crate::tools::ToolResult;

/// The version that is written. Raise it if older journals must be read in another way.
const VERSION: u32 = 1;

/// A turn as far as it has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    /// The last event that belongs to the turn's steps.
    pub(super) after: u64,
    /// How many call ids it has used so far.
    call_ids: usize,
    /// See [`conversation::Turn::continues`], which stored turns do not have.
    continues: bool,
    turn: Arc<conversation::Turn>,
}

/// What ends a turn that the store has not taken, although it was over.
pub(super) const NOT_STORED: Event<'_> = Event::cut_short(
    FailureCode::StoreUnavailable,
    "the session store does not answer, so the end of this turn is lost; try again later",
);

/// What ends a turn whose gateway was stopped.
pub(super) const INTERRUPTED: Event<'_> = Event::cut_short(
    FailureCode::Internal,
    "the gateway was stopped while this turn ran; what it had said and done is kept",
);

/// An event.
#[derive(Deserialize)]
struct Line<'l> {
    r#type: &'l str,
    #[serde(borrow)]
    data: Told<'l>,
}

/// What counts of an event here.
#[derive(Deserialize)]
struct Told<'l> {
    #[serde(default)]
    text: String,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    tool_name: String,
    #[serde(borrow)]
    tool_args: Option<&'l RawValue>,
    tool_result: Option<ToolResult>,
}

impl Journal {
    pub(super) fn new(Draft { after, call_ids, turn }: Draft) -> Self {
        Self { version: VERSION, after, call_ids, continues: turn.continues, turn }
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

    /// The turn as it ended, with the step that the events after it tell of.
    pub(super) fn interrupted(self, events: &[Batch]) -> conversation::Turn {
        let mut turn = Arc::unwrap_or_clone(self.turn);
        let mut step = Step { at_ms: turn.started_at_ms, ..Step::default() };
        let lines = events.iter().flat_map(|batch| {
            let lines = batch.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            (batch.first..).zip(lines)
        });
        let mut call_ids = HashSet::new();
        for (_, line) in lines.filter(|(sequence, _)| *sequence > self.after) {
            let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { continue };
            if !line.data.call_id.is_empty() {
                call_ids.insert(line.data.call_id.clone());
            }
            take(&mut step, line);
        }
        turn.call_ids += self.call_ids + call_ids.len();
        turn.continues = self.continues;
        if !step.parts.is_empty() {
            turn.steps.push(step);
        }
        for step in &mut turn.steps {
            step.parts.retain(|part| !matches!(part, Part::Reasoning(_)));
        }
        turn.ending = Some(Ending::Failed(FailureCode::Internal));
        turn
    }
}

/// Adds what an event tells of a step.
fn take(step: &mut Step, Line { r#type, data }: Line<'_>) {
    match r#type {
        "text_delta" => match step.parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(&data.text),
            _ => step.parts.push(Part::Text(data.text)),
        },
        "tool_started" => {
            let arguments = data.tool_args.map_or("{}", RawValue::get);
            let Ok(arguments) = Arguments::parse(arguments) else { return };
            let (call_id, name) = (data.call_id, data.tool_name);
            let (resolved_arguments, outcome) = (None, Outcome::Cancelled);
            let call = Call { call_id, name, arguments, resolved_arguments, outcome };
            step.parts.push(Part::Call(Arc::new(call)));
        }
        "tool_completed" => {
            let Some(result) = data.tool_result else { return };
            let call = step.parts.iter_mut().find_map(|part| match part {
                Part::Call(call) if call.call_id == data.call_id => Some(call),
                _ => None,
            });
            if let Some(call) = call {
                Arc::make_mut(call).outcome = Outcome::Ended(result);
            }
        }
        _ => {}
    }
}

/// The event that ends an interrupted turn, after event `last` of its log.
pub(super) fn end_after(last: u64) -> Batch {
    Batch { first: last + 1, last: last + 1, bytes: encode::line(&INTERRUPTED).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(first: u64, lines: &[&str]) -> Batch {
        let bytes: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        Batch { first, last: first + lines.len() as u64 - 1, bytes: bytes.into() }
    }

    /// The turn of a journal that ends with event 2, whose log goes on like this.
    fn interrupted(batches: &[Batch]) -> conversation::Turn {
        let (prompt, continues) = ("?".to_owned(), true);
        let turn = conversation::Turn { prompt, continues, ..conversation::Turn::default() };
        let draft = Draft { after: 2, call_ids: 3, turn: Arc::new(turn) };
        let json = Journal::new(draft).write();
        Journal::read(json.as_bytes()).unwrap().interrupted(batches)
    }

    #[test]
    fn what_came_after_the_last_whole_step_is_another_step() {
        let turn = interrupted(&[
            events(
                2,
                &[
                    r#"{"type":"text_delta","data":{"text":"before"}}"#,
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
        assert!(interrupted(&[]).steps.is_empty());
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let json = Journal::new(Draft { after: 0, call_ids: 0, turn: Arc::default() }).write();
        let newer = json.replacen("\"version\":1", "\"version\":2", 1);
        let refused = Journal::read(newer.as_bytes()).unwrap_err();
        assert!(matches!(refused, RecordError::Newer { found: 2 }), "{refused}");
        assert!(Journal::read(b"[").is_err());
    }
}
