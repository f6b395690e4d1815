//! Lists as clients send them, and what becomes of them.

mod answered_questions;
mod continued;
mod images;
mod properties;
mod restored;
mod rules;

use std::collections::HashMap;
use std::sync::Arc;

use super::fuzz::{context, rendered};
use super::*;
use crate::conversation::{Call, Outcome, Part};
use crate::tools::ToolResult;
use crate::upstream::{History, Message};

fn system(text: &str) -> ClaimedMessage {
    ClaimedMessage::System(text.to_owned())
}

fn user(text: &str) -> ClaimedMessage {
    ClaimedMessage::User(text.into())
}

fn says(text: &str) -> ClaimedMessage {
    calls(text, &[])
}

/// A message with a call of `look` for each id.
fn calls(text: &str, ids: &[&str]) -> ClaimedMessage {
    let call = |id: &&str| claimed_call(id, "{}");
    ClaimedMessage::Assistant { text: text.to_owned(), calls: ids.iter().map(call).collect() }
}

fn claimed_call(id: &str, arguments: &str) -> ClaimedCall {
    let (id, name, arguments) = (id.to_owned(), "look".to_owned(), arguments.to_owned());
    ClaimedCall { id, name, arguments }
}

fn returns(call_id: &str, output: &str) -> ClaimedMessage {
    let (call_id, output) = (call_id.to_owned(), output.into());
    ClaimedMessage::Result { call_id, output, is_error: false }
}

/// One of 256 images.
fn picture(number: u8) -> ClaimedImage {
    ClaimedImage::read([b"GIF89a", &[number][..]].concat().into()).unwrap()
}

/// Turns of our own, as a server would keep them.
#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "they are called as what looks into them")]
struct Shelf {
    by_call: HashMap<String, FoundCall>,
    by_prefix: HashMap<PrefixHash, Arc<Turn>>,
    by_question: HashMap<String, Arc<Turn>>,
    by_answer: HashMap<String, Arc<Turn>>,
}

impl TurnLookup for Shelf {
    fn by_call(&self, client_call_id: &str) -> Option<FoundCall> {
        self.by_call.get(client_call_id).cloned()
    }

    fn by_prefix(&self, prefix: &PrefixHash) -> Option<Arc<Turn>> {
        self.by_prefix.get(prefix).cloned()
    }

    fn by_question(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.by_question.get(clarification_id).cloned()
    }

    fn by_answer(&self, clarification_id: &str) -> Option<Arc<Turn>> {
        self.by_answer.get(clarification_id).cloned()
    }
}

fn adopted(messages: Vec<ClaimedMessage>) -> Adopted {
    adopt(messages, "key", &Shelf::default()).unwrap()
}

/// A conversation in one line for each prompt, text, call and result.
fn outline(adopted: &Adopted) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(adopted.system.iter().map(|text| format!("system: {text}")));
    for turn in adopted.history.turns() {
        lines.push(format!("user: {}", turn.prompt));
        lines.extend(turn.steps.iter().flat_map(|step| &step.parts).map(outline_of_part));
    }
    match &adopted.input {
        ClientInput::Words(words) | ClientInput::Prompt(words) => {
            lines.push(format!("asks: {words}"));
        }
        ClientInput::Results(results) => lines.extend(results.iter().map(|returned| {
            format!("returns: {} {}", returned.call_id, outline_of_result(&returned.result))
        })),
        ClientInput::Answer { clarification_id, choice, .. } => {
            lines.push(format!("answers {clarification_id}: {choice:?}"));
        }
    }
    lines
}

fn outline_of_part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("says: {text}"),
        Part::Call(call) => {
            let Call { call_id, name, arguments, outcome, .. } = &**call;
            let outcome = match outcome {
                Outcome::Claimed(result) => format!("claimed {}", outline_of_result(result)),
                Outcome::Ended(result) => format!("ended {}", outline_of_result(result)),
                Outcome::Skipped(reason) => format!("skipped: {reason}"),
                outcome => format!("{outcome:?}"),
            };
            format!("{call_id}: {name} {} {outcome}", arguments.as_str())
        }
        part => format!("{part:?}"),
    }
}

fn outline_of_result(result: &ToolResult) -> String {
    match (&result.data, &result.error) {
        (Some(data), None) => data.to_string(),
        (None, Some(error)) => format!("error: {error}"),
        _ => format!("{result:?}"),
    }
}
