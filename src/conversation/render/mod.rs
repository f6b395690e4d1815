//! Renders a conversation as the messages that a model server accepts: one file per form.
//!
//! Every form renders every conversation to a valid sequence: one system message first, user and
//! assistant alternating, and a result right after each call.

pub(crate) mod echo;
mod examples;
mod images;
pub(crate) mod inert;
mod native;
mod opening;
pub(crate) mod results;
#[cfg(any(test, fuzzing))]
pub(crate) mod sequence;
mod spoken;
mod text;

pub(crate) use examples::Examples;
use examples::Shown;

use std::borrow::Cow;
use std::sync::Arc;

use crate::call_format::{CallFormat, Label};
use crate::conversation::{Conversation, Ending, Part, Step, Turn};
use crate::conversation::{shorten, trim};
use crate::event::TurnFinish;
use crate::limits::turn::IMAGE_TOKENS;
use crate::upstream::{History, Image, Images, Message, MessagePart, Role};

/// How calls and their results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Calls as the model writes them, results as plain text in a user message: for servers that
    /// reject `tool_calls`.
    Text,
    /// Calls as `tool_calls`, results as tool messages.
    Native,
    /// No calls, and results as plain text: for a round that must answer in words, whatever form
    /// the server takes.
    Words,
}

/// How results are written.
#[derive(Debug, Clone, Copy)]
struct Style<'a> {
    /// How calls are written; results must not look like calls.
    format: &'a CallFormat,
    /// What the ids of native calls are like, if the model was trained on one kind.
    call_ids: Option<&'static Label>,
    /// Longer results are abridged to about this many bytes of JSON.
    result_bytes_max: usize,
    /// The images that the model sees.
    images: &'a Images,
}

/// Everything that a model is told, in the conversation's own terms. It is rendered for each
/// upstream when that one is asked, because each may take a different form.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    /// The system message.
    pub(crate) system: String,
    /// Made-up exchanges that show the model how a tool is used. They are left out once the model
    /// can make no more calls.
    pub(crate) examples: Arc<Examples>,
    /// The earlier turns.
    pub(crate) history: Conversation,
    /// The running turn.
    pub(crate) current: Arc<Turn>,
    /// The final request to a model that must answer in words and make no calls; past calls are
    /// then left out.
    pub(crate) closing: Option<Cow<'static, str>>,
    /// How the model is asked to go on with a message that was cut off, if it is.
    pub(crate) go_on: Option<GoOn>,
    /// How calls are written.
    pub(crate) format: CallFormat,
    /// What the ids of native calls are like, if the model was trained on one kind.
    pub(crate) call_ids: Option<&'static Label>,
    /// How many tokens the messages may take, as counted by [`trim::tokens`].
    pub(crate) budget: usize,
    /// How many images of users and tools a model sees; the newest.
    pub(crate) images_max: usize,
}

/// How a model goes on with a message that was cut off, which comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoOn {
    /// It is asked to.
    Asked(&'static str),
    /// Its server takes messages that are not finished.
    Prefilled,
}

impl Context {
    /// The whole conversation with these images in it: a valid sequence that ends with something
    /// to answer, or to go on with.
    pub(crate) fn messages(&self, history: History, images: &Images) -> Vec<Message> {
        let form = match (&self.closing, history) {
            (Some(_), _) => Form::Words,
            (None, History::Text) => Form::Text,
            (None, History::Native) => Form::Native,
        };
        messages(self, form, images)
    }

    /// The ids of the images that a model should see, if it takes images.
    pub(crate) fn images(&self) -> Vec<String> {
        images::wanted(self)
    }
}

/// Stands in for the answer of a turn that failed or was cancelled before it, or that its client
/// has left off.
const NO_ANSWER: &str = "(No answer was given.)";

/// The messages of a short conversation.
const USUAL_MESSAGES: usize = 8;

/// Stands in for the answer of a turn that ends with its tools' results.
const RESULTS_SHOWN: &str = "(The user was shown the results.)";

