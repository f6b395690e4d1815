//! A call that takes several requests (MCP 2026-07-28, multi round-trip requests).
//!
//! ```text
//!   call ──> input_required {questions, state} ── answers, state ──> input_required .. ──> complete
//! ```

use serde_json::{Map, Value, json};

use super::question;
use crate::limits::tools::{QUESTIONS_PER_CALL_MAX, RESUMPTION_STATE_BYTES_MAX};
use crate::tools::Given;

/// What has been exchanged so far.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// What the server wants back, byte by byte.
    pub(super) state: Option<String>,
    /// The answers to its last questions, by its own keys.
    pub(super) answers: Vec<(String, Value)>,
    /// Its questions that have not been put to the user.
    pub(super) questions: Vec<Asked>,
    rounds: u32,
    pub(super) not_asked: Option<String>,
}

/// A question of a server.
#[derive(Debug)]
pub(super) struct Asked {
    key: String,
    pub(super) params: Value,
}

/// What comes next in a call.
pub(super) enum Step {
    Done(Value),
    Ask,
    /// The server wants to be asked again a little later.
    Later,
    Wrong(String),
}

impl Exchange {
    pub(super) fn answer(&mut self, answer: &question::Answer) {
        let Asked { key, .. } = self.questions.remove(0);
        self.answers.push((key, answer.to_json()));
    }

    /// Goes on with a result, which may be a question.
    pub(super) fn go_on(&mut self, mut result: Value) -> Step {
        let kind = result.get("resultType").and_then(Value::as_str).unwrap_or("complete");
        match kind {
            "input_required" => {}
            "task" => {
                return Step::Wrong(
                    "the server turned the call into a task, which is not supported".to_owned(),
                );
            }
            _ => return Step::Done(result),
        }
        self.rounds += 1;
        if self.rounds > QUESTIONS_PER_CALL_MAX {
            return Step::Wrong(format!(
                "the server asked more than {QUESTIONS_PER_CALL_MAX} times in one call"
            ));
        }
        self.answers.clear();
        self.state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        if self.state.as_ref().is_some_and(|state| state.len() > RESUMPTION_STATE_BYTES_MAX) {
            return Step::Wrong("the server's question has too much state".to_owned());
        }
        let requests = result.get_mut("inputRequests").map(Value::take);
        let requests = match requests {
            Some(Value::Object(requests)) => requests,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Step::Wrong("the server's questions cannot be read".to_owned()),
        };
        if requests.is_empty() {
            // Without state, the same call would only be made again.
            let nothing = "the server asked nothing, and did not say how to go on";
            let later = self.state.as_ref().map(|_| Step::Later);
            return later.unwrap_or_else(|| Step::Wrong(nothing.to_owned()));
        }
        for (key, mut request) in requests {
            let is_question = request.get("method") == Some(&json!("elicitation/create"));
            let params = request.get_mut("params").map(Value::take).unwrap_or_default();
            if !is_question {
                return Step::Wrong(
                    "the server asks the gateway for something that is not supported".to_owned(),
                );
            }
            self.questions.push(Asked { key, params });
        }
        Step::Ask
    }

    /// What has to be stored until the user answers.
    pub(super) fn to_json(&self) -> Value {
        let questions: Vec<Value> =
            self.questions.iter().map(|it| json!([it.key, it.params])).collect();
        let answers: Map<String, Value> = self.answers.iter().cloned().collect();
        json!({ "state": self.state, "answers": answers, "questions": questions, "rounds": self.rounds })
    }

    /// Goes on with an answer to the first question.
    pub(super) fn resume(mut stored: Value, given: &Given) -> Result<Self, String> {
        let unusable = || "the stored state of the call cannot be read".to_owned();
        let Some(Value::Array(questions)) = stored.get_mut("questions").map(Value::take) else {
            return Err(unusable());
        };
        let mut exchange = Self {
            state: stored["state"].as_str().map(str::to_owned),
            rounds: stored["rounds"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(Value::Object(answers)) = stored.get_mut("answers").map(Value::take) {
            exchange.answers = answers.into_iter().collect();
        }
        for question in questions {
            let Ok((key, params)) = serde_json::from_value::<(String, Value)>(question) else {
                return Err(unusable());
            };
            exchange.questions.push(Asked { key, params });
        }
        if exchange.questions.is_empty() {
            return Err(unusable());
        }
        exchange.answer(&question::answer(given));
        Ok(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(requests: &Value, state: &Value) -> Value {
        json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
        })
    }

    #[track_caller]
    fn is_wrong(step: Step) -> String {
        let Step::Wrong(reason) = step else { panic!("it goes on") };
        reason
    }

    #[test]
    fn asking_nothing_is_waiting_if_there_is_state_and_a_mistake_otherwise() {
        for nothing in [json!({}), json!(null)] {
            let step = |state| Exchange::default().go_on(asks(&nothing, &state));
            assert!(matches!(step(json!("s")), Step::Later));
            assert!(is_wrong(step(json!(null))).starts_with("the server asked nothing"));
        }
        let list = Exchange::default().go_on(asks(&json!([]), &json!("s")));
        assert!(is_wrong(list).contains("cannot be read"));
    }

    #[test]
    fn waiting_has_an_end() {
        let mut exchange = Exchange::default();
        for _ in 0..QUESTIONS_PER_CALL_MAX {
            assert!(matches!(exchange.go_on(asks(&json!({}), &json!("s"))), Step::Later));
        }
        is_wrong(exchange.go_on(asks(&json!({}), &json!("s"))));
    }
}
