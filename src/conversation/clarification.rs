//! Questions that tools could not decide, and the users' answers.
//!
//! A question is kept in the turn that asked it, with its options and their real ids. The answer
//! is kept in the turn that it opens. Options are identified by id, never by title: two Johns may
//! share a title.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer_error::{AnswerError, Ways};
use super::client_results::ClientResult;
use super::{Conversation, Ending, Turn};
use crate::event::TurnFinish;
use crate::parser::Arguments;
use crate::tools::form;
use crate::tools::{Clarification, Continuation, Given, Source};

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Identifies the question in the answer; unique in its session.
    pub clarification_id: String,
    /// The call that could not decide.
    pub call_id: String,
    /// Its tool.
    pub tool_name: String,
    /// Who asks.
    #[serde(default)]
    pub source: Source,
    /// The question, and its options.
    pub clarification: Clarification,
    /// The call's arguments, as its tool takes them, if the call goes on with the answer.
    #[serde(default)]
    pub arguments: Option<Arguments>,
    /// What happens with the answer.
    #[serde(default)]
    pub continuation: Continuation,
}

/// The ids of the options of a confirmation.
pub(crate) mod approval {
    /// The call may run.
    pub(crate) const APPROVE: &str = "approve";
    /// The call may run, and so may all further calls of its tool in this session.
    pub(crate) const APPROVE_SESSION: &str = "approve_session";
    /// The call may not run.
    pub(crate) const DENY: &str = "deny";
}

/// A client's request to open a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientInput {
    /// The user's words.
    Prompt(String),
    /// The user's words, from a client that cannot say whether they answer the open question. If
    /// they do, they are an [`Answer`](Self::Answer), and otherwise a [`Prompt`](Self::Prompt). No
    /// words are refused.
    Words(String),
    /// An answer to the open question, not yet checked.
    Answer {
        /// The question's id.
        clarification_id: String,
        /// The answer.
        choice: Choice,
        /// What the user says besides.
        beside: Option<String>,
    },
    /// The results of the calls that were handed to the client, not yet checked.
    Results(Vec<ClientResult>),
}

impl Default for ClientInput {
    fn default() -> Self {
        Self::Prompt(String::new())
    }
}

/// A client's answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The id of an option.
    Option(String),
    /// The user's own words.
    Text(String),
    /// A form, filled in.
    Content(Value),
    /// The user says no.
    Decline,
    /// The user has put the question aside.
    Cancel,
}

/// What opens a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// The user's words.
    Prompt(String),
    /// The user's answer to the open question.
    Answer(Box<Answer>),
    /// The results of the calls that the session's last turn handed to the client: that turn, with
    /// these results in it.
    Results(Box<Turn>),
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The question's id.
    pub clarification_id: String,
    /// The question, as the user read it.
    pub question: String,
    /// The answer.
    pub given: Given,
    /// The ids of the options that the user did not choose.
    pub not_chosen: Vec<String>,
    /// What the user said besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

impl Answer {
    /// The id of the chosen option.
    #[must_use]
    pub(crate) fn chosen(&self) -> Option<&str> {
        match &self.given {
            Given::Option(option) => Some(&option.id),
            _ => None,
        }
    }
}

impl Answer {
    /// Whether both answers choose from the same options, however the questions were worded.
    /// Without options, whether the questions are the same.
    #[must_use]
    pub(crate) fn is_to_the_same(&self, other: &Self) -> bool {
        let offered = |answer: &Self| -> BTreeSet<String> {
            let chosen = answer.chosen().map(str::to_owned);
            answer.not_chosen.iter().cloned().chain(chosen).collect()
        };
        match (&self.given, &other.given) {
            (Given::Option(_), Given::Option(_)) => offered(self) == offered(other),
            _ => self.question == other.question,
        }
    }
}

impl Conversation {
    /// The open questions: first the one that was asked, then those still waiting to be asked.
    #[must_use]
    pub fn open_questions(&self) -> &[Question] {
        const ASKED: Option<Ending> = Some(Ending::Completed(TurnFinish::ClarificationNeeded));
        match self.turns().next_back() {
            Some(turn) if turn.ending == ASKED => &turn.questions,
            _ => &[],
        }
    }

