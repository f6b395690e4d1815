//! The messages of a request, as what the client claims was said.
//!
//! One message holds several things: words, calls, and what calls returned. A client that was shown
//! our calls sends calls and results back in one assistant message.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json_borrow::Value;

use crate::conversation::claimed::{ClaimedCall, ClaimedMessage, Content, ContentPart};
use crate::server::dialect::ImageReader;
use crate::server::dialect::content::{arguments_of, of_user, result_of};
use crate::server::dialect::json::{Borrowed, Json};

/// A message as it was written. Whatever else it has is skipped.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MessagesMessage")]
pub(super) struct RawMessage<'b> {
    #[serde(borrow, default)]
    #[schemars(with = "String")]
    role: Borrowed<'b>,
    #[serde(borrow, default)]
    content: Borrowed<'b>,
}

/// What some clients put before their instructions: an id that is new with every request, so that a
/// model server's cached prompt would be useless.
const BILLING_HEADER: &str = "x-anthropic-billing-header:";

/// The instructions, a text or blocks.
pub(super) fn system(system: &Value<'_>) -> Option<String> {
    let blocks = match system {
        Value::Array(blocks) => blocks.iter().filter_map(text_of_block).collect(),
        other => vec![content_of(other, ImageReader::NAMING).into_text()],
    };
    let told: Vec<&str> = blocks
        .iter()
        .map(|block| without_billing_header(block))
        .filter(|block| !block.trim().is_empty())
        .collect();
    (!told.is_empty()).then(|| told.join("\n\n"))
}

fn without_billing_header(text: &str) -> &str {
    match text.trim_start().strip_prefix(BILLING_HEADER) {
        Some(header) => header.split_once('\n').map_or("", |(_, rest)| rest),
        None => text,
    }
}

impl RawMessage<'_> {
    /// Appends what the message says.
    pub(super) fn claim(self, images: ImageReader, said: &mut Vec<ClaimedMessage>) {
        let Self { role: Borrowed(role), content: Borrowed(content) } = &self;
        match role.text() {
            Some("assistant") => claim_assistant(content, images, said),
            Some("system") => said.extend(system(content).map(ClaimedMessage::System)),
            _ => claim_user(content, images, said),
        }
    }
}

/// Results come first, because they belong to the message before. Words beside them do not end its
/// turn: some clients remind the model of something there.
fn claim_user(content: &Value<'_>, images: ImageReader, said: &mut Vec<ClaimedMessage>) {
    let mut parts = Vec::new();
    let mut has_results = false;
    for block in blocks(content) {
        if block.text_at("type") == Some("tool_result") {
            has_results = true;
            said.push(result(block, images));
        } else {
            parts.extend(read_block(block, images));
        }
    }
    parts.extend(content.as_str().map(|text| ContentPart::Words(text.to_owned())));
    let words = parts.into_iter().collect();
    said.push(if has_results {
        ClaimedMessage::Aside(words)
    } else {
        ClaimedMessage::User(of_user(blocks(content), words))
    });
}

fn claim_assistant(content: &Value<'_>, images: ImageReader, said: &mut Vec<ClaimedMessage>) {
    let text = content.as_str().unwrap_or_default().to_owned();
    let mut reply = Reply { text, ..Reply::default() };
    for block in blocks(content) {
        match block.text_at("type").unwrap_or_default() {
            "text" => {
                reply.go_on(said);
                // The blocks of one message are one text.
                reply.text.push_str(block.text_at("text").unwrap_or_default());
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                reply.go_on(said);
                reply.calls.push(call(block));
            }
            kind if kind.ends_with("_tool_result") => reply.results.push(result(block, images)),
            _ => {}
        }
    }
    reply.finish(said);
}

/// What the assistant says in one message.
#[derive(Default)]
struct Reply {
    text: String,
    calls: Vec<ClaimedCall>,
    /// What calls of this message returned.
    results: Vec<ClaimedMessage>,
}

impl Reply {
    /// Call this before adding to the message. After results, the model was asked again, so a new
    /// reply begins.
    fn go_on(&mut self, said: &mut Vec<ClaimedMessage>) {
        if !self.results.is_empty() {
            std::mem::take(self).finish(said);
        }
    }

    fn finish(self, said: &mut Vec<ClaimedMessage>) {
        let Self { text, calls, results } = self;
        said.push(ClaimedMessage::Assistant { text, calls });
        said.extend(results);
    }
}

fn call(block: &Value<'_>) -> ClaimedCall {
    let text = |key: &str| block.text_at(key).unwrap_or_default().to_owned();
    let arguments = arguments_of(block.field("input"));
    ClaimedCall { id: text("id"), name: text("name"), arguments }
}

fn result(block: &Value<'_>, images: ImageReader) -> ClaimedMessage {
    let written = block.field("content").unwrap_or(&Value::Null);
    ClaimedMessage::Result {
        call_id: block.text_at("tool_use_id").unwrap_or_default().to_owned(),
        output: result_of(written, content_of(written, images)),
        is_error: block.field("is_error").and_then(Value::as_bool) == Some(true),
    }
}

fn blocks<'v>(content: &'v Value<'_>) -> &'v [Value<'v>] {
    content.as_array().unwrap_or_default()
}

/// What a message or a result says: a string, or blocks.
fn content_of(content: &Value<'_>, images: ImageReader) -> Content {
    match content {
        Value::Str(text) => text.clone().into_owned().into(),
        content => blocks(content).iter().filter_map(|block| read_block(block, images)).collect(),
    }
}

fn read_block(block: &Value<'_>, images: ImageReader) -> Option<ContentPart> {
    if block.text_at("type") != Some("image") {
        return text_of_block(block).map(ContentPart::Words);
    }
    let source = block.field("source").unwrap_or(&Value::Null);
    Some(match (source.text_at("data"), source.text_at("url")) {
        (Some(base64), _) => images.in_base64(base64),
        (None, Some(url)) => images.at_url(url),
        (None, None) => ImageReader::nowhere(),
    })
}

/// The text of a block, or a note in place of what is not text.
fn text_of_block(block: &Value<'_>) -> Option<String> {
    let named = |text: &str| Some(text.to_owned());
    let source = block.field("source").unwrap_or(&Value::Null);
    match block.text_at("type")? {
        "text" => block.text_at("text").map(str::to_owned),
        "image" => named("[an image, which is not shown]"),
        "document" => match (source.text_at("type"), source.field("content")) {
            (Some("text"), _) => source.text_at("data").map(str::to_owned),
            (Some("content"), Some(Value::Str(text))) => named(text),
            (Some("content"), Some(content)) if !texts(content).is_empty() => {
                Some(texts(content).join("\n"))
            }
            _ => named("[a file, which is not shown]"),
        },
        "search_result" => {
            let texts = texts(block.field("content").unwrap_or(&Value::Null));
            let title = ["title", "source"].into_iter().filter_map(|key| block.text_at(key));
            Some(title.chain(texts).collect::<Vec<_>>().join("\n"))
        }
        "tool_reference" => block.text_at("tool_name").map(|name| format!("[the tool {name}]")),
        _ => None,
    }
}

/// The texts among blocks.
fn texts<'v>(content: &'v Value<'_>) -> Vec<&'v str> {
    blocks(content).iter().filter_map(|block| block.text_at("text")).collect()
}
