//! Last events of turns whose own end does not count. Like all last events, they say how far the turn has come.

use serde::Deserialize;

use super::TurnLog;
use crate::event::{Event, FailureCode, Kind, Summary, TurnFinish, Usage};

/// How far a turn has come, as far as its readers have seen it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
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
    pub(crate) fn of(log: &TurnLog) -> Self {
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
                let Line { data } = read(line);
                self.said += &data.text;
                if data.r#loop > 0 {
                    self.loops = data.r#loop;
                } else {
                    self.loops += u32::from(self.loops == 0 || self.is_after_tools);
                }
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
    pub(crate) const fn failed(&self, message: &'static str) -> Event<'_> {
        let code = FailureCode::StoreUnavailable;
        Event::TurnFailed { code, message, retryable: true, summary: self.summary() }
    }

    /// The last event of a turn whose session was deleted.
    pub(crate) const fn cancelled(&self) -> Event<'_> {
        let finish_reason = TurnFinish::Cancelled;
        Event::TurnCompleted { finish_reason, stop_text: None, summary: self.summary() }
    }

    const fn summary(&self) -> Summary<'_> {
        let Self { said, loops, calls, usage, .. } = self;
        Summary { loops: *loops, tool_calls: *calls, usage: *usage, text: said.as_str() }
    }
}

/// Reads a line of a log. This process or another one has encoded it, so it can be read.
fn read(line: &[u8]) -> Line {
    serde_json::from_slice(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Writer, encode};
    use super::*;

    fn end_of(log: &TurnLog) -> Value {
        let line = encode::line(&Seen::of(log).failed("down"));
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
        writer.push(&Event::text("Let me \"look\".\n"));
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
        writer.push(&Event::text("There "));
        writer.push(&Event::text("is."));
        writer.publish();
        let end = end_of(&log);
        assert_eq!(end["text"], "Let me \"look\".\nThere is.");
        assert_eq!((&end["loops"], &end["tool_calls"]), (&json!(2), &json!(1)));
        assert_eq!((&end["code"], &end["retryable"]), (&json!("store_unavailable"), &json!(true)));
    }

    #[test]
    fn an_end_that_was_not_shown_gives_its_counts_but_not_its_text() {
        let (log, mut writer) = Writer::new(1);
        writer.push(&Event::text("Shown."));
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
