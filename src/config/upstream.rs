//! `upstreams[]`: model servers, and the options of each kind.

use std::time::Duration;

use hyper::Uri;
use serde::{Serialize, Serializer};

use super::{Secret, seconds};
use crate::call_format::{CallContract, ContractSetting};
use crate::limits;
use crate::upstream::{Constrain, History, dialect};

/// A model server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpstreamConfig {
    /// The name that clients use in `model`; unique.
    pub name: String,
    /// How its model makes calls, if not as `tools.call_contract` says.
    pub call_contract: Option<ContractSetting>,
    /// What answers there.
    #[serde(flatten)]
    pub kind: UpstreamKind,
}

/// What answers at an upstream, with its options.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum UpstreamKind {
    /// A model server.
    Server(ModelServerConfig),
    /// The embedded model.
    Embedded(EmbeddedConfig),
}

/// A model server, of any dialect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelServerConfig {
    /// The API that it speaks.
    #[serde(rename = "kind")]
    pub dialect: dialect::Kind,
    /// The dialect's path is appended to this: scheme `http` or `https`, a host, no trailing
    /// slash, no query.
    #[serde(serialize_with = "without_trailing_slash")]
    pub base_url: Uri,
    /// The model's name on that server; empty for the first model that the server lists.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    #[serde(serialize_with = "secret_or_empty")]
    pub api_key: Option<Secret>,
    /// What restricts the model to valid calls. Only for dialects that support constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constrain: Option<Constrain>,
    /// How calls and results are sent back.
    pub history: History,
    /// Whether the chat template opens the model's reasoning. `None` for dialects that send prompts, which show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_in_reasoning: Option<bool>,
    /// The longest wait for a connection.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// The longest silence inside a stream.
    #[serde(rename = "idle_timeout_sec", serialize_with = "seconds")]
    pub idle_timeout: Duration,
}

impl ModelServerConfig {
    /// The defaults for a server of this dialect on this machine.
    #[must_use]
    pub fn new(dialect: dialect::Kind) -> Self {
        Self {
            dialect,
            base_url: Uri::from_static("http://127.0.0.1:8081/v1"),
            model: String::new(),
            api_key: None,
            constrain: dialect.takes_constraint().then(Constrain::default),
            history: History::Text,
            starts_in_reasoning: (!dialect.sends_prompts()).then_some(false),
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
        Self { name: "embedded".to_owned(), call_contract: None, kind }
    }

    /// The default for an upstream in the file: a local model server.
    #[must_use]
    pub fn openai_chat() -> Self {
        let kind = UpstreamKind::Server(ModelServerConfig::default());
        Self { name: "local".to_owned(), call_contract: None, kind }
    }
}

impl UpstreamConfig {
    /// How calls and results are sent back unless the file says otherwise.
    #[must_use]
    pub const fn usual_history(dialect: dialect::Kind, contract: ContractSetting) -> History {
        match contract {
            ContractSetting::Is(CallContract::Native) => History::Native,
            // The chat template writes calls and results as the model knows them.
            _ if dialect.sends_prompts() => History::Native,
            _ => History::Text,
        }
    }
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self { tokens_per_sec: limits::upstream::EMBEDDED_TOKENS_PER_SEC }
    }
}

/// A kind of server whose paths are appended to a URL.
#[derive(Debug)]
pub(super) struct ServerKind {
    /// A URL of one.
    example: &'static str,
    /// The key for its credentials.
    credentials: &'static str,
    /// The paths that are appended.
    paths: &'static [&'static str],
}

/// A model server.
pub(super) const MODEL_SERVER: ServerKind = ServerKind {
    example: "http://127.0.0.1:8081/v1",
    credentials: "put the key in `api_key`",
    paths: &["/chat/completions", "/responses", "/completion"],
};

/// An OpenTelemetry collector.
pub(super) const COLLECTOR: ServerKind = ServerKind {
    example: "http://127.0.0.1:4318",
    credentials: "put them in `headers`",
    paths: &["/v1/traces", "/v1/metrics"],
};

/// Reads the URL that a model server's paths are appended to.
///
/// # Errors
/// What was expected, in words.
pub fn base_url(text: &str) -> Result<Uri, String> {
    base_url_of(&MODEL_SERVER, text)
}

/// The same for any kind of server.
pub(super) fn base_url_of(kind: &ServerKind, text: &str) -> Result<Uri, String> {
    let expected = || format!("a URL such as `{}`", kind.example);
    if text.contains(['?', '#']) {
        return Err(
            "a URL without a query or fragment, because paths are appended to it".to_owned()
        );
    }
    let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| expected())?;
    let authority = uri.authority().ok_or_else(expected)?;
    let host = authority.host();
    if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
        return Err(expected());
    }
    if authority.as_str().contains('@') {
        return Err(format!("a URL without credentials ({})", kind.credentials));
    }
    if authority.as_str() != host && authority.port_u16().is_none_or(|port| port == 0) {
        return Err("a URL with a port from 1 to 65535".to_owned());
    }
    for path in kind.paths {
        if let Some(base) = text.trim_end_matches('/').strip_suffix(path) {
            return Err(format!("`{base}`, because `{path}` is appended to it"));
        }
    }
    Ok(uri)
}

/// Reads a URL from the command line, where the `/v1` that all Chat Completions servers share
/// may be omitted.
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

/// Hides the `/` that `Uri` shows for an empty path.
fn without_trailing_slash<S: Serializer>(uri: &Uri, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(uri.to_string().trim_end_matches('/'))
}

#[expect(clippy::ref_option, reason = "serde requires this signature")]
pub(super) fn secret_or_empty<S: Serializer>(
    secret: &Option<Secret>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => secret.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
