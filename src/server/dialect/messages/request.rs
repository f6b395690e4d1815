//! Reads a request. What a client of Anthropic may send and a local model has no use for is skipped;
//! what would change the answer and cannot be done is refused.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Counting;
use super::collector::MessageCollector;
use super::encoder::{MessageEncoder, Shown};
use super::history::{self, RawMessage};
use super::server_tools::MessagesServerTools;
use super::tools;
use crate::conversation::claimed::{Adopted, ClaimedMessage, Repairs, adopt_named};
use crate::conversation::trim;
use crate::gateway::{ClientHistory, NewTurn};
use crate::limits::config::TEMPERATURE_MAX;
use crate::limits::server::{STOP_STRING_CHARS_MAX, STOP_STRINGS_MAX};
use crate::limits::turn::{IMAGE_TOKENS, IMAGES_MAX};
use crate::server::dialect::models::{ChosenModel, Models};
use crate::server::dialect::sampling::{self, NAMES, Names};
use crate::server::dialect::tool_choice::{self, ChosenTools};
use crate::server::dialect::{
    AnswerMeta, ClientRequest, Form, ParsedRequest, json, response_format,
};
use crate::server::refusal::Refusal;
use crate::upstream::Sampling;

/// The body as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "MessagesRequest")]
pub(super) struct Raw<'b> {
    model: Option<String>,
    #[schemars(with = "u32", range(min = 1))]
    max_tokens: Option<u32>,
    #[serde(borrow)]
    messages: Option<Vec<RawMessage<'b>>>,
    #[serde(borrow, default)]
    system: json::Borrowed<'b>,
    stream: Option<bool>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    #[schemars(range(min = 0.0, max = TEMPERATURE_MAX))]
    temperature: Option<f64>,
    #[schemars(range(min = 0.0, max = 1.0))]
    top_p: Option<f64>,
    top_k: Option<u32>,
    #[schemars(length(max = STOP_STRINGS_MAX), inner(length(max = STOP_STRING_CHARS_MAX)))]
    stop_sequences: Option<Vec<String>>,
    #[serde(default)]
    thinking: Value,
    /// The form of the answer is its `format`.
    #[serde(default)]
    output_config: Value,
    /// Where older clients have the form.
    output_format: Option<Value>,
}

pub(super) fn read(
    request: &ClientRequest<'_>,
    server_tools: MessagesServerTools,
) -> Result<ParsedRequest, Refusal> {
    let body = json::Body::new(request.body)?;
    let raw: Raw<'_> = body.read()?;
    if raw.max_tokens.is_none_or(|max| max == 0) {
        return Err(Refusal::invalid(
            "max_tokens",
            "max_tokens is required and must be at least 1",
        ));
    }
    let meta = AnswerMeta { model: model_of(&raw)?, now_sec: request.now_sec };
    let shown = Shown { server_tools, reasoning: wants_reasoning(&raw.thinking) };
    let form = if raw.stream == Some(true) {
        Form::Stream(Box::new(MessageEncoder::new(meta, shown)))
    } else {
        Form::Whole(Box::new(MessageCollector::new(meta, shown)))
    };
    let (turn, repairs, _) = turn(raw, request, server_tools)?;
    Ok(ParsedRequest { turn, form, repairs })
}

pub(super) fn read_to_count(
    request: &ClientRequest<'_>,
    server_tools: MessagesServerTools,
) -> Result<Counting, Refusal> {
    let (turn, _, message_tokens) =
        turn(json::Body::new(request.body)?.read()?, request, server_tools)?;
    Ok(Counting { turn, message_tokens })
}

