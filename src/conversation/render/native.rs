//! Calls as `tool_calls`, each directly followed by its tool message.

use super::{heard, inert, say, text, think};
use crate::conversation::Step;
use crate::upstream::{Message, MessageCall, Role};

/// Renders a step.
///
/// A call's own id is unique in its turn; `calls_before` makes it so in the whole
/// sequence. Nine letters and digits are what the strictest templates (Mistral's)
/// take.
pub(super) fn render(messages: &mut Vec<Message>, step: &Step, calls_before: usize, marker: &str) {
    let id = |at: usize| format!("call{:05}", calls_before + at + 1);
    let words = text::words(step, marker, false);
    let calls: Vec<_> = step
        .calls()
        .enumerate()
        .map(|(at, call)| MessageCall {
            id: id(at),
            name: call.name.clone(),
            arguments: call.arguments.as_str().to_owned(),
        })
        .collect();
    if calls.is_empty() {
        if !words.is_empty() {
            say(messages, Role::Assistant, &words);
            think(messages, step);
        }
    } else {
        let mut content = (!words.is_empty()).then_some(words);
        let mut reasoning = Vec::new();
        if let Some(before) =
            messages.pop_if(|last| last.role == Role::Assistant && last.tool_calls.is_empty())
        {
            reasoning = before.reasoning;
            let said = [before.content, content].into_iter().flatten().collect::<Vec<_>>();
            content = Some(said.join("\n\n"));
        }
        messages.push(Message {
            role: Role::Assistant,
            content,
            tool_calls: calls,
            tool_call_id: None,
            reasoning,
        });
        think(messages, step);
    }
    for (at, call) in step.calls().enumerate() {
        messages.push(Message {
            role: Role::Tool,
            content: Some(inert::json(&*call.result(), marker)),
            tool_calls: Vec::new(),
            tool_call_id: Some(id(at)),
            reasoning: Vec::new(),
        });
    }
    for note in &step.notes {
        say(messages, Role::User, &note.message);
    }
    if let Some(heard) = heard(step, marker) {
        say(messages, Role::User, &heard);
    }
}
