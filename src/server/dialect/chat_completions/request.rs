//! Reads a request. What a client of `OpenAI` may send and a local model has no use for is skipped;
//! what would change the answer and cannot be done is refused.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::collector::CompletionCollector;
use super::encoder::ChunkEncoder;
use super::history::RawMessage;
use crate::conversation::claimed::{Adopted, Repairs, adopt_named};
use crate::gateway::{ClientHistory, NewTurn};
use crate::limits::config::TEMPERATURE_MAX;
use crate::limits::server::{CONVERSATION_NAME_BYTES_MAX, STOP_STRING_CHARS_MAX, STOP_STRINGS_MAX};
use crate::server::dialect::models::ChosenModel;
use crate::server::dialect::object::Object;
use crate::server::dialect::sampling::{self, NAMES};
use crate::server::dialect::server_tools::ServerTools;
use crate::server::dialect::tool_choice::{self, ChosenTools};
use crate::server::dialect::{
    AnswerMeta, ClientRequest, Form, ParsedRequest, client_tools, json, response_format,
};
use crate::server::refusal::Refusal;
use crate::tools::client::ClientTools;
use crate::upstream::Sampling;

/// The body as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ChatCompletionRequest")]
pub(super) struct Raw<'b> {
    model: Option<String>,
    #[serde(borrow)]
    messages: Option<Vec<RawMessage<'b>>>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<Object<StreamOptions>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    #[schemars(range(min = 0.0, max = TEMPERATURE_MAX))]
    temperature: Option<f64>,
    #[schemars(range(min = 0.0, max = 1.0))]
    top_p: Option<f64>,
    /// -1 is no limit, for LM Studio's clients.
    #[schemars(range(min = -1, max = u32::MAX), extend("not" = {"const": 0}))]
    max_tokens: Option<i64>,
    #[schemars(range(min = -1, max = u32::MAX), extend("not" = {"const": 0}))]
    max_completion_tokens: Option<i64>,
    seed: Option<i64>,
    stop: Option<Stop>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    repeat_penalty: Option<f64>,
    min_p: Option<f64>,
    top_k: Option<i64>,
    logit_bias: Option<Map<String, Value>>,
    reasoning_effort: Option<String>,
    chat_template_kwargs: Option<Map<String, Value>>,
    #[schemars(range(equal = 1))]
    n: Option<u32>,
    logprobs: Option<bool>,
    #[schemars(range(max = 0))]
    top_logprobs: Option<u32>,
    functions: Option<Value>,
    function_call: Option<Value>,
    response_format: Option<Value>,
    modalities: Option<Vec<String>>,
    audio: Option<Value>,
    tether: Option<Object<Tether>>,
}

/// The strings at which the answer ends.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Stop {
    One(#[schemars(length(max = STOP_STRING_CHARS_MAX))] String),
    Several(
        #[schemars(length(max = STOP_STRINGS_MAX), inner(length(max = STOP_STRING_CHARS_MAX)))]
        Vec<String>,
    ),
}

/// What only this gateway knows.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tether {
    /// Those of our tools that may be offered.
    tools: Option<Vec<String>>,
    /// The name of the conversation.
    session_id: Option<String>,
    server_tools: Option<ServerTools>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
struct StreamOptions {
    include_usage: Option<bool>,
}

pub(super) fn read(
    request: &ClientRequest<'_>,
    shown: ServerTools,
) -> Result<ParsedRequest, Refusal> {
    let body = json::Body::new(request.body)?;
    let mut raw: Raw<'_> = body.read()?;
    check(&raw)?;
    let Object(tether) = raw.tether.take().unwrap_or_default();
    let model = raw.model.clone().ok_or_else(|| {
        Refusal::invalid("model", "model is required; GET /v1/models lists the names")
    })?;
    let chosen = request.models.choose(&model)?;
    let shown = tether.server_tools.or(chosen.server_tools).unwrap_or(shown);
    let wants_usage =
        raw.stream_options.as_ref().is_some_and(|Object(it)| it.include_usage == Some(true));
    let meta = AnswerMeta { model, now_sec: request.now_sec };
    let form = if raw.stream == Some(true) {
        Form::Stream(Box::new(ChunkEncoder::new(meta, wants_usage, shown)))
    } else {
        Form::Whole(Box::new(CompletionCollector::new(meta, shown)))
    };
    let (turn, repairs) = turn(raw, tether, chosen, request)?;
    Ok(ParsedRequest { turn, form, repairs })
}