    /// The turns that an answer to the open question continues, newest first: the one that asked
    /// and, if an answer opened that turn, the ones before it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Arc<Turn>> {
        let mut goes_on = !self.open_questions().is_empty();
        self.turns()
            .rev()
            .take_while(move |turn| std::mem::replace(&mut goes_on, turn.answer.is_some()))
    }

    /// Checks a client's request and returns the opening of the next turn. `is_parked` says whether
    /// the call with this question still waits for its answer.
    ///
    /// # Errors
    /// If it is an answer that is rejected; see [`AnswerError`].
    pub(crate) fn open(
        &self,
        input: &ClientInput,
        is_parked: impl Fn(&str) -> bool,
    ) -> Result<Opening, AnswerError> {
        let (clarification_id, choice, beside) = match input {
            ClientInput::Prompt(prompt) => return Ok(Opening::Prompt(prompt.clone())),
            ClientInput::Words(words) => {
                let answer = self.answer_in(words, is_parked).map(Opening::Answer);
                return Ok(answer.unwrap_or_else(|| Opening::Prompt(words.clone())));
            }
            ClientInput::Results(results) => {
                let turn = self.with_results(results).map_err(AnswerError::Results)?;
                return Ok(Opening::Results(Box::new(turn)));
            }
            ClientInput::Answer { clarification_id, choice, beside } => {
                (clarification_id, choice, beside)
            }
        };
        let mut answer = self.answer(clarification_id, choice.clone())?;
        answer.beside.clone_from(beside);
        match self.open_questions().first() {
            Some(asked) if asked.has_expired(is_parked) => {
                Err(AnswerError::Expired(clarification_id.clone()))
            }
            _ => Ok(Opening::Answer(answer)),
        }
    }

    /// The turns before the one that opens: all but the one that it continues.
    #[must_use]
    pub(crate) fn before(&self, opening: &Opening) -> Self {
        let mut before = self.clone();
        if let Opening::Results(_) = opening {
            before.pop();
        }
        before
    }

    /// Checks an answer to the open question.
    ///
    /// # Errors
    /// See [`AnswerError`].
    pub(crate) fn answer(
        &self,
        clarification_id: &str,
        choice: Choice,
    ) -> Result<Box<Answer>, AnswerError> {
        let Some(question) = self.open_questions().first() else {
            return Err(self.not_open(clarification_id));
        };
        if question.clarification_id != clarification_id {
            return Err(self.not_open(clarification_id));
        }
        let given = question.given(choice)?;
        let mut answer = Answer {
            clarification_id: clarification_id.to_owned(),
            question: question.clarification.question.clone(),
            given,
            not_chosen: Vec::new(),
            beside: None,
        };
        if let Some(chosen) = answer.chosen() {
            answer.not_chosen = question.option_ids().filter(|id| id != chosen).collect();
        }
        Ok(Box::new(answer))
    }

    fn not_open(&self, clarification_id: &str) -> AnswerError {
        // Waiting questions have not been asked yet.
        let asked = |turn: &Turn| {
            turn.questions.first().is_some_and(|asked| asked.clarification_id == clarification_id)
        };
        if self.turns().any(|turn| asked(turn)) {
            AnswerError::Stale(clarification_id.to_owned())
        } else {
            let open = self.open_questions().first().map(|open| open.clarification_id.clone());
            AnswerError::UnknownQuestion { id: clarification_id.to_owned(), open }
        }
    }
}

impl Question {
    fn option_ids(&self) -> impl Iterator<Item = String> {
        self.clarification.options.iter().map(|option| option.id.clone())
    }

    fn ways(&self) -> Ways {
        Ways {
            options: self.option_ids().collect(),
            has_form: self.clarification.schema.is_some(),
            takes_text: self.clarification.takes_text() || self.is_confirmation(),
        }
    }

    /// How clients show it that know nothing of questions. `follows` says whether words come before it.
    #[must_use]
    pub(crate) fn in_words(&self, follows: bool) -> String {
        self.clarification.in_words(&self.source, follows)
    }

