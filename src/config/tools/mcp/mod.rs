//! `tools.mcp[]`: MCP servers, and files of them.

mod import;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use url::Url;

pub use import::ImportConfig;
pub(super) use import::Imported;

use super::address::web_as_written;
use super::auth::{self, AuthConfig};
use super::policy::{by_glob, policies};
use super::sandbox::{self, SandboxConfig, SandboxMode};
use super::shown::{Shown, shown_as_written};
use super::values::{as_map, path, scalar};
use crate::config::raw::Node;
use crate::config::reader::{Keys, Refused, boolean, integer, text, wait};
use crate::config::values::{choice, entry_name, headers, secret_text};
use crate::config::{Secret, seconds};
use crate::limits::config as bounds;
use crate::limits::mcp as limits;
use crate::limits::tools::OUTPUT_BYTES_MAX;
use crate::tools::PolicyPatch;
use crate::tools::mcp::{Connections, Protocol};
use crate::tools::source::Glob;

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct McpConfig {
    /// The entry's name.
    pub name: String,
    /// The program and its arguments; empty for a server over HTTP.
    #[serde(skip_serializing_if = "has_no_program")]
    pub command: Shown<Vec<String>>,
    /// Variables that are set for the program.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub env: Vec<(String, Secret)>,
    /// The gateway's own variables that the program gets too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_inherit: Vec<String>,
    /// Where the program runs; a fresh directory if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// How the program is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxConfig>,
    /// The address, for a server over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Shown<Url>>,
    /// Header fields of every request.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub headers: Vec<(String, Secret)>,
    /// How requests are authorized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthConfig>,
    /// Which protocol it speaks.
    #[serde(serialize_with = "protocol_name")]
    pub protocol: Protocol,
    /// Whether what it says about its tools may loosen their policies.
    pub trust: bool,
    /// What comes before the names of its tools.
    pub prefix: String,
    /// The tools to offer.
    pub allow: Vec<Glob>,
    /// The tools not to offer.
    pub deny: Vec<Glob>,
    /// Changes to policies.
    #[serde(serialize_with = "by_glob")]
    pub policy: Vec<(Glob, PolicyPatch)>,
    /// What its list of tools must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// Whether turns wait for it.
    pub required: bool,
    /// Who shares a connection.
    #[serde(serialize_with = "connections_name")]
    pub connections: Connections,
    /// Whether it may send the user to a page.
    pub elicit_urls: bool,
    /// The longest wait for a connection and its handshake.
    #[serde(rename = "connect_timeout_sec", serialize_with = "seconds")]
    pub connect_timeout: Duration,
    /// The longest call.
    #[serde(rename = "max_call_sec", serialize_with = "seconds")]
    pub max_call: Duration,
    /// The longest result.
    pub max_result_bytes: usize,
    /// Why an imported server cannot be used.
    #[serde(skip)]
    pub problem: Option<String>,
}

/// Reads the list: servers, and files of them.
pub(super) fn read(keys: &mut Keys<'_, '_>) -> (Vec<McpConfig>, Vec<ImportConfig>) {
    let (mut servers, mut imports) = (Vec::new(), Vec::new());
    keys.sections("mcp", |keys| {
        if keys.has("import") {
            imports.push(import(keys));
        } else {
            servers.push(server(keys));
        }
    });
    (servers, imports)
}

fn import(mut keys: Keys<'_, '_>) -> ImportConfig {
    let own = ["name", "command", "url", "env", "cwd", "headers", "auth", "prefix", "pin"];
    keys.refuse_all(&own, "does not apply to an import, because it is for a single server");
    let path = keys.read("import", PathBuf::new(), |node| text(node).map(PathBuf::from));
    let sandbox = Some(program_sandbox(&mut keys));
    let env_inherit = keys.list("env_inherit", Vec::new(), |node| text(node).map(str::to_owned));
    let each = McpConfig { env_inherit, sandbox, ..shared(&mut keys) };
    keys.finish();
    ImportConfig { path, each }
}

