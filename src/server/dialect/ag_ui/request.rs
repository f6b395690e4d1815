//! Reads a run (`RunAgentInput`). Front ends add fields of their own to it, so unknown ones are
//! skipped.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::events::{Events, Run};
use super::messages;
use super::resume::{self, Answered, RawEntry};
use crate::conversation::Ask;
use crate::conversation::claimed::{Adopted, adopt};
use crate::gateway::{Brought, NewTurn};
use crate::server::dialect::models::{ChosenModel, Models};
use crate::server::dialect::{Asked, Asking, Form, client_tools, digest, json};
use crate::server::refusal::Refusal;

/// The body as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AgUiRunRequest")]
pub(super) struct Raw {
    #[serde(rename = "threadId")]
    thread_id: Option<String>,
    #[serde(rename = "runId")]
    run_id: Option<String>,
    messages: Option<Vec<Value>>,
    tools: Option<Value>,
    #[serde(default)]
    context: Value,
    #[serde(default, rename = "forwardedProps")]
    forwarded_props: Value,
    #[serde(default)]
    resume: Value,
}

pub(super) fn read(asked: &Asked<'_>) -> Result<Asking, Refusal> {
    let raw: Raw = json::read(asked.body)?;
    let Some(thread_id) = raw.thread_id else {
        return Err(Refusal::invalid("threadId", "threadId is required (a string)"));
    };
    let Some(run_id) = raw.run_id else {
        return Err(Refusal::invalid("runId", "runId is required (a string)"));
    };
    let messages = raw.messages.unwrap_or_default();
    let claimed = messages.iter().filter_map(|it| messages::claimed(it, asked.images)).collect();
    let adopted = adopt(claimed, asked.owner, asked.hidden)
        .map_err(|_| Refusal::invalid("messages", "messages is required: at least one"))?;
    let open_calls = messages::open_calls(&messages);
    let answered = resume::read(entries(raw.resume)?, adopted, &open_calls, asked.hidden)?;
    let Answered { adopted, resumed, clarification_id } = answered;
    let Adopted { system, history, ask, past, images, repairs } = adopted;
    let ChosenModel { upstream, tools, .. } = model(&raw.forwarded_props, asked.models);
    let is_asked = !history.open_questions().is_empty();
    let turn = NewTurn {
        owner: asked.owner.to_owned(),
        session_id: Some(digest::name("ag-ui", &thread_id)),
        supersedes: true,
        ask: if is_asked { ask } else { with_context(ask, &raw.context) },
        model: upstream,
        tools,
        client_tools: client_tools::read(raw.tools.as_ref()),
        brought: Some(Brought {
            history,
            instructions: system,
            past,
            images,
            can_be_joined: false,
        }),
        idempotency_key: clarification_id.map(|id| digest::name("answer", &id)),
        ..NewTurn::default()
    };
    let run = Run { thread_id, id: run_id, messages, open_calls, resumed };
    Ok(Asking { turn, form: Form::Stream(Box::new(Events::new(run))), repairs })
}

fn entries(resume: Value) -> Result<Vec<RawEntry>, Refusal> {
    let entries: Option<Vec<RawEntry>> = serde_json::from_value(resume)
        .map_err(|error| Refusal::invalid(resume::PARAM, format!("resume: {error}")))?;
    Ok(entries.unwrap_or_default())
}

/// The model that the front end names, if there is one with this name: applications use the field
/// for other things, too.
fn model(forwarded: &Value, models: &Models) -> ChosenModel {
    let chosen = forwarded["model"].as_str().and_then(|name| models.known(name));
    chosen.unwrap_or_default()
}

/// What the user asks, with what the page says about itself. It is no more to be trusted than the
/// user's own words.
fn with_context(ask: Ask, context: &Value) -> Ask {
    let Ask::Words(mut words) = ask else { return ask };
    for entry in context.as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str();
        if let (Some(description), Some(value)) = (text("description"), text("value")) {
            words.push_str("\n\n");
            words.push_str(description);
            words.push_str(":\n");
            words.push_str(value);
        }
    }
    Ask::Words(words)
}
