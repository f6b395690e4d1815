//! Parses and checks the bodies of Tether's own requests.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::conversation::{Choice, ClientInput, ClientResult};
use crate::gateway::NewTurn;
use crate::limits;
use crate::server::dialect::json;
use crate::server::dialect::object::Object;
use crate::server::dialect::sampling::{self, Names};
use crate::server::refusal::Refusal;
use crate::session;
use crate::tools::client::ClientTools;
use crate::tools::{Confirm, ToolResult};
use crate::upstream::{Sampling, ToolChoice};

/// The body of `POST /api/v1/chat/stream` as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TurnRequest")]
struct Raw {
    #[schemars(regex(pattern = SESSION_ID))]
    session_id: Option<String>,
    prompt: Option<String>,
    clarification_response: Option<Object<ClarificationResponse>>,
    tool_results: Option<Vec<Object<RawResult>>>,
    model: Option<String>,
    tools: Option<Vec<String>>,
    client_tools: Option<Vec<Object<RawClientTool>>>,
    parallel_client_calls: Option<bool>,
    tool_choice: Option<Value>,
    confirm: Option<String>,
    #[schemars(range(min = 1))]
    max_tool_loops: Option<u32>,
    sampling: Option<Object<Sampling>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientTool")]
struct RawClientTool {
    name: String,
    #[serde(default)]
    description: String,
    parameters: Option<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClientToolResult")]
struct RawResult {
    call_id: String,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<String>,
}

/// Reads a value that is present, even if it is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// An answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::server::dialect) struct ClarificationResponse {
    clarification_id: String,
    selected_option: Option<Object<SelectedOption>>,
    text: Option<String>,
    content: Option<Map<String, Value>>,
    action: Option<Action>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Decline,
    Cancel,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SelectedOption {
    id: String,
}

/// The schema of the body that begins a turn.
pub(in crate::server) fn turn_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Raw>()
}

/// The schema of the body that cancels one.
pub(in crate::server) fn cancel_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<RawCancel>()
}

/// Reads a request to begin a turn.
pub(in crate::server) fn parse(
    body: &[u8],
    idempotency_key: Option<String>,
) -> Result<NewTurn, Refusal> {
    let raw: Raw = json::read_strictly(body)?;
    if let Some(id) = &raw.session_id {
        check_session_id(id)?;
    }
    let input = read_input(raw.prompt, raw.clarification_response, raw.tool_results)?;
    if raw.session_id.is_none() && !matches!(input, ClientInput::Prompt(_)) {
        return Err(Refusal::invalid(
            "session_id",
            "session_id is required with clarification_response and tool_results; send the id of \
             the session that asked, or that handed out the calls",
        ));
    }
    if raw.max_tool_loops == Some(0) {
        return Err(Refusal::invalid(
            "max_tool_loops",
            "max_tool_loops must be at least 1; for a turn without tools, send \"tools\": []",
        ));
    }
    let (tools, tool_choice) = read_choice(raw.tool_choice.as_ref(), raw.tools)?;
    let is_none = raw.tool_choice.as_ref().is_some_and(|choice| choice == "none");
    let client_tools = raw.client_tools.filter(|_| !is_none);
    let client_tools = read_client_tools(client_tools)?;
    let confirm = raw.confirm.as_deref().map(read_confirm).transpose()?;
    let Object(sampling) = raw.sampling.unwrap_or_default();
    sampling::check(&sampling, &SAMPLING)?;
    if let Some(key) = &idempotency_key
        && (key.is_empty() || key.len() > limits::session::IDEMPOTENCY_KEY_BYTES_MAX)
    {
        let bytes_max = limits::session::IDEMPOTENCY_KEY_BYTES_MAX;
        return Err(Refusal::invalid(
            "Idempotency-Key",
            format!("Idempotency-Key must be 1 to {bytes_max} bytes long"),
        ));
    }
    Ok(NewTurn {
        session_id: raw.session_id,
        input,
        model: raw.model,
        tools,
        client_tools,
        single_client_call: raw.parallel_client_calls == Some(false),
        tool_choice,
        confirm,
        max_tool_loops: raw.max_tool_loops,
        sampling,
        idempotency_key,
        ..NewTurn::default()
    })
}

/// What opens the turn.
fn read_input(
    prompt: Option<String>,
    answer: Option<Object<ClarificationResponse>>,
    results: Option<Vec<Object<RawResult>>>,
) -> Result<ClientInput, Refusal> {
    match (prompt, answer, results) {
        (Some(prompt), None, None) => read_prompt(prompt),
        (None, Some(Object(response)), None) => {
            let (clarification_id, choice) = response.read()?;
            Ok(ClientInput::Answer { clarification_id, choice, beside: None })
        }
        (None, None, Some(results)) => read_results(results),
        (None, None, None) => Err(Refusal::invalid(
            "prompt",
            "send prompt (a string), clarification_response to answer a question, or tool_results \
             to return the results of client tools",
        )),
        _ => Err(Refusal::invalid(
            "prompt",
            "send only one of prompt, clarification_response and tool_results; a prompt drops the \
             question or continues without the results",
        )),
    }
}

