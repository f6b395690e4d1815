//! A message to a model, independent of any server's API.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Something said to a model, or by the model itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub(crate) role: Role,
    /// The content, in order. Never empty.
    pub(crate) parts: Vec<MessagePart>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessagePart {
    /// Plain text. The texts of one message are concatenated without a separator.
    Text(String),
    /// What the model thought before the next part. Only sent to the upstream it came from.
    Reasoning(Arc<ReasoningItem>),
    /// A call, in an assistant message.
    Call(MessageCall),
    /// The result of a call, in a tool message. Always the only part.
    Result {
        /// The call's id.
        call_id: String,
        /// What the model reads.
        output: String,
    },
    /// An image, in a message of the user. The text before it names it.
    Image(Image),
}

/// An image that a tool returned, or that a client has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The id of its artifact.
    pub(crate) id: String,
    /// Its media type.
    pub(crate) mime_type: &'static str,
    /// The image as a file.
    pub(crate) bytes: Bytes,
}

impl Image {
    /// Reads an image that model servers take. `None` if it is none, whatever its tool calls it:
    /// servers refuse the whole request for it.
    pub(crate) fn read(id: String, bytes: Bytes) -> Option<Self> {
        let mime_type = match &*bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => "image/png",
            [0xFF, 0xD8, 0xFF, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => return None,
        };
        Some(Self { id, mime_type, bytes })
    }
}

/// Images by the ids of their artifacts.
pub type Images = HashMap<String, Image>;

/// A call in an assistant message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageCall {
    /// Pairs the call with its result.
    pub(crate) id: String,
    /// The tool's name.
    pub(crate) name: String,
    /// The arguments: a JSON object as text.
    pub(crate) arguments: String,
}

/// A reasoning item that its server wants back, and that only this server can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningItem {
    /// The name of the upstream that sent it.
    pub(crate) upstream: String,
    /// The item as JSON, exactly as it was received.
    pub(crate) json: String,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// The operator's instructions.
    System,
    /// The user, or the gateway passing on tool results.
    User,
    /// The model.
    Assistant,
    /// A tool's result, with `history: native`.
    Tool,
}

impl Message {
    /// Creates a message of plain text.
    #[must_use]
    pub(crate) fn text(role: Role, words: impl Into<String>) -> Self {
        Self { role, parts: vec![MessagePart::Text(words.into())] }
    }

    /// Creates a tool message with the result of a call.
    #[must_use]
    pub(crate) fn result(call_id: impl Into<String>, output: impl Into<String>) -> Self {
        let (call_id, output) = (call_id.into(), output.into());
        Self { role: Role::Tool, parts: vec![MessagePart::Result { call_id, output }] }
    }

    /// All of its text, including results; `None` if it has none.
    #[must_use]
    pub fn text_content(&self) -> Option<Cow<'_, str>> {
        let mut texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) | MessagePart::Result { output: text, .. } => Some(&**text),
            MessagePart::Reasoning(_) | MessagePart::Call(_) | MessagePart::Image(_) => None,
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

    /// How many bytes of text the model reads in it, calls included.
    pub(crate) fn text_bytes(&self) -> usize {
        let bytes = self.parts.iter().map(|part| match part {
            MessagePart::Text(text) | MessagePart::Result { output: text, .. } => text.len(),
            MessagePart::Call(call) => call.name.len() + call.arguments.len(),
            MessagePart::Reasoning(_) | MessagePart::Image(_) => 0,
        });
        bytes.sum()
    }

    /// The images in it.
    pub(crate) fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Image(image) => Some(image),
            _ => None,
        })
    }

    /// The calls in it.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &MessageCall> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The id of the call that this message answers.
    #[must_use]
    pub(crate) fn answered_call_id(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            MessagePart::Result { call_id, .. } => Some(&**call_id),
            _ => None,
        })
    }
}

/// Puts the instructions before what the user says first.
pub(super) fn join_system(messages: &mut Vec<Message>) {
    let [Message { role: Role::System, .. }, Message { role: Role::User, .. }, ..] = &messages[..]
    else {
        return;
    };
    let mut system = messages.remove(0);
    system.parts.push(MessagePart::Text("\n\n".to_owned()));
    messages[0].parts.splice(0..0, system.parts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_go_before_what_the_user_says_first() {
        let [system, user] = [Role::System, Role::User].map(|role| Message::text(role, "a"));
        let mut messages = vec![system.clone(), user.clone(), user];
        join_system(&mut messages);
        assert_eq!(messages.len(), 2);
        assert_eq!(
            (messages[0].role, &*messages[0].text_content().unwrap()),
            (Role::User, "a\n\na")
        );
        let mut alone = vec![system];
        join_system(&mut alone);
        assert_eq!(alone.len(), 1);
    }

    #[test]
    fn an_image_is_known_by_its_first_bytes() {
        for (bytes, mime_type) in [
            (&b"\x89PNG\r\n\x1A\n.."[..], Some("image/png")),
            (b"\xFF\xD8\xFF\xE0", Some("image/jpeg")),
            (b"GIF87a", Some("image/gif")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBP", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<html>", None),
            (b"\x89PNG", None),
            (b"", None),
        ] {
            let image = Image::read("a".to_owned(), bytes.into());
            assert_eq!(image.map(|image| image.mime_type), mime_type, "{bytes:?}");
        }
    }
}
