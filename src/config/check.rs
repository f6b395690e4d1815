//! Checks what a file says: the type, range and default of every key, and the combinations that are
//! not allowed.

use std::sync::LazyLock;

use super::chat;
use super::mistake::Mistake;
use super::raw::{Node, Value};
use super::reader::{Keys, boolean, decimal, integer, text};
use super::upstream::MODEL_SERVER;
use super::values::{
    CONTRACTS, choice, marker, model_name, secret, server_url, size, wait_or_none, wait_some,
};
use super::{
    Config, Constrain, EmbeddedConfig, FeedbackConfig, LimitsConfig, MessagesConfig, ModelConfig,
    ModelServerConfig, ParserConfig, ResponsesConfig, StreamConfig, StreamDurability,
    UpstreamConfig, UpstreamKind, tools,
};
use super::{server, sessions, telemetry};
use crate::call_format::{CallContract, CallFormat, ContractSetting};
use crate::limits::config as bounds;
use crate::limits::parser::{MARKER_BYTES_MAX, NONCE_BYTES};
use crate::server::{MessagesServerTools, ServerItems};
use crate::upstream::{History, dialect};

/// Reads a whole file. Adds what cannot be used to `mistakes`; the result has its default instead.
pub(super) fn check(root: &Node, mistakes: &mut Vec<Mistake>) -> Config {
    let mut keys = Keys::new(String::new(), root, mistakes);
    let limits = limits(keys.section("limits"));
    let tools = tools::read(keys.section("tools"));
    let config = Config {
        server: server::read(keys.section("server")),
        upstreams: upstreams(&mut keys, tools.call_contract),
        model: model(keys.section("model")),
        feedback: feedback(keys.section("feedback")),
        stream: stream(keys.section("stream"), &limits),
        sessions: sessions::read(keys.section("sessions")),
        chat: chat::read(keys.section("chat")),
        responses: responses(keys.section("responses")),
        messages: messages(keys.section("messages")),
        telemetry: telemetry::read(keys.section("telemetry")),
        tools,
        limits,
    };
    keys.finish();
    config
}

/// Checks combinations of keys, and what the command line may have changed. Messages show values as the file has them.
pub(super) fn check_whole(file: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    check_call_contract(file, config, mistakes);
    check_marker(file, config, mistakes);
    chat::check(file, config, mistakes);
}

/// Only formats that models learn from the prompt have a marker; others have an opener of their
/// own.
fn check_marker(file: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let ParserConfig { marker, marker_nonce, .. } = &config.stream.parser;
    let mut refuse = |key: &str, message: String| {
        mistakes.push(Mistake::of_several(format!("stream.parser.{key}"), message));
    };
    let fixed = config.contracts().map(|contract| match contract {
        ContractSetting::Is(CallContract::InText(row)) if !row.is_taught => Some(row),
        _ => None,
    });
    if let Some(row) = fixed.reduce(|first, other| other.and(first)).flatten() {
        let (name, opener) = (row.name, CallFormat::of(row).trigger().to_owned());
        let mut refuse_fixed = |key: &str, found: &str| {
            refuse(
                key,
                format!(
                    "found {found}, but with call_contract `{name}` calls always begin with \
                     {opener}; remove this key"
                ),
            );
        };
        if *marker != ParserConfig::default().marker {
            refuse_fixed("marker", &format!("{:?}", file.written(marker)));
        }
        if *marker_nonce {
            refuse_fixed("marker_nonce", "true");
        }
        return;
    }
    let room = MARKER_BYTES_MAX - NONCE_BYTES;
    if *marker_nonce && marker.len() > room {
        let length = marker.len();
        refuse(
            "marker",
            format!("found {length} bytes, expected at most {room} with marker_nonce"),
        );
    }
}

fn check_call_contract(file: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    for (at, (upstream, contract)) in config.upstreams.iter().zip(config.contracts()).enumerate() {
        if contract.is_native() && matches!(upstream.kind, UpstreamKind::Embedded(_)) {
            let message = format!(
                "found `native`, expected a call format in text: upstream `{}` is the embedded \
                 model, which only writes calls as text",
                file.written(&upstream.name)
            );
            let section = upstream
                .call_contract
                .map_or_else(|| String::from("tools"), |_| format!("upstreams[{at}]"));
            mistakes.push(Mistake::of_several(format!("{section}.call_contract"), message));
        }
    }
}

fn upstreams(keys: &mut Keys<'_, '_>, contract: ContractSetting) -> Vec<UpstreamConfig> {
    let mut names: Vec<String> = Vec::new();
    let upstreams = keys.sections("upstreams", |mut keys| {
        let upstream = upstream(&mut keys, contract);
        if names.contains(&upstream.name) {
            let message = match keys.node("name") {
                Some(node) => {
                    format!("found `{}`, expected a unique name", node.written(&upstream.name))
                }
                None => format!(
                    "another upstream is `{}`, as those without a name are; give each its own",
                    upstream.name
                ),
            };
            keys.refuse("name", message);
        }
        names.push(upstream.name.clone());
        keys.finish();
        upstream
    });
    match upstreams {
        Some(upstreams) if upstreams.is_empty() => {
            let message = "found an empty list, expected at least one upstream (remove the key to \
                           use the embedded model)";
            keys.refuse("upstreams", message.to_owned());
            upstreams
        }
        Some(upstreams) => upstreams,
        None => Config::default().upstreams,
    }
}