fn read_results(results: Vec<Object<RawResult>>) -> Result<ClientInput, Refusal> {
    let read = |Object(RawResult { call_id, result, error })| {
        let result = match (result, error) {
            (Some(data), None) => ToolResult::data(data),
            (None, Some(error)) => ToolResult::error(error),
            _ => {
                return Err(Refusal::invalid(
                    "tool_results",
                    "every entry of tool_results must have call_id and either result (any JSON) or \
                     error (a string)",
                ));
            }
        };
        let result = result.checked().capped(limits::tools::OUTPUT_BYTES_MAX);
        Ok(ClientResult { call_id, result })
    };
    results.into_iter().map(read).collect::<Result<_, _>>().map(ClientInput::Results)
}

fn read_client_tools(tools: Option<Vec<Object<RawClientTool>>>) -> Result<ClientTools, Refusal> {
    let mut read = ClientTools::default();
    for Object(RawClientTool { name, description, parameters }) in tools.unwrap_or_default() {
        read.add(name, &description, parameters)
            .map_err(|error| Refusal::invalid("client_tools", error.to_string()))?;
    }
    Ok(read)
}

/// The tools of the turn, and whether one must be called. With `none` the turn has no tools at
/// all: a small model calls any tool that it is shown.
fn read_choice(
    choice: Option<&Value>,
    tools: Option<Vec<String>>,
) -> Result<(Option<Vec<String>>, ToolChoice), Refusal> {
    let Some(choice) = choice else { return Ok((tools, ToolChoice::Auto)) };
    match choice.as_str() {
        Some("auto") => return Ok((tools, ToolChoice::Auto)),
        Some("none") => return Ok((Some(Vec::new()), ToolChoice::Auto)),
        Some("required") => return Ok((tools, ToolChoice::Required)),
        _ => {}
    }
    match choice["name"].as_str() {
        Some(name) if choice.as_object().is_some_and(|fields| fields.len() == 1) => {
            Ok((tools, ToolChoice::Named(name.to_owned())))
        }
        _ => Err(Refusal::invalid(
            "tool_choice",
            "tool_choice must be \"auto\", \"none\", \"required\" or {\"name\": \"TOOL\"}",
        )),
    }
}

fn read_confirm(name: &str) -> Result<Confirm, Refusal> {
    let found = Confirm::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, confirm)| confirm).ok_or_else(|| {
        let known = Confirm::ALL.map(|(name, _)| format!("{name:?}"));
        Refusal::invalid("confirm", format!("confirm must be one of {}", known.join(", ")))
    })
}

fn read_prompt(prompt: String) -> Result<ClientInput, Refusal> {
    if prompt.trim().is_empty() {
        return Err(Refusal::invalid("prompt", "prompt is empty; send the user's message"));
    }
    Ok(ClientInput::Prompt(prompt))
}

impl ClarificationResponse {
    /// The question's id, and the answer.
    pub(in crate::server::dialect) fn read(self) -> Result<(String, Choice), Refusal> {
        let Self { clarification_id, selected_option, text, content, action } = self;
        let choices = [
            selected_option.map(|Object(SelectedOption { id })| Choice::Option(id)),
            text.map(Choice::Text),
            content.map(|fields| Choice::Content(Value::Object(fields))),
            action.map(|action| match action {
                Action::Decline => Choice::Decline,
                Action::Cancel => Choice::Cancel,
            }),
        ];
        let mut choices = choices.into_iter().flatten();
        match (choices.next(), choices.next()) {
            (Some(choice), None) => Ok((clarification_id, choice)),
            _ => Err(Refusal::invalid(
                "clarification_response",
                "clarification_response must have exactly one of selected_option ({\"id\": \
                 \"...\"}), text, content (an object) or action (\"decline\" or \"cancel\")",
            )),
        }
    }
}

/// The body of `POST /api/v1/chat/cancel`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CancelRequest")]
struct RawCancel {
    #[schemars(regex(pattern = SESSION_ID))]
    session_id: Option<String>,
}

/// Reads a cancellation and returns the id of its session.
pub(in crate::server) fn parse_cancel(body: &[u8]) -> Result<String, Refusal> {
    let RawCancel { session_id } = json::read_strictly(body)?;
    let Some(id) = session_id else {
        return Err(Refusal::invalid("session_id", "session_id is required (a string)"));
    };
    check_session_id(&id)?;
    Ok(id)
}

/// What session ids look like.
pub(in crate::server) const SESSION_ID: &str = "^[A-Za-z0-9._:-]{1,128}$";

/// Checks that `id` matches [`SESSION_ID`].
pub(in crate::server) fn check_session_id(id: &str) -> Result<(), Refusal> {
    if session::is_name(id) {
        return Ok(());
    }
    let bytes_max = limits::session::ID_BYTES_MAX;
    Err(Refusal::invalid(
        "session_id",
        format!("session_id must be 1 to {bytes_max} characters from A-Z a-z 0-9 . _ : -"),
    ))
}

const SAMPLING: Names = Names {
    temperature: "sampling.temperature",
    top_p: "sampling.top_p",
    max_tokens: "sampling.max_tokens",
    stop: "sampling.stop",
};
