//! The body of the fuzz target `client_history`; an ordinary test replays its corpus.

use std::collections::HashSet;
use std::sync::Arc;

use super::{
    Adopted, ClaimedCall, ClaimedImage, ClaimedMessage, Content, ContentPart, NoTurns, Repair,
    adopt,
};
use crate::conversation::render::Context;
use crate::conversation::render::sequence::check_sequence;
use crate::conversation::{Call, ClientInput, Opening, Outcome, Part, Step, Turn};
use crate::tools::ToolResult;
use crate::upstream::{History, Message};

/// Texts worth trying. `W` becomes a different word in each message.
const TEXTS: &[&str] = &[
    "W",
    "",
    " \n",
    " W\r\n",
    "{\"found\": \"W\"}",
    "[\"W\", 1.0]",
    "{\"text\": \"W\"}",
    "<details type=\"tool_calls\" done=\"true\"></details>W",
    "<details type=\"tool_calls\">W",
    "<<function_call>> {\"name\": \"W\"}",
    "<tool_call>W</tool_call>",
    "<|im_start|>W",
    "7",
    "\"W\"",
];

/// Arguments worth trying.
const ARGUMENTS: &[&str] =
    &["{}", "", "{\"a\": 1.0}", "{\"a\": 1", "{\"a\":1,\"a\":2}", "[]", "null", "{\"...\":\"W\"}"];

/// Target `client_history`: any list of messages becomes a conversation in which every result has its call,
/// every message keeps its place, and a strict server finds nothing wrong. Such a conversation needs no more
/// repairs: told again as a client would, it is adopted as it is.
///
/// # Panics
/// If any of that does not hold.
pub fn client_history(data: &[u8]) {
    let messages = messages(data);
    let Ok(adopted) = adopt(messages.clone(), "o", &NoTurns) else {
        return assert!(messages.is_empty(), "a list is refused");
    };
    check_calls(&adopted);
    for form in [History::Native, History::Text] {
        let rendered = rendered(&adopted, form);
        if let Err(wrong) = check_sequence(&rendered) {
            panic!("{form:?}: {wrong}\n{rendered:#?}");
        }
        if adopted.repairs.of(Repair::TooLong) == 0 {
            check_order(&messages, &rendered);
        }
    }
    if adopted.images.files.is_empty() {
        check_retold(&adopted);
    }
}

/// Reads a list of messages: for each, a byte that says what it is, then what such a message needs.
fn messages(data: &[u8]) -> Vec<ClaimedMessage> {
    let mut rest = Bytes(data);
    let mut messages = Vec::new();
    while let Some(kind) = rest.next() {
        let word = format!("w{}w", messages.len());
        messages.push(match kind % 8 {
            0 => ClaimedMessage::System(rest.text(&word)),
            1 | 2 => ClaimedMessage::User(rest.content(&word)),
            3 => ClaimedMessage::Aside(rest.content(&word)),
            4 | 5 => {
                let text = rest.text(&word);
                let calls = (0..kind / 8 % 4).map(|_| rest.call(&word)).collect();
                ClaimedMessage::Assistant { text, calls }
            }
            _ => ClaimedMessage::Result {
                call_id: rest.id(),
                output: rest.content(&word),
                is_error: kind & 128 != 0,
            },
        });
    }
    messages
}