fn messages(context: &Context, form: Form, images: &Images) -> Vec<Message> {
    let Context { system, examples, history, current, format, call_ids, budget, .. } = context;
    let has_words = current.steps.last().is_some_and(|step| !is_blank(step));
    let go_on = context.go_on.filter(|_| has_words);
    let last_word = match go_on {
        Some(GoOn::Asked(words)) => Some(words),
        Some(GoOn::Prefilled) => None,
        None => context.closing.as_deref(),
    };
    let result_bytes_max = trim::result_bytes(*budget);
    let style = Style { format, call_ids: *call_ids, result_bytes_max, images };
    let examples = if form == Form::Words { &Examples::default() } else { &**examples };
    let shown = examples.shown(form, style);
    let Shown { messages: examples_told, calls: example_calls, tokens } = &*shown;
    let mut messages = Vec::with_capacity(examples_told.len() + USUAL_MESSAGES);
    messages.push(Message::text(Role::System, system));
    messages.extend_from_slice(examples_told);
    let mut calls = *example_calls;
    let asked_last = last_word.map_or(0, trim::tokens);
    let budget = budget.saturating_sub(trim::tokens(system) + tokens + asked_last);
    let needed = if current.answer.is_some() { history.chain().count() } else { 0 };
    let prompts = history.turns().rev().take(needed).map(|turn| opening_tokens(turn, style));
    let room = budget.saturating_sub(prompts.sum());
    let (current, mut taken) = shorten::to_fit(current, room, |turn| turn_tokens(turn, style));
    let mut first_step = 0;
    if current.continues && taken > room {
        (first_step, taken) = trim::going_on(
            &current,
            room,
            |turn| opening_tokens(turn, style),
            |step| step_tokens(step, style),
        );
    }
    let keep = trim::kept(
        history,
        needed,
        budget.saturating_sub(taken),
        |turn| opening_tokens(turn, style),
        |step| step_tokens(step, style),
    );
    for (turn, first_step) in keep {
        render_turn(&mut messages, &mut calls, turn, first_step, form, style);
    }
    render_turn(&mut messages, &mut calls, &current, first_step, form, style);
    if context.go_on.is_some() {
        trim_end(&mut messages);
    }
    if let Some(last_word) = last_word {
        say(&mut messages, Role::User, last_word);
    }
    messages
}

/// Whether a step has shown nothing but white space.
fn is_blank(step: &Step) -> bool {
    step.parts.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
}

/// Takes white space from the end of a message that the model goes on with, and the message if nothing is left.
/// Many templates do the same, and the model writes it again: all have to, so that it is known how much is new.
fn trim_end(messages: &mut Vec<Message>) {
    let Some(last) = messages.last_mut().filter(|last| last.role == Role::Assistant) else {
        return;
    };
    let is_only = last.parts.len() == 1;
    let Some(MessagePart::Text(text)) = last.parts.last_mut() else { return };
    text.truncate(text.trim_end().len());
    if text.is_empty() && is_only {
        messages.pop();
    }
}

