//! Reads a request. Applications add fields of their own to it, so unknown ones are skipped.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::encoder::{Message, PartEncoder};
use super::history::RawMessage;
use crate::conversation::claimed::{Adopted, adopt_named};
use crate::gateway::{ClientHistory, NewTurn};
use crate::limits::server::MESSAGE_ID_BYTES_MAX;
use crate::server::dialect::models::ChosenModel;
use crate::server::dialect::native::request::ClarificationResponse;
use crate::server::dialect::object::Object;
use crate::server::dialect::{
    ClientRequest, Form, ParsedRequest, client_tools, digest, instructions, json,
};
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

pub(super) fn read(request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
    let raw: Raw = json::read(request.body)?;
    let messages = raw.messages.unwrap_or_default();
    let mut claimed = Vec::new();
    for message in &messages {
        message.claim(request.images, &mut claimed);
    }
    let chat = raw.id.as_str().filter(|id| !id.is_empty()).map(session_id);
    let conversation = chat.clone().or_else(|| request.conversation.map(str::to_owned));
    let adopted = adopt_named(claimed, request.owner, request.lookup, conversation.as_deref())
        .map_err(|_| Refusal::invalid("messages", "messages must have at least one message"))?;
    let adopted = match raw.clarification_response {
        None => adopted,
        Some(Object(response)) => {
            let (clarification_id, choice) = response.read()?;
            adopted.answering(clarification_id, choice, request.lookup)
        }
    };
    let idempotency_key = digest::answer(&adopted);
    let supersedes = !adopted.answers_for_good();
    let Adopted { system, history, input, prefix, images, repairs, .. } = adopted;
    let first = raw.system.as_str().filter(|text| !text.trim().is_empty());
    let choice = choice(&raw.tool_choice)?;
    let ChosenModel { upstream, tools: offered, .. } = match raw.model.as_str() {
        Some(name) => request.models.choose(name)?,
        None => ChosenModel::default(),
    };
    let tools = raw.tools.as_ref().filter(|_| choice.is_some());
    let turn = NewTurn {
        owner: request.owner.to_owned(),
        supersedes,
        input,
        model: upstream,
        tools: if choice.is_some() { offered } else { Some(Vec::new()) },
        client_tools: client_tools::read(tools),
        tool_choice: choice.unwrap_or_default(),
        client_history: Some(ClientHistory {
            history,
            follows: None,
            instructions: instructions::join(first, system),
            prefix,
            images,
            can_be_joined: chat.is_some(),
        }),
        session_id: chat,
        conversation,
        idempotency_key,
        ..NewTurn::default()
    };
    let form = Form::Stream(Box::new(PartEncoder::new(continued(&messages))));
    Ok(ParsedRequest { turn, form, repairs })
}

/// The message that the answer belongs to, if the client's list ends with one of the assistant: the
/// client then adds to it.
fn continued(messages: &[RawMessage]) -> Option<Message> {
    let last = messages.last().filter(|last| last.is_assistants())?;
    let id = last.id().filter(|id| id.len() <= MESSAGE_ID_BYTES_MAX);
    Some(Message { id: id.map(str::to_owned) })
}

/// `toolChoice` as in `streamText`, or as it is sent to models, where each word is a `type`. `None` if no tool may be
/// called.
fn choice(choice: &Value) -> Result<Option<ToolChoice>, Refusal> {
    let word = choice.as_str().or_else(|| choice["type"].as_str());
    match (word, choice["toolName"].as_str()) {
        (None, None) if choice.is_null() => Ok(Some(ToolChoice::Auto)),
        (Some("none"), _) => Ok(None),
        (Some("auto"), _) => Ok(Some(ToolChoice::Auto)),
        (Some("required"), _) => Ok(Some(ToolChoice::Required)),
        (None | Some("tool"), Some(name)) => Ok(Some(ToolChoice::Named(name.to_owned()))),
        _ => Err(Refusal::invalid(
            "toolChoice",
            "toolChoice must be \"auto\", \"none\", \"required\" or {\"type\": \"tool\", \"toolName\": \"TOOL\"}",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_choice_of_tools_is_read_or_refused() {
        let named = ToolChoice::Named("open".to_owned());
        for (written, expected) in [
            (json!(null), Some(ToolChoice::Auto)),
            (json!("auto"), Some(ToolChoice::Auto)),
            (json!({"type": "auto"}), Some(ToolChoice::Auto)),
            (json!("required"), Some(ToolChoice::Required)),
            (json!({"type": "required"}), Some(ToolChoice::Required)),
            (json!({"type": "tool", "toolName": "open"}), Some(named)),
            (json!("none"), None),
            (json!({"type": "none"}), None),
        ] {
            assert_eq!(choice(&written).unwrap(), expected, "{written}");
        }
        for odd in [json!("bogus"), json!({"type": "tool"}), json!(7), json!({})] {
            let refused = choice(&odd).unwrap_err();
            assert!(matches!(refused, Refusal::Invalid { param: "toolChoice", .. }), "{odd}");
        }
    }
}
