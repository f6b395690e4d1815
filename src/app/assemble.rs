//! Turns a checked configuration into the options of each component.

use std::path::Path;
use std::sync::Arc;

use super::tools::{ToolsError, tools};
use crate::config::{
    self, Config, Constrain, ModelServerConfig, OtlpConfig, RedisConfig, Secret, ServerConfig,
    SessionsConfig, TlsConfig, UpstreamKind,
};
use crate::gateway::{self, Gateway, TurnLimits};
use crate::orchestrator::Rules;
use crate::rehearsal::Rehearsal;
use crate::server::{self, AuthOptions, ClientLimits, Proxies, Timeouts, Tls, TlsError, TlsFiles};
use crate::session::Durability;
use crate::session::store::{
    MemoryStore, OpenError, RedisAddress, RedisOptions, RedisStore, RedisTls, SqliteStore, Store,
    StoreError, SyncMode,
};
use crate::telemetry::otlp::{Exporter, OtlpError, OtlpOptions};
use crate::tools::{Sources, Toolset};

use crate::upstream::{self, History, OptionsError, ServerOptions, Upstream};

/// Why a valid configuration cannot be used on this machine.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// An upstream cannot be used.
    #[error("upstreams: {0}")]
    Upstream(#[from] OptionsError),
    /// The tools cannot be used.
    #[error("tools: {0}")]
    Tools(#[from] ToolsError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A rule for all turns cannot be used.
    #[error(transparent)]
    Gateway(#[from] gateway::OptionsError),
}

/// Why the parts that a configuration names cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The tools cannot be used.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The store of sessions cannot be used.
    #[error("sessions: {0}")]
    Store(#[from] StoreOpenError),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The file.
    #[error(transparent)]
    File(#[from] OpenError),
    /// The server's address, or a file with certificates for it.
    #[error("{0}")]
    Redis(String),
}

impl StoreOpenError {
    /// Whether the configuration is at fault.
    pub(crate) const fn is_mistake(&self) -> bool {
        match self {
            Self::File(error) => error.is_wrong_file(),
            Self::Redis(_) => true,
        }
    }
}

/// What a configuration names and an embedder may replace.
#[derive(Debug)]
pub struct Parts {
    /// Where the model's tools come from.
    pub tools: Sources,
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
}

impl Parts {
    /// The parts that the configuration names. Opens the file of sessions, if there is one. A server is first
    /// asked when the gateway [starts](super::start).
    ///
    /// # Errors
    /// See [`PartsError`].
    pub fn of(config: &Config) -> Result<Self, PartsError> {
        Ok(Self { tools: tools(config)?, store: store(&config.sessions)? })
    }
}

/// Builds the gateway that a configuration describes, with these parts. Starts nothing.
///
/// # Errors
/// If an upstream or the parser's settings cannot be used.
pub fn gateway(config: &Config, parts: Parts) -> Result<Gateway, AssemblyError> {
    let Parts { tools, store } = parts;
    gateway_with(config, tools.toolset(), store)
}

/// Builds a gateway with the tools of a toolset.
pub(super) fn gateway_with(
    config: &Config,
    tools: Toolset,
    store: Arc<dyn Store>,
) -> Result<Gateway, AssemblyError> {
    let upstreams = upstreams(config)?;
    let options = gateway::Options {
        rules: rules(config),
        tool_timeout: config.limits.tool_timeout,
        max_concurrent_turns: config.server.max_concurrent_turns,
        turn_limits: turn_limits(&config.server),
        store,
        durability: durability(config.stream.durability),
    };
    Ok(Gateway::new(options, upstreams, tools)?)
}

/// When readers see what is stored.
const fn durability(config: config::StreamDurability) -> Durability {
    match config {
        config::StreamDurability::BeforeSend => Durability::BeforeSend,
        config::StreamDurability::Lazy => Durability::Lazy,
    }
}

/// How many of the turns one client may run.
fn turn_limits(server: &ServerConfig) -> TurnLimits {
    let places = server.max_concurrent_turns;
    // With one key or none, there is nobody to reserve places for. At least one place is open to all.
    let is_shared = server.api_keys.len() > 1;
    let reserved = (places * server.limits.reserved_turns_percent).div_ceil(100).min(places - 1);
    TurnLimits {
        per_key: server.limits.turns_per_key,
        per_address: server.limits.turns_per_address,
        reserved: if is_shared { reserved } else { 0 },
    }
}

/// The upstreams, in their order.
pub(super) fn upstreams(config: &Config) -> Result<Vec<Arc<Upstream>>, OptionsError> {
    let upstreams = config.upstreams.iter();
    let upstream = |it| Ok(Arc::new(Upstream::new(upstream_options(it, config))?));
    upstreams.map(upstream).collect()
}

/// Where sessions are kept.
pub(super) fn store(config: &SessionsConfig) -> Result<Arc<dyn Store>, StoreOpenError> {
    Ok(match config.store {
        config::Store::Memory => Arc::new(MemoryStore::new(config.ttl)),
        config::Store::Embedded => {
            let sync = sync_mode(config.embedded.sync);
            Arc::new(SqliteStore::open(&config.embedded.path, sync, config.ttl)?)
        }
        config::Store::Redis => Arc::new(redis_store(config)?),
    })
}

/// Checks what can be told of the store without using it: that its file is one, or that the certificates for its
/// server can be read.
///
/// # Errors
/// If it cannot be used.
pub fn check_sessions(config: &SessionsConfig) -> Result<(), PartsError> {
    match config.store {
        config::Store::Memory => {}
        config::Store::Embedded => {
            SqliteStore::check_path(&config.embedded.path).map_err(StoreOpenError::File)?;
        }
        config::Store::Redis => {
            redis_address(&config.redis).map_err(StoreOpenError::Redis)?;
        }
    }
    Ok(())
}

/// A store on a server, to which nothing has connected yet.
pub(super) fn redis_store(config: &SessionsConfig) -> Result<RedisStore, StoreOpenError> {
    let RedisConfig { prefix, connect_timeout, lease, wait, .. } = &config.redis;
    let options = RedisOptions {
        address: redis_address(&config.redis).map_err(StoreOpenError::Redis)?,
        prefix: prefix.clone(),
        connect_timeout: *connect_timeout,
        lease: *lease,
        wait: *wait,
        ttl: config.ttl,
    };
    Ok(RedisStore::new(options))
}

/// Whether the store can be used. If not, says why and where it is.
pub(super) async fn check_store(config: &SessionsConfig, store: &dyn Store) -> Result<(), String> {
    store.check().await.map_err(|error| unusable(config, error))
}

/// Why a store cannot be used, with where it is.
pub(super) fn unusable(config: &SessionsConfig, error: StoreError) -> String {
    let cause = match error {
        StoreError::Unavailable(cause) => cause,
        other => other.to_string(),
    };
    match config.store {
        config::Store::Redis => match redis_address(&config.redis) {
            Ok(address) => format!("{address} cannot be used: {cause} (`sessions.redis`)"),
            Err(reason) => reason,
        },
        config::Store::Memory | config::Store::Embedded => cause,
    }
}

/// Where that server is, and how to log in there.
pub(super) fn redis_address(config: &RedisConfig) -> Result<RedisAddress, String> {
    let RedisConfig { url, user, password, ca_file, cert_file, key_file, .. } = config;
    let address = RedisAddress::new(url, user, password.as_ref().map(Secret::reveal))
        .map_err(|reason| format!("{reason} (`sessions.redis.url`)"))?;
    let sentinel_password = config.sentinel_password.as_ref().map(Secret::reveal);
    let address = address.with_sentinel_login(&config.sentinel_user, sentinel_password);
    let tls = RedisTls {
        ca: ca_file.as_deref().map(|path| file("ca_file", path)).transpose()?,
        cert: cert_file.as_deref().map(|path| file("cert_file", path)).transpose()?,
        key: key_file.as_deref().map(|path| file("key_file", path)).transpose()?,
    };
    address.with_tls(tls)
}

fn file(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| {
        format!("cannot read {}: {error} (`sessions.redis.{key}`)", path.display())
    })
}

/// How far a commit goes before it counts.
pub(super) const fn sync_mode(sync: config::StoreSync) -> SyncMode {
    match sync {
        config::StoreSync::Normal => SyncMode::Normal,
        config::StoreSync::Full => SyncMode::Full,
    }
}

/// Opens the certificate of `server.tls`; `None` if connections are plain.
///
/// # Errors
/// See [`TlsError`].
pub(super) fn tls(config: &ServerConfig) -> Result<Option<Arc<Tls>>, TlsError> {
    let Some(TlsConfig { cert, key }) = config.tls.clone() else { return Ok(None) };
    Ok(Some(Arc::new(Tls::open(TlsFiles { cert, key })?)))
}

/// Checks the certificate of `server.tls`. Returns a warning if it has expired or is not valid yet.
///
/// # Errors
/// If it cannot be used at all.
pub fn check_tls(config: &Config) -> Result<Option<String>, TlsError> {
    Ok(tls(&config.server)?.and_then(|tls| tls.warning()))
}

/// Starts sending traces and metrics, if the configuration says where.
pub(super) fn exporter(config: &OtlpConfig) -> Result<Option<Exporter>, OtlpError> {
    let Some(endpoint) = config.endpoint.clone() else { return Ok(None) };
    let headers = config.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect();
    let options = OtlpOptions {
        endpoint,
        headers,
        service: config.service_name.clone(),
        sample_ratio: config.sample_ratio,
        metrics_interval: config.metrics_interval,
    };
    Exporter::start(&options).map(Some)
}

/// The options of the server.
pub(super) fn server_options(config: &Config, timeouts: Timeouts) -> server::Options {
    let keys = config.server.api_keys.iter().map(|key| key.reveal().to_owned());
    // They have been checked.
    let session_headers = config.chat.session_headers.iter();
    let limits = &config.server.limits;
    server::Options {
        auth: AuthOptions { api_keys: keys.collect(), origins: config.server.cors_origins.clone() },
        clients: ClientLimits {
            connections_per_address: limits.connections_per_address,
            head_rate_per_address: limits.head_rate_per_address,
            head_rate_per_key: limits.head_rate_per_key,
            exempt: limits.exempt_addresses.clone(),
            proxies: Proxies {
                trusted: config.server.trusted_proxies.clone(),
                header: config.server.forwarded_header,
            },
        },
        max_body_bytes: config.server.max_body_bytes,
        keep_alive: config.stream.keep_alive,
        timeouts,
        chat_server_tools: config.chat.server_tools,
        responses_server_tools: config.responses.server_tools,
        models: config.chat.models.clone(),
        any_model: config.chat.any_model,
        session_headers: session_headers.filter_map(|name| name.parse().ok()).collect(),
        messages_server_tools: config.messages.server_tools,
    }
}

/// The rules of all turns.
#[must_use]
pub fn rules(config: &Config) -> Rules {
    Rules {
        system_prompt: config.model.system_prompt.clone(),
        call_contract: config.tools.call_contract.or_taught(),
        marker: config.stream.parser.marker.clone(),
        parser: config.stream.parser_settings(),
        marker_nonce: config.stream.parser.marker_nonce,
        context_budget_tokens: config.model.context_budget_tokens,
        images: config.model.images,
        continue_after_tool: config.tools.continue_after_tool,
        execution: config.tools.execution,
        confirm: config.tools.confirm,
        select: config.tools.select.clone(),
        max_parallel: config.tools.max_parallel,
        feedback_attempts: config.feedback.max_attempts,
        temperature_step: config.feedback.temperature_step,
        max_tool_loops: config.limits.max_tool_loops,
        max_calls: config.limits.max_calls_per_turn,
        max_turn_bytes: config.limits.max_turn_bytes,
        disconnect_grace: config.stream.disconnect_grace,
    }
}

fn upstream_options(upstream: &config::UpstreamConfig, config: &Config) -> upstream::Options {
    let (history, kind) = match &upstream.kind {
        UpstreamKind::Server(server) => {
            let is_server =
                |it: &&config::UpstreamConfig| matches!(it.kind, UpstreamKind::Server(_));
            // Another one may answer sooner.
            let is_only = config.upstreams.iter().filter(is_server).count() == 1;
            (server.history, upstream::Kind::Server(model_server_options(server, is_only)))
        }
        UpstreamKind::Embedded(embedded) => {
            let model = Rehearsal { tokens_per_sec: embedded.tokens_per_sec };
            (History::Text, upstream::Kind::Local(Arc::new(model)))
        }
    };
    let contract = upstream.call_contract.unwrap_or(config.tools.call_contract);
    upstream::Options { name: upstream.name.clone(), contract, history, kind }
}

fn model_server_options(server: &ModelServerConfig, waits_while_busy: bool) -> ServerOptions {
    ServerOptions {
        base_url: server.base_url.clone(),
        api_key: server.api_key.as_ref().map(|key| key.reveal().to_owned()),
        dialect: server.dialect,
        model: server.model.clone(),
        constrain: server.constrain.unwrap_or(Constrain::None),
        starts_in_reasoning: server.starts_in_reasoning.unwrap_or(false),
        connect_timeout: server.connect_timeout,
        idle_timeout: server.idle_timeout,
        waits_while_busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_a_lazy_stream_do_not_wait_for_the_store() {
        for (name, expected) in
            [("before_send", Durability::BeforeSend), ("lazy", Durability::Lazy)]
        {
            let text = format!("stream: {{durability: {name}}}");
            let config =
                config::load_text("t.yml", &text, &config::Overrides::default(), &|_| None);
            assert_eq!(durability(config.unwrap().stream.durability), expected, "{name}");
        }
    }

    /// Another server may answer sooner. The embedded model does not stand in for one.
    #[test]
    fn turns_wait_longer_for_a_busy_server_if_it_is_the_only_one() {
        let [first, second, embedded] = [
            "{name: a, base_url: http://a/v1}",
            "{name: b, base_url: http://b/v1}",
            "{kind: embedded}",
        ];
        for (upstreams, expected) in [
            (vec![first], vec![true]),
            (vec![embedded, first], vec![true]),
            (vec![first, second], vec![false, false]),
        ] {
            let text = format!("upstreams: [{}]", upstreams.join(", "));
            let config =
                config::load_text("t.yml", &text, &config::Overrides::default(), &|_| None);
            let config = config.unwrap();
            let options = config.upstreams.iter().map(|it| upstream_options(it, &config).kind);
            let waits: Vec<bool> = options
                .filter_map(|kind| match kind {
                    upstream::Kind::Server(server) => Some(server.waits_while_busy),
                    upstream::Kind::Local(_) => None,
                })
                .collect();
            assert_eq!(waits, expected, "{text}");
        }
    }
}
