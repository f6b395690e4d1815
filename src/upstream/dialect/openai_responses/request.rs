//! Writes a round as a request body: messages become items.

use std::borrow::Cow;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Decoder;
use crate::upstream::dialect::data_url::DataUrl;
use crate::upstream::dialect::{Decode, Dialect, Options, Server};
use crate::upstream::{
    ChatRequest, Message, MessageCall, MessagePart, OfferedTool, ReasoningItem, Role, ToolChoice,
};

/// The Responses API, with the options of one upstream.
#[derive(Debug, Default)]
pub(crate) struct OpenaiResponses {
    options: Options,
    reasoning: Mutex<Reasoning>,
}

/// How to request a server's reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Reasoning {
    /// With no special request, because reasoning comes as text, not at all, or is not known
    /// yet.
    #[default]
    AsItComes,
    /// Encrypted, because reasoning items were empty otherwise.
    Encrypted,
    /// With no special request, because the server refuses to encrypt it.
    Refused,
}

impl OpenaiResponses {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, reasoning: Mutex::default() }
    }

    /// Learns from the reasoning in the conversation how to request it from this server.
    fn learn_reasoning(&self, round: &ChatRequest) -> Reasoning {
        let mut reasoning = self.reasoning.lock();
        if *reasoning == Reasoning::AsItComes
            && lacks_reasoning(&round.messages, &self.options.upstream)
        {
            *reasoning = Reasoning::Encrypted;
        }
        *reasoning
    }
}

impl Dialect for OpenaiResponses {
    fn path(&self) -> &'static str {
        "/responses"
    }

    fn body(&self, round: &ChatRequest, server: &Server<'_>) -> Vec<u8> {
        let encrypts_reasoning = self.learn_reasoning(round) == Reasoning::Encrypted;
        request_body(round, &self.options, server, encrypts_reasoning)
    }

    fn decoder(&self, round: &ChatRequest) -> Box<dyn Decode> {
        Box::new(Decoder::new(round.sampling.max_tokens))
    }

    fn variant(&self) -> u8 {
        u8::from(*self.reasoning.lock() == Reasoning::Encrypted)
    }

    fn learn_refusal(&self, told: &str, _has_tools: bool, _variant: u8) -> bool {
        let mut reasoning = self.reasoning.lock();
        let names_it = || told.to_ascii_lowercase().contains("encrypted");
        if *reasoning == Reasoning::Encrypted && names_it() {
            *reasoning = Reasoning::Refused;
        }
        false
    }

    fn forget_refusals(&self) {
        let mut reasoning = self.reasoning.lock();
        if *reasoning == Reasoning::Refused {
            *reasoning = Reasoning::AsItComes;
        }
    }
}

/// The body of `POST /v1/responses` for a round.
///
/// The first message becomes `instructions`, each call a `function_call` and each tool message
/// a `function_call_output`. `seed` and `stop` are left out: the API has no place for them and
/// rejects unknown fields. Extra sampling is not left out, because a server that rejects it is
/// asked again without it.
fn request_body(
    round: &ChatRequest,
    options: &Options,
    server: &Server<'_>,
    encrypts_reasoning: bool,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<Cow<'a, str>>,
        input: Vec<Item<'a>>,
        stream: bool,
        store: bool,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        include: Vec<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        temperature: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        top_p: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output_tokens: Option<u32>,
        #[serde(flatten)]
        extra: Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        skip_special_tokens: Option<bool>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tools: Vec<Tool<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parallel_tool_calls: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_choice: Option<Value>,
    }
    let (instructions, messages) = match round.messages.split_first() {
        Some((system, rest)) if system.role == Role::System => (system.text_content(), rest),
        _ => (None, &round.messages[..]),
    };
    let offered = round.native_tools();
    let body = Body {
        model: server.model,
        instructions,
        input: items(messages, &options.upstream),
        stream: true,
        store: false,
        include: if encrypts_reasoning { vec![ENCRYPTED] } else { Vec::new() },
        temperature: round.sampling.temperature,
        top_p: round.sampling.top_p,
        max_output_tokens: round.sampling.max_tokens,
        extra: extra(round.sampling.extra.fields()),
        skip_special_tokens: server.flavour.keeps_special_tokens_if_asked().then_some(false),
        tools: offered.iter().map(Tool::new).collect(),
        parallel_tool_calls: (!offered.is_empty()).then_some(true),
        tool_choice: if offered.is_empty() { None } else { chosen(&round.tool_choice) },
    };
    serde_json::to_vec(&body).expect("plain data always serialises")
}

/// Extra sampling under the names of this API. Those that it does not know keep theirs: llama.cpp
/// takes them here as in Chat Completions.
fn extra(fields: &Map<String, Value>) -> Map<String, Value> {
    let renamed = |(name, value): (&String, &Value)| match name.as_str() {
        "reasoning_effort" => ("reasoning".to_owned(), json!({ "effort": value })),
        "response_format" => ("text".to_owned(), json!({ "format": text_format(value) })),
        _ => (name.clone(), value.clone()),
    };
    fields.iter().map(renamed).collect()
}