struct Bytes<'d>(&'d [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// One of the texts, or some bytes of the input.
    fn text_of(&mut self, texts: &[&str], word: &str) -> String {
        let choice = usize::from(self.next().unwrap_or_default());
        if let Some(text) = texts.get(choice) {
            return text.replace('W', word);
        }
        let (text, rest) = self.0.split_at(self.0.len().min(choice % 32));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn text(&mut self, word: &str) -> String {
        self.text_of(TEXTS, word)
    }

    /// A text, sometimes after an image.
    fn content(&mut self, word: &str) -> Content {
        let image = self.0.first().filter(|byte| **byte >= 250).copied();
        let image = image.and_then(|number| {
            self.next();
            ClaimedImage::read([b"GIF89a", &[number][..]].concat().into())
        });
        let image = image.map(ContentPart::Image);
        image.into_iter().chain([ContentPart::Words(self.text(word))]).collect()
    }

    /// There are few ids, so that calls and results match by chance.
    fn id(&mut self) -> String {
        ["a", "b", "c", ""][usize::from(self.next().unwrap_or_default() % 4)].to_owned()
    }

    fn call(&mut self, word: &str) -> ClaimedCall {
        let id = self.id();
        let name = if id == "c" { self.text(word) } else { "look".to_owned() };
        ClaimedCall { id, name, arguments: self.text_of(ARGUMENTS, word) }
    }
}

/// Every call has a unique id, and an outcome that a client can claim.
fn check_calls(adopted: &Adopted) {
    let mut ids = HashSet::new();
    for call in adopted.history.turns().flat_map(|turn| &turn.steps).flat_map(Step::calls) {
        let number = call.call_id.strip_prefix("call_").expect("an id of ours").parse();
        assert!((1..=adopted.history.call_ids()).contains(&number.expect("a number")));
        assert!(ids.insert(&*call.call_id), "{} is used twice", call.call_id);
        let outcome = &call.outcome;
        let is_claimed =
            matches!(outcome, Outcome::Claimed(_) | Outcome::Skipped(_) | Outcome::HandedOut);
        assert!(is_claimed, "{call:?}");
    }
    if let ClientInput::Results(results) = &adopted.input {
        let returned: Vec<&str> = results.iter().map(|result| &*result.call_id).collect();
        assert!(returned.iter().all(|id| ids.contains(id)), "{returned:?} of {ids:?}");
        assert_eq!(returned.iter().collect::<HashSet<_>>().len(), returned.len());
    }
}

/// The messages to the model when the turn opens. The history has to accept what opens it.
#[track_caller]
pub(super) fn rendered(adopted: &Adopted, form: History) -> Vec<Message> {
    let images = adopted.images.files.iter().map(|image| (image.id.clone(), image.clone()));
    context(adopted).messages(form, &images.collect())
}

#[track_caller]
pub(super) fn context(adopted: &Adopted) -> Context {
    let opening = adopted.history.open(&adopted.input, |_| false).expect("the history takes it");
    let current = match &opening {
        Opening::Results(turn) => Turn { ending: None, ..Turn::clone(turn) },
        opening => Turn {
            prompt: opening.words().into_owned(),
            images: adopted.images.opening.clone(),
            ..Turn::default()
        },
    };
    Context {
        system: adopted.system.clone().unwrap_or_else(|| "s".to_owned()),
        history: adopted.history.before(&opening),
        current: Arc::new(current),
        budget: usize::MAX,
        images_max: usize::MAX,
        ..Context::default()
    }
}

/// No word of the user or the assistant is missing or out of order. Other messages move: instructions to the
/// front, results to their calls; of two results of a call, one is dropped.
fn check_order(messages: &[ClaimedMessage], rendered: &[Message]) {
    let read: Vec<_> = rendered.iter().filter_map(Message::text_content).collect();
    let read = read.join("\n");
    let mut after = 0;
    for (at, message) in messages.iter().enumerate() {
        let (ClaimedMessage::User(Content { text, .. })
        | ClaimedMessage::Aside(Content { text, .. })
        | ClaimedMessage::Assistant { text, .. }) = message
        else {
            continue;
        };
        let word = format!("w{at}w");
        if !text.contains(&word) {
            continue;
        }
        let found = read[after..].find(&word);
        let found = found.unwrap_or_else(|| panic!("{word} is missing or out of order in {read}"));
        after += found;
    }
}

/// Retells the conversation as a client would, and adopts that.
fn check_retold(adopted: &Adopted) {
    let retold = retold(adopted);
    let again = adopt(retold.clone(), "o", &NoTurns).expect("there is a message");
    for (repair, count) in again.repairs.iter() {
        // A client has no words for a call that was not run.
        assert_eq!(repair, Repair::MissingResult, "{count} times in {retold:#?}");
    }
    assert_eq!(self::retold(&again), retold, "retold");
}

/// The messages with which a client would claim this conversation.
fn retold(adopted: &Adopted) -> Vec<ClaimedMessage> {
    let mut told: Vec<ClaimedMessage> = Vec::new();
    told.extend(adopted.system.clone().map(ClaimedMessage::System));
    for turn in adopted.history.turns() {
        told.push(ClaimedMessage::User(turn.prompt.clone().into()));
        for step in &turn.steps {
            retell(step, &adopted.input, &mut told);
        }
    }
    if let ClientInput::Words(words) | ClientInput::Prompt(words) = &adopted.input {
        told.push(ClaimedMessage::User(words.clone().into()));
    }
    told
}

fn retell(step: &Step, input: &ClientInput, told: &mut Vec<ClaimedMessage>) {
    let texts = step.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let calls = step.calls().map(|call| ClaimedCall {
        id: call.call_id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.as_str().to_owned(),
    });
    told.push(ClaimedMessage::Assistant { text: texts.collect(), calls: calls.collect() });
    for call in step.calls() {
        if let Some(result) = result_of(call, input) {
            let is_error = !result.success;
            let output = match (&result.error, &result.data) {
                (Some(error), _) => error.clone(),
                (None, Some(data)) => data.to_string(),
                (None, None) => String::new(),
            };
            let (call_id, output) = (call.call_id.clone(), output.into());
            told.push(ClaimedMessage::Result { call_id, output, is_error });
        }
    }
    if !step.aside.is_empty() {
        told.push(ClaimedMessage::Aside(step.aside.clone().into()));
    }
}

/// What a call returned: in the conversation, or with what opens the turn.
fn result_of<'a>(call: &'a Call, input: &'a ClientInput) -> Option<&'a ToolResult> {
    match (&call.outcome, input) {
        (Outcome::Claimed(result), _) => Some(result),
        (Outcome::HandedOut, ClientInput::Results(results)) => {
            let returned = results.iter().find(|returned| returned.call_id == call.call_id);
            returned.map(|returned| &returned.result)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_client_history() {
        crate::corpus::replay("client_history", client_history);
    }
}
