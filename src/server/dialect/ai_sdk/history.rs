//! The messages of a chat (`UIMessage`), as what the client claims was said.
//!
//! A message of the assistant holds a whole turn, or several: steps of text and tools. Each becomes
//! messages of its own, in the order in which things were said:
//!
//! ```text
//!   text, tool A with output, tool B with output, text
//!   -> assistant: text, call A; result A; assistant: call B; result B; assistant: text
//! ```

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage, Content, ContentPart};
use crate::server::dialect::ImageReader;
use crate::server::dialect::content::{content_of, of_user, text_of};

/// A message as it was written. Whatever cannot be read is skipped: a list is not refused for one
/// of its messages.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AiSdkMessage")]
#[serde(transparent)]
pub(super) struct RawMessage(Value);

impl RawMessage {
    pub(super) fn id(&self) -> Option<&str> {
        self.0["id"].as_str()
    }

    pub(super) fn is_assistants(&self) -> bool {
        self.0["role"] == "assistant"
    }

    /// Appends what it says.
    pub(super) fn claim(&self, images: ImageReader, claimed: &mut Vec<ClaimedMessage>) {
        let parts = self.0["parts"].as_array().map_or(&[][..], Vec::as_slice);
        match self.0["role"].as_str() {
            Some("assistant") if parts.is_empty() => claimed.push(ClaimedMessage::Assistant {
                text: text_of(self.old_content()),
                calls: Vec::new(),
            }),
            Some("assistant") => claim_parts(parts, claimed),
            Some("system") => {
                let content = self.content(parts, ImageReader::NAMING);
                claimed.push(ClaimedMessage::System(content.into_text()));
            }
            _ => {
                let content = of_user(parts, self.content(parts, images));
                claimed.push(ClaimedMessage::User(content));
            }
        }
    }

    /// What older versions have instead of parts.
    fn old_content(&self) -> &Value {
        self.0.get("content").unwrap_or(&self.0)
    }

    /// What somebody says who calls nothing.
    fn content(&self, parts: &[Value], images: ImageReader) -> Content {
        if parts.is_empty() {
            return content_of(self.old_content(), images);
        }
        let words = |text: &str| Some(ContentPart::Words(text.to_owned()));
        let parts = parts.iter().filter_map(|part| match part["type"].as_str() {
            Some("text") => part["text"].as_str().and_then(words),
            Some("file") if is_image(part) => Some(
                part["url"].as_str().map_or_else(ImageReader::nowhere, |url| images.at_url(url)),
            ),
            Some("file") => words("[a file, which is not shown]"),
            _ => None,
        });
        parts.collect()
    }
}

fn is_image(part: &Value) -> bool {
    part["mediaType"].as_str().is_some_and(|kind| kind.starts_with("image/"))
}

fn claim_parts(parts: &[Value], claimed: &mut Vec<ClaimedMessage>) {
    let mut reply = Reply::default();
    for part in parts {
        match part["type"].as_str().unwrap_or_default() {
            "text" => {
                if !reply.calls.is_empty() {
                    reply.flush(claimed);
                }
                reply.add(part["text"].as_str().unwrap_or_default());
            }
            "step-start" => reply.flush(claimed),
            "dynamic-tool" => reply.call(part["toolName"].as_str().unwrap_or_default(), part),
            kind => {
                if let Some(name) = kind.strip_prefix("tool-") {
                    reply.call(name, part);
                }
            }
        }
    }
    reply.flush(claimed);
}

/// An assistant's message that is being read.
#[derive(Default)]
struct Reply {
    text: String,
    calls: Vec<ClaimedCall>,
    results: Vec<ClaimedMessage>,
}

impl Reply {
    fn add(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    fn call(&mut self, name: &str, part: &Value) {
        let id = part["toolCallId"].as_str().unwrap_or_default().to_owned();
        // What could not be read as JSON is kept as it was written.
        let input = part.get("input").or_else(|| part.get("rawInput"));
        let arguments = match input {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(written)) => written.clone(),
            Some(input) => input.to_string(),
        };
        if let Some((output, is_error)) = result(part) {
            let call_id = id.clone();
            let output = output.into();
            self.results.push(ClaimedMessage::Result { call_id, output, is_error });
        }
        self.calls.push(ClaimedCall { id, name: name.to_owned(), arguments });
    }

    fn flush(&mut self, claimed: &mut Vec<ClaimedMessage>) {
        let Self { text, calls, results } = std::mem::take(self);
        if !text.is_empty() || !calls.is_empty() {
            claimed.push(ClaimedMessage::Assistant { text, calls });
        }
        claimed.extend(results);
    }
}

/// What a tool returned, and whether it failed. A part without an output is a call that nobody has
/// answered.
fn result(part: &Value) -> Option<(String, bool)> {
    match part["state"].as_str()? {
        "output-available" => Some(match &part["output"] {
            Value::String(text) => (text.clone(), false),
            output => (output.to_string(), false),
        }),
        "output-error" => Some((part["errorText"].as_str().unwrap_or_default().to_owned(), true)),
        "output-denied" => Some(("the user did not allow it".to_owned(), true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_that_the_user_did_not_allow_has_failed() {
        let part = json!({"type": "tool-open", "state": "output-denied", "input": {}});
        assert_eq!(result(&part), Some(("the user did not allow it".to_owned(), true)));
    }

    #[test]
    fn a_message_of_which_nothing_can_be_read_is_no_empty_one() {
        let mut claimed = Vec::new();
        let message = json!({"role": "user", "parts": [{"type": "data-x", "data": {}}]});
        RawMessage(message).claim(ImageReader::new(true), &mut claimed);
        assert_eq!(claimed, [ClaimedMessage::User("[something that is not shown]".into())]);
    }
}
