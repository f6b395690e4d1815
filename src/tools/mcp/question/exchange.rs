//! A call that takes several requests.
//!
//! ```text
//!   call ──> input_required {questions, state} ── answers, state ──> input_required .. ──> complete
//!   call ──> error -32042 {pages} ── once the user has agreed ──> call .. ──> complete
//! ```
//! The first is of MCP 2026-07-28 (multi round-trip requests), the second of 2025-11-25
//! (`URLElicitationRequiredError`).

use serde_json::{Map, Value, json};

use super::ElicitedAnswer;
use crate::limits::tools::{QUESTIONS_PER_CALL_MAX, RESUMPTION_STATE_BYTES_MAX};
use crate::tools::Given;

/// What has been exchanged so far.
#[derive(Debug, Default)]
pub(in crate::tools::mcp) struct Exchange {
    /// What the server wants back, byte by byte.
    pub(in crate::tools::mcp) state: Option<String>,
    /// The answers to its last questions, by its own keys.
    pub(in crate::tools::mcp) answers: Vec<(String, Value)>,
    /// Its questions that have not been put to the user.
    pub(in crate::tools::mcp) questions: Vec<Asked>,
    rounds: u32,
    /// Why one of the questions was not put to the user.
    not_asked: Option<String>,
}

/// A question of a server.
#[derive(Debug)]
pub(in crate::tools::mcp) struct Asked {
    /// The server's name for it. A page has none: the server learns the answer from the page.
    key: Option<String>,
    pub(in crate::tools::mcp) params: Value,
}

/// What a server says to a request.
#[derive(Debug)]
pub(in crate::tools::mcp) enum Reply {
    Result(Value),
    /// The user has to visit these pages before the call is made again: the parameters of
    /// questions.
    Pages(Vec<Value>),
    /// An answer that cannot be read, and why.
    Unread(String),
}

/// What comes next in a call.
pub(in crate::tools::mcp) enum Step {
    Done(Value),
    Ask,
    /// The server wants to be asked again a little later.
    Later,
    /// The call does not go on.
    Wrong(String),
    /// The call was made, and its result is lost.
    Unread(String),
}

impl Exchange {
    /// Answers the first question.
    ///
    /// # Errors
    /// If the call cannot go on, because the user will not visit a page.
    pub(in crate::tools::mcp) fn answer(&mut self, answer: &ElicitedAnswer) -> Result<(), String> {
        match self.questions.remove(0).key {
            Some(key) => self.answers.push((key, answer.to_json())),
            None if answer.action == "accept" => {}
            None => return Err(format!("{NEEDS_PAGE}, which the user declined")),
        }
        Ok(())
    }

    /// Declines the first question, which is not put to the user for this reason.
    ///
    /// # Errors
    /// If the call cannot go on.
    pub(in crate::tools::mcp) fn skip(&mut self, reason: String) -> Result<(), String> {
        if self.answer(&ElicitedAnswer::decline()).is_err() {
            return Err(format!("{NEEDS_PAGE}; {reason}"));
        }
        self.note_not_asked(Some(reason));
        Ok(())
    }

    pub(in crate::tools::mcp) fn note_not_asked(&mut self, reason: Option<String>) {
        self.not_asked = reason.or_else(|| self.not_asked.take());
    }

    /// Why a question was not put to the user, if there was one.
    pub(in crate::tools::mcp) fn not_asked(&self) -> Option<&str> {
        self.not_asked.as_deref()
    }

    /// Goes on with a reply, which may be a question.
    pub(in crate::tools::mcp) fn go_on(&mut self, reply: Reply) -> Step {
        match reply {
            Reply::Result(result) => self.go_on_with(result),
            Reply::Pages(pages) => match self.count_round() {
                Ok(()) => self.ask(pages.into_iter().map(|params| Asked { key: None, params })),
                Err(reason) => Step::Wrong(reason),
            },
            Reply::Unread(reason) => Step::Unread(reason),
        }
    }

    fn count_round(&mut self) -> Result<(), String> {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds > QUESTIONS_PER_CALL_MAX {
            return Err(format!(
                "the server asked more than {QUESTIONS_PER_CALL_MAX} times in one call"
            ));
        }
        Ok(())
    }

    fn ask(&mut self, questions: impl ExactSizeIterator<Item = Asked>) -> Step {
        if questions.len() > QUESTIONS_PER_CALL_MAX as usize {
            return Step::Wrong(format!(
                "the server asked more than {QUESTIONS_PER_CALL_MAX} questions at once"
            ));
        }
        self.questions.extend(questions);
        Step::Ask
    }

