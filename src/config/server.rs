//! `server`: who may use the gateway, and how much at a time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::raw::{Node, Value};
use super::reader::{Keys, Refused, integer, text};
use super::tools::{range, ranges};
use super::values::{address, choice, origin, secret, size, wait_or_none};
use super::{Secret, seconds};
use crate::limits::config as bounds;
use crate::limits::server as defaults;
use crate::server::ForwardedHeader;
use crate::tools::outbound::Cidr;

/// `server`: who may use the gateway, and how much at a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerConfig {
    /// The address to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The gateway's own TLS; without it, connections are plain.
    pub tls: Option<TlsConfig>,
    /// The keys of clients. If there are none, no key is needed.
    pub api_keys: Vec<Secret>,
    /// Origins whose pages may read answers, as browsers spell them.
    pub cors_origins: Vec<String>,
    /// The longest request body, in bytes.
    pub max_body_bytes: usize,
    /// How many turns may run at the same time.
    pub max_concurrent_turns: usize,
    /// What one client may have.
    pub limits: ServerLimitsConfig,
    /// Proxies that are believed when they name their clients.
    #[serde(serialize_with = "ranges")]
    pub trusted_proxies: Vec<Cidr>,
    /// The header in which they do so.
    pub forwarded_header: ForwardedHeader,
    /// How long running turns may go on after the signal to stop.
    #[serde(rename = "drain_timeout_sec", serialize_with = "seconds")]
    pub drain_timeout: Duration,
}

/// `server.limits`: what one client may have. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerLimitsConfig {
    /// Open connections of one address.
    pub connections_per_address: Option<usize>,
    /// Requests per second of one address.
    pub head_rate_per_address: Option<u32>,
    /// Requests per second with one key.
    pub head_rate_per_key: Option<u32>,
    /// Running turns of one address.
    pub turns_per_address: Option<usize>,
    /// Running turns of one key.
    pub turns_per_key: Option<usize>,
    /// How much of `server.max_concurrent_turns` is reserved for keys that use less than their share, in percent.
    pub reserved_turns_percent: usize,
    /// Addresses to which the limits by address do not apply.
    #[serde(serialize_with = "ranges")]
    pub exempt_addresses: Vec<Cidr>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            tls: None,
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            max_body_bytes: defaults::BODY_BYTES_MAX,
            max_concurrent_turns: defaults::CONCURRENT_TURNS_MAX,
            limits: ServerLimitsConfig::default(),
            trusted_proxies: Vec::new(),
            forwarded_header: ForwardedHeader::default(),
            drain_timeout: defaults::DRAIN_TIMEOUT,
        }
    }
}

impl ServerLimitsConfig {
    /// The limits of keys that are set.
    pub(super) fn of_keys(&self) -> impl Iterator<Item = &'static str> {
        let turns = self.turns_per_key.is_some().then_some("turns_per_key");
        let rate = self.head_rate_per_key.is_some().then_some("head_rate_per_key");
        rate.into_iter().chain(turns)
    }
}

impl Default for ServerLimitsConfig {
    fn default() -> Self {
        Self {
            connections_per_address: Some(defaults::ADDRESS_CONNECTIONS_MAX),
            head_rate_per_address: Some(defaults::ADDRESS_HEAD_RATE_MAX),
            head_rate_per_key: None,
            turns_per_address: None,
            turns_per_key: None,
            reserved_turns_percent: defaults::RESERVED_TURNS_PERCENT,
            exempt_addresses: LOOPBACK.iter().filter_map(|range| range.parse().ok()).collect(),
        }
    }
}

/// `server.tls`: the gateway's own TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsConfig {
    /// The file with the certificate and its chain.
    pub cert: PathBuf,
    /// The file with its key.
    pub key: PathBuf,
}

