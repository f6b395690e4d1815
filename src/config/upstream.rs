//! `upstreams[]`: model servers, and the options that each kind has.

use std::time::Duration;

use hyper::Uri;
use serde::{Serialize, Serializer};

use super::{CallContract, Secret, seconds};
use crate::limits;
pub use crate::upstream::History;

/// A model server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpstreamConfig {
    /// What clients call it in `model`; unique.
    pub name: String,
    /// How it is spoken to.
    #[serde(flatten)]
    pub kind: UpstreamKind,
}

/// `kind`, with the options that it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UpstreamKind {
    /// Streaming Chat Completions.
    OpenaiChat(OpenaiChatConfig),
    /// The Responses API, streaming.
    OpenaiResponses(OpenaiResponsesConfig),
    /// The embedded model.
    Embedded(EmbeddedConfig),
}

/// A server of Chat Completions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenaiChatConfig {
    /// What `/chat/completions` is appended to: scheme `http` or `https`, a host,
    /// no slash at the end, no query.
    #[serde(serialize_with = "without_trailing_slash")]
    pub base_url: Uri,
    /// The model's name on that server; empty: the first that
    /// the server lists.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "secret_or_empty")]
    pub api_key: Option<Secret>,
    /// What keeps the model to valid calls.
    pub constrain: Constrain,
    /// How calls and results go back.
    pub history: History,
    /// Longest wait for a connection.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// Longest silence inside a stream.
    #[serde(rename = "idle_timeout_sec", serialize_with = "seconds")]
    pub idle_timeout: Duration,
}

/// A server of the Responses API.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenaiResponsesConfig {
    /// What `/responses` is appended to, as with Chat Completions.
    #[serde(serialize_with = "without_trailing_slash")]
    pub base_url: Uri,
    /// The model's name on that server; empty: the first that the server lists.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "secret_or_empty")]
    pub api_key: Option<Secret>,
    /// How calls and results go back.
    pub history: History,
    /// Longest wait for a connection.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// Longest silence inside a stream.
    #[serde(rename = "idle_timeout_sec", serialize_with = "seconds")]
    pub idle_timeout: Duration,
}

impl Default for OpenaiResponsesConfig {
    fn default() -> Self {
        let OpenaiChatConfig {
            base_url,
            model,
            api_key,
            constrain: _,
            history,
            connect_timeout,
            idle_timeout,
        } = OpenaiChatConfig::default();
        Self { base_url, model, api_key, history, connect_timeout, idle_timeout }
    }
}

/// The embedded model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbeddedConfig {
    /// Its pace.
    pub tokens_per_sec: u32,
}

/// `constrain`: what keeps a model to valid calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Constrain {
    /// The prompt alone.
    None,
    /// A lazy GBNF grammar, for llama.cpp.
    LlamaGrammar,
}

impl UpstreamKind {
    /// The address of a server.
    pub(super) fn base_url_mut(&mut self) -> Option<&mut Uri> {
        match self {
            Self::OpenaiChat(server) => Some(&mut server.base_url),
            Self::OpenaiResponses(server) => Some(&mut server.base_url),
            Self::Embedded(_) => None,
        }
    }

    /// The name of the model on a server.
    pub(super) fn model_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::OpenaiChat(server) => Some(&mut server.model),
            Self::OpenaiResponses(server) => Some(&mut server.model),
            Self::Embedded(_) => None,
        }
    }
}

impl UpstreamConfig {
    /// The built-in default: the embedded model under its own name.
    #[must_use]
    pub fn embedded() -> Self {
        let kind = UpstreamKind::Embedded(EmbeddedConfig::default());
        Self { name: "embedded".to_owned(), kind }
    }

    /// The default of an upstream that is written down: a local model server.
    #[must_use]
    pub fn openai_chat() -> Self {
        let kind = UpstreamKind::OpenaiChat(OpenaiChatConfig::default());
        Self { name: "local".to_owned(), kind }
    }
}

impl UpstreamConfig {
    /// How calls and results go back where nothing is said of it.
    #[must_use]
    pub const fn usual_history(contract: CallContract) -> History {
        match contract {
            CallContract::MarkerJson => History::Text,
            CallContract::Native => History::Native,
        }
    }
}

impl Default for OpenaiChatConfig {
    fn default() -> Self {
        Self {
            base_url: Uri::from_static("http://127.0.0.1:8081/v1"),
            model: String::new(),
            api_key: None,
            constrain: Constrain::None,
            history: History::Text,
            connect_timeout: limits::upstream::CONNECT_TIMEOUT,
            idle_timeout: limits::upstream::IDLE_TIMEOUT,
        }
    }
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self { tokens_per_sec: limits::upstream::EMBEDDED_TOKENS_PER_SEC }
    }
}

/// Reads the URL that a server's paths are appended to.
///
/// # Errors
/// What was expected, in words.
pub fn base_url(text: &str) -> Result<Uri, String> {
    let expected = || "a URL such as `http://127.0.0.1:8081/v1`".to_owned();
    if text.contains(['?', '#']) {
        return Err("a URL without query and fragment: paths are appended to it".to_owned());
    }
    let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| expected())?;
    let authority = uri.authority().ok_or_else(expected)?;
    let host = authority.host();
    if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
        return Err(expected());
    }
    if authority.as_str().contains('@') {
        return Err("a URL without a user: the key belongs in `api_key`".to_owned());
    }
    if authority.as_str() != host && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("a URL whose port is a number from 1 to 65535".to_owned());
    }
    Ok(uri)
}

/// Reads the URL as people give it on a command line, where the `/v1` that all
/// servers of Chat Completions share may be left out.
///
/// # Errors
/// What was expected, in words.
pub fn base_url_with_version(text: &str) -> Result<Uri, String> {
    let uri = base_url(text)?;
    match uri.path() {
        "" | "/" => base_url(&format!("{}/v1", text.trim_end_matches('/'))),
        _ => Ok(uri),
    }
}

/// A `Uri` without a path shows one, `/`, that nobody wrote.
fn without_trailing_slash<S: Serializer>(uri: &Uri, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(uri.to_string().trim_end_matches('/'))
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn secret_or_empty<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => secret.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
