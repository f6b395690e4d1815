//! The first message of a turn: the user's words, or the user's answer, with the images in them.

use std::borrow::Cow;

use super::{Style, images, inert};
use crate::call_format::CallFormat;
use crate::conversation::{Answer, Given, Turn};
use crate::upstream::Image;

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

/// The images in what is `told` that the model sees, each with its place there. The user's words are
/// at the end of it, unless they are an answer, which is told in other words: images follow that.
pub(super) fn images<'a>(turn: &Turn, told: &str, style: Style<'a>) -> Vec<(usize, &'a Image)> {
    let words = match &turn.answer {
        Some(answer) => answer.beside.as_deref(),
        None => Some(&*turn.prompt),
    };
    let start = told.len().saturating_sub(words.map_or(0, str::len));
    let mut images = images::within(&turn.images, start, style);
    if words.is_none() {
        for (at, _) in &mut images {
            *at = told.len();
        }
    }
    images
}
