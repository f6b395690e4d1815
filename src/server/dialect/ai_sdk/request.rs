//! Reads a request. Applications add fields of their own to it, so unknown ones are skipped.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::messages::RawMessage;
use super::parts::{Message, Parts};
use crate::conversation::claimed::{Adopted, adopt_named};
use crate::gateway::{Brought, NewTurn};
use crate::limits::server::MESSAGE_ID_BYTES_MAX;
use crate::server::dialect::models::ChosenModel;
use crate::server::dialect::native::request::ClarificationResponse;
use crate::server::dialect::object::Object;
use crate::server::dialect::{Asked, Asking, Form, client_tools, digest, instructions, json};
use crate::server::refusal::Refusal;
use crate::upstream::ToolChoice;

/// The body as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AiSdkChatRequest")]
pub(super) struct Raw {
    /// The chat.
    #[serde(default)]
    id: Value,
    messages: Option<Vec<RawMessage>>,
    #[serde(default)]
    model: Value,
    /// The application's instructions.
    #[serde(default)]
    system: Value,
    tools: Option<Value>,
    #[serde(default, rename = "toolChoice")]
    tool_choice: Value,
    clarification_response: Option<Object<ClarificationResponse>>,
}

/// The session of a chat.
pub(in crate::server) fn session_id(chat_id: &str) -> String {
    digest::name("ai-sdk", chat_id)
}

pub(super) fn read(asked: &Asked<'_>) -> Result<Asking, Refusal> {
    let raw: Raw = json::read(asked.body)?;
    let messages = raw.messages.unwrap_or_default();
    let mut claimed = Vec::new();
    for message in &messages {
        message.claim(asked.images, &mut claimed);
    }
    let chat = raw.id.as_str().filter(|id| !id.is_empty()).map(session_id);
    let conversation = chat.clone().or_else(|| asked.conversation.map(str::to_owned));
    let adopted = adopt_named(claimed, asked.owner, asked.hidden, conversation.as_deref())
        .map_err(|_| Refusal::invalid("messages", "messages must have at least one message"))?;
    let (adopted, idempotency_key) = match raw.clarification_response {
        None => (adopted, None),
        Some(Object(response)) => {
            let (clarification_id, choice) = response.read()?;
            let key = digest::name("answer", &clarification_id);
            (adopted.answering(clarification_id, choice, asked.hidden), Some(key))
        }
    };
    let Adopted { system, history, ask, past, images, repairs } = adopted;
    let first = raw.system.as_str().filter(|text| !text.trim().is_empty());
    let is_none = raw.tool_choice == "none";
    let ChosenModel { upstream, tools: ours, .. } = match raw.model.as_str() {
        Some(name) => asked.models.choose(name)?,
        None => ChosenModel::default(),
    };
    let tools = raw.tools.as_ref().filter(|_| !is_none);
    let turn = NewTurn {
        owner: asked.owner.to_owned(),
        supersedes: true,
        ask,
        model: upstream,
        tools: if is_none { Some(Vec::new()) } else { ours },
        client_tools: client_tools::read(tools),
        tool_choice: choice(&raw.tool_choice),
        brought: Some(Brought {
            history,
            instructions: instructions::join(first, system),
            past,
            images,
            can_be_joined: chat.is_some(),
        }),
        session_id: chat,
        conversation,
        idempotency_key,
        ..NewTurn::default()
    };
    let form = Form::Stream(Box::new(Parts::new(continued(&messages))));
    Ok(Asking { turn, form, repairs })
}

/// The message that the answer belongs to, if the client's list ends with one of the assistant: the
/// client then adds to it.
fn continued(messages: &[RawMessage]) -> Option<Message> {
    let last = messages.last().filter(|last| last.is_assistants())?;
    let id = last.id().filter(|id| id.len() <= MESSAGE_ID_BYTES_MAX);
    Some(Message { id: id.map(str::to_owned) })
}

/// `toolChoice` as in `streamText`.
fn choice(choice: &Value) -> ToolChoice {
    match (choice.as_str(), choice["toolName"].as_str()) {
        (Some("required"), _) => ToolChoice::Required,
        (_, Some(name)) => ToolChoice::Named(name.to_owned()),
        _ => ToolChoice::Auto,
    }
}