    /// The arguments that the user sees: those of a call to approve.
    #[must_use]
    pub(crate) fn shown_arguments(&self) -> Option<&RawValue> {
        let arguments = self.arguments.as_ref().filter(|_| self.is_confirmation());
        arguments.map(Arguments::as_raw)
    }

    /// Whether it asks for the approval of a call.
    pub(super) fn is_confirmation(&self) -> bool {
        matches!(self.continuation, Continuation::Approval { .. })
    }

    /// Whether its answer may be given again: only the model goes on from it, and may as well do so
    /// again.
    pub(crate) fn may_repeat(&self) -> bool {
        self.continuation == Continuation::Model
    }

    /// Whether the call that asks has been given up. `is_parked` says whether a call still waits.
    pub(super) fn has_expired(&self, is_parked: impl Fn(&str) -> bool) -> bool {
        self.continuation == Continuation::Open && !is_parked(&self.clarification_id)
    }

    /// What a choice means as an answer to this question.
    fn given(&self, choice: Choice) -> Result<Given, AnswerError> {
        Ok(match choice {
            Choice::Option(id) => self.given_option(id)?,
            Choice::Text(text) if text.trim().is_empty() => return Err(AnswerError::EmptyText),
            Choice::Text(text) => self.given_text(text)?,
            Choice::Content(content) => match &self.clarification.schema {
                Some(schema) => filled(schema, content)?,
                None => return Err(AnswerError::ContentNotTaken(self.ways())),
            },
            Choice::Decline | Choice::Cancel if self.is_confirmation() => Given::Refused(None),
            Choice::Decline => Given::Declined,
            Choice::Cancel => Given::Cancelled,
        })
    }

    fn given_option(&self, id: String) -> Result<Given, AnswerError> {
        let Clarification { options, schema, url, .. } = &self.clarification;
        let Some(chosen) = options.iter().find(|option| option.id == id) else {
            return Err(AnswerError::UnknownOption { id, ways: self.ways() });
        };
        if self.is_confirmation() {
            return Ok(match &*id {
                approval::APPROVE => Given::Approved { for_session: false },
                approval::APPROVE_SESSION => Given::Approved { for_session: true },
                _ => Given::Refused(None),
            });
        }
        match schema.as_ref().and_then(|schema| Some((schema, form::from_option(schema, &id)?))) {
            Some((schema, content)) => filled(schema, content),
            None if (url.is_some() || schema.is_some()) && id == approval::DENY => {
                Ok(Given::Declined)
            }
            None => Ok(Given::Option(chosen.clone())),
        }
    }

    fn given_text(&self, text: String) -> Result<Given, AnswerError> {
        if self.is_confirmation() {
            return Ok(Given::Refused(Some(text)));
        }
        if !self.clarification.takes_text() {
            return Err(AnswerError::TextNotTaken(self.ways()));
        }
        match &self.clarification.schema {
            Some(schema) => match form::from_text(schema, &text) {
                Some(content) => filled(schema, content),
                None => Ok(Given::Text(text)),
            },
            None => Ok(Given::Text(text)),
        }
    }
}

/// A form with its defaults, checked.
fn filled(schema: &Value, content: Value) -> Result<Given, AnswerError> {
    form::fill(schema, content).map(Given::Content).map_err(|violations| {
        let told: Vec<String> = violations.iter().map(|it| it.of("content")).collect();
        AnswerError::InvalidContent(told.join("; "))
    })
}

impl Opening {
    /// The user's words; for a chosen option, its title, and for a form, its content.
    #[must_use]
    pub fn words(&self) -> Cow<'_, str> {
        match self {
            Self::Prompt(prompt) => Cow::Borrowed(prompt),
            Self::Results(turn) => Cow::Borrowed(&turn.prompt),
            Self::Answer(answer) => match &answer.given {
                Given::Option(option) => Cow::Borrowed(&option.title),
                Given::Text(text) | Given::Refused(Some(text)) => Cow::Borrowed(text),
                Given::Content(content) => Cow::Owned(content.to_string()),
                Given::Approved { .. } => Cow::Borrowed("Yes."),
                Given::Refused(None) => Cow::Borrowed("No."),
                Given::Declined | Given::Cancelled => Cow::Borrowed("(No answer.)"),
            },
        }
    }
}
