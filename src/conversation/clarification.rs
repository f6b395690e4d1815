//! Questions that tools could not decide, and the users' answers.
//!
//! A question is kept in the turn that asked it, with its options and their real ids. The answer
//! is kept in the turn that it opens. Options are identified by id, never by title: two Johns may
//! share a title.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Conversation, Ending, Turn};
use crate::event::TurnFinish;
use crate::text::quote;
use crate::tools::{Clarification, ClarificationOption};

/// A question to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Identifies the question in the answer; unique in its session.
    pub clarification_id: String,
    /// The call that could not decide.
    pub call_id: String,
    /// Its tool.
    pub tool_name: String,
    /// The question, and its options.
    pub clarification: Clarification,
}

/// A client's request to open a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The user's words.
    Prompt(String),
    /// An answer to the open question, not yet checked.
    Answer {
        /// The question's id.
        clarification_id: String,
        /// The answer.
        choice: Choice,
    },
}

impl Default for Ask {
    fn default() -> Self {
        Self::Prompt(String::new())
    }
}

/// A client's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The id of an option.
    Option(String),
    /// The user's own words.
    Text(String),
}

/// What opens a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// The user's words.
    Prompt(String),
    /// The user's answer to the open question.
    Answer(Box<Answer>),
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
}

impl Answer {
    /// The id of the chosen option.
    #[must_use]
    pub(crate) fn chosen(&self) -> Option<&str> {
        match &self.given {
            Given::Option(option) => Some(&option.id),
            Given::Text(_) => None,
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

/// The content of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// One of the options, as the tool offered it.
    Option(ClarificationOption),
    /// The user's own words.
    Text(String),
}

/// Why an answer is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No question with this id was asked in this session.
    #[error("no question {} was asked in this session; {}", quote(id), open_one(open.as_deref()))]
    UnknownQuestion {
        /// The id in the answer.
        id: String,
        /// The id of the open question.
        open: Option<String>,
    },
    /// The question was already answered or dropped.
    #[error(
        "question {} is no longer open: it was answered, or a prompt replaced it; send a prompt",
        quote(.0)
    )]
    Stale(String),
    /// The question has no such option.
    #[error("the question has no option {}; {}", quote(id), ways(known))]
    UnknownOption {
        /// The id in the answer.
        id: String,
        /// The ids of the question's options.
        known: Vec<String>,
    },
    /// The question accepts only one of its options.
    #[error("this question does not accept text; {}", ways(known))]
    TextNotTaken {
        /// The options' ids.
        known: Vec<String>,
    },
    /// The answer is empty.
    #[error("the answer is empty; send text, or the id of an option")]
    EmptyText,
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

    /// Checks a client's request and returns the opening of the next turn.
    ///
    /// # Errors
    /// If it is an answer that is rejected; see [`AnswerError`].
    pub(crate) fn open(&self, ask: &Ask) -> Result<Opening, AnswerError> {
        match ask {
            Ask::Prompt(prompt) => Ok(Opening::Prompt(prompt.clone())),
            Ask::Answer { clarification_id, choice } => {
                self.answer(clarification_id, choice.clone()).map(Opening::Answer)
            }
        }
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
        let Clarification { question: asked, options, .. } = &question.clarification;
        let mut known: Vec<String> = options.iter().map(|option| option.id.clone()).collect();
        let (given, not_chosen) = match choice {
            Choice::Option(id) => {
                let Some(chosen) = options.iter().find(|option| option.id == id) else {
                    return Err(AnswerError::UnknownOption { id, known });
                };
                known.retain(|known| *known != id);
                (Given::Option(chosen.clone()), known)
            }
            Choice::Text(_) if !question.clarification.takes_text() => {
                return Err(AnswerError::TextNotTaken { known });
            }
            Choice::Text(text) if text.trim().is_empty() => return Err(AnswerError::EmptyText),
            Choice::Text(text) => (Given::Text(text), Vec::new()),
        };
        let (clarification_id, question) = (clarification_id.to_owned(), asked.clone());
        Ok(Box::new(Answer { clarification_id, question, given, not_chosen }))
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

impl Opening {
    /// The user's words; for a chosen option, its title.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Prompt(prompt) => prompt,
            Self::Answer(answer) => match &answer.given {
                Given::Option(option) => &option.title,
                Given::Text(text) => text,
            },
        }
    }
}

fn open_one(open: Option<&str>) -> String {
    open.map_or_else(
        || "no question is open".to_owned(),
        |id| format!("the open question is {id:?}"),
    )
}

/// Says how to answer a question with these options.
fn ways(options: &[String]) -> String {
    if options.is_empty() {
        return "it has no options; answer with text".to_owned();
    }
    format!("send one of these ids in selected_option: {}", options.join(", "))
}
