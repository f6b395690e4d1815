//! The parts of a turn, as a client sees it, that are judged or kept.

use serde::Serialize;
use serde_json::Value;

/// A turn, built from its events.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Turn {
    pub(crate) said: Vec<Said>,
    pub(crate) calls: Vec<Call>,
    /// Calls that the model started to write.
    pub(crate) markers: usize,
    pub(crate) feedback: Vec<Feedback>,
    pub(crate) statuses: Vec<String>,
    /// The id of the question that ended the turn.
    pub(crate) question: Option<String>,
    /// `None` while the turn runs, or if its stream was cut.
    pub(crate) end: Option<End>,
    /// Whether the next text starts a new entry.
    #[serde(skip)]
    is_cut: bool,
}

/// Text that reached the user without interruption.
#[derive(Debug, Serialize)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// How many results the turn had by then.
    pub(crate) results: usize,
    /// Whether the model had been told anything about its calls: results or mistakes.
    pub(crate) is_told: bool,
}

/// A call that ran.
#[derive(Debug, Serialize)]
pub(crate) struct Call {
    #[serde(skip)]
    id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// The round that wrote it, from 1.
    pub(crate) round: u64,
    /// In the standard shape; `None` if the turn ended first.
    pub(crate) result: Option<Value>,
}

impl Call {
    pub(crate) fn succeeded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result["success"] == true)
    }
}

/// A mistake that the model was told about.
#[derive(Debug, Serialize)]
pub(crate) struct Feedback {
    pub(crate) reason: String,
    message: String,
}

/// How a turn ended.
#[derive(Debug, Serialize)]
pub(crate) struct End {
    pub(crate) completed: bool,
    /// The finish reason, or the failure code.
    pub(crate) reason: String,
    /// The error message of a failed turn.
    pub(crate) message: Option<String>,
    pub(crate) rounds: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) text: String,
}

impl Turn {
    /// Takes the next event, `{"type":...,"data":...}`.
    pub(crate) fn note(&mut self, event: &Value) {
        let (name, data) = (event["type"].as_str().unwrap_or_default(), &event["data"]);
        let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
        match name {
            "text_delta" => self.hear(&text("text")),
            "tool_marker_detected" => self.markers += 1,
            "tool_started" => self.calls.push(Call {
                id: text("call_id"),
                name: text("tool_name"),
                arguments: data["tool_args"].clone(),
                round: data["loop"].as_u64().unwrap_or_default(),
                result: None,
            }),
            "tool_completed" => {
                let id = text("call_id");
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                    call.result = Some(data["tool_result"].clone());
                }
            }
            "feedback" => {
                self.feedback.push(Feedback { reason: text("reason"), message: text("message") });
            }
            "status" => self.statuses.push(text("message")),
            "clarification_needed" => self.question = Some(text("clarification_id")),
            "turn_completed" => self.end = Some(end(data, "finish_reason")),
            "turn_failed" => self.end = Some(end(data, "code")),
            _ => {}
        }
        self.is_cut = name != "text_delta";
    }

    fn hear(&mut self, text: &str) {
        match self.said.last_mut() {
            Some(said) if !self.is_cut => said.text.push_str(text),
            _ => {
                let (text, results) = (text.to_owned(), self.results().count());
                self.said.push(Said { text, results, is_told: self.is_told() });
            }
        }
    }

    /// Whether the model was told anything about its calls: results or mistakes.
    pub(crate) fn is_told(&self) -> bool {
        self.results().next().is_some() || !self.feedback.is_empty()
    }

    /// The results so far.
    pub(crate) fn results(&self) -> impl Iterator<Item = &Value> {
        self.calls.iter().filter_map(|call| call.result.as_ref())
    }

    /// All streamed text.
    pub(crate) fn text(&self) -> String {
        self.said.iter().map(|said| &*said.text).collect()
    }

    /// The text after the last result, or all text if that is blank.
    pub(crate) fn answer(&self) -> String {
        let results = self.results().count();
        let last = self.said.iter().filter(|said| said.results == results);
        let last: String = last.map(|said| &*said.text).collect();
        match &self.end {
            Some(end) if last.trim().is_empty() => end.text.clone(),
            _ => last,
        }
    }
}

