//! What the model is told at the beginning of a turn: the user's words, or their answer.

use std::borrow::Cow;

use super::inert;
use crate::conversation::{Answer, Given, Turn};

/// A chosen option is a statement with its real id, as JSON: what a tool wrote into a
/// title cannot be taken for more than a title.
pub(super) fn told<'a>(turn: &'a Turn, marker: &str) -> Cow<'a, str> {
    match (&turn.answer, &turn.dropped) {
        (Some(Answer { question, given: Given::Option(option), .. }), _) => {
            let (question, option) = (inert::json(question, marker), inert::json(option, marker));
            Cow::Owned(format!(
                "To the question {question} the user has chosen this one: {option}\n\
                 Go on with what was asked before, with this id. Do not look it up again."
            ))
        }
        (Some(Answer { question, given: Given::Text(text), .. }), _) => {
            let question = inert::json(question, marker);
            Cow::Owned(format!("To the question {question} the user says: {text}"))
        }
        (None, Some(question)) => {
            let question = inert::json(question, marker);
            let prompt = &turn.prompt;
            Cow::Owned(format!(
                "(The question {question} was left unanswered; it is dropped.)\n\n{prompt}"
            ))
        }
        (None, None) => Cow::Borrowed(&turn.prompt),
    }
}
