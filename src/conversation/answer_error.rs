//! Why a user's answer to a question is rejected, and what to send instead.

use std::fmt;

use crate::text::quote;

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
    #[error("the question has no option {}; {ways}", quote(id))]
    UnknownOption {
        /// The id in the answer.
        id: String,
        /// What it accepts.
        ways: Ways,
    },
    /// The question does not accept words.
    #[error("this question does not accept text; {0}")]
    TextNotTaken(Ways),
    /// The question has no form to fill in.
    #[error("this question has no form to fill in; {0}")]
    ContentNotTaken(Ways),
    /// The content does not fit the form's schema.
    #[error("the content does not fit the form: {0}")]
    InvalidContent(String),
    /// The call that asked has since been given up.
    #[error(
        "question {} has expired: the tool that asked no longer waits for the answer; send a \
         prompt",
        quote(.0)
    )]
    Expired(String),
    /// It has the results of calls, and they are not those that are awaited.
    #[error(transparent)]
    Results(ResultsError),
    /// The answer is empty.
    #[error("the answer is empty; send text or the id of an option")]
    EmptyText,
}

/// Why the results of calls are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    /// The session's last turn has handed out no calls.
    #[error("no call of this session waits for a result; send a prompt")]
    NoneAwaited,
    /// No such call was handed out.
    #[error("no call {} waits for a result; awaited: {}", quote(id), awaited.join(", "))]
    Unknown {
        /// The id in the result.
        id: String,
        /// The ids of the calls that were handed out.
        awaited: Vec<String>,
    },
    /// A call has two results.
    #[error("call {} has two results; send one", quote(.0))]
    Twice(String),
    /// Calls have none.
    #[error(
        "these calls have no result: {}; send one for each (an error if the call could not be \
         run), or send a prompt to continue without them",
        .0.join(", ")
    )]
    Missing(Vec<String>),
}

/// The answers that a question accepts, besides `decline` and `cancel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways {
    /// The ids of its options.
    pub options: Vec<String>,
    /// Whether it has a form to fill in.
    pub has_form: bool,
    /// Whether words are an answer.
    pub takes_text: bool,
}

impl fmt::Display for Ways {
    /// Says what to send.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ways = Vec::new();
        if self.takes_text {
            ways.push("text".to_owned());
        }
        if self.has_form {
            ways.push("content that fits its form".to_owned());
        }
        if !self.options.is_empty() {
            let ids = self.options.join(", ");
            ways.push(format!("one of these ids in selected_option: {ids}"));
        }
        if ways.is_empty() {
            return f.write_str("send the action decline or cancel");
        }
        write!(f, "send {}", ways.join(", or "))
    }
}

fn open_one(open: Option<&str>) -> String {
    open.map_or_else(
        || "no question is open".to_owned(),
        |id| format!("the open question is {id:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_answer_is_told_what_works() {
        let ids = || vec!["s".to_owned(), "l".to_owned()];
        for (options, has_form, takes_text, told) in [
            (vec![], false, true, "send text"),
            (vec![], true, false, "send content that fits its form"),
            (ids(), false, false, "send one of these ids in selected_option: s, l"),
            (
                ids(),
                true,
                true,
                "send text, or content that fits its form, or one of these ids in \
                 selected_option: s, l",
            ),
            (vec![], false, false, "send the action decline or cancel"),
        ] {
            let refused = AnswerError::TextNotTaken(Ways { options, has_form, takes_text });
            let expected = format!("this question does not accept text; {told}");
            assert_eq!(refused.to_string(), expected);
        }
    }
}