/// The values of `kind`: a dialect of model servers, or the embedded model.
static KINDS: LazyLock<Vec<(&str, Option<dialect::Kind>)>> = LazyLock::new(|| {
    let servers = dialect::Kind::ALL.map(|(name, kind)| (name, Some(kind)));
    servers.into_iter().chain([("embedded", None)]).collect()
});

fn upstream(keys: &mut Keys<'_, '_>, usual: ContractSetting) -> UpstreamConfig {
    const OF_SERVERS: [&str; 8] = [
        "base_url",
        "model",
        "api_key",
        "constrain",
        "history",
        "starts_in_reasoning",
        "connect_timeout_sec",
        "idle_timeout_sec",
    ];
    let kind = keys.read("kind", Some(dialect::Kind::default()), choice("kind", &KINDS));
    let default = match kind {
        Some(_) => UpstreamConfig::openai_chat(),
        None => UpstreamConfig::embedded(),
    };
    let name = keys.read("name", default.name, model_name);
    let call_contract = keys.read("call_contract", None, |node| match node.value {
        Value::Null => Ok(None),
        _ => choice("call_contract", &CONTRACTS)(node).map(Some),
    });
    let contract = call_contract.unwrap_or(usual);
    let kind = if let Some(dialect) = kind {
        keys.refuse_all(&["tokens_per_sec"], "only applies to kind `embedded`");
        UpstreamKind::Server(model_server(keys, dialect, contract))
    } else {
        keys.refuse_all(&OF_SERVERS, "does not apply to kind `embedded`");
        UpstreamKind::Embedded(embedded(keys))
    };
    UpstreamConfig { name, call_contract, kind }
}

fn embedded(keys: &mut Keys<'_, '_>) -> EmbeddedConfig {
    let default = EmbeddedConfig::default();
    let pace = integer(1..=bounds::TOKENS_PER_SEC_MAX, "tokens per second");
    EmbeddedConfig { tokens_per_sec: keys.read("tokens_per_sec", default.tokens_per_sec, pace) }
}

fn model_server(
    keys: &mut Keys<'_, '_>,
    dialect: dialect::Kind,
    contract: ContractSetting,
) -> ModelServerConfig {
    let default = ModelServerConfig::new(dialect);
    let server = ModelServerConfig {
        dialect,
        base_url: keys.read("base_url", default.base_url, server_url(&MODEL_SERVER)),
        model: keys.read("model", default.model, |node| text(node).map(str::to_owned)),
        api_key: keys.read("api_key", default.api_key, secret),
        constrain: constrain(keys, dialect),
        history: history(keys, dialect, contract),
        starts_in_reasoning: starts_in_reasoning(keys, dialect),
        connect_timeout: keys.read("connect_timeout_sec", default.connect_timeout, wait_some()),
        idle_timeout: keys.read("idle_timeout_sec", default.idle_timeout, wait_some()),
    };
    let is_idle = matches!(server.constrain, None | Some(Constrain::Auto | Constrain::None));
    if contract.is_native() && !is_idle {
        let message = "found a constraint, expected `auto` or `none`: with call_contract `native`, the \
                       server itself ensures that calls are valid";
        keys.refuse("constrain", message.to_owned());
    }
    server
}

fn constrain(keys: &mut Keys<'_, '_>, dialect: dialect::Kind) -> Option<Constrain> {
    if !dialect.takes_constraint() {
        let kinds = dialect::Kind::ALL.iter().filter(|(_, kind)| kind.takes_constraint());
        let names: Vec<_> = kinds.map(|(name, _)| format!("`{name}`")).collect();
        let message = format!("only applies to kind {}", names.join(" or "));
        keys.refuse_all(&["constrain"], &message);
        return None;
    }
    // llama.cpp's own API knows the grammar alone.
    let choices = if dialect.sends_prompts() { &Constrain::ALL[..3] } else { &Constrain::ALL[..] };
    Some(keys.read("constrain", Constrain::default(), choice("constrain", choices)))
}

fn starts_in_reasoning(keys: &mut Keys<'_, '_>, dialect: dialect::Kind) -> Option<bool> {
    const KEY: &str = "starts_in_reasoning";
    if dialect.sends_prompts() {
        keys.refuse_all(
            &[KEY],
            "does not apply to kind `llama_completion`, where the prompt shows it",
        );
        return None;
    }
    Some(keys.read(KEY, false, boolean))
}

