//! Calls as the model writes them, results as one user message of plain text.

use std::borrow::Cow;

use super::{Form, Style, has_said, images, inert, results, say, show, speak, spoken};
use crate::call_format::CallFormat;
use crate::conversation::{Call, Found, Retry, Step};
use crate::upstream::{Message, Role};

/// Ends the results if all calls succeeded. Small models repeat a message that ends with JSON, and
/// if it ends with the user's question, they repeat that.
const ANSWER: &str = "Use it to answer my question.";

/// Ends the results if a call failed. Without it small models pass the error on to the user. If
/// told only to call again, they keep making calls that can never work.
const RETRY: &str = "Write the next function call, or tell me what went wrong.";

/// Ends the results if an earlier call was waiting for them. Telling the user what was found on
/// the way would be no answer.
fn call_again(retry: &Retry, format: &CallFormat) -> String {
    let tool = inert::text(&retry.tool, format);
    let Some(Found { name, values }) = &retry.argument else {
        return format!("Now write the call to {tool} again with it.");
    };
    let values = values.join(" or ");
    let (name, values) = (inert::text(name, format), inert::text(&values, format));
    format!("Now write the call to {tool} again, with \"{name}\": {values}.")
}

/// Stands in for calls that are not shown to the model.
const CHECKING: &str = "Let me check.";

/// Renders a step in full, or as words with only the results of its calls.
pub(super) fn render(messages: &mut Vec<Message>, step: &Step, style: Style<'_>, form: Form) {
    let spoken = spoken::parts(step, style.format, form, Vec::new());
    if has_said(&spoken) {
        speak(messages, spoken);
    } else if form == Form::Words && step.calls().any(|call| !call.is_repeat()) {
        say(messages, Role::Assistant, CHECKING);
    }
    let mut told = String::new();
    for call in step.calls() {
        push_result(&mut told, call, style, form);
        let images = images::of(call, style);
        if !images.is_empty() {
            tell(messages, &std::mem::take(&mut told));
            // The result that names them is in the last message.
            messages.last_mut().expect("a result was just told").parts.extend(images);
        }
    }
    if !step.aside.is_empty() {
        push_separator(&mut told, "\n\n");
        let images = images::within(&step.aside_images, told.len(), style);
        told.push_str(&step.aside);
        if !images.is_empty() {
            show(messages, &std::mem::take(&mut told), &images);
        }
    }
    push_request(&mut told, step, style, form);
    tell(messages, &told);
}

fn tell(messages: &mut Vec<Message>, told: &str) {
    if !told.is_empty() {
        say(messages, Role::User, told);
    }
}

fn push_result(told: &mut String, call: &Call, style: Style<'_>, form: Form) {
    match form {
        // The earlier call shows this result.
        Form::Words if call.is_repeat() => {}
        Form::Words => {
            push_separator(told, "\n\n");
            results::push_lines(told, call, style);
        }
        Form::Text | Form::Native => {
            push_separator(told, "\n");
            results::push_json(told, call, style);
        }
    }
}

/// Adds what to do now, or any notes.
fn push_request(told: &mut String, step: &Step, style: Style<'_>, form: Form) {
    if form != Form::Words
        && let Some(request) = request(step, style.format)
    {
        push_separator(told, if step.aside.is_empty() { "\n" } else { "\n\n" });
        told.push_str(&request);
    }
    // A model that can make no more calls has no use for the mistakes in its calls.
    for note in step.notes.iter().filter(|_| form != Form::Words) {
        push_separator(told, "\n\n");
        told.push_str(&note.message);
    }
}

/// What the model should do with the results. `None` if the user must answer a question, or if a
/// tool or a note already says what to do.
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
