//! Reads a request. What a client may send and a local model has no use for is skipped; what would
//! change the answer and cannot be done is refused.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::collector::ResponseCollector;
use super::encoder::ResponseEncoder;
use super::envelope::{AnswerOptions, Envelope, ResponseHead};
use super::history::Approval;
use super::id::{ItemId, ResponseId};
use super::receipt::Queued;
use super::server_items::{Labels, ServerItems};
use super::stored::ResponseSerializer;
use super::tools::RequestTools;
use super::{history, tools};
use crate::conversation::claimed::{
    Adopted, Claimant, ClaimedMessage, Repair, TurnLookup, adopt_after,
};
use crate::conversation::{Choice, ClientInput, Conversation};
use crate::gateway::{ClientHistory, NewTurn};
use crate::limits::config::TEMPERATURE_MAX;
use crate::limits::server::REFERENCES_MAX;
use crate::server::dialect::models::{ChosenModel, Models};
use crate::server::dialect::sampling::{self, NAMES, Names};
use crate::server::dialect::tool_choice::{self, ChosenTools};
use crate::server::dialect::{
    Form, ImageReader, ParsedRequest, instructions, json, response_format,
};
use crate::server::refusal::Refusal;
use crate::upstream::Sampling;

/// The body as it was written.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ResponseRequest")]
pub(super) struct Raw {
    model: Option<String>,
    input: Option<Value>,
    instructions: Option<String>,
    stream: Option<bool>,
    store: Option<bool>,
    background: Option<bool>,
    previous_response_id: Option<String>,
    conversation: Option<Value>,
    prompt: Option<Value>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    #[schemars(range(min = 1))]
    max_tool_calls: Option<u32>,
    #[schemars(range(min = 0.0, max = TEMPERATURE_MAX))]
    temperature: Option<f64>,
    #[schemars(range(min = 0.0, max = 1.0))]
    top_p: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    #[schemars(range(max = 0))]
    top_logprobs: Option<u32>,
    text: Option<Value>,
    reasoning: Option<Value>,
    metadata: Option<Value>,
    safety_identifier: Option<String>,
    prompt_cache_key: Option<String>,
}

/// A request, before what it refers to is known.
#[derive(Debug)]
pub(in crate::server) struct Request {
    raw: Raw,
    items: Vec<Value>,
    parent: Option<ResponseId>,
}

/// What a request refers to.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Referents {
    /// The previous response's.
    pub(in crate::server) parent: Option<Parent>,
    /// Items of earlier responses, by their ids.
    pub(in crate::server) items: HashMap<String, Value>,
    /// The length of these items as JSON.
    pub(in crate::server) items_bytes: usize,
    /// Whether there was no room for all of them.
    pub(in crate::server) lacks_items: bool,
}

/// The chain that a request continues.
#[derive(Debug, Clone)]
pub(in crate::server) struct Parent {
    /// Everything up to the previous response.
    pub(in crate::server) history: Conversation,
    /// The session, if the previous response is its latest turn. Otherwise the chain branches.
    pub(in crate::server) session_id: Option<String>,
    /// The instructions in the items of the chain.
    pub(super) system: Option<String>,
}

impl Parent {
    /// The chain that ends with a response, and that response's head.
    pub(in crate::server) fn new(
        history: Conversation,
        head: &RawValue,
        session_id: Option<String>,
    ) -> Self {
        Self { history, session_id, system: ResponseHead::read(head).system }
    }
}

/// What a turn needs to know besides its request.
pub(in crate::server) struct RequestContext<'a> {
    pub(in crate::server) owner: &'a str,
    pub(in crate::server) lookup: &'a dyn TurnLookup,
    pub(in crate::server) models: &'a Models,
    pub(in crate::server) labels: Labels,
    /// The configured sources that offer no tools now.
    pub(in crate::server) empty_sources: Vec<String>,
    pub(in crate::server) shown: ServerItems,
    /// The session that a new chain begins.
    pub(in crate::server) new_session_id: String,
    pub(in crate::server) clock: fn() -> u64,
    /// Reads the images in it.
    pub(in crate::server) images: ImageReader,
    /// Makes the ids of images: a secret, and new for each request.
    pub(in crate::server) image_seed: String,
    pub(in crate::server) idempotency_key: Option<String>,
    /// The name that a header gives to the conversation.
    pub(in crate::server) conversation: Option<String>,
}