fn server(mut keys: Keys<'_, '_>) -> McpConfig {
    let name = keys.required("name", String::new(), entry_name);
    let is_program = keys.has("command");
    if is_program == keys.has("url") {
        keys.refuse_whole("expected either `command` or `url`".to_owned());
    }
    let not_for = if is_program {
        "does not apply to a program"
    } else {
        "does not apply to a server over HTTP"
    };
    if is_program {
        keys.refuse_all(&["headers", "auth"], not_for);
    } else {
        keys.refuse_all(&["env", "env_inherit", "cwd", "sandbox"], not_for);
    }
    let one = |node: &Node| text(node).map(str::to_owned);
    let config = McpConfig {
        command: shown_as_written(&mut keys, "command", |keys| {
            keys.list("command", Vec::new(), scalar)
        }),
        env: keys.pairs("env", secret_text),
        env_inherit: keys.list("env_inherit", Vec::new(), one),
        cwd: keys.read("cwd", None, |node| path(node).map(Some)),
        sandbox: is_program.then(|| program_sandbox(&mut keys)),
        url: keys.read("url", None, web_as_written),
        headers: headers(&mut keys),
        auth: (!is_program && keys.is_set("auth")).then(|| auth::of_mcp(keys.section("auth"))),
        prefix: keys.read("prefix", format!("{name}__"), one),
        pin: keys.read("pin", None, |node| pin(node).map(Some)),
        name,
        ..shared(&mut keys)
    };
    if is_program && config.command.reveal().is_empty() {
        keys.refuse("command", "expected a list: the program and its arguments".to_owned());
    }
    keys.finish();
    config
}

/// Programs are not restricted unless the entry says so: most need the network or a cache.
fn program_sandbox(keys: &mut Keys<'_, '_>) -> SandboxConfig {
    if keys.is_set("sandbox") {
        return sandbox::read(keys.section("sandbox"));
    }
    SandboxConfig { mode: SandboxMode::Off, ..SandboxConfig::default() }
}

/// Reads the settings that several servers can share. The rest is empty.
fn shared(keys: &mut Keys<'_, '_>) -> McpConfig {
    let protocols =
        &[("auto", Protocol::Auto), ("modern", Protocol::Modern), ("legacy", Protocol::Legacy)];
    let sharing = &[("shared", Connections::Shared), ("per_session", Connections::PerSession)];
    let glob = |node: &Node| text(node).map(Glob::new);
    let time = || wait(bounds::WAIT_MIN..=bounds::WAIT_MAX);
    McpConfig {
        protocol: keys.read("protocol", Protocol::Auto, choice("protocol", protocols)),
        trust: keys.read("trust", false, boolean),
        allow: keys.list("allow", vec![Glob::new("*")], glob),
        deny: keys.list("deny", Vec::new(), glob),
        policy: policies(keys),
        required: keys.read("required", false, boolean),
        connections: keys.read("connections", Connections::Shared, choice("connections", sharing)),
        elicit_urls: keys.read("elicit_urls", false, boolean),
        connect_timeout: keys.read("connect_timeout_sec", limits::CONNECT_TIMEOUT, time()),
        max_call: keys.read("max_call_sec", limits::CALL_MAX, time()),
        max_result_bytes: keys.read(
            "max_result_bytes",
            OUTPUT_BYTES_MAX,
            integer(bounds::SIZE_MIN..=OUTPUT_BYTES_MAX, "bytes"),
        ),
        name: String::new(),
        command: Shown::new(Vec::new(), serde_json::Value::Null),
        env: Vec::new(),
        env_inherit: Vec::new(),
        cwd: None,
        sandbox: None,
        url: None,
        headers: Vec::new(),
        auth: None,
        prefix: String::new(),
        pin: None,
        problem: None,
    }
}

fn has_no_program(command: &Shown<Vec<String>>) -> bool {
    command.reveal().is_empty()
}

/// Writes the servers that can be used: the others could not be read again.
pub(super) fn written<S: Serializer>(
    servers: &[McpConfig],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(servers.iter().filter(|server| server.problem.is_none()))
}

fn pin(node: &Node) -> Result<String, Refused> {
    let pin = text(node)?;
    let digits = pin.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(pin.to_owned());
    }
    Err(Refused::new(node, "a hash as `tether tools pin` prints it: `sha256:` and 64 digits"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn protocol_name<S: Serializer>(it: &Protocol, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match it {
        Protocol::Auto => "auto",
        Protocol::Modern => "modern",
        Protocol::Legacy => "legacy",
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn connections_name<S: Serializer>(it: &Connections, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match it {
        Connections::Shared => "shared",
        Connections::PerSession => "per_session",
    })
}
