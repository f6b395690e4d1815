//! Calls as the model writes them, results as one user message of plain text.

use std::borrow::Cow;

use super::{Form, has_said, inert, results, say, speak, spoken};
use crate::call_format::CallFormat;
use crate::conversation::{Call, Found, Retry, Step};
use crate::upstream::{Message, Role};

/// What the results of calls end with if all of them are good. A message that ends with JSON
/// is repeated by small models; one that ends with the user's question gets the question
/// back.
const ANSWER: &str = "Use it to answer my question.";

/// What they end with if one of them is not. Without it small models pass the error on to the
/// user; told to call again alone, they go on calling what will never work.
const RETRY: &str = "Write the next function call, or tell me what went wrong.";

/// What they end with if they were what an earlier call was waiting for. To tell the user what
/// was found on the way would be no answer.
fn call_again(retry: &Retry, format: &CallFormat) -> String {
    let tool = inert::text(&retry.tool, format);
    let Some(Found { name, values }) = &retry.argument else {
        return format!("Now write the call of {tool} again with it.");
    };
    let values = values.join(" or ");
    let (name, values) = (inert::text(name, format), inert::text(&values, format));
    format!("Now write the call of {tool} again, with \"{name}\": {values}.")
}

/// What the model says in place of calls that are not shown to it.
const CHECKING: &str = "Let me check.";

/// Renders a step, with its calls or as words: then they leave no trace but their results.
pub(super) fn render(messages: &mut Vec<Message>, step: &Step, format: &CallFormat, form: Form) {
    let spoken = spoken::parts(step, format, form, Vec::new());
    if has_said(&spoken) {
        speak(messages, spoken);
    } else if form == Form::Words && step.calls().any(|call| !call.is_repeat()) {
        say(messages, Role::Assistant, CHECKING);
    }
    let told = told(step, format, form);
    if !told.is_empty() {
        say(messages, Role::User, &told);
    }
}

/// What the model is told: each call's result, then the notes or what to do now.
fn told(step: &Step, format: &CallFormat, form: Form) -> String {
    let mut told = String::new();
    for call in step.calls() {
        match form {
            // Its result is there already.
            Form::Words if call.is_repeat() => {}
            Form::Words => {
                push_separator(&mut told, "\n\n");
                results::push_lines(&mut told, call, format);
            }
            Form::Text | Form::Native => {
                push_separator(&mut told, "\n");
                results::push_json(&mut told, call, format);
            }
        }
    }
    if form != Form::Words
        && let Some(request) = request(step, format)
    {
        push_separator(&mut told, "\n");
        told.push_str(&request);
    }
    // A model that can call nothing more has no use for what was wrong with its calls.
    for note in step.notes.iter().filter(|_| form != Form::Words) {
        push_separator(&mut told, "\n\n");
        told.push_str(&note.message);
    }
    told
}

/// What the model is to do with the results. A question is the user's to answer, and what a
/// tool or a note says of that needs no more words.
fn request(step: &Step, format: &CallFormat) -> Option<Cow<'static, str>> {
    let has_own = |call: &Call| call.asks().is_some() || call.result().instruction_for_ai.is_some();
    if step.calls().next().is_none() || !step.notes.is_empty() || step.calls().any(has_own) {
        return None;
    }
    Some(match &step.retry {
        Some(retry) => call_again(retry, format).into(),
        None if step.calls().all(|call| call.result().success) => ANSWER.into(),
        None => RETRY.into(),
    })
}

fn push_separator(told: &mut String, separator: &str) {
    if !told.is_empty() {
        told.push_str(separator);
    }
}
