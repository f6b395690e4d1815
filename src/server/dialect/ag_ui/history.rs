//! The messages of a run, as what the client claims was said.

use std::collections::HashSet;

use serde_json::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage, Content, ContentPart};
use crate::server::dialect::ImageReader;
use crate::server::dialect::content::{of_user, result_of};

/// What a message says. Reasoning, and what a page shows of an activity, are left out: nobody said
/// them.
pub(super) fn claimed(message: &Value, images: ImageReader) -> Option<ClaimedMessage> {
    let content = |images| content_of(&message["content"], images);
    let text = || content(ImageReader::NAMING).into_text();
    Some(match message["role"].as_str() {
        Some("reasoning" | "activity") => return None,
        Some("system" | "developer") => ClaimedMessage::System(text()),
        Some("assistant") => ClaimedMessage::Assistant {
            text: text(),
            calls: calls(message).map(claimed_call).collect(),
        },
        Some("tool") => {
            let error = message["error"].as_str();
            let output = result_of(&message["content"], content(images));
            ClaimedMessage::Result {
                call_id: written(&message["toolCallId"]),
                output: output.with_line(error.unwrap_or_default()),
                is_error: error.is_some(),
            }
        }
        _ => {
            let parts = message["content"].as_array().map_or(&[][..], Vec::as_slice);
            ClaimedMessage::User(of_user(parts, content(images)))
        }
    })
}

fn calls(message: &Value) -> impl Iterator<Item = &Value> {
    message["toolCalls"].as_array().into_iter().flatten()
}

fn claimed_call(call: &Value) -> ClaimedCall {
    let function = &call["function"];
    ClaimedCall {
        id: written(&call["id"]),
        name: written(&function["name"]),
        arguments: written(&function["arguments"]),
    }
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// What a message says: a string, or parts. A note replaces what is neither text nor an image.
fn content_of(content: &Value, images: ImageReader) -> Content {
    match content {
        Value::String(text) => text.clone().into(),
        Value::Array(parts) => parts.iter().filter_map(|part| read_part(part, images)).collect(),
        _ => Content::default(),
    }
}

fn read_part(part: &Value, images: ImageReader) -> Option<ContentPart> {
    let words = match part["type"].as_str()? {
        "text" => part["text"].as_str().map(str::to_owned),
        "image" => {
            let source = &part["source"];
            // A source of the kind `url` has its URL there, too.
            return Some(match (source["type"].as_str(), source["value"].as_str()) {
                (Some("data"), Some(base64)) => images.in_base64(base64),
                (Some("url"), Some(url)) => images.at_url(url),
                _ => ImageReader::nowhere(),
            });
        }
        // What front ends sent before version 1.0.
        "binary" if is_image(part) => {
            return Some(match (part["data"].as_str(), part["url"].as_str()) {
                (Some(base64), _) => images.in_base64(base64),
                (None, Some(url)) => images.at_url(url),
                (None, None) => ImageReader::nowhere(),
            });
        }
        kind @ ("audio" | "video" | "document") => Some(format!("[{kind}, which is not shown]")),
        "binary" => Some("[a file, which is not shown]".to_owned()),
        _ => None,
    };
    words.map(ContentPart::Words)
}

fn is_image(part: &Value) -> bool {
    part["mimeType"].as_str().is_some_and(|kind| kind.starts_with("image/"))
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) name: String,
}

/// The calls since the user last spoke that have no result, oldest first.
pub(super) fn open_calls(messages: &[Value]) -> Vec<OpenCall> {
    let is_users = |message: &&Value| message["role"] == "user";
    let recent = messages.iter().rev().skip_while(is_users).take_while(|it| !is_users(it));
    let (mut open, mut returned) = (Vec::new(), HashSet::new());
    for message in recent {
        if message["role"] == "tool" {
            returned.insert(written(&message["toolCallId"]));
        }
        let calls = calls(message).map(|call| OpenCall {
            id: written(&call["id"]),
            name: written(&call["function"]["name"]),
        });
        open.extend(calls.filter(|call| !returned.contains(&call.id)));
    }
    open.reverse();
    open
}