fn end(data: &Value, reason: &str) -> End {
    let text = |field: &str| data[field].as_str().map(str::to_owned);
    let tokens = |field: &str| data["usage"][field].as_u64().unwrap_or_default();
    End {
        completed: reason == "finish_reason",
        reason: text(reason).unwrap_or_default(),
        message: text("message"),
        rounds: data["loops"].as_u64().unwrap_or_default(),
        prompt_tokens: tokens("prompt_tokens"),
        completion_tokens: tokens("completion_tokens"),
        text: text("text").unwrap_or_default(),
    }
}

/// What only the session's transcript shows, and no event.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Transcript {
    /// Every call, in order, whether or not it ran.
    pub(crate) written: Vec<Written>,
    /// Whether the gateway composed the answer from results because the model gave none.
    pub(crate) is_composed: bool,
}

/// A call as the model wrote it.
#[derive(Debug, Serialize)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

impl Transcript {
    pub(crate) fn read(transcript: &Value) -> Self {
        let items = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let steps = items(&transcript["turns"]).into_iter().flat_map(|turn| items(&turn["steps"]));
        let parts: Vec<Value> = steps.flat_map(|step| items(&step["parts"])).collect();
        let call = |part: &Value| {
            let call = part.get("call")?;
            let name = call["name"].as_str()?.to_owned();
            Some(Written { name, arguments: call["arguments"].clone() })
        };
        let is_composed = |part: &Value| part["said"]["kind"] == "response";
        Self {
            written: parts.iter().filter_map(call).collect(),
            is_composed: parts.iter().any(is_composed),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(events: &[(&str, Value)]) -> Turn {
        let mut turn = Turn::default();
        for (name, data) in events {
            turn.note(&json!({"type": name, "data": data}));
        }
        turn
    }

    #[test]
    fn the_answer_is_what_follows_the_last_result() {
        let started = json!({"call_id": "call_1", "tool_name": "look", "tool_args": {}, "loop": 1});
        let completed = json!({"call_id": "call_1", "tool_result": {"success": true}});
        let end = json!({"finish_reason": "stop", "text": "Let me see.It is late."});
        let mut events = vec![
            ("text_delta", json!({"text": "Let me "})),
            ("text_delta", json!({"text": "see."})),
            ("tool_started", started),
            ("tool_completed", completed),
        ];
        events.push(("turn_completed", end.clone()));
        assert_eq!(turn(&events).answer(), "Let me see.It is late.", "nothing follows");
        events.pop();
        events.push(("text_delta", json!({"text": "It is late."})));
        events.push(("turn_completed", end));
        let turn = turn(&events);
        assert_eq!(turn.answer(), "It is late.");
        assert_eq!(turn.text(), "Let me see.It is late.");
        assert_eq!(turn.said.len(), 2);
        assert!(turn.calls[0].succeeded());
    }

    #[test]
    fn a_transcript_has_every_call_and_says_who_wrote_the_answer() {
        let call = |n: u32| json!({"call": {"name": "look", "arguments": {"n": n}}});
        let said = |kind: &str| json!({"said": {"kind": kind, "text": "Well."}});
        let read = |kind: &str| {
            Transcript::read(&json!({"turns": [
                {"steps": [{"parts": [{"text": "Well."}, call(1)]}, {"parts": [call(2)]}]},
                {"steps": [{"parts": [call(3), said(kind)]}]},
            ]}))
        };
        let Transcript { written, is_composed } = read("status");
        let numbers: Vec<u64> =
            written.iter().filter_map(|call| call.arguments["n"].as_u64()).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(!is_composed);
        assert!(read("response").is_composed);
    }
}
