//! A conversation as the messages that a model server takes: one file a form.
//!
//! Every form renders every conversation to a valid sequence: one system message
//! first, user and assistant in turn, each call directly followed by its result.

mod inert;
mod native;
mod opening;
pub(crate) mod results;
mod spoken;
mod text;

use std::sync::Arc;

use crate::call_format::CallFormat;
use crate::conversation::{Conversation, Ending, Step, Turn};
use crate::conversation::{shorten, trim};
use crate::event::TurnFinish;
use crate::upstream::{History, Message, MessagePart, Prompt, Role};

/// How calls and their results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Calls as they were written, results as plain text in a
    /// user message: for servers that refuse `tool_calls`.
    Text,
    /// Calls as `tool_calls`, results as tool messages.
    Native,
    /// No calls at all, results as plain text: for a round that must answer in
    /// words, whatever the server's form is.
    Words,
}

/// All that a model is told, as the conversation has it. It is rendered when an upstream
/// is asked, in the form that this one takes: the next one may take another.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The system message.
    pub system: String,
    /// Made-up exchanges that show the model how a tool is used. A model that can call
    /// nothing more does not see them.
    pub examples: Arc<[Turn]>,
    /// The turns before.
    pub history: Conversation,
    /// The running turn.
    pub current: Arc<Turn>,
    /// The last word to a model that is to call nothing more and answer in words; calls
    /// are left out then.
    pub closing: Option<&'static str>,
    /// How calls are written.
    pub format: CallFormat,
    /// Tokens that the messages may take, as [`trim::tokens`] counts them.
    pub budget: usize,
}

impl Prompt for Context {
    fn messages(&self, history: History) -> Vec<Message> {
        let form = match (self.closing, history) {
            (Some(_), _) => Form::Words,
            (None, History::Text) => Form::Text,
            (None, History::Native) => Form::Native,
        };
        messages(self, form)
    }
}

/// What stands for the answer of a turn that failed or was cancelled before it.
const NO_ANSWER: &str = "(No answer was given.)";

/// What stands for the answer of a turn that ends with its tools' results.
const RESULTS_SHOWN: &str = "(The user was shown the results.)";

fn messages(context: &Context, form: Form) -> Vec<Message> {
    let Context { system, examples, history, current, closing, format, budget } = context;
    let mut messages = vec![Message::text(Role::System, system)];
    let examples = if form == Form::Words { &[][..] } else { examples };
    for turn in examples {
        render_turn(&mut messages, turn, 0, form, format);
    }
    let shown: usize = examples.iter().map(|turn| turn_tokens(turn, format)).sum();
    let last_word = closing.map_or(0, trim::tokens);
    let budget = budget.saturating_sub(trim::tokens(system) + shown + last_word);
    let needed = if current.answer.is_some() { history.chain().count() } else { 0 };
    let prompts = history.turns().rev().take(needed).map(|turn| opening_tokens(turn, format));
    let room = budget.saturating_sub(prompts.sum());
    let (current, taken) = shorten::to_fit(current, room, |turn| turn_tokens(turn, format));
    let keep = trim::kept(
        history,
        needed,
        budget.saturating_sub(taken),
        |turn| opening_tokens(turn, format),
        |step| step_tokens(step, format),
    );
    for (turn, first_step) in keep {
        render_turn(&mut messages, turn, first_step, form, format);
    }
    render_turn(&mut messages, &current, 0, form, format);
    if let Some(closing) = closing {
        say(&mut messages, Role::User, closing);
    }
    messages
}

fn render_turn(
    messages: &mut Vec<Message>,
    turn: &Turn,
    first_step: usize,
    form: Form,
    format: &CallFormat,
) {
    say(messages, Role::User, &opening::told(turn, format));
    for step in &turn.steps[first_step..] {
        match form {
            Form::Native => {
                let calls_before = messages.iter().map(|message| message.calls().count()).sum();
                native::render(messages, step, calls_before, format);
            }
            Form::Text | Form::Words => text::render(messages, step, format, form),
        }
    }
    if let Some(question) = turn.questions.first() {
        say(messages, Role::Assistant, &inert::text(&question.clarification.question, format));
    }
    let is_answered = messages.last().is_some_and(|last| last.role == Role::Assistant);
    match turn.ending {
        Ending::Running => {}
        _ if is_answered => {}
        // Otherwise the next prompt is read as the rest of this one, and both are
        // answered.
        Ending::Completed(TurnFinish::Cancelled) | Ending::Failed(_) => {
            say(messages, Role::Assistant, NO_ANSWER);
        }
        // Not where the turn has no steps: it has shown nothing.
        Ending::Completed(_) if turn.steps.iter().any(Step::asks_for_more) => {
            say(messages, Role::Assistant, RESULTS_SHOWN);
        }
        Ending::Completed(_) => {}
    }
}

fn turn_tokens(turn: &Turn, format: &CallFormat) -> usize {
    let steps = turn.steps.iter().map(|step| step_tokens(step, format));
    opening_tokens(turn, format) + steps.sum::<usize>()
}

fn opening_tokens(turn: &Turn, format: &CallFormat) -> usize {
    trim::tokens(&opening::told(turn, format))
}

fn step_tokens(step: &Step, format: &CallFormat) -> usize {
    let mut messages = Vec::new();
    text::render(&mut messages, step, format, Form::Text);
    messages.iter().filter_map(Message::words).map(|words| trim::tokens(&words)).sum()
}

/// Says something, joined to what the same speaker said just before: chat
/// templates insist that user and assistant alternate.
fn say(messages: &mut Vec<Message>, role: Role, words: &str) {
    if let Some(last) = messages.last_mut()
        && last.role == role
        && let Some(MessagePart::Text(text) | MessagePart::Result { output: text, .. }) =
            last.parts.last_mut()
    {
        text.push_str("\n\n");
        text.push_str(words);
        return;
    }
    messages.push(Message::text(role, words));
}

/// Whether there is more than reasoning in some parts.
fn has_said(parts: &[MessagePart]) -> bool {
    parts.iter().any(|part| !matches!(part, MessagePart::Reasoning(_)))
}

/// Adds what the model said and called itself to the assistant's message that is being
/// written, or begins one.
fn speak(messages: &mut Vec<Message>, mut spoken: Vec<MessagePart>) {
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant && last.calls().next().is_none() => {
            let is_text = |part: &&mut MessagePart| matches!(part, MessagePart::Text(_));
            if let Some(MessagePart::Text(first)) = spoken.iter_mut().find(is_text) {
                first.insert_str(0, "\n\n");
            }
            last.parts.append(&mut spoken);
        }
        _ => messages.push(Message { role: Role::Assistant, parts: spoken }),
    }
}

#[cfg(test)]
pub(crate) mod tests;