/// Native calls go back natively: as text, they would teach the model to write calls as text.
fn history(keys: &mut Keys<'_, '_>, dialect: dialect::Kind, contract: ContractSetting) -> History {
    let histories = &[("text", History::Text), ("native", History::Native)];
    let default = UpstreamConfig::usual_history(dialect, contract);
    let history = keys.read("history", default, choice("history", histories));
    if contract.is_native() && dialect.sends_prompts() {
        let message = "found `native`, expected a call format or `auto`: with kind \
                       `llama_completion`, Tether itself reads the model's text";
        keys.refuse("call_contract", message.to_owned());
    } else if contract.is_native() && history == History::Text {
        let message = "found `text`, expected `native` because call_contract is `native`";
        keys.refuse("history", message.to_owned());
    }
    history
}

fn model(mut keys: Keys<'_, '_>) -> ModelConfig {
    let default = ModelConfig::default();
    let context = integer(bounds::CONTEXT_TOKENS_MIN..=bounds::CONTEXT_TOKENS_MAX, "tokens");
    let model = ModelConfig {
        system_prompt: keys
            .read("system_prompt", default.system_prompt, |node| text(node).map(str::to_owned)),
        context_budget_tokens: keys.read(
            "context_budget_tokens",
            default.context_budget_tokens,
            context,
        ),
        images: keys.read("images", default.images, boolean),
    };
    keys.finish();
    model
}

fn feedback(mut keys: Keys<'_, '_>) -> FeedbackConfig {
    let default = FeedbackConfig::default();
    let feedback = FeedbackConfig {
        max_attempts: keys.read(
            "max_attempts",
            default.max_attempts,
            integer(0..=bounds::COUNT_MAX, "attempts"),
        ),
        temperature_step: keys.read(
            "temperature_step",
            default.temperature_step,
            decimal(0.0..=bounds::TEMPERATURE_MAX),
        ),
    };
    keys.finish();
    feedback
}

fn limits(mut keys: Keys<'_, '_>) -> LimitsConfig {
    let default = LimitsConfig::default();
    let limits = LimitsConfig {
        max_tool_loops: keys.read(
            "max_tool_loops",
            default.max_tool_loops,
            integer(1..=bounds::COUNT_MAX, "rounds"),
        ),
        tool_timeout: keys.read("tool_timeout_sec", default.tool_timeout, wait_some()),
        max_calls_per_turn: keys.read(
            "max_calls_per_turn",
            default.max_calls_per_turn,
            integer(1..=bounds::COUNT_MAX, "calls"),
        ),
        max_turn_bytes: keys.read("max_turn_bytes", default.max_turn_bytes, size()),
    };
    keys.finish();
    limits
}

fn stream(mut keys: Keys<'_, '_>, limits: &LimitsConfig) -> StreamConfig {
    let default = StreamConfig::default();
    let stream = StreamConfig {
        keep_alive: keys.read("keep_alive_sec", default.keep_alive, wait_some()),
        disconnect_grace: keys.read(
            "disconnect_grace_sec",
            default.disconnect_grace,
            wait_or_none(),
        ),
        emit_arguments_delta: keys.read(
            "emit_arguments_delta",
            default.emit_arguments_delta,
            boolean,
        ),
        durability: keys.read(
            "durability",
            default.durability,
            choice("durability", &StreamDurability::ALL),
        ),
        parser: parser(keys.section("parser"), limits),
    };
    keys.finish();
    stream
}

fn parser(mut keys: Keys<'_, '_>, limits: &LimitsConfig) -> ParserConfig {
    let default = ParserConfig::default();
    let parser = ParserConfig {
        marker: keys.read("marker", default.marker, marker),
        marker_nonce: keys.read("marker_nonce", default.marker_nonce, boolean),
        strict_balancing: keys.read("strict_balancing", default.strict_balancing, boolean),
        max_payload_bytes: keys.read(
            "max_payload_bytes",
            default.max_payload_bytes.min(limits.max_turn_bytes),
            size(),
        ),
        tools_in_reasoning: keys.read("tools_in_reasoning", default.tools_in_reasoning, boolean),
    };
    let (payload, turn) = (parser.max_payload_bytes, limits.max_turn_bytes);
    if payload > turn {
        let message =
            format!("found {payload}, expected at most {turn}, which is limits.max_turn_bytes");
        keys.refuse("max_payload_bytes", message);
    }
    keys.finish();
    parser
}

fn responses(mut keys: Keys<'_, '_>) -> ResponsesConfig {
    let default = ResponsesConfig::default();
    let server_tools =
        keys.read("server_tools", default.server_tools, choice("server_tools", &ServerItems::ALL));
    keys.finish();
    ResponsesConfig { server_tools }
}

fn messages(mut keys: Keys<'_, '_>) -> MessagesConfig {
    let default = MessagesConfig::default().server_tools;
    let one_of = choice("server_tools", &MessagesServerTools::ALL);
    let server_tools = keys.read("server_tools", default, one_of);
    keys.finish();
    MessagesConfig { server_tools }
}
