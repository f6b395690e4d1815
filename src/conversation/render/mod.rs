//! A conversation as the messages that a model server takes: one file a form.
//!
//! Every form renders every conversation to a valid sequence: one system message
//! first, user and assistant in turn, each call directly followed by its result.

mod native;
mod text;

use crate::conversation::trim;
use crate::conversation::{Call, Conversation, Ending, Part, Step, Turn, UtteranceKind, inert};
use crate::event::TurnFinish;
use crate::limits::turn::HEARD_BYTES_MAX;
use crate::upstream::{History, Message, Role};

/// How calls and their results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Calls as the marker line they were written in, results as plain text in a
    /// user message: for servers that refuse `tool_calls`.
    #[default]
    Text,
    /// Calls as `tool_calls`, results as tool messages.
    Native,
    /// No calls at all, results as plain text: for a round that must answer in
    /// words, whatever the server's form is.
    Words,
}

impl From<History> for Form {
    fn from(history: History) -> Self {
        match history {
            History::Text => Self::Text,
            History::Native => Self::Native,
        }
    }
}

/// How to render.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    /// The form of calls and results.
    pub form: Form,
    /// The marker that the model was taught.
    pub marker: &'a str,
    /// Tokens that the messages may take, as [`trim::tokens`] counts them.
    pub budget: usize,
}

/// What stands for the answer of a turn that failed or was cancelled before it.
const NO_ANSWER: &str = "(No answer was given.)";

/// What the messages of results begin with. A model that writes this itself is
/// inventing a result.
pub const RESULTS_HEADING: &str = "Results of your calls:";

/// Renders `history` and the running turn `current` behind a system message.
/// `closing` is the last word to the model, where there is one to say.
#[must_use]
pub fn messages(
    system: &str,
    history: &Conversation,
    current: &Turn,
    closing: Option<&str>,
    rendering: Rendering<'_>,
) -> Vec<Message> {
    let mut messages = vec![message(Role::System, system.to_owned())];
    let fixed = trim::tokens(system) + turn_tokens(current, rendering);
    let keep = trim::kept(history, rendering.budget.saturating_sub(fixed), |step| {
        step_tokens(step, rendering)
    });
    for (turn, first_step) in keep {
        render_turn(&mut messages, turn, first_step, rendering);
    }
    render_turn(&mut messages, current, 0, rendering);
    if let Some(closing) = closing {
        say(&mut messages, Role::User, closing);
    }
    messages
}

fn render_turn(
    messages: &mut Vec<Message>,
    turn: &Turn,
    first_step: usize,
    rendering: Rendering<'_>,
) {
    say(messages, Role::User, &turn.told());
    for step in &turn.steps[first_step..] {
        match rendering.form {
            Form::Native => {
                let calls_before = messages.iter().map(|message| message.tool_calls.len()).sum();
                native::render(messages, step, calls_before);
            }
            Form::Text => text::render(messages, step, Some(rendering.marker)),
            Form::Words => text::render(messages, step, None),
        }
    }
    let went_wrong =
        matches!(turn.ending, Ending::Completed(TurnFinish::Cancelled) | Ending::Failed(_));
    if went_wrong && messages.last().is_some_and(|last| last.role != Role::Assistant) {
        // Otherwise the next prompt is read as the rest of this one, and both are
        // answered.
        say(messages, Role::Assistant, NO_ANSWER);
    }
    if let Some(question) = turn.questions.first() {
        say(messages, Role::Assistant, &inert(&question.clarification.question));
    }
}

fn turn_tokens(turn: &Turn, rendering: Rendering<'_>) -> usize {
    let steps = turn.steps.iter().map(|step| step_tokens(step, rendering));
    trim::tokens(&turn.told()) + steps.sum::<usize>()
}

fn step_tokens(step: &Step, rendering: Rendering<'_>) -> usize {
    let mut messages = Vec::new();
    text::render(&mut messages, step, Some(rendering.marker));
    messages.iter().filter_map(|message| message.content.as_deref()).map(trim::tokens).sum()
}

/// Says something, joined to what the same speaker said just before: chat
/// templates insist that user and assistant alternate.
fn say(messages: &mut Vec<Message>, role: Role, words: &str) {
    if let Some(last) = messages.last_mut()
        && last.role == role
        && last.tool_calls.is_empty()
        && let Some(content) = &mut last.content
    {
        content.push_str("\n\n");
        content.push_str(words);
        return;
    }
    messages.push(message(role, words.to_owned()));
}

const fn message(role: Role, content: String) -> Message {
    Message { role, content: Some(content), tool_calls: Vec::new(), tool_call_id: None }
}

/// A result as JSON that is only data to a model.
fn result_json(call: &Call) -> String {
    let json = serde_json::to_string(&*call.result()).unwrap_or_else(|_| String::from("{}"));
    inert(&json).into_owned()
}

/// What the model is told of what the user has read before the tools ran. It stands in
/// its step for good, so that requests begin alike and servers find them in their cache.
fn heard(step: &Step) -> Option<String> {
    let said = step.parts.iter().find_map(|part| match part {
        Part::Said(said) => matches!(said.kind, UtteranceKind::Acknowledgement(_)).then_some(said),
        Part::Text(_) | Part::Call(_) => None,
    })?;
    let fits = said.text.char_indices().map(|(at, char)| at + char.len_utf8());
    let end = fits.take_while(|end| *end <= HEARD_BYTES_MAX).last().unwrap_or(0);
    let (heard, cut) = (inert(&said.text[..end]), if end < said.text.len() { "…" } else { "" });
    Some(format!(
        "(The user has already read: \"{heard}{cut}\" Do not say it again; give only what was \
         asked for.)"
    ))
}

#[cfg(test)]
pub(crate) mod tests;
