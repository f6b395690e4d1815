//! Writes a round as a request body.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Decoder;
use super::prologue::Prologue;
use crate::limits::upstream::REQUEST_ROOM_BYTES;
use crate::upstream::constrain::{Fields, Held};
use crate::upstream::dialect::chat_message::ChatTool;
use crate::upstream::dialect::{Decode, Dialect, Options, Server};
use crate::upstream::models::Flavour;
use crate::upstream::{ChatRequest, Sampling, ToolChoice};

/// Chat Completions.
#[derive(Debug, Default)]
pub(crate) struct OpenaiChat {
    constraint: Held,
    prologue: Prologue,
}

impl OpenaiChat {
    /// Chat Completions, with the options of one upstream.
    pub(in crate::upstream::dialect) fn new(options: &Options) -> Self {
        Self { constraint: Held::new(options.constrain), prologue: Prologue::default() }
    }
}

impl Dialect for OpenaiChat {
    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn body(&self, round: &ChatRequest, server: &Server<'_>) -> Vec<u8> {
        let constraint = self.constraint.request_fields(server.flavour, round, server.prompt);
        request_body(round, &self.prologue, constraint, server)
    }

    fn decoder(&self, _round: &ChatRequest) -> Box<dyn Decode> {
        Box::new(Decoder::new())
    }

    fn constraint(&self) -> Option<&Held> {
        Some(&self.constraint)
    }
}

/// The body of `POST /v1/chat/completions` for a round.
///
/// It includes the round's tools only with [`CallContract::Native`].
fn request_body(
    round: &ChatRequest,
    prologue: &Prologue,
    constraint: Option<Arc<Fields>>,
    server: &Server<'_>,
) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        stream: bool,
        stream_options: StreamOptions,
        #[serde(flatten)]
        sampling: &'a Sampling,
        #[serde(flatten)]
        extra: &'a Map<String, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        skip_special_tokens: Option<bool>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tools: Vec<ChatTool<'a>>,
        // Servers reject it if there are no tools.
        #[serde(skip_serializing_if = "Option::is_none")]
        parallel_tool_calls: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_choice: Option<Value>,
        // llama.cpp goes on with a last message of the model without being asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        continue_final_message: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        add_generation_prompt: Option<bool>,
        #[serde(flatten)]
        constraint: Option<Arc<Fields>>,
    }
    #[derive(Serialize)]
    struct StreamOptions {
        include_usage: bool,
    }
    let offered = round.native_tools();
    let goes_on = round.is_prefilled && server.flavour != Flavour::LlamaCpp;
    let body = Body {
        model: server.model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        sampling: &round.sampling,
        extra: round.sampling.extra.fields(),
        skip_special_tokens: server.flavour.keeps_special_tokens_if_asked().then_some(false),
        tools: offered.iter().map(ChatTool::from).collect(),
        parallel_tool_calls: (!offered.is_empty()).then_some(true),
        tool_choice: if offered.is_empty() { None } else { chosen(&round.tool_choice) },
        continue_final_message: goes_on.then_some(true),
        add_generation_prompt: goes_on.then_some(false),
        constraint,
    };
    let mut out = Vec::with_capacity(REQUEST_ROOM_BYTES);
    out.extend_from_slice(b"{\"messages\":");
    prologue.write(&round.messages, &mut out);
    // The comma takes the place of the brace that opens the other fields.
    let others = out.len();
    serde_json::to_writer(&mut out, &body).expect("plain data always serialises");
    out[others] = b',';
    out
}

