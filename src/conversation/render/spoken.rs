//! What the model itself said in a step: its words and calls, in order.
//!
//! Servers that return reasoning want each item sent back directly before the part it led to.
//! Anything the gateway said in between goes before the reasoning.

use std::sync::Arc;

use super::{Form, inert};
use crate::call_format::{CallFormat, CallsBefore};
use crate::conversation::{Part, Step};
use crate::limits::tools::NAME_BYTES_MAX;
use crate::text;
use crate::upstream::{MessageCall, MessagePart, ReasoningItem};

/// The parts of a step's message, with calls in this form. `native` are the calls as a server
/// takes them.
pub(super) fn parts(
    step: &Step,
    format: &CallFormat,
    form: Form,
    native: Vec<MessageCall>,
) -> Vec<MessagePart> {
    let mut spoken = Spoken::default();
    let mut native = native.into_iter();
    let mut before = CallsBefore::default();
    let mut is_after_call = false;
    for part in &step.parts {
        let follows_call = std::mem::replace(&mut is_after_call, matches!(part, Part::Call(_)));
        match part {
            Part::Text(words) => {
                if !words.trim().is_empty() {
                    spoken.think();
                }
                spoken.words().push_str(words);
            }
            Part::Said(said) if said.is_told() => {
                let words = spoken.words();
                words.push_str(&inert::text(&said.text, format));
                words.push('\n');
            }
            Part::Said(_) => {}
            // Without its calls, this is no longer the message that the reasoning led to.
            Part::Reasoning(_) if form == Form::Words => {}
            Part::Reasoning(item) => spoken.thoughts.push(Arc::clone(item)),
            Part::Call(call) => match form {
                Form::Text => {
                    spoken.think();
                    // The format says what stands between calls.
                    if !follows_call {
                        before = CallsBefore::default();
                        spoken.end_line();
                    }
                    let name = text::cut(&call.name, NAME_BYTES_MAX);
                    let arguments = call.arguments.as_str();
                    format.push_next_call(spoken.words(), &name, arguments, &mut before);
                }
                Form::Native => {
                    spoken.think();
                    spoken.parts.extend(native.next().map(MessagePart::Call));
                }
                Form::Words => {}
            },
        }
    }
    spoken.trim_end();
    spoken.parts
}

/// A step's parts so far.
#[derive(Debug, Default)]
struct Spoken {
    parts: Vec<MessagePart>,
    /// Reasoning whose part has not come yet. If none comes, the reasoning is left out.
    thoughts: Vec<Arc<ReasoningItem>>,
}

impl Spoken {
    fn think(&mut self) {
        self.parts.extend(self.thoughts.drain(..).map(MessagePart::Reasoning));
    }

    /// The words being written.
    fn words(&mut self) -> &mut String {
        if !matches!(self.parts.last(), Some(MessagePart::Text(_))) {
            self.parts.push(MessagePart::Text(String::new()));
        }
        match self.parts.last_mut() {
            Some(MessagePart::Text(text)) => text,
            _ => unreachable!("a message was just pushed"),
        }
    }

    /// Ends the current line, so that a call starts on a new one.
    fn end_line(&mut self) {
        let mut texts = self.parts.iter().rev().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text),
            _ => None,
        });
        if texts.next().is_some_and(|text| !text.is_empty() && !text.ends_with('\n')) {
            self.words().push('\n');
        }
    }

    /// Removes white space at the end of the words. Many chat templates do so anyway, and it means
    /// nothing to models.
    fn trim_end(&mut self) {
        for part in self.parts.iter_mut().rev() {
            let MessagePart::Text(text) = part else { continue };
            text.truncate(text.trim_end().len());
            if !text.is_empty() {
                break;
            }
        }
        self.parts.retain(|part| !matches!(part, MessagePart::Text(text) if text.is_empty()));
    }
}
