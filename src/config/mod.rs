//! The configuration, checked: one struct of typed options for each component.
//!
//! [`load()`] reads a file into a tree of what was written (`raw`), makes a [`Config`] of the tree
//! (`check`), and reports every mistake at once. In a `Config`, every value is in range and every
//! combination is valid. `docs/configuration.md` explains each key. `config/default.yml` explains
//! the keys where people change them, and a test compares its values with the defaults in this
//! file.
//!
//! Nothing here starts or opens anything. The command line can override a few keys ([`Overrides`]).

mod chat;
mod check;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod json;
mod load;
mod mistake;
mod raw;
mod reader;
mod secret;
mod server;
mod sessions;
mod surroundings;
mod telemetry;
mod tools;
mod upstream;
mod values;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub(crate) use self::load::text_variable;
pub use self::load::{Overrides, load, load_text, process_environment};
pub use self::mistake::{ConfigError, Mistake};
pub use self::raw::Place;
pub use self::secret::Secret;
pub use self::server::{ServerConfig, ServerLimitsConfig, TlsConfig};
pub(crate) use self::sessions::STORE_FILE;
pub use self::sessions::{EmbeddedStoreConfig, RedisConfig, SessionsConfig, Store, StoreSync};
pub use self::surroundings::Environment;
pub use self::telemetry::{OtlpConfig, TelemetryConfig};
pub use self::tools::{
    AccessConfig, AuthConfig, BodyConfig, CommandConfig, CredentialConfig, DocumentAt, HttpConfig,
    ImportConfig, McpConfig, OpenApiConfig, RequestConfig, ResultConfig, SandboxConfig,
    SandboxMode, Shown, ToolsConfig,
};
pub use self::upstream::{
    EmbeddedConfig, ModelServerConfig, UpstreamConfig, UpstreamKind, base_url,
    base_url_with_version,
};
use crate::call_format::ContractSetting;
use crate::limits;
use crate::orchestrator::Rules;
use crate::parser::Settings;
use crate::server::{MessagesServerTools, ModelAlias, ServerItems, ServerTools};
pub use crate::upstream::Constrain;

/// Everything that an operator can set.
///
/// Serialises to a configuration file with the same meaning, secrets redacted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The HTTP server.
    pub server: ServerConfig,
    /// Model servers; never empty, names unique. The first is the default model.
    pub upstreams: Vec<UpstreamConfig>,
    /// Instructions and context budget of every model.
    pub model: ModelConfig,
    /// The tools, and how calls run.
    pub tools: ToolsConfig,
    /// How a model's mistakes are fed back.
    pub feedback: FeedbackConfig,
    /// The limits of a turn.
    pub limits: LimitsConfig,
    /// The stream to clients, and the parser of the model's text.
    pub stream: StreamConfig,
    /// Where conversations are kept.
    pub sessions: SessionsConfig,
    /// See [`ChatConfig`].
    pub chat: ChatConfig,
    /// See [`ResponsesConfig`].
    pub responses: ResponsesConfig,
    /// See [`MessagesConfig`].
    pub messages: MessagesConfig,
    /// Where traces and metrics are sent.
    pub telemetry: TelemetryConfig,
}

/// `model`: instructions and context budget of every model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// The operator's instructions, before the gateway's own.
    pub system_prompt: String,
    /// The size to which history is trimmed, in tokens.
    pub context_budget_tokens: usize,
    /// Whether models see the images that clients send and tools return.
    pub images: bool,
}

/// `feedback`: how a model's mistakes are fed back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedbackConfig {
    /// Attempts for each kind of mistake in one turn.
    pub max_attempts: u32,
    /// How much each retry adds to the temperature.
    pub temperature_step: f64,
}

/// `limits`: the limits of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitsConfig {
    /// How many rounds with tools a turn may take.
    pub max_tool_loops: u32,
    /// The longest run of a tool without a limit of its own.
    #[serde(rename = "tool_timeout_sec", serialize_with = "seconds")]
    pub tool_timeout: Duration,
    /// How many calls a turn may make.
    pub max_calls_per_turn: u32,
    /// The most bytes that the model may write. Events may take more: see
    /// [`EVENTS_FACTOR`](limits::turn::EVENTS_FACTOR).
    pub max_turn_bytes: usize,
}

/// `stream`: the stream to clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamConfig {
    /// Silence after which a comment line is sent.
    #[serde(rename = "keep_alive_sec", serialize_with = "seconds")]
    pub keep_alive: Duration,
    /// How long a turn continues without a reader.
    #[serde(rename = "disconnect_grace_sec", serialize_with = "seconds")]
    pub disconnect_grace: Duration,
    /// Whether clients see a call's arguments as they are written.
    pub emit_arguments_delta: bool,
    /// When clients see events that are stored.
    pub durability: StreamDurability,
    /// How calls are found in the model's text.
    pub parser: ParserConfig,
}

/// `stream.parser`: how calls are found in the model's text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParserConfig {
    /// What opens a call.
    pub marker: String,
    /// Whether each session's marker carries a nonce.
    pub marker_nonce: bool,
    /// Whether broken JSON is refused. If not, it is repaired if it is obvious what was meant.
    pub strict_balancing: bool,
    /// The longest call, in bytes.
    pub max_payload_bytes: usize,
    /// Whether calls inside reasoning count.
    pub tools_in_reasoning: bool,
}

