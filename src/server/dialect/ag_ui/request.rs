//! Reads a run (`RunAgentInput`). Front ends add fields of their own to it, so unknown ones are
//! skipped.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::encoder::{Run, RunEncoder};
use super::history;
use super::resume::{self, ResumedRun};
use crate::conversation::claimed::{Adopted, adopt_named};
use crate::gateway::{ClientHistory, NewTurn};
use crate::server::dialect::models::{ChosenModel, Models};
use crate::server::dialect::tool_choice::{self, ChosenTools};
use crate::server::dialect::{ClientRequest, Form, ParsedRequest, client_tools, digest, json};
use crate::server::refusal::Refusal;

/// Where front ends put the choice of a tool: AG-UI itself has no field for it.
pub(super) const TOOL_CHOICE: &str = "forwardedProps.tether.tool_choice";

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

pub(super) fn read(request: &ClientRequest<'_>) -> Result<ParsedRequest, Refusal> {
    let raw: Raw = json::read(request.body)?;
    let present = |id: &String| !id.is_empty();
    let Some(thread_id) = raw.thread_id.filter(present) else {
        return Err(Refusal::invalid("threadId", "threadId must be a non-empty string"));
    };
    let Some(run_id) = raw.run_id.filter(present) else {
        return Err(Refusal::invalid("runId", "runId must be a non-empty string"));
    };
    let thread = digest::name("ag-ui", &thread_id);
    let messages = raw.messages.unwrap_or_default();
    let claimed = messages.iter().filter_map(|it| history::claimed(it, request.images)).collect();
    let adopted = adopt_named(claimed, request.owner, request.lookup, Some(&thread))
        .map_err(|_| Refusal::invalid("messages", "messages must have at least one message"))?;
    let open_calls = history::open_calls(&messages);
    let entries = resume::entries(&raw.resume)?;
    let answered = resume::read(entries, adopted, &open_calls, request.lookup)?;
    let ResumedRun { adopted, resumed } = answered;
    let idempotency_key = digest::answer(&adopted);
    let supersedes = !adopted.answers_for_good();
    let Adopted { system, history, input, prefix, images, repairs, .. } = adopted;
    let ChosenModel { upstream, tools, .. } = model(&raw.forwarded_props, request.models);
    let ChosenTools { client_tools, server_tools, choice } =
        chosen(&raw.forwarded_props, raw.tools.as_ref(), tools.as_deref())?;
    let turn = NewTurn {
        owner: request.owner.to_owned(),
        session_id: Some(thread.clone()),
        supersedes,
        input,
        aside: aside(&raw.context),
        model: upstream,
        tools: server_tools,
        client_tools,
        tool_choice: choice,
        client_history: Some(ClientHistory {
            history,
            follows: None,
            instructions: system,
            prefix,
            images,
            can_be_joined: false,
        }),
        conversation: Some(thread),
        idempotency_key,
        ..NewTurn::default()
    };
    let run = Run { thread_id, id: run_id, messages, open_calls, resumed };
    Ok(ParsedRequest { turn, form: Form::Stream(Box::new(RunEncoder::new(run))), repairs })
}

/// The model that the front end names, if there is one with this name: applications use the field
/// for other things, too.
fn model(forwarded: &Value, models: &Models) -> ChosenModel {
    let chosen = forwarded["model"].as_str().and_then(|name| models.known(name));
    chosen.unwrap_or_default()
}

/// The tools of the run.
fn chosen(
    forwarded: &Value,
    tools: Option<&Value>,
    server_tools: Option<&[String]>,
) -> Result<ChosenTools, Refusal> {
    let brought = client_tools::read(tools);
    let choice = &forwarded["tether"]["tool_choice"];
    tool_choice::choose(Some(choice), &brought, server_tools).map_err(|_| {
        let expected = "\"auto\", \"none\", \"required\" or {\"name\": \"TOOL\"}";
        Refusal::invalid(TOOL_CHOICE, format!("{TOOL_CHOICE} must be {expected}"))
    })
}

/// What the page says about itself. It is no more to be trusted than the user's own words.
fn aside(context: &Value) -> String {
    let mut aside = String::new();
    for entry in context.as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str();
        if let (Some(description), Some(value)) = (text("description"), text("value")) {
            aside.push_str("\n\n");
            aside.push_str(description);
            aside.push_str(":\n");
            aside.push_str(value);
        }
    }
    aside
}