impl fmt::Debug for RequestContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Request {
    /// Reads the body.
    pub(in crate::server) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let mut raw: Raw = json::read(body)?;
        check(&raw)?;
        let parent = match raw.previous_response_id.as_deref() {
            None => None,
            Some(id) => {
                Some(ResponseId::parse(id).ok_or_else(|| Refusal::ForeignParent(id.to_owned()))?)
            }
        };
        let is_input = match &raw.input {
            None | Some(Value::Null) => parent.is_some(),
            Some(input) => input.is_string() || input.is_array(),
        };
        if !is_input {
            return Err(Refusal::invalid("input", "input must be a string or a list of items"));
        }
        let items = history::items(raw.input.take());
        Ok(Self { raw, items, parent })
    }

    /// The response that it continues.
    pub(in crate::server) const fn parent(&self) -> Option<ResponseId> {
        self.parent
    }

    /// The previous response's id as it was written.
    pub(in crate::server) fn parent_id(&self) -> &str {
        self.raw.previous_response_id.as_deref().unwrap_or_default()
    }

    /// The responses whose items it refers to, with the ids of these items: the latest [`REFERENCES_MAX`], the latest
    /// first.
    pub(in crate::server) fn references(&self) -> Vec<(ResponseId, HashSet<String>)> {
        let mut found: Vec<(ResponseId, HashSet<String>)> = Vec::new();
        for id in history::references(&self.items).rev() {
            let Some(ItemId { response, .. }) = ItemId::parse(id) else { continue };
            let known = found.iter().position(|(known, _)| *known == response);
            match known {
                Some(at) => _ = found[at].1.insert(id.to_owned()),
                None if found.len() < REFERENCES_MAX => {
                    found.push((response, HashSet::from([id.to_owned()])));
                }
                None => {}
            }
        }
        found
    }

    /// The turn that it asks for.
    pub(in crate::server) fn parse(
        self,
        found: Referents,
        context: RequestContext<'_>,
    ) -> Result<ParsedRequest, Refusal> {
        let Self { raw, mut items, .. } = self;
        let Referents { parent, items: known, lacks_items, .. } = found;
        let RequestContext { owner, lookup, models, labels, shown, new_session_id, clock, .. } =
            context;
        let (images, image_seed) = (context.images, &*context.image_seed);
        let sampling = sampling(&raw)?;
        let format = raw.text.as_ref().map(|text| text["format"].clone());
        let response_format = response_format::read(format, "text.format")?;
        let given = raw.tools.as_deref().unwrap_or_default();
        let model = raw.model.as_deref().unwrap_or_default();
        let ChosenModel { upstream, tools, .. } = models.choose(model)?;
        let RequestTools { client_tools: brought, server_tools: offered, confirm } =
            tools::read(given, tools, &labels, &context.empty_sources)?;
        let chosen = raw
            .tool_choice
            .as_ref()
            .map(|choice| tools::with_names(choice, &labels))
            .transpose()?;
        let ChosenTools { client_tools, server_tools, choice } =
            tool_choice::choose(chosen.as_ref(), &brought, offered.as_deref())?;
        let is_stored = raw.store != Some(false);
        let stored_items = if is_stored { history::without_images(&items) } else { Vec::new() };
        let mut lost = history::resolve(&mut items, &known, images);
        if lacks_items && !lost.contains(&Repair::TooLong) {
            lost.push(Repair::TooLong);
        }
        let is_root = parent.is_none();
        let (history, chain_session_id, chain_system) = match parent {
            Some(Parent { history, session_id, system }) => (Some(history), session_id, system),
            None => (None, None, None),
        };
        let follows =
            history.as_ref().and_then(|history| history.last_turn_id().map(str::to_owned));
        let session_id = chain_session_id.unwrap_or(new_session_id);
        let approval = history::approval(&items, !is_root)?;
        let granted = approval.as_ref().filter(|approval| approval.approves);
        let approval_request_id = granted.map(|approval| approval.request_id.clone());
        let conversation = context.conversation;
        let claimant = Claimant { owner, lookup, conversation: conversation.as_deref() };
        let adopted = adopted(items, history, approval, images, claimant, image_seed)?;
        let Adopted { system, history, input, prefix, images, mut repairs, .. } = adopted;
        for repair in lost {
            repairs.count(repair);
        }
        let system = with_new(chain_system.as_deref(), system);
        let instructions = instructions::join(raw.instructions.as_deref(), system.clone());
        let head = ResponseHead {
            created_at: clock(),
            background: raw.background == Some(true),
            echo: echo(&raw),
            input: stored_items,
            system,
            approval_request_id,
            namespace_of: tools::namespace_of(given),
            namespaces: Vec::new(),
        };
        let stored_head = is_stored.then(|| to_raw_value(&head).ok()).flatten().map(Arc::from);
        let envelope = Envelope { head: Arc::new(head), ended_at: Arc::default(), clock };
        let options = AnswerOptions { envelope, shown, labels };
        let serializer = ResponseSerializer {
            options: options.clone(),
            head: stored_head,
            prefix: is_root.then_some(prefix),
        };
        let turn = NewTurn {
            session_id: is_stored.then_some(session_id),
            input,
            model: upstream,
            tools: server_tools,
            client_tools,
            single_client_call: raw.parallel_tool_calls == Some(false),
            nobody_approves: !is_stored || shown != ServerItems::McpCall,
            words_only: true,
            tool_choice: choice,
            confirm,
            max_calls: raw.max_tool_calls,
            response_format,
            sampling,
            runs_alone: options.envelope.head.background,
            client_history: Some(ClientHistory {
                history,
                follows,
                instructions,
                prefix,
                images,
                can_be_joined: is_stored,
            }),
            serializer: Some(Arc::new(serializer)),
            idempotency_key: context.idempotency_key.filter(|_| is_stored),
            conversation,
            ..NewTurn::default()
        };
        Ok(ParsedRequest { turn, form: form(&raw, options), repairs })
    }
}