/// Renders a turn from its `first_step`. `calls` counts those of the sequence: counting them anew
/// for each step would take quadratic time.
fn render_turn(
    messages: &mut Vec<Message>,
    calls: &mut usize,
    turn: &Turn,
    first_step: usize,
    form: Form,
    style: Style<'_>,
) {
    // Templates refuse a user after a tool.
    if messages.last().is_some_and(|last| last.role == Role::Tool) {
        say(messages, Role::Assistant, NO_ANSWER);
    }
    let told = opening::told(turn, style.format);
    show(messages, &told, &opening::images(turn, &told, style));
    for step in &turn.steps[first_step..] {
        match form {
            Form::Native => {
                native::render(messages, step, *calls, style);
                *calls += step.calls().count();
            }
            Form::Text | Form::Words => text::render(messages, step, style, form),
        }
    }
    if let Some(question) = turn.questions.first() {
        say(
            messages,
            Role::Assistant,
            &inert::text(&question.clarification.question, style.format),
        );
    }
    let is_answered = messages.last().is_some_and(|last| last.role == Role::Assistant);
    match turn.ending {
        None => {}
        _ if is_answered => {}
        // Otherwise the model would read the next prompt as part of this one, and answer both.
        Some(
            Ending::Completed(
                TurnFinish::Cancelled | TurnFinish::Length | TurnFinish::ContentFilter,
            )
            | Ending::Failed(_),
        ) => {
            say(messages, Role::Assistant, NO_ANSWER);
        }
        // A turn without steps has shown nothing.
        Some(Ending::Completed(_)) if turn.steps.iter().any(Step::asks_for_more) => {
            say(messages, Role::Assistant, RESULTS_SHOWN);
        }
        Some(Ending::Completed(_)) => {}
    }
}

fn turn_tokens(turn: &Turn, style: Style<'_>) -> usize {
    let steps = turn.steps.iter().map(|step| step_tokens(step, style));
    opening_tokens(turn, style) + steps.sum::<usize>()
}

fn opening_tokens(turn: &Turn, style: Style<'_>) -> usize {
    let told = opening::told(turn, style.format);
    trim::tokens(&told) + opening::images(turn, &told, style).len() * IMAGE_TOKENS
}

fn step_tokens(step: &Step, style: Style<'_>) -> usize {
    let mut messages = Vec::new();
    text::render(&mut messages, step, style, Form::Text);
    let words = messages.iter().filter_map(Message::text_content);
    let images = messages.iter().flat_map(Message::images).count();
    words.map(|words| trim::tokens(&words)).sum::<usize>() + images * IMAGE_TOKENS
}

/// Adds words to the last message if it has the same role, else as a new message: chat templates
/// insist that user and assistant alternate.
fn say(messages: &mut Vec<Message>, role: Role, words: &str) {
    match messages.last_mut() {
        Some(last) if last.role == role => match last.parts.last_mut() {
            Some(MessagePart::Text(text) | MessagePart::Result { output: text, .. }) => {
                text.push_str("\n\n");
                text.push_str(words);
            }
            _ => last.parts.push(MessagePart::Text(format!("\n\n{words}"))),
        },
        _ => messages.push(Message::text(role, words)),
    }
}

/// The same for words of the user with images, each of which has its place in them.
fn show(messages: &mut Vec<Message>, words: &str, images: &[(usize, &Image)]) {
    let Some((first, _)) = images.first() else { return say(messages, Role::User, words) };
    // Records of sessions are read from a store: a place may be wrong.
    let (before, mut rest) = words.split_at_checked(*first).unwrap_or((words, ""));
    say(messages, Role::User, before);
    let said = messages.last_mut().expect("something was just said");
    let text = |words: &str| (!words.is_empty()).then(|| MessagePart::Text(words.to_owned()));
    for (at, image) in images {
        let from = words.len() - rest.len();
        let between;
        (between, rest) = rest.split_at_checked(at.saturating_sub(from)).unwrap_or((rest, ""));
        said.parts.extend(text(between));
        said.parts.push(MessagePart::Image(Image::clone(image)));
    }
    said.parts.extend(text(rest));
}

/// Whether these parts contain more than reasoning.
fn has_said(parts: &[MessagePart]) -> bool {
    parts.iter().any(|part| !matches!(part, MessagePart::Reasoning(_)))
}

/// Adds the model's own words and calls to the last message, if that is an assistant's without
/// calls, else as a new message. Results follow calls, so only the last part can tell: looking at
/// all of them would take quadratic time for a client that sends nothing but replies.
fn speak(messages: &mut Vec<Message>, mut spoken: Vec<MessagePart>) {
    let has_calls = |last: &Message| matches!(last.parts.last(), Some(MessagePart::Call(_)));
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant && !has_calls(last) => {
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
