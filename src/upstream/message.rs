//! A message to a model, in no server's form.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What somebody says to a model, or the model itself has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What it holds, in order. Never empty.
    pub parts: Vec<MessagePart>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// Words. Those of one message belong together as they are, with nothing between them.
    Text(String),
    /// What the model thought before the part that follows, for the upstream it is from.
    Reasoning(Arc<ReasoningItem>),
    /// A call, in an assistant's message.
    Call(MessageCall),
    /// What came of a call, in a tool's message. It is the only part of it.
    Result {
        /// The call's id.
        call_id: String,
        /// What the model reads.
        output: String,
    },
}

/// A call in an assistant's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCall {
    /// Pairs the call with its result.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, a JSON object as text.
    pub arguments: String,
}

/// A piece of reasoning that its server wants back, and can alone read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningItem {
    /// Name of the upstream that gave it.
    pub upstream: String,
    /// The item as JSON, as it was given.
    pub json: String,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The person, or the gateway with tools' results.
    User,
    /// The model.
    Assistant,
    /// A tool's result, with `history: native`.
    Tool,
}

impl Message {
    /// A message of words.
    #[must_use]
    pub fn text(role: Role, words: impl Into<String>) -> Self {
        Self { role, parts: vec![MessagePart::Text(words.into())] }
    }

    /// A tool's message: what came of a call.
    #[must_use]
    pub fn result(call_id: impl Into<String>, output: impl Into<String>) -> Self {
        let (call_id, output) = (call_id.into(), output.into());
        Self { role: Role::Tool, parts: vec![MessagePart::Result { call_id, output }] }
    }

    /// All of its words, results included; `None` if it has none.
    #[must_use]
    pub fn words(&self) -> Option<Cow<'_, str>> {
        let mut texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) | MessagePart::Result { output: text, .. } => Some(&**text),
            MessagePart::Reasoning(_) | MessagePart::Call(_) => None,
        });
        let first = texts.next()?;
        Some(match texts.next() {
            None => Cow::Borrowed(first),
            Some(second) => {
                let rest: String = texts.collect();
                Cow::Owned([first, second, &rest].concat())
            }
        })
    }

    /// The calls in it.
    pub fn calls(&self) -> impl Iterator<Item = &MessageCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The id of the call that it answers.
    #[must_use]
    pub fn answers(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            MessagePart::Result { call_id, .. } => Some(&**call_id),
            _ => None,
        })
    }
}
