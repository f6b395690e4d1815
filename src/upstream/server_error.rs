//! What a model server says went wrong: the body of an error response, or an error inside a
//! stream.
//!
//! Pure, and shared by the dialects: errors differ more between servers of one dialect than
//! between dialects.

use std::fmt;

use serde_json::Value;

use super::overflow::{Overflow, TokenCounts};
use crate::limits::upstream::ERROR_MESSAGE_BYTES_MAX;

/// An error in a model server's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The machine-readable word: `code` if that is a word, else `type`, else the number in
    /// `code`.
    pub code: Option<String>,
    /// The number in `code`, if that is an HTTP status of an error. vLLM finds out inside the stream what it refuses.
    pub status: Option<u16>,
    /// The message for humans, cut to [`ERROR_MESSAGE_BYTES_MAX`].
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(formatter, "{} ({code})", self.message),
            None => formatter.write_str(&self.message),
        }
    }
}

/// How servers name the limit that the client has set.
const ANSWER_WORDS: [&str; 5] =
    ["max_tokens is", "max_tokens=", "'max_tokens'", "max_completion_tokens", "in the completion"];

/// How servers without a code for it word an overflowing context.
const CONTEXT_WORDS: [&str; 7] = [
    "context length",
    "context size",
    "context window",
    "maximum input length",
    "maximum model length",
    "prompt is too long",
    // vLLM, if the prompt fills the context.
    "max_tokens must be at least 1, got",
];

impl ServerError {
    /// Reads a body, which may be anything: the JSON of llama.cpp, vLLM, `SGLang`, Ollama,
    /// `OpenAI` or `FastAPI`, or plain text.
    #[must_use]
    pub fn from_body(body: &[u8]) -> Self {
        serde_json::from_slice(body).ok().and_then(|json| Self::from_json(&json)).unwrap_or_else(
            || {
                let text = String::from_utf8_lossy(body);
                let text = text.trim();
                Self::of_message(if text.is_empty() { "no reason given" } else { text })
            },
        )
    }

    /// An error of which no more is known.
    #[must_use]
    pub(super) fn of_message(message: &str) -> Self {
        Self { code: None, status: None, message: cut(message) }
    }

    /// Whether the conversation exceeded the model's context, judging by the server's message.
    #[must_use]
    pub fn is_context_overflow(&self) -> bool {
        matches!(
            self.code.as_deref(),
            Some("exceed_context_size_error" | "context_length_exceeded")
        ) || {
            let message = self.message.to_ascii_lowercase();
            CONTEXT_WORDS.iter().any(|words| message.contains(words))
        }
    }

    /// Whether it did because of the messages, and not because the answer might become too long.
    #[must_use]
    pub(super) fn is_long_prompt(&self) -> bool {
        match self.overflow() {
            None => false,
            Some(Overflow::Prompt) => true,
            Some(Overflow::PromptAndAnswer(_) | Overflow::Unclear) => {
                let message = self.message.to_ascii_lowercase();
                // llama-cpp-python, if the request has no limit.
                let message = message.replace("none in the completion", "");
                !ANSWER_WORDS.iter().any(|words| message.contains(words))
            }
        }
    }

    /// What exceeded the model's context, if anything did.
    pub(super) fn overflow(&self) -> Option<Overflow> {
        if !self.is_context_overflow() {
            return None;
        }
        // llama.cpp counts the prompt alone.
        let is_llama_cpp = self.code.as_deref() == Some("exceed_context_size_error");
        Some(match TokenCounts::read(&self.message) {
            Some(counts) if counts.room() > 0 => Overflow::PromptAndAnswer(counts),
            Some(_) => Overflow::Prompt,
            None if is_llama_cpp => Overflow::Prompt,
            None => Overflow::Unclear,
        })
    }

    /// Whether this may be about the address or the model's name, in an answer with status 404.
    #[must_use]
    pub(super) fn is_about_address(&self) -> bool {
        const WORDS: [&str; 12] = [
            "not found",
            "no such",
            "no reason",
            "model",
            "path",
            "url",
            "route",
            "exist",
            "unknown",
            "endpoint",
            "cannot ",
            "<",
        ];
        let message = self.message.to_ascii_lowercase();
        WORDS.iter().any(|words| message.contains(words))
    }

    fn from_json(json: &Value) -> Option<Self> {
        // {"error":{"message":..,"type":..,"code":..}}, {"error":"text"},
        // {"object":"error","message":..}, {"message":..}, {"detail":..}, "text"
        let error = json.get("error").filter(|error| !error.is_null()).unwrap_or(json);
        let message = match error {
            Value::String(message) => message.clone(),
            _ => error
                .get("message")
                .and_then(Value::as_str)
                .map(str::to_owned)
                .or_else(|| detail(json.get("detail")?))?,
        };
        let word =
            |key: &str| error.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
        let number = error.get("code").filter(|code| code.is_number());
        let code = word("code")
            .or_else(|| word("type"))
            .map(str::to_owned)
            .or_else(|| number.map(Value::to_string));
        let status = number.and_then(Value::as_u64).filter(|code| (400..600).contains(code));
        Some(Self {
            code: code.map(|code| cut(&code)),
            status: status.and_then(|status| status.try_into().ok()),
            message: cut(&message),
        })
    }
}

/// `FastAPI`'s `detail`: a sentence, or a list of locations and messages.
fn detail(detail: &Value) -> Option<String> {
    match detail {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let sentences: Vec<_> = items.iter().filter_map(place_and_message).collect();
            (!sentences.is_empty()).then(|| sentences.join("; "))
        }
        _ => None,
    }
}

