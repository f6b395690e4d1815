//! `upstreams[]`: model servers, and the options that each kind has.

use std::time::Duration;

use hyper::Uri;
use serde::{Serialize, Serializer};

use super::{CallContract, Secret, seconds};
use crate::limits;
pub use crate::upstream::History;
use crate::upstream::dialect;

/// A model server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpstreamConfig {
    /// What clients call it in `model`; unique.
    pub name: String,
    /// How it is spoken to.
    #[serde(flatten)]
    pub kind: UpstreamKind,
}

/// What speaks there, with the options that it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UpstreamKind {
    /// A model server.
    Server(ModelServerConfig),
    /// The embedded model.
    Embedded(EmbeddedConfig),
}

/// A model server, of whatever dialect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelServerConfig {
    /// How it is spoken to.
    #[serde(rename = "kind")]
    pub dialect: dialect::Kind,
    /// What the dialect's path is appended to: scheme `http` or `https`, a host,
    /// no slash at the end, no query.
    #[serde(serialize_with = "without_trailing_slash")]
    pub base_url: Uri,
    /// The model's name on that server; empty: the first that the server lists.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "secret_or_empty")]
    pub api_key: Option<Secret>,
    /// What keeps the model to valid calls. Only a dialect that takes constraints has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constrain: Option<Constrain>,
    /// How calls and results go back.
    pub history: History,
    /// Longest wait for a connection.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// Longest silence inside a stream.
    #[serde(rename = "idle_timeout_sec", serialize_with = "seconds")]
    pub idle_timeout: Duration,
}

impl ModelServerConfig {
    /// The default of a server of this dialect: one on this machine.
    #[must_use]
    pub fn new(dialect: dialect::Kind) -> Self {
        Self {
            dialect,
            base_url: Uri::from_static("http://127.0.0.1:8081/v1"),
            model: String::new(),
            api_key: None,
            constrain: dialect.takes_constraint().then_some(Constrain::None),
            history: History::Text,
            connect_timeout: limits::upstream::CONNECT_TIMEOUT,
            idle_timeout: limits::upstream::IDLE_TIMEOUT,
        }
    }
}

impl Default for ModelServerConfig {
    fn default() -> Self {
        Self::new(dialect::Kind::default())
    }
}

/// The embedded model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename = "embedded")]
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
    /// The options of a model server.
    pub(super) const fn server_mut(&mut self) -> Option<&mut ModelServerConfig> {
        match self {
            Self::Server(server) => Some(server),
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
        let kind = UpstreamKind::Server(ModelServerConfig::default());
        Self { name: "local".to_owned(), kind }
    }
}

impl UpstreamConfig {
    /// How calls and results go back where nothing is said of it.
    #[must_use]
    pub const fn usual_history(contract: CallContract) -> History {
        match contract {
            CallContract::InText(_) => History::Text,
            CallContract::Native => History::Native,
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
