//! The events of a turn as a client reads them.
//!
//! The gateway may be newer than this program, so unknown events and fields are skipped, and names
//! that are only shown stay text.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::question::Question;

/// What a terminal shows of a turn.
#[derive(Debug)]
pub(super) enum Event {
    Started(Started),
    Text(Text),
    Reasoning(Text),
    Marker,
    Acknowledgement(Acknowledgement),
    ToolStarted(ToolStarted),
    Progress(Progress),
    ToolCompleted(ToolCompleted),
    Feedback(Feedback),
    Question(Box<Question>),
    Status(Status),
    LoopLimit,
    Completed(Completed),
    Failed(Failed),
}

#[derive(Debug, Deserialize)]
pub(super) struct Started {
    pub(super) turn_id: String,
    pub(super) model: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Text {
    /// The round, if this text begins a new message after earlier text.
    #[serde(default)]
    pub(super) r#loop: Option<u32>,
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Acknowledgement {
    pub(super) text: String,
    /// `model` if the sentence has already been sent as text.
    pub(super) source: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolStarted {
    pub(super) call_id: String,
    pub(super) tool_name: String,
    /// `null` if they were too long to be sent.
    pub(super) tool_args: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    pub(super) call_id: String,
    #[serde(rename = "progress")]
    pub(super) done: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCompleted {
    pub(super) call_id: String,
    pub(super) tool_name: String,
    pub(super) tool_result: Value,
    pub(super) duration_ms: u64,
    pub(super) attempts: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Feedback {
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Completed {
    pub(super) finish_reason: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    pub(super) message: String,
    pub(super) retryable: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Event {
    /// Reads the data of a frame; `None` for events that are not shown.
    ///
    /// # Errors
    /// If it is not an event.
    pub(super) fn parse(data: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        let Envelope { r#type, data } = serde_json::from_slice(data)?;
        let data = data.get();
        Ok(Some(match r#type {
            "turn_started" => Self::Started(serde_json::from_str(data)?),
            "text_delta" => Self::Text(serde_json::from_str(data)?),
            "reasoning_delta" => Self::Reasoning(serde_json::from_str(data)?),
            "tool_marker_detected" => Self::Marker,
            "acknowledgement" => Self::Acknowledgement(serde_json::from_str(data)?),
            "tool_started" => Self::ToolStarted(serde_json::from_str(data)?),
            "tool_progress" => Self::Progress(serde_json::from_str(data)?),
            "tool_completed" => Self::ToolCompleted(serde_json::from_str(data)?),
            "feedback" => Self::Feedback(serde_json::from_str(data)?),
            "clarification_needed" => Self::Question(Box::new(Question::parse(data)?)),
            "status" => Self::Status(serde_json::from_str(data)?),
            "loop_limit_reached" => Self::LoopLimit,
            "turn_completed" => Self::Completed(serde_json::from_str(data)?),
            "turn_failed" => Self::Failed(serde_json::from_str(data)?),
            _ => return Ok(None),
        }))
    }

    /// Whether no other event follows.
    pub(super) const fn is_last(&self) -> bool {
        matches!(self, Self::Completed(_) | Self::Failed(_))
    }
}

/// The position of an event in its turn: `<epoch>-<sequence>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(u64, u64);

impl Position {
    pub(super) fn parse(id: &[u8]) -> Option<Self> {
        let (epoch, sequence) = std::str::from_utf8(id).ok()?.split_once('-')?;
        Some(Self(epoch.parse().ok()?, sequence.parse().ok()?))
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// What a session's transcript says to a client that comes back.
#[derive(Debug, Deserialize)]
pub(super) struct Transcript {
    pub(super) running_turn_id: Option<String>,
    clarification: Option<Box<RawValue>>,
    #[serde(default)]
    dropped_turns: usize,
    turns: Vec<Map<String, Value>>,
}

impl Transcript {
    /// The question that can be answered now.
    pub(super) fn question(&self) -> Option<Question> {
        Question::parse(self.clarification.as_ref()?.get()).ok()
    }

    /// How many turns the session has had.
    pub(super) fn len(&self) -> usize {
        self.dropped_turns + self.turns.len()
    }

    /// The last prompt, and the answer to it.
    pub(super) fn last_exchange(&self) -> Option<(String, String)> {
        let prompt_of = |turn: &Map<String, Value>| Some(turn.get("prompt")?.as_str()?.to_owned());
        let (at, prompt) =
            self.turns.iter().enumerate().rev().find_map(|(at, it)| Some((at, prompt_of(it)?)))?;
        let steps = self.turns[at..].iter().filter_map(|turn| turn.get("steps")?.as_array());
        let parts = steps.flatten().filter_map(|step| step["parts"].as_array()).flatten();
        let answer: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
        Some((prompt, answer.concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_fields_of_later_versions_are_skipped() {
        let later = br#"{"type":"weather","data":{"sun":1}}"#;
        assert!(Event::parse(later).unwrap().is_none());
        let more = br#"{"type":"text_delta","data":{"text":"a","loud":true},"v":2}"#;
        assert!(matches!(Event::parse(more).unwrap(), Some(Event::Text(it)) if it.text == "a"));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for data in ["", "{}", r#"{"type":"text_delta","data":{}}"#, r#"{"type":"status"}"#] {
            assert!(Event::parse(data.as_bytes()).is_err(), "{data}");
        }
    }

    #[test]
    fn positions_are_in_the_order_of_their_turn() {
        let at = |id: &str| Position::parse(id.as_bytes()).unwrap();
        assert!(at("1-9") < at("1-10"));
        assert!(at("1-99") < at("2-1"));
        assert_eq!(at("2-31").to_string(), "2-31");
        for id in ["", "1", "a-b", "1-", "-1"] {
            assert_eq!(Position::parse(id.as_bytes()), None, "{id}");
        }
    }

    #[test]
    fn the_last_exchange_includes_the_turns_that_an_answer_began() {
        let transcript: Transcript = serde_json::from_str(
            r#"{"session_id":"s","running_turn_id":null,"clarification":null,"dropped_turns":2,"turns":[
                {"prompt":"old","steps":[{"parts":[{"text":"x"}]}]},
                {"prompt":"new","steps":[{"parts":[{"text":"Which? "},{"call":{}}]}]},
                {"prompt":null,"steps":[{"parts":[{"text":"That one."}]}]}]}"#,
        )
        .unwrap();
        assert_eq!(transcript.len(), 5);
        let exchange = transcript.last_exchange().unwrap();
        assert_eq!(exchange, ("new".to_owned(), "Which? That one.".to_owned()));
    }
}
