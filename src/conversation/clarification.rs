//! Questions that tools could not decide, and what users answered.
//!
//! A question stands in the turn that asked it, with its options and their real ids;
//! the answer stands in the turn that it opens. An option is found by its id and
//! never by its title: two Johns may share one.

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
    /// Names it in the answer; unique in its session.
    pub clarification_id: String,
    /// The call that could not decide.
    pub call_id: String,
    /// Its tool.
    pub tool_name: String,
    /// What is asked, and what can be chosen.
    pub clarification: Clarification,
}

/// What a client sends to open a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The user's words.
    Prompt(String),
    /// An answer to the open question, not yet looked at.
    Answer {
        /// The question's id.
        clarification_id: String,
        /// What is answered.
        choice: Choice,
    },
}

impl Default for Ask {
    fn default() -> Self {
        Self::Prompt(String::new())
    }
}

/// What a client sends to answer a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The id of an option.
    Option(String),
    /// Words.
    Text(String),
}

/// What opens a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// The user says something.
    Prompt(String),
    /// The user answers what was asked.
    Answer(Box<Answer>),
}

/// An answer, found good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The question's id.
    pub clarification_id: String,
    /// The question, as the user read it.
    pub question: String,
    /// The answer.
    pub given: Given,
    /// The ids of the options that the user could have chosen, and has not.
    pub not_chosen: Vec<String>,
}

impl Answer {
    /// The id of the option that it takes.
    #[must_use]
    pub fn chosen(&self) -> Option<&str> {
        match &self.given {
            Given::Option(option) => Some(&option.id),
            Given::Text(_) => None,
        }
    }
}

impl Answer {
    /// Whether it chooses from the same options as another, however the questions were
    /// put; without options, whether the question is the same.
    #[must_use]
    pub fn is_to_the_same(&self, other: &Self) -> bool {
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

/// What was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Given {
    /// One of the options, as the tool offered it.
    Option(ClarificationOption),
    /// The user's own words.
    Text(String),
}

/// Why an answer is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Nothing of that id was ever asked here.
    #[error("no question {} was asked in this session; {}", quote(id), open_one(open.as_deref()))]
    UnknownQuestion {
        /// What was answered.
        id: String,
        /// The question that is open.
        open: Option<String>,
    },
    /// It was answered or dropped before.
    #[error(
        "the question {} is no longer open; it was answered, or another prompt came first: go on \
         with a prompt",
        quote(.0)
    )]
    Stale(String),
    /// The question has no such option.
    #[error("the question has no option {}; {}", quote(id), ways(known))]
    UnknownOption {
        /// What was chosen.
        id: String,
        /// What could have been.
        known: Vec<String>,
    },
    /// The question takes one of its options only.
    #[error("this question takes no text; {}", ways(known))]
    TextNotTaken {
        /// The options' ids.
        known: Vec<String>,
    },
    /// Nothing was said.
    #[error("the answer is empty; send the user's words in text, or the id of an option")]
    EmptyText,
}

impl Conversation {
    /// The questions that are still open: the one that was asked, and behind it those
    /// that wait their turn.
    #[must_use]
    pub fn open_questions(&self) -> &[Question] {
        match self.turns().next_back() {
            Some(turn) if turn.ending == Ending::Completed(TurnFinish::ClarificationNeeded) => {
                &turn.questions
            }
            _ => &[],
        }
    }

    /// The turns that an answer to the open question goes on from, newest first: the one
    /// that asked, and where that was opened by an answer itself, those before it.
    pub fn chain(&self) -> impl Iterator<Item = &Arc<Turn>> {
        let mut goes_on = !self.open_questions().is_empty();
        self.turns()
            .rev()
            .take_while(move |turn| std::mem::replace(&mut goes_on, turn.answer.is_some()))
    }

    /// What opens the next turn.
    ///
    /// # Errors
    /// Where it is an answer that is not taken; see [`AnswerError`].
    pub fn open(&self, ask: &Ask) -> Result<Opening, AnswerError> {
        match ask {
            Ask::Prompt(prompt) => Ok(Opening::Prompt(prompt.clone())),
            Ask::Answer { clarification_id, choice } => {
                self.answer(clarification_id, choice.clone()).map(Opening::Answer)
            }
        }
    }

    /// Finds the answer to the open question.
    ///
    /// # Errors
    /// See [`AnswerError`].
    pub fn answer(
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
        // Those that wait their turn have not been asked yet.
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
    /// The user's words: of an option, its title.
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
    open.map_or_else(|| "none is open".to_owned(), |id| format!("the open one is {id:?}"))
}

/// How a question with these options is answered.
fn ways(options: &[String]) -> String {
    if options.is_empty() {
        return "it has no options; answer with text".to_owned();
    }
    format!("send one of its options' ids as selected_option: {}", options.join(", "))
}
