//! The items of a request, as what the client claims was said.
//!
//! Items come back as we sent them, or as clients rewrite them. Messages and calls of one answer
//! that nothing separates are one message of the assistant, so that an answer is recognised however
//! its items are cut.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::id::{ItemId, ResponseId};
use super::namespaces;
use crate::conversation::claimed::{ClaimedCall, ClaimedMessage, Content, PrefixHash, Repair};
use crate::limits::server::REFERENCED_BYTES_MAX;
use crate::server::dialect::content::{arguments_of, content_of, of_user, result_of, text_of};
use crate::server::dialect::json::Json as _;
use crate::server::dialect::{ImageReader, call_id, images};
use crate::server::refusal::Refusal;
use crate::text::json_len;

/// What the ids of requests for approval begin with.
pub(super) const APPROVAL_REQUEST: &str = "mcpr";

/// The members of items in which images can be.
const CONTENTS: &[&str] = &["content", "output"];

/// An answer to a request for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Approval {
    /// The request's id, as the client knows it.
    pub(super) request_id: String,
    /// The question's id in its session.
    pub(super) clarification_id: String,
    pub(super) approves: bool,
    pub(super) reason: Option<String>,
    /// What the user says besides; images are only named.
    pub(super) beside: Option<String>,
}

/// The items of a request. A text is one message of the user.
pub(super) fn items(input: Option<Value>) -> Vec<Value> {
    match input {
        Some(Value::Array(items)) => items.into_iter().map(item).collect(),
        Some(Value::String(text)) => vec![user_message(&text)],
        _ => Vec::new(),
    }
}

/// An item. A text is a message of the user, in a list too.
fn item(item: Value) -> Value {
    item.as_str().map(user_message).unwrap_or(item)
}

fn user_message(text: &str) -> Value {
    json!({
        "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
    })
}

fn type_of(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

/// The ids of other items that a list refers to.
pub(super) fn references(items: &[Value]) -> impl DoubleEndedIterator<Item = &str> {
    items.iter().filter_map(reference)
}

/// The id of the item that this one refers to.
fn reference(item: &Value) -> Option<&str> {
    let is_reference = type_of(item) == "item_reference";
    item["id"].as_str().filter(|_| is_reference)
}

/// Puts items in place of references. Repeated references stay, and say nothing, and so do those that are not found
/// and, if all together stand for more than [`REFERENCED_BYTES_MAX`], the oldest. An item is stored without its images:
/// a note says so. Returns what was lost.
pub(super) fn resolve(
    items: &mut [Value],
    known: &HashMap<String, Value>,
    images: ImageReader,
) -> Vec<Repair> {
    let mut room = REFERENCED_BYTES_MAX;
    let (mut lacks_images, mut is_too_long) = (false, false);
    let mut seen = HashSet::new();
    // Mastra sends some twice, and the model would see a call made twice.
    let is_new: Vec<bool> = items
        .iter()
        .map(|item| reference(item).is_none_or(|id| seen.insert(id.to_owned())))
        .collect();
    for (item, _) in items.iter_mut().zip(is_new).rev().filter(|(_, is_new)| *is_new) {
        let Some(found) = reference(item).and_then(|id| known.get(id)) else { continue };
        let Some(left) = room.checked_sub(json_len(found)) else {
            is_too_long = true;
            break;
        };
        room = left;
        let noted = edited(found, CONTENTS, |content| with_notes(content, images));
        lacks_images |= noted != *found;
        *item = noted;
    }
    let lost = [(lacks_images, Repair::LostImage), (is_too_long, Repair::TooLong)];
    lost.into_iter().filter_map(|(is_lost, repair)| is_lost.then_some(repair)).collect()
}

/// The content with a note in place of each image whose data was not stored.
fn with_notes(content: &Value, images: ImageReader) -> Value {
    let Value::Array(parts) = content else { return content.clone() };
    let note = json!({ "type": "input_text", "text": images.not_stored() });
    let is_without = |part: &Value| {
        part["type"] == "input_image" && part.get("image_url").is_some_and(Value::is_null)
    };
    parts.iter().map(|part| if is_without(part) { note.clone() } else { part.clone() }).collect()
}

/// The answer to a request for approval among the user's last items, with or without words around
/// it. In a chain it must answer one of our requests; elsewhere it may answer another service's,
/// and is then just words.
pub(super) fn approval(items: &[Value], is_chain: bool) -> Result<Option<Approval>, Refusal> {
    let is_answer = |item: &&Value| type_of(item) == "mcp_approval_response";
    let is_of_user = |item: &&Value| is_answer(item) || is_user_message(item);
    let users = items.iter().rev().take_while(is_of_user);
    let Some(item) = users.clone().find(is_answer) else { return Ok(None) };
    let request_id = item["approval_request_id"].as_str().unwrap_or_default();
    let Some(id) = ItemId::parse(request_id).filter(|id| id.prefix == APPROVAL_REQUEST) else {
        let message = format!("there is no mcp_approval_request with the id {request_id:?}");
        return if is_chain { Err(Refusal::invalid("input", message)) } else { Ok(None) };
    };
    let Some(approves) = item["approve"].as_bool() else {
        return Err(Refusal::invalid(
            "input",
            "approve must be true or false in an mcp_approval_response",
        ));
    };
    let mut words: Vec<String> =
        users.filter(|item| is_user_message(item)).map(|item| text_of(&item["content"])).collect();
    words.retain(|words| !words.trim().is_empty());
    words.reverse();
    let beside = words.join("\n\n");
    Ok(Some(Approval {
        request_id: request_id.to_owned(),
        clarification_id: format!("{}.{}", id.response.turn_id(), id.number),
        approves,
        reason: item["reason"].as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned),
        beside: (!beside.is_empty()).then_some(beside),
    }))
}