/// The instructions in a chain, with what is new in them. Some clients send theirs again with each request.
fn with_new(chain: Option<&str>, system: Option<String>) -> Option<String> {
    let is_there = |chain: &str, new: &str| {
        chain.strip_suffix(new).is_some_and(|before| before.is_empty() || before.ends_with("\n\n"))
    };
    let system = system.filter(|new| !chain.is_some_and(|chain| is_there(chain, new)));
    instructions::join(chain, system)
}

fn form(raw: &Raw, options: AnswerOptions) -> Form {
    match (raw.stream == Some(true), raw.background == Some(true)) {
        (true, _) => Form::Stream(Box::new(ResponseEncoder::new(options, 0))),
        (false, true) => Form::Later(Box::new(Queued(options.envelope))),
        (false, false) => Form::Whole(Box::new(ResponseCollector::new(options))),
    }
}

/// What was said before, and what opens the turn.
fn adopted(
    mut items: Vec<Value>,
    history: Option<Conversation>,
    approval: Option<Approval>,
    images: ImageReader,
    claimant: Claimant<'_>,
    image_seed: &str,
) -> Result<Adopted, Refusal> {
    let is_chain = history.is_some();
    let results = match history.as_ref().and_then(|history| history.turns().next_back()) {
        Some(last) => history::take_results(&mut items, &last.turn_id, images),
        None => HashMap::new(),
    };
    let mut messages = history::claimed(&items, images);
    if results.is_empty() && messages.is_empty() {
        // Programs send an empty list to see whether a model is there.
        messages.push(ClaimedMessage::User(String::new().into()));
    }
    let nothing =
        |_| Refusal::invalid("input", "input has nothing to answer; send a message of the user");
    let history = history.unwrap_or_default();
    let mut adopted =
        adopt_after(history, results, messages, claimant, image_seed).map_err(nothing)?;
    // Without a chain, the question may be unknown. The answer is then just words.
    let asked = adopted.history.open_questions().first().map(|asked| &asked.clarification_id);
    if let Some(approval) = approval
        && (is_chain || asked == Some(&approval.clarification_id))
    {
        adopted.input = answer(approval);
        // The user's words are part of other ones now, which only name their images.
        let named: Vec<_> = adopted.images.opening.drain(..).filter_map(|it| it.file.id).collect();
        adopted.images.files.retain(|image| !named.contains(&image.id));
    }
    Ok(adopted)
}

