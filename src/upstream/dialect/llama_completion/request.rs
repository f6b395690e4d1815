//! Writes a round as two requests.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Decoder;
use crate::call_format::CallContract;
use crate::upstream::constrain::{Fields, Held};
use crate::upstream::dialect::chat_message::{ChatMessage, ChatTool};
use crate::upstream::dialect::{Decode, Dialect, Options, Server};
use crate::upstream::models::Flavour;
use crate::upstream::{ChatRequest, Sampling};

/// What the answer's last frame says. Without this list, it repeats the whole prompt.
const LAST_FRAME: [&str; 5] =
    ["content", "stop", "stop_type", "tokens_evaluated", "tokens_predicted"];

/// llama.cpp's own API.
#[derive(Debug, Default)]
pub(crate) struct LlamaCompletion {
    constraint: Held,
}

impl LlamaCompletion {
    /// llama.cpp's own API, with the options of one upstream.
    pub(in crate::upstream::dialect) fn new(options: &Options) -> Self {
        Self { constraint: Held::new(options.constrain) }
    }
}

impl Dialect for LlamaCompletion {
    fn path(&self) -> &'static str {
        "/completion"
    }

    fn template_body(&self, round: &ChatRequest, model: &str) -> Option<Vec<u8>> {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            messages: Vec<ChatMessage<'a>>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            tools: Vec<ChatTool<'a>>,
        }
        let tools = match round.contract {
            CallContract::Templated(_) => &*round.tools,
            CallContract::InText(_) | CallContract::Native => &[],
        };
        let body = Body {
            model,
            messages: round.messages.iter().map(ChatMessage::from).collect(),
            tools: tools.iter().map(ChatTool::from).collect(),
        };
        Some(serde_json::to_vec(&body).expect("plain data always serialises"))
    }

    fn body(&self, round: &ChatRequest, server: &Server<'_>) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            prompt: &'a str,
            stream: bool,
            #[serde(flatten)]
            sampling: &'a Sampling,
            #[serde(flatten)]
            extra: Map<String, Value>,
            preserved_tokens: Vec<&'a str>,
            response_fields: [&'a str; 5],
            #[serde(flatten)]
            constraint: Option<Arc<Fields>>,
        }
        // No other server has this API.
        let flavour = Flavour::LlamaCpp;
        let row = round.format.row();
        let body = Body {
            model: server.model,
            prompt: server.prompt,
            stream: true,
            sampling: &round.sampling,
            extra: extra(round),
            preserved_tokens: round.format.marks().chain(row.reasoning_tags()).collect(),
            response_fields: LAST_FRAME,
            constraint: self.constraint.request_fields(flavour, round, server.prompt),
        };
        serde_json::to_vec(&body).expect("plain data always serialises")
    }

    fn decoder(&self, _round: &ChatRequest) -> Box<dyn Decode> {
        Box::new(Decoder::default())
    }

    fn constraint(&self) -> Option<&Held> {
        Some(&self.constraint)
    }
}

/// The client's fields, in this API's own words.
fn extra(round: &ChatRequest) -> Map<String, Value> {
    let mut extra = round.sampling.extra.fields().clone();
    if let Some(format) = extra.remove("response_format") {
        let schema = format.pointer("/json_schema/schema").cloned();
        let any_object = || serde_json::json!({ "type": "object" });
        extra.insert("json_schema".to_owned(), schema.unwrap_or_else(any_object));
    }
    extra
}
