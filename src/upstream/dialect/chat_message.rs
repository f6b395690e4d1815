//! Messages and tools as Chat Completions writes them, and what renders chat templates reads. The
//! content of a message is a text, or a list of parts if it has images.

use std::borrow::Cow;

use serde::Serialize;

use crate::upstream::dialect::data_url::DataUrl;
use crate::upstream::{Message, MessageCall, MessagePart, OfferedTool, Role};

/// A message in Chat Completions, which has no place for reasoning.
#[derive(Serialize)]
pub(in crate::upstream) struct ChatMessage<'a> {
    role: Role,
    /// Absent only if there are calls.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

/// A tool.
#[derive(Serialize)]
pub(in crate::upstream) struct ChatTool<'a> {
    r#type: &'static str,
    function: &'a OfferedTool,
}

impl<'a> From<&'a OfferedTool> for ChatTool<'a> {
    fn from(function: &'a OfferedTool) -> Self {
        Self { r#type: "function", function }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct ChatCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> From<&'a Message> for ChatMessage<'a> {
    fn from(message: &'a Message) -> Self {
        let tool_calls = message.calls().map(|MessageCall { id, name, arguments }| ChatCall {
            id,
            r#type: "function",
            function: Function { name, arguments },
        });
        Self {
            role: message.role,
            content: Content::of(message),
            tool_calls: tool_calls.collect(),
            tool_call_id: message.answered_call_id(),
        }
    }
}

impl<'a> Content<'a> {
    fn of(message: &'a Message) -> Option<Self> {
        if message.images().next().is_none() {
            return message.text_content().map(Self::Text);
        }
        Some(Self::Parts(message.parts.iter().filter_map(ContentPart::of).collect()))
    }
}

impl<'a> ContentPart<'a> {
    fn of(part: &'a MessagePart) -> Option<Self> {
        match part {
            MessagePart::Text(text) => Some(Self::Text { text }),
            MessagePart::Image(image) => {
                Some(Self::ImageUrl { image_url: ImageUrl { url: DataUrl(image) } })
            }
            MessagePart::Reasoning(_) | MessagePart::Call(_) | MessagePart::Result { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::upstream::Image;

    fn image(bytes: &'static [u8]) -> MessagePart {
        MessagePart::Image(Image { id: String::new(), mime_type: "image/png", bytes: bytes.into() })
    }

    fn shown(base64: &str) -> Value {
        let url = format!("data:image/png;base64,{base64}");
        json!({"type": "image_url", "image_url": {"url": url}})
    }

    #[test]
    fn a_message_with_images_is_a_list_of_parts() {
        let mut told = Message::text(Role::User, "`f` returned: ..");
        told.parts.extend([image(b"a"), MessagePart::Text("\n\nAnswer.".into())]);
        let parts = json!([
            {"type": "text", "text": "`f` returned: .."},
            shown("YQ=="),
            {"type": "text", "text": "\n\nAnswer."},
        ]);
        let written = json!(ChatMessage::from(&told));
        assert_eq!(written, json!({"role": "user", "content": parts}));
    }
}
