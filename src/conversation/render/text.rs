//! Calls as marker lines, results as one user message of plain text.

use std::fmt::Write as _;

use super::{RESULTS_HEADING, heard, inert, say, think};
use crate::conversation::{Call, Part, Step};
use crate::upstream::{Message, Role};

/// Renders a step; without `with_calls`, its calls leave no trace but their results.
pub(super) fn render(messages: &mut Vec<Message>, step: &Step, marker: &str, with_calls: bool) {
    let words = words(step, marker, with_calls);
    if !words.is_empty() {
        say(messages, Role::Assistant, &words);
        // Without its calls, the message is another than the one that it thought of.
        if with_calls {
            think(messages, step);
        }
    }
    let told = told(step, marker);
    if !told.is_empty() {
        say(messages, Role::User, &told);
    }
}

/// The model's own message: its words, and each call on a line of its own where calls
/// are written.
pub(super) fn words(step: &Step, marker: &str, with_calls: bool) -> String {
    let mut words = String::new();
    for part in &step.parts {
        match part {
            Part::Text(text) => words.push_str(text),
            Part::Said(said) if said.is_told() => {
                words.push_str(&inert::text(&said.text, marker));
                words.push('\n');
            }
            Part::Said(_) | Part::Reasoning(_) => {}
            Part::Call(call) => {
                if with_calls {
                    push_call(&mut words, marker, call);
                }
            }
        }
    }
    // Many chat templates strip it anyway; the others learn nothing from it.
    words.truncate(words.trim_end().len());
    words
}

fn push_call(words: &mut String, marker: &str, call: &Call) {
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