/// The form of an answer, whose details are beside its type here.
fn text_format(format: &Value) -> Value {
    let mut flat = format.clone();
    if let Some(fields) = flat.as_object_mut()
        && let Some(Value::Object(details)) = fields.remove("json_schema")
    {
        fields.extend(details);
    }
    flat
}

/// `None` if the model may decide: that is every server's default.
fn chosen(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => Some(json!({ "type": "function", "name": name })),
    }
}

const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Whether the upstream has sent reasoning in this conversation that holds nothing but an id.
/// If it is asked to encrypt reasoning, the items hold more.
fn lacks_reasoning(messages: &[Message], upstream: &str) -> bool {
    messages.iter().flat_map(|message| &message.parts).any(|part| match part {
        MessagePart::Reasoning(item) => item.upstream == upstream && reasoning(item).is_none(),
        _ => false,
    })
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    function: &'a OfferedTool,
    /// On by default, where it rejects most schemas.
    strict: bool,
}

impl<'a> Tool<'a> {
    const fn new(function: &'a OfferedTool) -> Self {
        Self { r#type: "function", function, strict: false }
    }
}

/// An item of the input. Reasoning goes back as its server wrote it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Reasoning(Map<String, Value>),
    Ours(Ours<'a>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ours<'a> {
    Message { role: Role, content: Vec<Content<'a>> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: Cow<'a, str> },
}

/// A part of a message. The assistant's own text has a different type.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: Cow<'a, str> },
    InputImage { image_url: DataUrl<'a>, detail: &'static str },
}

fn items<'a>(messages: &'a [Message], upstream: &str) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        let is_reasoning = |part: &MessagePart| matches!(part, MessagePart::Reasoning(_));
        if message.parts.iter().any(is_reasoning) {
            items
                .extend(message.parts.iter().filter_map(|part| item(part, message.role, upstream)));
        } else if let (Some(call_id), Some(output)) =
            (message.answered_call_id(), message.text_content())
        {
            items.push(Item::Ours(Ours::FunctionCallOutput { call_id, output }));
        } else if message.images().next().is_some() {
            let parts = message.parts.iter().filter_map(content).collect();
            items.push(Item::Ours(Ours::Message { role: message.role, content: parts }));
        } else {
            items.extend(message.text_content().map(|text| words(message.role, text)));
            items.extend(message.calls().map(call));
        }
    }
    items
}

/// A part as an item of its own, so that reasoning keeps its place before it.
fn item<'a>(part: &'a MessagePart, role: Role, upstream: &str) -> Option<Item<'a>> {
    match part {
        MessagePart::Reasoning(item) if item.upstream == upstream => {
            reasoning(item).map(Item::Reasoning)
        }
        MessagePart::Text(text) => {
            let text = text.trim();
            (!text.is_empty()).then(|| words(role, text.into()))
        }
        MessagePart::Call(it) => Some(call(it)),
        MessagePart::Reasoning(_) | MessagePart::Result { .. } | MessagePart::Image(_) => None,
    }
}

/// A part of a message with images.
fn content(part: &MessagePart) -> Option<Content<'_>> {
    match part {
        MessagePart::Text(text) => Some(Content::InputText { text: text.into() }),
        MessagePart::Image(image) => {
            Some(Content::InputImage { image_url: DataUrl(image), detail: "auto" })
        }
        MessagePart::Reasoning(_) | MessagePart::Call(_) | MessagePart::Result { .. } => None,
    }
}

fn words(role: Role, text: Cow<'_, str>) -> Item<'_> {
    let content = match role {
        Role::Assistant => Content::OutputText { text },
        Role::System | Role::User | Role::Tool => Content::InputText { text },
    };
    Item::Ours(Ours::Message { role, content: vec![content] })
}

fn call(call: &MessageCall) -> Item<'_> {
    let MessageCall { id: call_id, name, arguments } = call;
    Item::Ours(Ours::FunctionCall { call_id, name, arguments })
}

/// A reasoning item that can go back: it holds the reasoning in plain text or encrypted.
/// Servers store nothing for us, so an id alone would refer to nothing. Members that are `null`
/// are removed: some servers write them but cannot read them.
fn reasoning(item: &ReasoningItem) -> Option<Map<String, Value>> {
    let mut members: Map<String, Value> = serde_json::from_str(&item.json).ok()?;
    members.retain(|_, value| !value.is_null());
    let holds = |key: &str| match members.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    if !holds("encrypted_content") && !holds("content") {
        return None;
    }
    // Servers that accept a summary insist on the list.
    members.entry("summary").or_insert_with(|| Value::Array(Vec::new()));
    Some(members)
}
