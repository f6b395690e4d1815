//! Calls as `tool_calls`, each directly followed by its tool message.
//!
//! What else the model is told behind a call stands in the tool messages: the strictest
//! templates (Mistral's) refuse a user's message there.

use super::{Form, has_said, results, say, speak, spoken};
use crate::call_format::CallFormat;
use crate::conversation::Step;
use crate::limits::upstream::FUNCTION_NAME_BYTES_MAX;
use crate::upstream::{Message, MessageCall, Role};

/// Renders a step.
///
/// A call's own id is unique in its turn; `calls_before` makes it so in the whole
/// sequence. Nine letters and digits are what the strictest templates (Mistral's)
/// take.
pub(super) fn render(
    messages: &mut Vec<Message>,
    step: &Step,
    calls_before: usize,
    format: &CallFormat,
) {
    let id = |at: usize| format!("call{:05}", calls_before + at + 1);
    let calls: Vec<_> = step
        .calls()
        .enumerate()
        .map(|(at, call)| MessageCall {
            id: id(at),
            name: callable(&call.name),
            arguments: call.arguments.as_str().to_owned(),
        })
        .collect();
    let spoken = spoken::parts(step, format, Form::Native, calls);
    if has_said(&spoken) {
        speak(messages, spoken);
    }
    for (at, call) in step.calls().enumerate() {
        messages.push(Message::result(id(at), results::json(&call.result(), format)));
    }
    for note in &step.notes {
        let is_behind_results = messages.last().is_some_and(|last| last.role == Role::Tool);
        let speaker = if is_behind_results { Role::Tool } else { Role::User };
        say(messages, speaker, &note.message);
    }
}

/// A name that servers take, of one that no tool need have: `OpenAI`'s refuse a whole
/// conversation for one that is not `[A-Za-z0-9_-]{1,64}`. The result tells the model
/// what it wrote.
fn callable(name: &str) -> String {
    let is_taken = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    let taken = |char| if is_taken(char) { char } else { '_' };
    match name {
        "" => "_".to_owned(),
        name => name.chars().take(FUNCTION_NAME_BYTES_MAX).map(taken).collect(),
    }
}
