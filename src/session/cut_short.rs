//! Last events of turns whose own end does not count: the turn machine did not write one, or the store did not take it.
//! Like all last events, they say how far the turn has come.

use serde::Deserialize;

use super::log::TurnLog;
use crate::conversation::Interrupted;
use crate::event::{Event, FailureCode, Kind, Summary, Usage};

/// Ends a turn that was over, but whose end the store did not take.
pub(super) const NOT_STORED: &str =
    "the session store does not answer, so the end of this turn is lost; try again later";

/// Ends a turn of which the store has lost a part.
pub(super) const DATA_LOSS: &str =
    "the session store has lost a part of this turn; read the session for what is left of it";

/// Ends a turn whose gateway was stopped.
const INTERRUPTED: &str =
    "the gateway was stopped while this turn ran; what it had said and done is kept";

/// How far a turn has come, as far as its readers have seen it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    said: String,
    loops: u32,
    calls: u32,
    usage: Usage,
    /// Whether tools have ended since the model last spoke.
    is_after_tools: bool,
}

/// What matters here of an event in the log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    data: EventData,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventData {
    text: String,
    r#loop: u32,
    loops: u32,
    tool_calls: u32,
    usage: Usage,
}

impl Seen {
    /// What readers have seen of this log. The counts are those of the turn's own end, if it has written one.
    pub(super) fn of(log: &TurnLog) -> Self {
        let mut seen = Self::default();
        log.replay(|record| seen.note(record.kind, record.data));
        log.replay_sealed(|record| {
            if matches!(record.kind, Kind::TurnCompleted | Kind::TurnFailed) {
                let Line { data } = read(record.data);
                (seen.loops, seen.calls, seen.usage) = (data.loops, data.tool_calls, data.usage);
            }
        });
        seen
    }

    fn note(&mut self, kind: Kind, line: &[u8]) {
        match kind {
            Kind::TextDelta => {
                self.said += &read(line).data.text;
                self.loops += u32::from(self.loops == 0 || self.is_after_tools);
                self.is_after_tools = false;
            }
            Kind::ToolStarted => {
                self.loops = self.loops.max(read(line).data.r#loop);
                self.calls += 1;
            }
            Kind::ToolCompleted => self.is_after_tools = true,
            _ => {}
        }
    }

    /// The last event of a turn that ends because the store has failed.
    pub(super) const fn failed(&self, message: &'static str) -> Event<'_> {
        let Self { said, loops, calls, usage, .. } = self;
        let summary =
            Summary { loops: *loops, tool_calls: *calls, usage: *usage, text: said.as_str() };
        let code = FailureCode::StoreUnavailable;
        Event::TurnFailed { code, message, retryable: true, summary }
    }
}

/// Reads a line of a log. This process or another one has encoded it, so it can be read.
fn read(line: &[u8]) -> Line {
    serde_json::from_slice(line).unwrap_or_default()
}

/// The last event of a turn whose gateway was stopped, and that does not go on.
pub(super) fn interrupted(turn: &Interrupted) -> Event<'_> {
    let calls = u32::try_from(turn.step.calls().count()).unwrap_or(u32::MAX);
    let summary = Summary {
        loops: turn.tally.rounds,
        tool_calls: turn.tally.calls.saturating_add(calls),
        usage: turn.tally.usage,
        text: &turn.said,
    };
    let code = FailureCode::Internal;
    Event::TurnFailed { code, message: INTERRUPTED, retryable: true, summary }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Writer;
    use super::super::log::encode;
    use super::*;

    fn end_of(log: &TurnLog) -> Value {
        let line = encode::line(&Seen::of(log).failed(DATA_LOSS));
        serde_json::from_slice::<Value>(&line).unwrap()["data"].clone()
    }

    #[test]
    fn a_turn_that_was_cut_at_once_has_said_nothing() {
        let (log, _writer) = Writer::new(1);
        assert_eq!((&end_of(&log)["text"], &end_of(&log)["loops"]), (&json!(""), &json!(0)));
    }

    #[test]
    fn the_end_tells_what_was_said_and_counts_rounds_and_calls() {
        let (log, mut writer) = Writer::new(1);
        writer.push(&Event::TextDelta { text: "Let me \"look\".\n" });
        writer.publish();
        assert_eq!(end_of(&log)["loops"], 1);
        let (call_id, tool_name) = ("call_1", "look");
        let arguments = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
        writer.push(&Event::ToolStarted { call_id, tool_name, tool_args: &arguments, r#loop: 1 });
        let result = crate::tools::ToolResult::error("none".to_owned());
        writer.push(&Event::ToolCompleted {
            call_id,
            tool_name,
            tool_result: &result,
            duration_ms: 1,
            attempts: 1,
        });
        writer.push(&Event::TextDelta { text: "There " });
        writer.push(&Event::TextDelta { text: "is." });
        writer.publish();
        let end = end_of(&log);
        assert_eq!(end["text"], "Let me \"look\".\nThere is.");
        assert_eq!((&end["loops"], &end["tool_calls"]), (&json!(2), &json!(1)));
        assert_eq!((&end["code"], &end["retryable"]), (&json!("store_unavailable"), &json!(true)));
    }

    #[test]
    fn an_end_that_was_not_shown_gives_its_counts_but_not_its_text() {
        let (log, mut writer) = Writer::new(1);
        writer.push(&Event::TextDelta { text: "Shown." });
        writer.publish();
        let usage = Usage { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
        let summary = Summary { loops: 4, tool_calls: 5, usage, text: "Shown. Not shown." };
        let (code, message) = (FailureCode::StoreUnavailable, "down");
        writer.push(&Event::TurnFailed { code, message, retryable: true, summary });
        writer.seal();
        let end = end_of(&log);
        assert_eq!((&end["loops"], &end["tool_calls"]), (&json!(4), &json!(5)));
        assert_eq!((&end["usage"]["total_tokens"], &end["text"]), (&json!(3), &json!("Shown.")));
    }
}