/// `chat`: Chat Completions, the API for programs that were written for `OpenAI`.
///
/// The names of models are those of every API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChatConfig {
    /// How much clients are shown of the gateway's own tools.
    pub server_tools: ServerTools,
    /// More names for models.
    pub models: Vec<ModelAlias>,
    /// Whether unknown names of models mean the default one.
    pub any_model: bool,
    /// The headers that name a conversation, besides `X-Session-Id`.
    pub session_headers: Vec<String>,
}

/// `responses`: Responses, the newer API for programs that were written for `OpenAI`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ResponsesConfig {
    /// How much clients are shown of the gateway's own tools.
    pub server_tools: ServerItems,
}

/// `messages`: Anthropic Messages, the API for programs such as Claude Code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MessagesConfig {
    /// What becomes of the gateway's own tools.
    pub server_tools: MessagesServerTools,
}

/// `stream.durability`: when clients see the events of a running turn, in a store that outlives the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamDurability {
    /// Once they are stored.
    BeforeSend,
    /// At once.
    Lazy,
}

impl StreamDurability {
    /// Each with its name.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("before_send", Self::BeforeSend), ("lazy", Self::Lazy)];
}

impl Config {
    /// The configuration as a file. Loading it gives the same configuration, except for secrets,
    /// which read `[redacted]`.
    ///
    /// # Errors
    /// None for a checked configuration; the serializer's signature requires them.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::SerializeError> {
        serde_yaml::to_string(self)
    }

    /// What is allowed but probably not meant, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let listen = self.server.listen;
        let mut warnings = Vec::new();
        if !listen.ip().is_loopback() && self.server.api_keys.is_empty() {
            warnings.push(format!(
                "server.listen: {listen} can be reached from other machines, but server.api_keys \
                 is empty: anyone who can reach it can use the models and the tools"
            ));
        }
        if self.server.api_keys.is_empty() {
            warnings.extend(self.server.limits.of_keys().map(|limit| {
                format!("server.limits.{limit} limits nobody: server.api_keys is empty, so no client has a key")
            }));
        }
        warnings.extend(self.tools.import_warnings.iter().cloned());
        for entry in self.tools.command.iter().filter(|entry| entry.has_filled_script()) {
            warnings.push(format!(
                "tools.command: {}: a placeholder within a script lets the model write a part of \
                 the script; pass the value as an argument: [sh, -c, 'wc -w < \"$1\"', --, \"{{file}}\"]",
                entry.name
            ));
        }
        warnings
    }

    /// The contract of each upstream.
    pub(crate) fn contracts(&self) -> impl Iterator<Item = ContractSetting> {
        let usual = self.tools.call_contract;
        self.upstreams.iter().map(move |upstream| upstream.call_contract.unwrap_or(usual))
    }
}

impl StreamConfig {
    /// The parser's own options. The call format, and whether a stream begins inside reasoning,
    /// depend on the model that answers.
    #[must_use]
    pub fn parser_settings(&self) -> Settings {
        let ParserConfig {
            marker: _,
            marker_nonce: _,
            strict_balancing,
            max_payload_bytes,
            tools_in_reasoning,
        } = &self.parser;
        Settings {
            strict_balancing: *strict_balancing,
            max_payload_bytes: *max_payload_bytes,
            tools_in_reasoning: *tools_in_reasoning,
            argument_deltas: self.emit_arguments_delta,
            ..Settings::default()
        }
    }
}

/// The result of an empty file: the embedded model, the built-in tools, sessions in memory, on
/// `127.0.0.1:8080`.
impl Default for Config {
    fn default() -> Self {
        Self {
            server: ServerConfig::default(),
            upstreams: vec![UpstreamConfig::embedded()],
            model: ModelConfig::default(),
            tools: ToolsConfig::default(),
            feedback: FeedbackConfig::default(),
            limits: LimitsConfig::default(),
            stream: StreamConfig::default(),
            sessions: SessionsConfig::default(),
            chat: ChatConfig::default(),
            responses: ResponsesConfig::default(),
            messages: MessagesConfig::default(),
            telemetry: TelemetryConfig::default(),
        }
    }
}

/// Takes its defaults from a turn's rules, as the next three do.
impl Default for ModelConfig {
    fn default() -> Self {
        let Rules { system_prompt, context_budget_tokens, images, .. } = Rules::default();
        Self { system_prompt, context_budget_tokens, images }
    }
}

impl Default for FeedbackConfig {
    fn default() -> Self {
        let Rules { feedback_attempts, temperature_step, .. } = Rules::default();
        Self { max_attempts: feedback_attempts, temperature_step }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let Rules { max_tool_loops, max_calls, max_turn_bytes, .. } = Rules::default();
        Self {
            max_tool_loops,
            tool_timeout: limits::turn::TOOL_TIMEOUT,
            max_calls_per_turn: max_calls,
            max_turn_bytes,
        }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            keep_alive: limits::stream::KEEP_ALIVE,
            disconnect_grace: limits::stream::DISCONNECT_GRACE,
            emit_arguments_delta: false,
            durability: StreamDurability::BeforeSend,
            parser: ParserConfig::default(),
        }
    }
}

/// The parser's own defaults.
impl Default for ParserConfig {
    fn default() -> Self {
        let Settings { format, strict_balancing, max_payload_bytes, tools_in_reasoning, .. } =
            Settings::default();
        Self {
            marker: format.opener().to_owned(),
            marker_nonce: false,
            strict_balancing,
            max_payload_bytes,
            tools_in_reasoning,
        }
    }
}

/// Writes whole seconds without a fraction, as people do.
fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if duration.subsec_nanos() == 0 {
        serializer.serialize_u64(duration.as_secs())
    } else {
        serializer.serialize_f64(duration.as_secs_f64())
    }
}