fn answer(approval: Approval) -> ClientInput {
    use crate::conversation::approval::APPROVE;

    let Approval { clarification_id, approves, reason, beside, .. } = approval;
    let (choice, beside) = match (approves, reason) {
        (true, reason) => (Choice::Option(APPROVE.to_owned()), reason.or(beside)),
        (false, Some(reason)) => (Choice::Text(reason), beside),
        (false, None) => (Choice::Decline, beside),
    };
    ClientInput::Answer { clarification_id, choice, beside }
}

fn check(raw: &Raw) -> Result<(), Refusal> {
    let refuse = |param: &'static str, message: &str| Err(Refusal::invalid(param, message));
    if raw.model.is_none() {
        return refuse("model", "model is required; GET /v1/models lists the names");
    }
    if raw.background == Some(true) && raw.store == Some(false) {
        return refuse(
            "background",
            "background needs store: true, because the response is fetched later",
        );
    }
    let is_given = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
    if is_given(&raw.conversation) {
        return refuse(
            "conversation",
            "conversations are not supported; send previous_response_id instead",
        );
    }
    if is_given(&raw.prompt) {
        return refuse(
            "prompt",
            "stored prompts are not supported; send input and instructions instead",
        );
    }
    if raw.top_logprobs.is_some_and(|top| top > 0) {
        return refuse(
            "top_logprobs",
            "log probabilities are not supported; leave top_logprobs out",
        );
    }
    if raw.max_tool_calls == Some(0) {
        return refuse(
            "max_tool_calls",
            "max_tool_calls must be at least 1; for an answer without tools, send \
             \"tool_choice\": \"none\"",
        );
    }
    Ok(())
}

fn sampling(raw: &Raw) -> Result<Sampling, Refusal> {
    let effort = raw.reasoning.as_ref().map(|it| it["effort"].clone());
    let sampling = Sampling {
        temperature: raw.temperature,
        top_p: raw.top_p,
        max_tokens: raw.max_output_tokens,
        extra: sampling::passed_on([
            ("frequency_penalty", raw.frequency_penalty.map(Value::from)),
            ("presence_penalty", raw.presence_penalty.map(Value::from)),
            ("reasoning_effort", effort.filter(Value::is_string)),
        ])?,
        ..Sampling::default()
    };
    sampling::check(&sampling, &Names { max_tokens: "max_output_tokens", ..NAMES })?;
    Ok(sampling)
}

/// The members of the response that repeat the request, all of them always there.
fn echo(raw: &Raw) -> Value {
    let object_or = |value: &Option<Value>, default: Value| match value {
        Some(value @ Value::Object(_)) => value.clone(),
        _ => default,
    };
    let mut text = object_or(&raw.text, json!({}));
    if !text["format"].is_object() {
        text["format"] = json!({ "type": "text" });
    }
    let reasoning = object_or(&raw.reasoning, json!({}));
    json!({
        "model": raw.model,
        "previous_response_id": raw.previous_response_id,
        "instructions": raw.instructions,
        "tools": tools::echo(raw.tools.as_deref().unwrap_or_default()),
        "tool_choice": raw.tool_choice.clone().filter(|it| !it.is_null()).unwrap_or_else(|| "auto".into()),
        "truncation": "disabled",
        "parallel_tool_calls": raw.parallel_tool_calls.unwrap_or(true),
        "text": text,
        "top_p": raw.top_p.unwrap_or(1.0),
        "presence_penalty": raw.presence_penalty.unwrap_or(0.0),
        "frequency_penalty": raw.frequency_penalty.unwrap_or(0.0),
        "temperature": raw.temperature.unwrap_or(1.0),
        "top_logprobs": 0,
        "reasoning": { "effort": reasoning["effort"], "summary": reasoning["summary"] },
        "max_output_tokens": raw.max_output_tokens,
        "max_tool_calls": raw.max_tool_calls,
        "store": raw.store != Some(false),
        "background": raw.background == Some(true),
        "service_tier": "default",
        "metadata": object_or(&raw.metadata, json!({})),
        "safety_identifier": raw.safety_identifier,
        "prompt_cache_key": raw.prompt_cache_key,
    })
}
