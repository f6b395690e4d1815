//! How an MCP server is reached and used.

use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use crate::limits::mcp as limits;
use crate::limits::tools::OUTPUT_BYTES_MAX;
use crate::tools::digest;
use crate::tools::keys::Keys;
use crate::tools::oauth::ClientCredentials;
use crate::tools::outbound::Client;
use crate::tools::process;
use crate::tools::source::EntryRules;

/// An MCP server, as an operator describes it.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// How its tools are named and treated.
    pub rules: EntryRules,
    /// How it is reached.
    pub reach: Reach,
    /// Which protocol it speaks.
    pub protocol: Protocol,
    /// Whether turns wait for it.
    pub is_required: bool,
    /// Who shares a connection.
    pub connections: Connections,
    /// The longest wait for a connection and its handshake.
    pub connect_timeout: Duration,
    /// The longest silence of a call.
    pub silence_max: Duration,
    /// The longest call, however much it reports.
    pub call_max: Duration,
    /// The longest result, in bytes of JSON.
    pub result_bytes_max: usize,
    /// Whether it may send the user to a page.
    pub may_send_to_pages: bool,
    /// What its list of tools must be, if anything.
    pub pin: Option<String>,
}

impl McpOptions {
    /// The default options.
    #[must_use]
    pub const fn new(rules: EntryRules, reach: Reach) -> Self {
        Self {
            rules,
            reach,
            protocol: Protocol::Auto,
            is_required: false,
            connections: Connections::Shared,
            connect_timeout: limits::CONNECT_TIMEOUT,
            silence_max: crate::limits::turn::TOOL_TIMEOUT,
            call_max: limits::CALL_MAX,
            result_bytes_max: OUTPUT_BYTES_MAX,
            may_send_to_pages: false,
            pin: None,
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Reach {
    /// It is a program that is started.
    Program(Box<process::Options>),
    /// It cannot be reached, for this reason.
    Missing(String),
    /// Over HTTP.
    Http(Box<HttpReach>),
}

impl Reach {
    /// A hash of what is reached: the program with its arguments, or the address.
    pub(super) fn digest(&self) -> String {
        digest::of(&match self {
            Self::Program(options) => {
                let arguments = options.arguments.iter().map(|it| it.to_string_lossy());
                let arguments: Vec<_> = arguments.collect();
                json!([options.program.to_string_lossy(), arguments, options.directory])
            }
            Self::Missing(_) => json!(null),
            Self::Http(reach) => json!(reach.url.as_str()),
        })
    }

    /// The keys that it is given by the configuration.
    pub(super) fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        match self {
            Self::Program(options) => keys.note_environment(&options.environment),
            Self::Missing(_) => {}
            Self::Http(reach) => {
                for (name, value) in &reach.headers {
                    keys.note_header(&name.to_ascii_lowercase(), value);
                }
                keys.note_query(&reach.url);
            }
        }
        keys
    }

    /// What traces show of it, by OpenTelemetry's names.
    pub(super) fn trace_attributes(&self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Program(_) => vec![("network.transport", "pipe".into())],
            Self::Missing(_) => Vec::new(),
            Self::Http(reach) => {
                let mut attributes = vec![
                    ("network.transport", "tcp".into()),
                    ("network.protocol.name", "http".into()),
                ];
                if let (Some(host), Some(port)) =
                    (reach.url.host_str(), reach.url.port_or_known_default())
                {
                    attributes
                        .extend([("server.address", host.into()), ("server.port", port.into())]);
                }
                attributes
            }
        }
    }
}

/// How a server is reached over HTTP.
#[derive(Debug, Clone)]
pub struct HttpReach {
    /// Its address.
    pub url: Url,
    /// Header fields of every request.
    pub headers: Vec<(String, String)>,
    /// How requests are authorized, if not by `headers`.
    pub auth: Option<ClientCredentials>,
    /// Sends the requests.
    pub client: Client,
}

/// Which protocol a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Find out.
    #[default]
    Auto,
    /// MCP 2026-07-28 or later: without a handshake.
    Modern,
    /// MCP up to 2025-11-25.
    Legacy,
}

/// Who shares a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Connections {
    /// All sessions.
    #[default]
    Shared,
    /// Nobody: each session has its own.
    PerSession,
}
