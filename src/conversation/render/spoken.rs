//! What the model said itself in a step: its words, and the order of what stands among
//! them.
//!
//! Servers that hand out reasoning want each item of it back directly in front of what it
//! came with. What the gateway said in between stands before it.

use std::sync::Arc;

use super::{Form, call_line, inert};
use crate::conversation::{Part, Step};
use crate::upstream::{Message, MessagePart, ReasoningItem};

/// A step's words and their order.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    pub(super) words: String,
    order: Vec<MessagePart>,
    /// Reasoning whose part has not come yet. Without one, it does not go back.
    thoughts: Vec<Arc<ReasoningItem>>,
}

impl Spoken {
    /// What a step holds, its calls as the form has them.
    pub(super) fn of(step: &Step, marker: &str, form: Form) -> Self {
        let mut spoken = Self::default();
        let mut calls = 0;
        for part in &step.parts {
            match part {
                Part::Text(text) => {
                    if !text.trim().is_empty() {
                        spoken.think();
                    }
                    spoken.say(|words| words.push_str(text));
                }
                Part::Said(said) if said.is_told() => spoken.say(|words| {
                    words.push_str(&inert::text(&said.text, marker));
                    words.push('\n');
                }),
                Part::Said(_) => {}
                // Without its calls, the message is another than the one that it thought of.
                Part::Reasoning(_) if form == Form::Words => {}
                Part::Reasoning(item) => spoken.thoughts.push(Arc::clone(item)),
                Part::Call(call) => match form {
                    Form::Text => {
                        spoken.think();
                        spoken.say(|words| call_line::push(words, marker, call));
                    }
                    Form::Native => {
                        spoken.think();
                        spoken.order.push(MessagePart::Call(calls));
                        calls += 1;
                    }
                    Form::Words => {}
                },
            }
        }
        // Many chat templates strip it anyway; the others learn nothing from it.
        spoken.words.truncate(spoken.words.trim_end().len());
        spoken
    }

    fn think(&mut self) {
        self.order.extend(self.thoughts.drain(..).map(MessagePart::Reasoning));
    }

    fn say(&mut self, write: impl FnOnce(&mut String)) {
        let start = self.words.len();
        write(&mut self.words);
        let end = self.words.len();
        match self.order.last_mut() {
            Some(MessagePart::Words(range)) => range.end = end,
            _ => self.order.push(MessagePart::Words(start..end)),
        }
    }

    /// Adds it to an assistant's message, behind what that holds.
    pub(super) fn join(self, message: &mut Message) {
        let before = message.content.as_ref().map_or(0, String::len);
        let mut start = before;
        if !self.words.is_empty() {
            let content = message.content.get_or_insert_default();
            if before > 0 {
                content.push_str("\n\n");
                start = content.len();
            }
            content.push_str(&self.words);
        }
        let end = start + self.words.len();
        if message.order.is_empty() && before > 0 {
            message.order.push(MessagePart::Words(0..before));
        }
        message.order.extend(self.order.into_iter().map(|part| match part {
            MessagePart::Words(range) => {
                MessagePart::Words((start + range.start).min(end)..(start + range.end).min(end))
            }
            part => part,
        }));
        if !message.order.iter().any(|part| matches!(part, MessagePart::Reasoning(_))) {
            message.order.clear();
        }
    }
}