fn is_user_message(item: &Value) -> bool {
    type_of(item) == "message" && item["role"] == "user"
}

/// Takes the results of this turn's client calls out of a list, by the calls' ids in the turn. The
/// first result of a call counts. Calls that are repeated with their results are taken out, too: the turn has them.
pub(super) fn take_results(
    items: &mut Vec<Value>,
    turn_id: &str,
    images: ImageReader,
) -> HashMap<String, Content> {
    let mut results = HashMap::new();
    items.retain(|item| {
        let is_output = matches!(type_of(item), "function_call_output" | "custom_tool_call_output");
        let is_call = matches!(type_of(item), "function_call" | "custom_tool_call");
        let id = item["call_id"].as_str().filter(|_| is_output || is_call);
        let inside = id.and_then(call_id::parse);
        let Some((_, call)) = inside.filter(|(turn, _)| turn == turn_id) else { return true };
        if is_output {
            results.entry(call).or_insert_with(|| output_of(item, images));
        }
        false
    });
    results
}

/// What a list of items says.
pub(super) fn claimed(items: &[Value], images: ImageReader) -> Vec<ClaimedMessage> {
    let (messages, open, results) = (Vec::new(), None, Vec::new());
    let mut reader = Reader { images, messages, open, results };
    for item in items {
        reader.read(item);
    }
    reader.close();
    reader.messages
}

struct Reader {
    images: ImageReader,
    messages: Vec<ClaimedMessage>,
    /// The message of the assistant that the next item may belong to.
    open: Option<(Vec<String>, Vec<ClaimedCall>)>,
    /// Results of its calls.
    results: Vec<ClaimedMessage>,
}

impl Reader {
    fn read(&mut self, item: &Value) {
        let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        match type_of(item) {
            "message" => self.read_message(item),
            "function_call" => {
                let name = namespaces::full_name(item);
                self.add_call(text("call_id"), name, arguments_of(item.get("arguments")));
            }
            "custom_tool_call" => {
                let arguments = json!({ "input": item["input"] }).to_string();
                self.add_call(text("call_id"), text("name"), arguments);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.close();
                let output = output_of(item, self.images);
                self.messages.push(result(text("call_id"), output, false));
            }
            "mcp_call" => {
                let id = text("id");
                let call_id = ItemId::parse(&id).map_or_else(|| id.clone(), client_call_id);
                self.add_call(call_id.clone(), text("name"), arguments_of(item.get("arguments")));
                self.results.push(match error_of(item) {
                    Some(error) => result(call_id, error.into(), true),
                    None => result(call_id, output_of(item, self.images), false),
                });
            }
            "mcp_approval_request" => {
                self.add_text(format!("May I call {} with {}?", text("name"), text("arguments")));
            }
            "mcp_approval_response" => {
                let answer = if item["approve"] == true { "Yes." } else { "No." };
                let words = [answer, &*text("reason")].join(" ");
                self.push(ClaimedMessage::User(words.trim().into()));
            }
            // Reasoning, lists of tools, and whatever other services have run.
            _ => {}
        }
    }

    fn read_message(&mut self, item: &Value) {
        let content = &item["content"];
        match item["role"].as_str() {
            // It would teach the model to announce calls that it then does not make.
            Some("assistant") if item["phase"] == "commentary" => {}
            Some("assistant") => self.add_text(text_of(content)),
            Some("system" | "developer") => {
                self.push(ClaimedMessage::System(text_of(content)));
            }
            // As in Chat Completions.
            Some("tool") => {
                let call_id = item["tool_call_id"].as_str().unwrap_or_default();
                let output = result_of(content, content_of(content, self.images));
                self.push(result(call_id.to_owned(), output, false));
            }
            _ => {
                let read = content_of(content, self.images);
                self.push(ClaimedMessage::User(of_user(content.listed(), read)));
            }
        }
    }

