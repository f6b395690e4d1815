//! A round as the body of its request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::upstream::{Message, RoundRequest, Sampling};

/// What a request needs beside its round.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions<'a> {
    /// The model's name on the server.
    pub model: &'a str,
    /// What the server is known to be.
    pub flavour: ServerFlavour,
    /// Fields that constrain what the model may write, from `constrain`; none
    /// of them may be a field of Chat Completions that is set here.
    pub constraint: &'a Map<String, Value>,
}

/// Which server it is, as far as a request must know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerFlavour {
    /// llama.cpp, and what is built on it.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// Ollama.
    Ollama,
    /// Not known; it is asked for nothing beyond the standard.
    #[default]
    Unknown,
}

impl ServerFlavour {
    /// Recognises a server by the `Server` header of any answer. Only llama.cpp
    /// names itself there; the Python servers name their HTTP library.
    #[must_use]
    pub fn from_server_header(header: &str) -> Self {
        if header.trim().eq_ignore_ascii_case("llama.cpp") { Self::LlamaCpp } else { Self::Unknown }
    }

    /// Recognises a server by its answer to `GET /v1/models`: each of them
    /// writes itself into `owned_by`.
    #[must_use]
    pub fn from_models(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Models {
            data: Vec<Model>,
        }
        #[derive(Deserialize)]
        struct Model {
            #[serde(default)]
            owned_by: String,
        }
        let Ok(models) = serde_json::from_slice::<Models>(body) else { return Self::Unknown };
        match models.data.first().map(|model| model.owned_by.as_str()) {
            Some("llamacpp") => Self::LlamaCpp,
            Some("vllm") => Self::Vllm,
            Some("sglang") => Self::Sglang,
            Some("library") => Self::Ollama,
            _ => Self::Unknown,
        }
    }

    /// Whether the server deletes special tokens from its text unless told not
    /// to. A marker may be one.
    const fn skips_special_tokens(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }
}

/// The body of `POST /v1/chat/completions` for a round.
///
/// The round's tools are not in it. Their calls come as text, by the contract in
/// the system prompt; a server that is told of tools reads calls itself, by its
/// own rules, and llama.cpp refuses a grammar beside them.
///
/// # Panics
/// Never: what is written holds no map with keys that are no strings.
#[must_use]
pub fn request_body(round: &RoundRequest, options: &RequestOptions<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        model: &'a str,
        messages: &'a [Message],
        stream: bool,
        stream_options: StreamOptions,
        #[serde(flatten)]
        sampling: &'a Sampling,
        #[serde(skip_serializing_if = "Option::is_none")]
        skip_special_tokens: Option<bool>,
        #[serde(flatten)]
        constraint: &'a Map<String, Value>,
    }
    #[derive(Serialize)]
    struct StreamOptions {
        include_usage: bool,
    }
    let body = Body {
        model: options.model,
        messages: &round.messages,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        sampling: &round.sampling,
        skip_special_tokens: options.flavour.skips_special_tokens().then_some(false),
        constraint: options.constraint,
    };
    serde_json::to_vec(&body).expect("a request is plain data")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::upstream::{MessageCall, OfferedTool, Role};

    fn message(role: Role, content: Option<&str>) -> Message {
        Message {
            role,
            content: content.map(str::to_owned),
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    #[track_caller]
    fn check(round: &RoundRequest, flavour: ServerFlavour, constraint: &Value, expected: &Value) {
        let constraint = constraint.as_object().expect("an object");
        let body = request_body(round, &RequestOptions { model: "m", flavour, constraint });
        assert_eq!(&serde_json::from_slice::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn a_round_asks_for_a_stream_with_usage() {
        let round = RoundRequest {
            messages: vec![message(Role::User, Some("hi"))],
            ..RoundRequest::default()
        };
        check(
            &round,
            ServerFlavour::LlamaCpp,
            &json!({}),
            &json!({
                "model": "m",
                "messages": [{"role": "user", "content": "hi"}],
                "stream": true,
                "stream_options": {"include_usage": true},
            }),
        );
    }

    #[test]
    fn sampling_and_constraint_stand_at_the_top() {
        let sampling = Sampling {
            temperature: Some(0.5),
            top_p: Some(1.0),
            max_tokens: Some(7),
            seed: Some(-1),
            stop: vec!["\n\n".to_owned()],
        };
        let round = RoundRequest { sampling, ..RoundRequest::default() };
        check(
            &round,
            ServerFlavour::Unknown,
            &json!({"grammar": "root ::= \"a\""}),
            &json!({
                "model": "m", "messages": [], "stream": true, "stream_options": {"include_usage": true},
                "temperature": 0.5, "top_p": 1.0, "max_tokens": 7, "seed": -1, "stop": ["\n\n"],
                "grammar": "root ::= \"a\"",
            }),
        );
    }

    #[test]
    fn native_calls_are_written_and_offered_tools_are_not() {
        let mut assistant = message(Role::Assistant, None);
        assistant.tool_calls =
            vec![MessageCall { id: "c1".into(), name: "f".into(), arguments: "{}".into() }];
        let mut result = message(Role::Tool, Some("ok"));
        result.tool_call_id = Some("c1".into());
        let tool =
            OfferedTool { name: "f".into(), description: String::new(), parameters: json!({}) };
        let round = RoundRequest {
            messages: vec![assistant, result],
            tools: vec![tool],
            ..RoundRequest::default()
        };
        check(
            &round,
            ServerFlavour::Unknown,
            &json!({}),
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
    fn special_tokens_are_kept_by_the_servers_that_drop_them() {
        for (flavour, kept) in [
            (ServerFlavour::Vllm, Some(false)),
            (ServerFlavour::Sglang, Some(false)),
            (ServerFlavour::LlamaCpp, None),
            (ServerFlavour::Ollama, None),
            (ServerFlavour::Unknown, None),
        ] {
            let options = RequestOptions { model: "m", flavour, constraint: &Map::new() };
            let body: Value =
                serde_json::from_slice(&request_body(&RoundRequest::default(), &options)).unwrap();
            assert_eq!(
                body.get("skip_special_tokens").and_then(Value::as_bool),
                kept,
                "{flavour:?}"
            );
        }
    }

    #[test]
    fn servers_are_recognised_by_what_they_say_of_themselves() {
        for (body, flavour) in [
            (
                r#"{"object":"list","data":[{"id":"m","owned_by":"llamacpp"}]}"#,
                ServerFlavour::LlamaCpp,
            ),
            (r#"{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}"#, ServerFlavour::Vllm),
            (r#"{"object":"list","data":[{"id":"m","owned_by":"sglang"}]}"#, ServerFlavour::Sglang),
            (
                r#"{"object":"list","data":[{"id":"m","owned_by":"library"}]}"#,
                ServerFlavour::Ollama,
            ),
            (r#"{"object":"list","data":[{"id":"m"}]}"#, ServerFlavour::Unknown),
            (r#"{"object":"list","data":[]}"#, ServerFlavour::Unknown),
            ("not found", ServerFlavour::Unknown),
        ] {
            assert_eq!(ServerFlavour::from_models(body.as_bytes()), flavour, "{body}");
        }
        assert_eq!(ServerFlavour::from_server_header("llama.cpp"), ServerFlavour::LlamaCpp);
        assert_eq!(ServerFlavour::from_server_header("uvicorn"), ServerFlavour::Unknown);
    }
}