/// `None` if the model may decide: that is every server's default.
fn chosen(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => {
            Some(json!({ "type": "function", "function": { "name": name } }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_format::CallContract;
    use crate::upstream::constrain::Constrain;
    use crate::upstream::{ExtraSampling, Message, MessageCall, MessagePart, OfferedTool, Role};

    #[track_caller]
    fn check(round: &ChatRequest, constraint: Option<Arc<Fields>>, expected: &Value) {
        let server = Server { model: "m", ..Server::default() };
        let body = request_body(round, &Prologue::default(), constraint, &server);
        assert_eq!(&serde_json::from_slice::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn a_round_asks_for_a_stream_with_usage() {
        let round = ChatRequest {
            messages: vec![Message::text(Role::User, "hi")],
            ..ChatRequest::default()
        };
        check(
            &round,
            None,
            &json!({
                "model": "m",
                "messages": [{"role": "user", "content": "hi"}],
                "stream": true,
                "stream_options": {"include_usage": true},
            }),
        );
    }

    /// Whether a server with this flavour is asked to go on with the last message.
    fn asks_to_go_on(flavour: Flavour, is_prefilled: bool) -> (Value, Value) {
        let round = ChatRequest {
            messages: vec![Message::text(Role::Assistant, "It is")],
            is_prefilled,
            ..ChatRequest::default()
        };
        let server = Server { model: "m", flavour, ..Server::default() };
        let body = request_body(&round, &Prologue::default(), None, &server);
        let body: Value = serde_json::from_slice(&body).unwrap();
        (body["continue_final_message"].clone(), body["add_generation_prompt"].clone())
    }

    #[test]
    fn an_unfinished_message_is_gone_on_with() {
        for flavour in [Flavour::Vllm, Flavour::Sglang] {
            assert_eq!(asks_to_go_on(flavour, true), (json!(true), json!(false)), "{flavour:?}");
            assert_eq!(asks_to_go_on(flavour, false), (Value::Null, Value::Null), "{flavour:?}");
        }
        // It does so without being asked, and refuses to be asked.
        assert_eq!(asks_to_go_on(Flavour::LlamaCpp, true), (Value::Null, Value::Null));
    }

    #[test]
    fn sampling_is_at_the_top_level() {
        let sampling = Sampling {
            temperature: Some(0.5),
            top_p: Some(1.0),
            max_tokens: Some(7),
            seed: Some(-1),
            stop: vec!["\n\n".to_owned()],
            extra: ExtraSampling::new(Map::from_iter([("top_k".to_owned(), json!(40))])),
        };
        let round = ChatRequest { sampling, ..ChatRequest::default() };
        check(
            &round,
            None,
            &json!({
            "model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": true},
            "temperature": 0.5, "top_p": 1.0, "max_tokens": 7, "seed": -1, "stop": ["\n\n"],
            "top_k": 40,
            }),
        );
    }

    #[test]
    fn native_calls_are_written_and_offered_tools_are_not() {
        let call = MessageCall { id: "c1".into(), name: "f".into(), arguments: "{}".into() };
        let assistant = Message { role: Role::Assistant, parts: vec![MessagePart::Call(call)] };
        let result = Message::result("c1", "ok");
        let tool =
            OfferedTool { name: "f".into(), description: String::new(), parameters: json!({}) };
        let round = ChatRequest {
            messages: vec![assistant, result],
            tools: [tool].into(),
            ..ChatRequest::default()
        };
        check(
            &round,
            None,
            &json!({
                "model": "m", "stream": true, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": "assistant", "content": null,
                     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                    {"role": "tool", "content": "ok", "tool_call_id": "c1"},
                ],
            }),
        );
    }

    #[test]
    fn tools_are_offered_only_for_native_calls() {
        let parameters = json!({"type": "object"});
        let tool = OfferedTool { name: "f".into(), description: "d".into(), parameters };
        let contract = CallContract::Native;
        let taught = ChatRequest { tools: [tool].into(), ..ChatRequest::default() };
        let offering = ChatRequest { contract, ..taught.clone() };
        let offered = json!([{"type": "function", "function":
            {"name": "f", "description": "d", "parameters": {"type": "object"}}}]);
        let without = ChatRequest { contract, ..ChatRequest::default() };
        for (round, tools, parallel) in [
            (&offering, offered, json!(true)),
            (&taught, Value::Null, Value::Null),
            (&without, Value::Null, Value::Null),
        ] {
            let body = request_body(round, &Prologue::default(), None, &Server::default());
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&body["tools"], &body["parallel_tool_calls"]), (&tools, &parallel));
        }
    }

    #[test]
    fn a_required_call_is_requested_if_tools_are_offered() {
        let named = ToolChoice::Named("f".into());
        let function = json!({"type": "function", "function": {"name": "f"}});
        let native = CallContract::Native;
        for (choice, contract, expected) in [
            (ToolChoice::Auto, native, Value::Null),
            (ToolChoice::Required, native, json!("required")),
            (named.clone(), native, function),
            (named, CallContract::default(), Value::Null),
        ] {
            let tool =
                OfferedTool { name: "f".into(), description: String::new(), parameters: json!({}) };
            let (tools, tool_choice) = ([tool].into(), choice);
            let round = ChatRequest { tools, tool_choice, contract, ..ChatRequest::default() };
            let body = request_body(&round, &Prologue::default(), None, &Server::default());
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["tool_choice"], expected);
        }
    }

    #[test]
    fn a_constraint_is_added_to_the_request() {
        let tool =
            OfferedTool { name: "f".into(), description: String::new(), parameters: json!({}) };
        let round = ChatRequest { tools: [tool].into(), ..ChatRequest::default() };
        let fields = Held::new(Constrain::LlamaGrammar).request_fields(Flavour::Other, &round, "");
        let mut expected = json!({
            "model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": true},
        });
        let added = serde_json::to_value(&fields).unwrap();
        assert!(added["grammar"].is_string());
        expected.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
        check(&round, fields, &expected);
    }

    #[test]
    fn special_tokens_are_kept_by_the_servers_that_drop_them() {
        for (flavour, kept) in
            [(Flavour::Vllm, Some(false)), (Flavour::Sglang, Some(false)), (Flavour::Other, None)]
        {
            let server = Server { flavour, ..Server::default() };
            let body = request_body(&ChatRequest::default(), &Prologue::default(), None, &server);
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                body.get("skip_special_tokens").and_then(Value::as_bool),
                kept,
                "{flavour:?}"
            );
        }
    }
}