    fn add_text(&mut self, text: String) {
        // After a call that has run, the model has written another message.
        if !self.results.is_empty() {
            self.close();
        }
        if !text.trim().is_empty() {
            self.open.get_or_insert_default().0.push(text);
        }
    }

    fn add_call(&mut self, id: String, name: String, arguments: String) {
        self.open.get_or_insert_default().1.push(ClaimedCall { id, name, arguments });
    }

    fn push(&mut self, message: ClaimedMessage) {
        self.close();
        self.messages.push(message);
    }

    fn close(&mut self) {
        if let Some((texts, calls)) = self.open.take() {
            let texts: Vec<&str> = texts.iter().map(|text| text.trim()).collect();
            self.messages.push(ClaimedMessage::Assistant { text: texts.join("\n\n"), calls });
        }
        self.messages.append(&mut self.results);
    }
}

fn result(call_id: String, output: Content, is_error: bool) -> ClaimedMessage {
    ClaimedMessage::Result { call_id, output, is_error }
}

/// The id by which clients know the call of one of our items.
fn client_call_id(id: ItemId<'_>) -> String {
    call_id::for_client(&id.response.turn_id(), &format!("call_{}", id.number))
}

/// What a call returned: a text, parts of a message, or any other JSON.
fn output_of(item: &Value, images: ImageReader) -> Content {
    match &item["output"] {
        Value::Null => Content::default(),
        output @ (Value::String(_) | Value::Array(_)) => {
            let content = content_of(output, images);
            let is_other = content.is_empty() && output.is_array();
            if is_other { output.to_string().into() } else { content }
        }
        output => output.to_string().into(),
    }
}

/// The error of a call: a text in older releases, and an object now. Some clients send back another one.
fn error_of(item: &Value) -> Option<String> {
    match &item["error"] {
        Value::Null => None,
        Value::String(error) => Some(error.clone()),
        error => match &error["content"] {
            content @ Value::Array(_) => Some(text_of(content)),
            _ => Some(error.to_string()),
        },
    }
}

/// The hashes after an answer with these items: one for clients that send all items back, one for
/// those that keep only the words.
pub(super) fn prefixes(before: PrefixHash, output: &[Value]) -> Vec<PrefixHash> {
    let words: Vec<Value> =
        output.iter().filter(|item| type_of(item) == "message").cloned().collect();
    let messages = [output, &words].map(|items| claimed(items, ImageReader::NAMING));
    messages.map(|said| said.iter().fold(before, PrefixHash::after)).to_vec()
}

/// The items without the data of their images. `OpenAI` does not list it either, unless it is asked
/// to, and the answers of a session would soon push each other out.
pub(super) fn without_images(items: &[Value]) -> Vec<Value> {
    items.iter().map(|item| edited(item, CONTENTS, without_images_in)).collect()
}

fn without_images_in(content: &Value) -> Value {
    let Value::Array(parts) = content else { return content.clone() };
    let has_data = |url: &Value| url.as_str().is_some_and(images::is_data);
    let without = |url: &Value| if has_data(url) { Value::Null } else { url.clone() };
    parts.iter().map(|part| edited(part, &["image_url"], without)).collect()
}

/// A copy with these members edited.
fn edited(value: &Value, keys: &[&str], edit: impl Fn(&Value) -> Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let members = members.iter().map(|(key, value)| {
        let value = if keys.contains(&&**key) { edit(value) } else { value.clone() };
        (key.clone(), value)
    });
    Value::Object(members.collect())
}

/// Items that have a status.
const CALLS: [&str; 4] =
    ["function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"];

/// The items with ids, types and whatever else clients insist on, as they can list them.
pub(super) fn listed(mut items: Vec<Value>, id: ResponseId) -> Vec<Value> {
    for (number, item) in items.iter_mut().enumerate() {
        let Value::Object(members) = item else { continue };
        members.entry("type").or_insert_with(|| "message".into());
        if let Some(Value::String(text)) = members.get("content") {
            let part = match members.get("role").and_then(Value::as_str) {
                Some("assistant") => "output_text",
                _ => "input_text",
            };
            members["content"] = json!([{ "type": part, "text": text }]);
        }
        let has_id = members.get("id").is_some_and(Value::is_string);
        if !has_id {
            members.insert("id".to_owned(), id.item("in", number).into());
        }
        let is_assistants = members.get("role").is_some_and(|role| role == "assistant");
        let is_call = members["type"].as_str().is_some_and(|kind| CALLS.contains(&kind));
        if is_assistants || is_call {
            members.entry("status").or_insert_with(|| "completed".into());
        }
        let parts = members.get_mut("content").and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten().filter(|part| part["type"] == "output_text") {
            if part["annotations"].is_null() {
                part["annotations"] = json!([]);
            }
        }
    }
    items.retain(Value::is_object);
    items
}
