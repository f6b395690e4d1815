//! The items of a request, as what the client claims was said.
//!
//! Items come back as we sent them, or as clients rewrite them. Messages and calls of one answer
//! that nothing separates are one message of the assistant, so that an answer is recognised however
//! its items are cut.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::id::{ItemId, ResponseId};
use crate::conversation::claimed::{ClaimedCall, ClaimedMessage, Past};
use crate::server::dialect::call_id;
use crate::server::dialect::content::text_of;

/// Stands in for a prompt without words: programs send one to see whether a model is there.
const NO_WORDS: &str = "(The user has sent no words.)";

/// An answer to a request for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Approval {
    /// The question's id in its session.
    pub(super) clarification_id: String,
    pub(super) approves: bool,
    pub(super) reason: Option<String>,
}

/// The items of a request. A text is one message of the user.
pub(super) fn items(input: Option<Value>) -> Vec<Value> {
    match input {
        Some(Value::Array(items)) => items,
        Some(Value::String(text)) => vec![user_message(&text)],
        _ => Vec::new(),
    }
}

fn user_message(text: &str) -> Value {
    json!({
        "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
    })
}

/// The messages of a list that says nothing.
pub(super) fn no_words() -> Vec<ClaimedMessage> {
    vec![ClaimedMessage::User(NO_WORDS.to_owned())]
}

fn type_of(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

/// The ids of other items that a list refers to.
pub(super) fn references(items: &[Value]) -> impl Iterator<Item = &str> {
    let references = items.iter().filter(|item| type_of(item) == "item_reference");
    references.filter_map(|item| item["id"].as_str())
}

/// Puts items in place of references. Those that are not found stay, and say nothing.
pub(super) fn resolve(items: Vec<Value>, known: &HashMap<String, Value>) -> Vec<Value> {
    let resolved = items.into_iter().map(|item| {
        let is_reference = type_of(&item) == "item_reference";
        let found = item["id"].as_str().filter(|_| is_reference).and_then(|id| known.get(id));
        found.cloned().unwrap_or(item)
    });
    resolved.collect()
}

/// The answer to a request for approval that a list ends with.
pub(super) fn approval(items: &[Value]) -> Option<Approval> {
    let item = items.last().filter(|item| type_of(item) == "mcp_approval_response")?;
    let id = ItemId::parse(item["approval_request_id"].as_str()?)?;
    Some(Approval {
        clarification_id: format!("{}.{}", id.response.turn_id(), id.number),
        approves: item["approve"] == true,
        reason: item["reason"].as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned),
    })
}

/// Takes what the client's calls of this turn returned out of a list, by our ids. The first result
/// of a call counts.
pub(super) fn take_results(items: &mut Vec<Value>, turn_id: &str) -> HashMap<String, String> {
    let mut results = HashMap::new();
    items.retain(|item| {
        let is_output = matches!(type_of(item), "function_call_output" | "custom_tool_call_output");
        let inside = item["call_id"].as_str().filter(|_| is_output).and_then(call_id::inside);
        let Some((_, call)) = inside.filter(|(turn, _)| turn == turn_id) else { return true };
        results.entry(call).or_insert_with(|| text_of(&item["output"]));
        false
    });
    results
}

/// What a list of items says.
pub(super) fn claimed(items: &[Value]) -> Vec<ClaimedMessage> {
    let mut reader = Reader::default();
    for item in items {
        reader.read(item);
    }
    reader.close();
    reader.messages
}

#[derive(Default)]
struct Reader {
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
            "function_call" => self.add_call(text("call_id"), text("name"), text("arguments")),
            "custom_tool_call" => {
                let arguments = json!({ "input": item["input"] }).to_string();
                self.add_call(text("call_id"), text("name"), arguments);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.close();
                self.messages.push(result(text("call_id"), text_of(&item["output"]), false));
            }
            "mcp_call" => {
                let id = text("id");
                let call_id = ItemId::parse(&id).map_or_else(|| id.clone(), outside);
                self.add_call(call_id.clone(), text("name"), text("arguments"));
                self.results.push(match error_of(item) {
                    Some(error) => result(call_id, error, true),
                    None => result(call_id, text("output"), false),
                });
            }
            "mcp_approval_request" => {
                self.add_text(format!("May I call {} with {}?", text("name"), text("arguments")));
            }
            "mcp_approval_response" => {
                let answer = if item["approve"] == true { "Yes." } else { "No." };
                let words = [answer, &*text("reason")].join(" ");
                self.push(ClaimedMessage::User(words.trim().to_owned()));
            }
            // Reasoning, lists of tools, and whatever other services have run.
            _ => {}
        }
    }

    fn read_message(&mut self, item: &Value) {
        let text = text_of(&item["content"]);
        match item["role"].as_str() {
            // It would teach the model to announce calls that it then does not make.
            Some("assistant") if item["phase"] == "commentary" => {}
            Some("assistant") => self.add_text(text),
            Some("system" | "developer") => self.push(ClaimedMessage::System(text)),
            _ => self.push(ClaimedMessage::User(text)),
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

fn result(call_id: String, output: String, is_error: bool) -> ClaimedMessage {
    ClaimedMessage::Result { call_id, output, is_error }
}

/// The id outside of the call behind one of our items.
fn outside(id: ItemId<'_>) -> String {
    call_id::outside(&id.response.turn_id(), &format!("call_{}", id.number))
}

/// The error of a call. Some clients send it back as an object.
fn error_of(item: &Value) -> Option<String> {
    match &item["error"] {
        Value::Null => None,
        Value::String(error) => Some(error.clone()),
        error => Some(error.to_string()),
    }
}

/// The pasts at whose end a client has seen an answer with these items: one for clients that send
/// all items back, one for those that keep the words alone.
pub(super) fn pasts(before: Past, output: &[Value]) -> Vec<Past> {
    let words: Vec<Value> =
        output.iter().filter(|item| type_of(item) == "message").cloned().collect();
    [output, &words].map(|items| then(before, &claimed(items))).to_vec()
}

fn then(past: Past, messages: &[ClaimedMessage]) -> Past {
    messages.iter().fold(past, |past, message| match message {
        ClaimedMessage::System(text) => past.then("system", text),
        ClaimedMessage::User(text) | ClaimedMessage::Aside(text) => past.then("user", text),
        ClaimedMessage::Assistant { text, .. } => past.then("assistant", text),
        ClaimedMessage::Result { output, .. } => past.then("tool", output),
    })
}

/// The items with ids and types, as a client can list them.
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
    }
    items.retain(Value::is_object);
    items
}
