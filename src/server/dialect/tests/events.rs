//! The events of small turns, for the tests of all dialects.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::event::{Event, FailureCode, Summary, TurnFinish, Usage};
use crate::tools::ToolResult;

pub(in crate::server::dialect) const TURN: &str = "5eef151e-f351-4620-9769-441c3a4f562f";
pub(in crate::server::dialect) const USAGE: Usage =
    Usage { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };

pub(in crate::server::dialect) const fn summary() -> Summary<'static> {
    Summary { loops: 1, tool_calls: 0, usage: USAGE, text: "" }
}

pub(in crate::server::dialect) const fn started() -> Event<'static> {
    started_in("s")
}

pub(in crate::server::dialect) const fn started_in(session_id: &str) -> Event<'_> {
    Event::TurnStarted { session_id, turn_id: TURN, model: "m", max_tool_loops: 5 }
}

pub(in crate::server::dialect) const fn completed(finish_reason: TurnFinish) -> Event<'static> {
    Event::TurnCompleted { finish_reason, stop_text: None, summary: summary() }
}

/// The answer ends before a stop text.
pub(in crate::server::dialect) const fn stopped_at(stop_text: &str) -> Event<'_> {
    let (finish_reason, stop_text) = (TurnFinish::Stop, Some(stop_text));
    Event::TurnCompleted { finish_reason, stop_text, summary: summary() }
}

pub(in crate::server::dialect) const fn failed() -> Event<'static> {
    let (code, message) = (FailureCode::UpstreamTimeout, "the model server is silent");
    Event::TurnFailed { code, message, retryable: true, summary: summary() }
}

/// The same request would fail again.
pub(in crate::server::dialect) const fn failed_for_good() -> Event<'static> {
    let (code, message) =
        (FailureCode::UpstreamError, "the model server does not take the request");
    Event::TurnFailed { code, message, retryable: false, summary: summary() }
}

pub(in crate::server::dialect) const fn text(text: &str) -> Event<'_> {
    Event::text(text)
}

/// The first text of the message of the second round.
pub(in crate::server::dialect) const fn second_message(text: &str) -> Event<'_> {
    Event::TextDelta { r#loop: Some(2), text }
}

pub(in crate::server::dialect) fn raw(json: &Value) -> Box<RawValue> {
    RawValue::from_string(json.to_string()).unwrap()
}

/// A call of the tool `look` starts.
pub(in crate::server::dialect) const fn start<'a>(
    call_id: &'a str,
    arguments: &'a RawValue,
    round: u32,
) -> Event<'a> {
    Event::ToolStarted { call_id, tool_name: "look", tool_args: arguments, r#loop: round }
}

/// A call of the tool `look` ends.
pub(in crate::server::dialect) const fn end<'a>(
    call_id: &'a str,
    result: &'a ToolResult,
) -> Event<'a> {
    Event::ToolCompleted {
        call_id,
        tool_name: "look",
        tool_result: result,
        duration_ms: 1,
        attempts: 1,
    }
}
