//! Calls as `tool_calls`, each directly followed by its tool message.
//!
//! Anything else the model is told after a call goes into the tool messages: the strictest
//! templates (Mistral's) reject a user message there. Only images have to be in one.

use super::{Form, Style, has_said, images, results, say, speak, spoken};
use crate::conversation::{Call, Step};
use crate::limits::upstream::FUNCTION_NAME_BYTES_MAX;
use crate::upstream::{Message, MessageCall, Role};

/// Renders a step.
///
/// Calls are renumbered after the `calls_before` of the sequence: the strictest templates
/// (Mistral's) accept only ids of nine letters and digits. Others (Kimi K2's) write the id where the
/// model was trained to read the tool's name.
pub(super) fn render(
    messages: &mut Vec<Message>,
    step: &Step,
    calls_before: usize,
    style: Style<'_>,
) {
    let id = |at: usize, call: &Call| match style.call_ids {
        Some(label) => label.call_id(&callable(&call.name), calls_before + at),
        None => format!("call{:05}", calls_before + at + 1),
    };
    let calls: Vec<_> = step
        .calls()
        .enumerate()
        .map(|(at, call)| MessageCall {
            id: id(at, call),
            name: callable(&call.name),
            arguments: call.arguments.as_str().to_owned(),
        })
        .collect();
    let spoken = spoken::parts(step, style.format, Form::Native, calls);
    if has_said(&spoken) {
        speak(messages, spoken);
    }
    for (at, call) in step.calls().enumerate() {
        let json = results::json(&call.result(), style.format, style.result_bytes_max);
        messages.push(Message::result(id(at, call), json));
    }
    let is_after_results = messages.last().is_some_and(|last| last.role == Role::Tool);
    let speaker = if is_after_results { Role::Tool } else { Role::User };
    if !step.aside.is_empty() {
        say(messages, speaker, &format!("The user adds: {}", step.aside));
    }
    for note in &step.notes {
        say(messages, speaker, &note.message);
    }
    let calls = step.calls().enumerate();
    let returned = calls.flat_map(|(at, call)| images::named(call, &id(at, call), style));
    let images: Vec<_> = returned.chain(images::beside(step, style)).collect();
    if !images.is_empty() {
        say(messages, Role::User, IMAGES);
        messages.last_mut().expect("something was just said").parts.extend(images);
    }
}

/// Introduces the images of a step's results. Tool messages take text alone.
const IMAGES: &str = "The images of the results above:";

/// A name that servers accept, even for a tool that does not exist. `OpenAI`'s reject a whole
/// conversation over one name that is not `[A-Za-z0-9_-]{1,64}`. The result shows the model what
/// it wrote.
fn callable(name: &str) -> String {
    let is_taken = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    let taken = |char| if is_taken(char) { char } else { '_' };
    match name {
        "" => "_".to_owned(),
        name => name.chars().take(FUNCTION_NAME_BYTES_MAX).map(taken).collect(),
    }
}
