//! Calls as marker lines, results as one user message of plain text.

use std::fmt::Write as _;

use super::spoken::Spoken;
use super::{Form, RESULTS_HEADING, heard, inert, say, speak};
use crate::conversation::{Call, Step};
use crate::upstream::{Message, Role};

/// Renders a step, with its calls or as words: then they leave no trace but their results.
pub(super) fn render(messages: &mut Vec<Message>, step: &Step, marker: &str, form: Form) {
    let spoken = Spoken::of(step, marker, form);
    if !spoken.words.is_empty() {
        speak(messages, spoken, Vec::new());
    }
    let told = told(step, marker);
    if !told.is_empty() {
        say(messages, Role::User, &told);
    }
}

pub(super) fn push_call(words: &mut String, marker: &str, call: &Call) {
    if !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    let name = serde_json::Value::from(call.name.as_str());
    let arguments = call.arguments.as_str();
    let _ = writeln!(words, "{marker} {{\"name\": {name}, \"arguments\": {arguments}}}");
}

/// What the model is told: a line for each call, then the notes.
fn told(step: &Step, marker: &str) -> String {
    let mut told = String::new();
    for call in step.calls() {
        if told.is_empty() {
            told.push_str(RESULTS_HEADING);
            if let Some(heard) = heard(step, marker) {
                told.push('\n');
                told.push_str(&heard);
            }
        }
        let (id, name) = (&call.call_id, inert::json(&call.name, marker));
        let result = inert::json(&*call.result(), marker);
        let _ = write!(told, "\n{{\"call\":\"{id}\",\"tool\":{name},\"result\":{result}}}");
    }
    for note in &step.notes {
        if !told.is_empty() {
            told.push_str("\n\n");
        }
        told.push_str(&note.message);
    }
    told
}