    fn go_on_with(&mut self, mut result: Value) -> Step {
        let kind = result.get("resultType").and_then(Value::as_str).unwrap_or("complete");
        match kind {
            "input_required" => {}
            "task" => {
                return Step::Unread(
                    "the server turned the call into a task, which is not supported".to_owned(),
                );
            }
            _ => return Step::Done(result),
        }
        if let Err(reason) = self.count_round() {
            return Step::Wrong(reason);
        }
        self.answers.clear();
        self.state = result.get("requestState").and_then(Value::as_str).map(str::to_owned);
        if self.state.as_ref().is_some_and(|state| state.len() > RESUMPTION_STATE_BYTES_MAX) {
            return Step::Wrong("the server's question has too much state".to_owned());
        }
        let requests = match result.get_mut("inputRequests").map(Value::take) {
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
        let is_question = |it: &Value| it.get("method") == Some(&json!("elicitation/create"));
        if !requests.values().all(is_question) {
            return Step::Wrong(
                "the server asks the gateway for something that is not supported".to_owned(),
            );
        }
        let questions: Vec<Asked> = requests.into_iter().map(Asked::read).collect();
        self.ask(questions.into_iter())
    }

    /// What has to be stored until the user answers.
    pub(in crate::tools::mcp) fn to_json(&self) -> Value {
        let questions: Vec<Value> =
            self.questions.iter().map(|it| json!([it.key, it.params])).collect();
        let answers: Map<String, Value> = self.answers.iter().cloned().collect();
        json!({
            "state": self.state,
            "answers": answers,
            "questions": questions,
            "rounds": self.rounds,
            "not_asked": self.not_asked,
        })
    }

    /// Goes on with an answer to the first question.
    pub(in crate::tools::mcp) fn resume(mut stored: Value, given: &Given) -> Result<Self, String> {
        let unusable = || "the stored state of the call cannot be read".to_owned();
        let Some(Value::Array(questions)) = stored.get_mut("questions").map(Value::take) else {
            return Err(unusable());
        };
        let mut exchange = Self {
            state: stored["state"].as_str().map(str::to_owned),
            rounds: stored["rounds"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or_default(),
            not_asked: stored["not_asked"].as_str().map(str::to_owned),
            ..Self::default()
        };
        if let Some(Value::Object(answers)) = stored.get_mut("answers").map(Value::take) {
            exchange.answers = answers.into_iter().collect();
        }
        for question in questions {
            let Ok((key, params)) = serde_json::from_value::<(Option<String>, Value)>(question)
            else {
                return Err(unusable());
            };
            exchange.questions.push(Asked { key, params });
        }
        if exchange.questions.is_empty() {
            return Err(unusable());
        }
        exchange.answer(&super::answer(given))?;
        Ok(exchange)
    }
}

impl Asked {
    fn read((key, mut request): (String, Value)) -> Self {
        let params = request.get_mut("params").map(Value::take).unwrap_or_default();
        Self { key: Some(key), params }
    }
}

/// Why a call does not go on.
const NEEDS_PAGE: &str = "the tool needs the user to visit a page first";

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(requests: &Value, state: &Value) -> Reply {
        Reply::Result(json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
        }))
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

    #[test]
    fn questions_at_once_are_limited() {
        let requests = |count: u32| -> Value {
            (0..count).map(|at| (at.to_string(), json!({"method": "elicitation/create"}))).collect()
        };
        let step = |count| Exchange::default().go_on(asks(&requests(count), &json!(null)));
        assert!(matches!(step(QUESTIONS_PER_CALL_MAX), Step::Ask));
        assert!(is_wrong(step(QUESTIONS_PER_CALL_MAX + 1)).contains("at once"));
    }

    #[test]
    fn why_a_question_was_not_asked_outlives_the_turn() {
        let mut exchange = Exchange::default();
        let request = json!({ "method": "elicitation/create", "params": {} });
        exchange.go_on(asks(&json!({ "a": request, "b": request }), &json!(null)));
        exchange.skip("it asked for a password".to_owned()).unwrap();
        let exchange = Exchange::resume(exchange.to_json(), &Given::Declined).unwrap();
        assert_eq!(exchange.not_asked(), Some("it asked for a password"));
        assert_eq!(exchange.answers.len(), 2);
    }

    #[test]
    fn a_call_goes_on_after_a_page_only_if_the_user_agrees() {
        let mut exchange = Exchange::default();
        exchange.go_on(Reply::Pages(vec![json!({ "mode": "url" })]));
        let stored = exchange.to_json();
        let accept = crate::tools::ClarificationOption::new("accept", "I will");
        let agreed = Exchange::resume(stored.clone(), &Given::Option(accept)).unwrap();
        assert!(agreed.answers.is_empty() && agreed.questions.is_empty());
        let declined = Exchange::resume(stored, &Given::Declined).unwrap_err();
        assert_eq!(
            declined,
            "the tool needs the user to visit a page first, which the user declined"
        );
    }
}
