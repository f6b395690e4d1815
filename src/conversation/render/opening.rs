//! The first message of a turn: the user's words, or the user's answer.

use std::borrow::Cow;

use super::inert;
use crate::call_format::CallFormat;
use crate::conversation::{Answer, Given, Turn};

/// A chosen option becomes a statement with its real id, as JSON, so that what a tool wrote into a
/// title can be nothing but a title.
pub(super) fn told<'a>(turn: &'a Turn, format: &CallFormat) -> Cow<'a, str> {
    if let Some(answer) = &turn.answer {
        let told = told_answer(answer, format);
        return Cow::Owned(match &answer.beside {
            Some(words) => format!("{told}\n\n{words}"),
            None => told,
        });
    }
    match &turn.dropped {
        Some(question) => Cow::Owned(format!(
            "(The question {} was left unanswered; it is dropped.)\n\n{}",
            inert::json(question, format),
            turn.prompt
        )),
        None => Cow::Borrowed(&turn.prompt),
    }
}

fn told_answer(answer: &Answer, format: &CallFormat) -> String {
    let question = inert::json(&answer.question, format);
    match &answer.given {
        Given::Option(option) => format!(
            "To the question {question} the user chose this one: {}\n\
                 Continue with what was asked before, using this id. Do not look it up again.",
            inert::json(option, format)
        ),
        Given::Text(text) => format!("To the question {question} the user says: {text}"),
        Given::Content(content) => {
            format!("To the question {question} the user answers: {}", inert::json(content, format))
        }
        Given::Approved { .. } => format!("To the question {question} the user says: yes."),
        Given::Refused(words) => {
            let words = words.as_deref().map(|words| format!(" {words}")).unwrap_or_default();
            format!(
                "To the question {question} the user says: no.{words}\n\
                     Do not make this call again unless the user asks for it."
            )
        }
        Given::Declined | Given::Cancelled => {
            format!("The user did not answer the question {question}.")
        }
    }
}