fn place_and_message(item: &Value) -> Option<String> {
    let message = item.get("msg")?.as_str()?;
    let place: Vec<_> = item
        .get("loc")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
        .collect();
    Some(if place.is_empty() {
        message.to_owned()
    } else {
        format!("{}: {message}", place.join("."))
    })
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(ERROR_MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(body: &str, code: Option<&str>, message: &str) {
        let error = ServerError::from_body(body.as_bytes());
        assert_eq!((error.code.as_deref(), &*error.message), (code, message), "{body}");
    }

    #[test]
    fn the_shapes_of_the_servers_are_read() {
        // llama.cpp
        check(
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            Some("unavailable_error"),
            "Loading model",
        );
        // OpenAI
        check(
            r#"{"error":{"message":"Bad key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Some("invalid_api_key"),
            "Bad key",
        );
        check(
            r#"{"error":{"message":"Slow down","type":"requests","param":null,"code":null}}"#,
            Some("requests"),
            "Slow down",
        );
        // vLLM, before and after it moved its errors under `error`
        check(
            r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#,
            Some("BadRequestError"),
            "too long",
        );
        check(
            r#"{"error":{"message":"too long","type":"","param":null,"code":400}}"#,
            Some("400"),
            "too long",
        );
        // Ollama
        check(r#"{"error":"model 'x' not found"}"#, None, "model 'x' not found");
        // FastAPI
        check(r#"{"detail":"Not Found"}"#, None, "Not Found");
        check(
            r#"{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"},{"msg":"x"}]}"#,
            None,
            "body.messages.0: Field required; x",
        );
        // others
        check(r#"{"message":"no"}"#, None, "no");
        check(r#""just words""#, None, "just words");
        check(r#"{"error":null,"message":"no"}"#, None, "no");
    }

    #[test]
    fn a_404_that_is_about_the_address_is_known() {
        for body in [
            r#"{"detail":"Not Found"}"#,
            r#"{"error":"Unexpected endpoint or method. (GET /props)"}"#,
            r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError"}}"#,
            "<!DOCTYPE html><pre>Cannot GET /props</pre>",
            "404 page not found",
            "",
        ] {
            assert!(ServerError::from_body(body.as_bytes()).is_about_address(), "{body}");
        }
        for body in
            [r#"{"error":"System role not supported"}"#, r#"{"error":"generation thread died"}"#]
        {
            assert!(!ServerError::from_body(body.as_bytes()).is_about_address(), "{body}");
        }
    }

    #[test]
    fn a_code_may_be_a_status() {
        for (code, status) in [
            ("400", Some(400)),
            ("599", Some(599)),
            ("399", None),
            ("600", None),
            ("-1", None),
            ("4.5", None),
            ("\"400\"", None),
            ("null", None),
        ] {
            let body = format!(r#"{{"error":{{"message":"no","code":{code}}}}}"#);
            assert_eq!(ServerError::from_body(body.as_bytes()).status, status, "{code}");
        }
    }

    #[test]
    fn unknown_bodies_are_quoted() {
        check("upstream connect error\n", None, "upstream connect error");
        check("<html>502</html>", None, "<html>502</html>");
        check(r#"{"error":{"why":1}}"#, None, r#"{"error":{"why":1}}"#);
        check(r#"{"detail":[]}"#, None, r#"{"detail":[]}"#);
        check(r#"{"error":"cut o"#, None, r#"{"error":"cut o"#);
        check("", None, "no reason given");
        check(" \n", None, "no reason given");
        assert_eq!(ServerError::from_body(b"\xFFa").message, "\u{FFFD}a");
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let at = "x".repeat(ERROR_MESSAGE_BYTES_MAX);
        check(&at, None, &at);
        check(&format!("{at}y"), None, &at);
        let message = ServerError::from_body(
            format!("x{}", "\u{e9}".repeat(ERROR_MESSAGE_BYTES_MAX)).as_bytes(),
        )
        .message;
        assert_eq!(message.len(), ERROR_MESSAGE_BYTES_MAX - 1);
    }

    #[test]
    fn a_full_context_is_recognised() {
        for body in [
            r#"{"error":{"code":400,"message":"request (5031 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5031,"n_ctx":4096}}"#,
            r#"{"error":{"message":"..","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}}"#,
            r#"{"error":{"message":"You passed 31745 input tokens and requested 1024 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 31744 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}"#,
            r#"{"error":{"message":"The input (5031 tokens) is longer than the model's context length (4096 tokens).","type":"BadRequestError","code":400}}"#,
            r#"{"error":"The prompt does not fit into the Context Window"}"#,
            r#"{"error":{"message":"The decoder prompt (length 11157) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}"#,
            r#"{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}"#,
            r#"{"object":"error","message":"Multimodal prompt is too long after expanding multimodal tokens.","code":400}"#,
        ] {
            assert!(ServerError::from_body(body.as_bytes()).is_context_overflow(), "{body}");
        }
        assert!(!ServerError::from_body(b"{\"error\":\"no\"}").is_context_overflow());
    }

    #[test]
    fn a_long_prompt_is_told_from_a_long_answer() {
        let is_long_prompt = |message: &str| {
            let body = json!({"error": {"message": message, "code": "context_length_exceeded"}});
            ServerError::from_body(body.to_string().as_bytes()).is_long_prompt()
        };
        assert!(is_long_prompt("You passed 31745 input tokens and requested 1024 output tokens."));
        assert!(is_long_prompt(
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"
        ));
        assert!(is_long_prompt(
            "you requested 2621 tokens (2621 in the messages, None in the completion)"
        ));
        assert!(is_long_prompt(
            "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens (5900 in the \
             messages, 100 in the completion)."
        ));
        for message in [
            "max_tokens=9000 cannot be greater than max_model_len=2048, its maximum model length",
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960.",
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the \
             messages, 4000 in the completion).",
        ] {
            assert!(!is_long_prompt(message), "{message}");
        }
    }
}