fn turn(
    raw: Raw<'_>,
    tether: Tether,
    ChosenModel { upstream, tools, .. }: ChosenModel,
    request: &ClientRequest<'_>,
) -> Result<(NewTurn, Repairs), Refusal> {
    let conversation = conversation(tether.session_id, request)?;
    let sampling = sampling(&raw)?;
    let response_format = response_format::read(raw.response_format, "response_format")?;
    let tools = tool_choice::both(tether.tools, tools);
    let brought = client_tools(raw.tools.as_deref().unwrap_or_default())?;
    let ChosenTools { client_tools, server_tools, choice } =
        tool_choice::choose(raw.tool_choice.as_ref(), &brought, tools.as_deref())?;
    let messages = raw.messages.unwrap_or_default().into_iter();
    let messages = messages.map(|message: RawMessage<'_>| message.claimed(request.images));
    let Adopted { system, history, input, prefix, images, repairs, .. } =
        adopt_named(messages.collect(), request.owner, request.lookup, conversation.as_deref())
            .map_err(|_| Refusal::invalid("messages", "messages must have at least one message"))?;
    let turn = NewTurn {
        input,
        model: upstream,
        tools: server_tools,
        client_tools,
        single_client_call: raw.parallel_tool_calls == Some(false),
        nobody_approves: true,
        words_only: true,
        tool_choice: choice,
        response_format,
        sampling,
        conversation,
        client_history: Some(ClientHistory {
            history,
            follows: None,
            instructions: system,
            prefix,
            images,
            can_be_joined: false,
        }),
        ..NewTurn::default()
    };
    Ok((turn, repairs))
}

/// The name of the conversation: the request's own, or that of a header.
fn conversation(
    own: Option<String>,
    request: &ClientRequest<'_>,
) -> Result<Option<String>, Refusal> {
    let Some(name) = own else { return Ok(request.conversation.map(str::to_owned)) };
    if (1..=CONVERSATION_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(Some(name));
    }
    let most = CONVERSATION_NAME_BYTES_MAX;
    let message = format!("tether.session_id must be 1 to {most} bytes long");
    Err(Refusal::invalid("tether.session_id", message))
}

fn check(raw: &Raw<'_>) -> Result<(), Refusal> {
    let refuse = |param: &'static str, message: &str| Err(Refusal::invalid(param, message));
    if raw.n.is_some_and(|n| n != 1) {
        return refuse("n", "n must be 1: a request gets one answer");
    }
    if raw.logprobs == Some(true) {
        return refuse("logprobs", "log probabilities are not supported; leave logprobs out");
    }
    if raw.top_logprobs.is_some_and(|top| top > 0) {
        return refuse(
            "top_logprobs",
            "log probabilities are not supported; leave top_logprobs out",
        );
    }
    if raw.functions.is_some() {
        return refuse("functions", "functions are not supported; send tools instead");
    }
    if raw.function_call.is_some() {
        return refuse("function_call", "function_call is not supported; send tool_choice instead");
    }
    if raw.audio.is_some() {
        return refuse("audio", "audio is not supported; leave it out");
    }
    if raw.modalities.iter().flatten().any(|it| it != "text") {
        return refuse("modalities", "modalities must be [\"text\"]: every answer is text");
    }
    Ok(())
}

fn sampling(raw: &Raw<'_>) -> Result<Sampling, Refusal> {
    let stop = match &raw.stop {
        None => Vec::new(),
        Some(Stop::One(one)) => vec![one.clone()],
        Some(Stop::Several(several)) => several.clone(),
    };
    let sampling = Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        max_tokens: match raw.max_completion_tokens {
            Some(most) => max_tokens("max_completion_tokens", most)?,
            None => raw.max_tokens.map_or(Ok(None), |most| max_tokens("max_tokens", most))?,
        },
        seed: raw.seed,
        stop,
        extra: sampling::passed_on([
            ("frequency_penalty", raw.frequency_penalty.map(Value::from)),
            ("presence_penalty", raw.presence_penalty.map(Value::from)),
            ("repeat_penalty", raw.repeat_penalty.map(Value::from)),
            ("min_p", raw.min_p.map(Value::from)),
            ("top_k", raw.top_k.map(Value::from)),
            ("logit_bias", raw.logit_bias.clone().map(Value::from)),
            ("reasoning_effort", raw.reasoning_effort.clone().map(Value::from)),
            ("chat_template_kwargs", raw.chat_template_kwargs.clone().map(Value::from)),
        ])?,
    };
    sampling::check(&sampling, &NAMES)?;
    Ok(sampling)
}

/// The most tokens of a round; `None` if there is no limit.
fn max_tokens(name: &'static str, most: i64) -> Result<Option<u32>, Refusal> {
    match u32::try_from(most) {
        _ if most == -1 => Ok(None),
        Ok(most) if most > 0 => Ok(Some(most)),
        _ => {
            let most = u32::MAX;
            Err(Refusal::invalid(
                name,
                format!("{name} must be from 1 to {most}, or -1 for no limit"),
            ))
        }
    }
}

/// The tools that are functions. Those that only another service could run are skipped, because
/// some clients always send them.
fn client_tools(tools: &[Value]) -> Result<ClientTools, Refusal> {
    let is_function = |tool: &&Value| tool["type"].as_str().is_none_or(|kind| kind == "function");
    let (functions, others): (Vec<_>, Vec<_>) = tools.iter().partition(is_function);
    let name = |tool: &Value| tool["custom"]["name"].as_str().map(str::to_owned);
    let names = others.into_iter().filter_map(name);
    // Some programs leave out what is around a function.
    let functions = functions.into_iter().map(|tool| tool.get("function").unwrap_or(tool));
    client_tools::of(functions, names)
}