/// Reads `server`.
pub(super) fn read(mut keys: Keys<'_, '_>) -> ServerConfig {
    let default = ServerConfig::default();
    let server = ServerConfig {
        listen: keys.read("listen", default.listen, address),
        tls: tls(&mut keys),
        api_keys: keys.list("api_keys", default.api_keys, |node| {
            secret(node)?.ok_or_else(|| Refused::hidden(node, "a non-empty key"))
        }),
        cors_origins: keys.list("cors_origins", default.cors_origins, origin),
        max_body_bytes: keys.read("max_body_bytes", default.max_body_bytes, size()),
        max_concurrent_turns: keys.read(
            "max_concurrent_turns",
            default.max_concurrent_turns,
            integer(1..=bounds::TURNS_MAX, "turns"),
        ),
        limits: limits(keys.section("limits")),
        trusted_proxies: address_ranges(&mut keys, "trusted_proxies", Vec::new()),
        forwarded_header: keys.read(
            "forwarded_header",
            default.forwarded_header,
            choice("forwarded_header", &ForwardedHeader::ALL),
        ),
        drain_timeout: keys.read("drain_timeout_sec", default.drain_timeout, wait_or_none()),
    };
    keys.finish();
    server
}

/// Reads `server.tls`; `None` if it is absent or `null`.
fn tls(keys: &mut Keys<'_, '_>) -> Option<TlsConfig> {
    let is_set = keys.node("tls").is_some_and(|node| node.value != Value::Null);
    let mut section = keys.section("tls");
    if !is_set {
        return None;
    }
    let tls = TlsConfig {
        cert: section.required("cert", PathBuf::new(), file),
        key: section.required("key", PathBuf::new(), file),
    };
    section.finish();
    Some(tls)
}

fn file(node: &Node) -> Result<PathBuf, Refused> {
    let path = text(node)?;
    if path.is_empty() { Err(Refused::new(node, "the path of a file")) } else { Ok(path.into()) }
}

/// The default of `exempt_addresses`: whoever is on this machine could do worse anyway, and a proxy on it serves many
/// clients.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Reads `server.limits`.
fn limits(mut keys: Keys<'_, '_>) -> ServerLimitsConfig {
    let default = ServerLimitsConfig::default();
    let [connections, turns] =
        ["connections", "turns"].map(|unit| or_none(integer(1..=bounds::TURNS_MAX, unit)));
    let rate = or_none(integer(1..=bounds::RATE_MAX, "requests per second"));
    let limits = ServerLimitsConfig {
        connections_per_address: keys.read(
            "connections_per_address",
            default.connections_per_address,
            connections,
        ),
        head_rate_per_address: keys.read(
            "head_rate_per_address",
            default.head_rate_per_address,
            &rate,
        ),
        head_rate_per_key: keys.read("head_rate_per_key", default.head_rate_per_key, &rate),
        turns_per_address: keys.read("turns_per_address", default.turns_per_address, &turns),
        turns_per_key: keys.read("turns_per_key", default.turns_per_key, &turns),
        reserved_turns_percent: keys.read(
            "reserved_turns_percent",
            default.reserved_turns_percent,
            integer(0..=100, "percent"),
        ),
        exempt_addresses: address_ranges(&mut keys, "exempt_addresses", default.exempt_addresses),
    };
    keys.finish();
    limits
}

/// Reads a list of address ranges.
fn address_ranges(keys: &mut Keys<'_, '_>, key: &'static str, default: Vec<Cidr>) -> Vec<Cidr> {
    let ranges = keys.list(key, default, range);
    if ranges.len() > bounds::ADDRESS_RANGES_MAX {
        let (found, most) = (ranges.len(), bounds::ADDRESS_RANGES_MAX);
        keys.refuse(key, format!("found {found} ranges, expected at most {most}; join some"));
    }
    ranges
}

/// Reads what `reader` does, or `null` for no limit.
fn or_none<T>(
    reader: impl Fn(&Node) -> Result<T, Refused>,
) -> impl Fn(&Node) -> Result<Option<T>, Refused> {
    move |node| match node.value {
        Value::Null => Ok(None),
        _ => reader(node).map(Some).map_err(|refused| refused.or("`null` for no limit")),
    }
}