/// The turn, what was wrong with its conversation, and about how many tokens that takes.
fn turn(
    raw: Raw<'_>,
    request: &ClientRequest<'_>,
    server_tools: MessagesServerTools,
) -> Result<(NewTurn, Repairs, usize), Refusal> {
    let ChosenModel { upstream, tools: offered, .. } = model(&model_of(&raw)?, request.models)?;
    let sampling = sampling(&raw)?;
    let format = raw.output_config.get("format").filter(|format| !format.is_null()).cloned();
    let response_format =
        response_format::read(format.or(raw.output_format), "output_config.format")?;
    let (choice, is_single) = tools::choice(raw.tool_choice.as_ref())?;
    let is_off = server_tools == MessagesServerTools::Off;
    let offered = if is_off { Some(Vec::new()) } else { offered };
    let ChosenTools { client_tools, server_tools, choice } = tool_choice::choose(
        Some(&choice),
        &tools::read(raw.tools.as_deref().unwrap_or_default())?,
        offered.as_deref(),
    )?;
    let mut said: Vec<_> =
        history::system(&raw.system.0).map(ClaimedMessage::System).into_iter().collect();
    for message in raw.messages.unwrap_or_default() {
        message.claim(request.images, &mut said);
    }
    let images: usize = said.iter().map(images).sum();
    let message_tokens =
        said.iter().map(tokens).sum::<usize>() + images.min(IMAGES_MAX) * IMAGE_TOKENS;
    let conversation = request.conversation;
    let Adopted { system, history, input, prefix, images, repairs, .. } =
        adopt_named(said, request.owner, request.lookup, conversation)
            .map_err(|_| Refusal::invalid("messages", "messages must have at least one message"))?;
    let turn = NewTurn {
        input,
        model: upstream,
        tools: server_tools,
        client_tools,
        single_client_call: is_single,
        nobody_approves: true,
        words_only: true,
        tool_choice: choice,
        response_format,
        sampling,
        conversation: conversation.map(str::to_owned),
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
    Ok((turn, repairs, message_tokens))
}

fn model_of(raw: &Raw<'_>) -> Result<String, Refusal> {
    raw.model.clone().ok_or_else(|| {
        Refusal::invalid("model", "model is required; GET /v1/models lists the names")
    })
}

/// What the name means. Programs that know only Anthropic's models get the default one.
fn model(name: &str, known: &Models) -> Result<ChosenModel, Refusal> {
    match known.known(name) {
        None if name.starts_with("claude-") => Ok(Models::default_for(name)),
        _ => known.choose(name),
    }
}

/// As with Anthropic's models, only a client that asks for reasoning gets it: simple programs
/// take the first block for the answer.
fn wants_reasoning(thinking: &Value) -> bool {
    matches!(thinking["type"].as_str(), Some("enabled" | "adaptive"))
        && thinking["display"] != "omitted"
}

fn sampling(raw: &Raw<'_>) -> Result<Sampling, Refusal> {
    let sampling = Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        max_tokens: raw.max_tokens,
        stop: raw.stop_sequences.clone().unwrap_or_default(),
        extra: sampling::passed_on([("top_k", raw.top_k.map(Value::from))])?,
        ..Sampling::default()
    };
    sampling::check(&sampling, &Names { stop: "stop_sequences", ..NAMES })?;
    Ok(sampling)
}

/// About how many tokens the words and calls of a message take.
fn tokens(said: &ClaimedMessage) -> usize {
    match said {
        // Counted with the instructions.
        ClaimedMessage::System(_) => 0,
        ClaimedMessage::User(content)
        | ClaimedMessage::Aside(content)
        | ClaimedMessage::Result { output: content, .. } => trim::tokens(content.text()),
        ClaimedMessage::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| call.name.len() + call.arguments.len());
            trim::tokens_of_bytes(text.len() + calls.sum::<usize>())
        }
    }
}

/// How many images a message has.
const fn images(said: &ClaimedMessage) -> usize {
    match said {
        ClaimedMessage::User(content)
        | ClaimedMessage::Aside(content)
        | ClaimedMessage::Result { output: content, .. } => content.images(),
        ClaimedMessage::System(_) | ClaimedMessage::Assistant { .. } => 0,
    }
}
